package child

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Defaults of [Config].
const (
	DefaultGrace           = 5 * time.Second
	DefaultDrainAfterDeath = 250 * time.Millisecond
)

// Config says what to start and how to own it. The zero value of each field
// but Args is useful.
type Config struct {
	// Args is the argument list. Args[0] without a slash is looked up in the
	// PATH of Env, not of this process; entries of PATH that are not absolute
	// are skipped. With a slash it is relative to Dir.
	Args []string

	// Env is the environment; nil means this process's. Of entries with the
	// same name the last one counts.
	Env []string

	// Dir is the working directory; "" means this process's.
	Dir string

	// Marker, "NAME=VALUE", is added to the environment and inherited by
	// descendants, so that those that leave the process group can be found. It
	// must be unique to this child; a NAME that is unique too lets owners that
	// run inside each other find theirs. "" means that none is looked for.
	Marker string

	// Stdout, if not nil, is called once on a goroutine of the owner and must
	// read until EOF without waiting for any consumer. If it returns earlier,
	// the rest is read and dropped. Its reader returns io.EOF also where the
	// owner closed the pipe; the report tells these ends apart.
	Stdout func(io.Reader)

	// StdoutCapture takes what Stdout would have read where Stdout is nil, and
	// StderrCapture takes stderr. Where they are nil too, the stream is read,
	// counted and dropped. The owner does not close them.
	StdoutCapture, StderrCapture *Capture

	// OnStderr is called with each chunk of stderr as it was read, after
	// StderrCapture has it. It must not block, and must not keep the slice.
	OnStderr func([]byte)

	// Grace is how long each rung of the stop ladder lasts, and how long the
	// pipes are waited for after a child has exited by itself. Zero means 5s.
	Grace time.Duration

	// DrainAfterDeath bounds how long after the death output that is already
	// in the pipes is waited for. Zero means 250ms.
	DrainAfterDeath time.Duration

	// KillDescendants ends descendants that left the process group, too. They
	// get SIGTERM with the group, and SIGKILL when the group is gone.
	KillDescendants bool

	// PipeSize, on Linux, is the capacity in bytes to ask for the pipes of
	// stdin and stdout. It is best effort; zero leaves the system's default.
	PipeSize int
}

// A Child is a started process and what belongs to it. Its methods may be
// called from several goroutines at once. It needs no Close: it ends itself,
// when the process exits or after [Child.Stop].
type Child struct {
	cfg     Config
	proc    *process
	started time.Time

	stdin      *os.File
	stdinOnce  sync.Once
	stdinErr   error
	stdout     *stream
	stderr     *stream
	exitedCh   chan struct{} // closed when the exit was observed
	died       chan struct{}
	drained    chan struct{}
	release    chan struct{} // closed to let the waiter reap
	reaped     chan struct{} // closed by the waiter as its last act
	done       chan struct{}
	stopAsked  chan struct{} // capacity 1: the supervisor looks at stop again
	diedOnce   sync.Once
	drainOnce  sync.Once
	drainTimer *time.Timer // set once by markDied

	mu     sync.Mutex
	exit   exit   // guarded by mu; final once exitedCh is closed
	stop   *order // guarded by mu; nil until Stop
	gone   bool   // guarded by mu; set before the group's number may be used again
	report Report // written by the supervisor, final once done is closed
}

// exit is what was observed about a process's end.
type exit struct {
	at     time.Time // zero: not observed
	code   *int      // nil: ended by a signal, or the status went elsewhere
	signal string
}

// Start starts the child and its owner. Errors are *[StartError].
func Start(c Config) (*Child, error) {
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	if c.DrainAfterDeath <= 0 {
		c.DrainAfterDeath = DefaultDrainAfterDeath
	}
	if len(c.Args) == 0 {
		return nil, &StartError{Dir: c.Dir, Err: os.ErrInvalid}
	}
	if c.Marker != "" && strings.IndexByte(c.Marker, '=') < 1 {
		return nil, &StartError{Args0: c.Args[0], Dir: c.Dir, Err: fmt.Errorf("marker %q is not NAME=VALUE", c.Marker)}
	}
	env := environment(c.Env, c.Marker)
	file, serr := lookPath(c.Args[0], env, c.Dir)
	if serr != nil {
		return nil, serr
	}

	var pipes [3][2]*os.File // of stdin, stdout, stderr: read end, write end
	closeAll := func() {
		for _, p := range pipes {
			for _, f := range p {
				if f != nil {
					f.Close()
				}
			}
		}
	}
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, &StartError{Args0: c.Args[0], Dir: c.Dir, Err: err}
		}
		pipes[i] = [2]*os.File{r, w}
	}
	if c.PipeSize > 0 {
		setPipeSize(pipes[0][1], c.PipeSize)
		setPipeSize(pipes[1][0], c.PipeSize)
	}

	ch := &Child{
		cfg:       c,
		stdin:     pipes[0][1],
		exitedCh:  make(chan struct{}),
		died:      make(chan struct{}),
		drained:   make(chan struct{}),
		release:   make(chan struct{}),
		reaped:    make(chan struct{}),
		done:      make(chan struct{}),
		stopAsked: make(chan struct{}, 1),
	}
	ch.stdout = newStream(pipes[1][0], c.Stdout, c.StdoutCapture, nil)
	ch.stderr = newStream(pipes[2][0], nil, c.StderrCapture, c.OnStderr)

	attr := &os.ProcAttr{
		Dir:   c.Dir,
		Env:   env,
		Files: []*os.File{pipes[0][0], pipes[1][1], pipes[2][1]},
	}
	up := make(chan error, 1)
	go ch.wait(file, attr, up)
	if err := <-up; err != nil {
		closeAll()
		return nil, startError(c, file, err)
	}
	for _, f := range attr.Files {
		f.Close()
	}
	go ch.stdout.run(ch.markDied, ch.markDrained)
	go ch.stderr.run(nil, nil)
	go ch.supervise()
	return ch, nil
}

// wait starts the process and waits for it: the only place that does. On Linux
// the signal of the parent's death is that of the death of the thread which
// started the child, hence both happen on one thread that is kept for it.
func (c *Child) wait(file string, attr *os.ProcAttr, up chan<- error) {
	unlock := lockThread()
	defer unlock()
	defer close(c.reaped)
	p, err := startProcess(file, c.cfg.Args, attr)
	if err != nil {
		up <- err
		return
	}
	c.proc, c.started = p, time.Now()
	up <- nil

	e := p.await()
	e.at = time.Now()
	c.mu.Lock()
	c.exit = e
	c.mu.Unlock()
	close(c.exitedCh)
	c.stdout.exited()
	c.stderr.exited()
	c.markDied()

	<-c.release
	p.reap()
}

// markDied closes died; within DrainAfterDeath drained follows.
func (c *Child) markDied() {
	c.diedOnce.Do(func() {
		c.drainTimer = time.AfterFunc(c.cfg.DrainAfterDeath, c.markDrained)
		close(c.died)
	})
}

func (c *Child) markDrained() {
	c.drainOnce.Do(func() { close(c.drained) })
}

// Pid returns the process id of the child, which is also its group's.
func (c *Child) Pid() int { return c.proc.pid }

// Stdin returns the write end of the child's stdin. The caller is its only
// writer, and may set write deadlines. It is closed by CloseStdin, by the
// first rung of Stop, and when the child has exited; a pending write then
// returns an error that is os.ErrClosed.
func (c *Child) Stdin() *os.File { return c.stdin }

// CloseStdin closes the child's stdin. Later calls return the first's result.
func (c *Child) CloseStdin() error {
	c.stdinOnce.Do(func() { c.stdinErr = c.stdin.Close() })
	return c.stdinErr
}

// Died returns a channel that is closed when the process has exited or its
// stdout has reached EOF, whichever comes first. After EOF the process may live
// on; nothing stops it but Stop.
func (c *Child) Died() <-chan struct{} { return c.died }

// Drained returns a channel that is closed when, after Died, what was in the
// stdout pipe has been read: the reader has ended, or the process has exited
// and the pipe was found empty, or DrainAfterDeath has passed.
func (c *Child) Drained() <-chan struct{} { return c.drained }

// Exited returns a channel that is closed when the exit of the process was
// observed, at the latest shortly before Done. It stays open for ever only if
// the kernel could not end the process.
func (c *Child) Exited() <-chan struct{} { return c.exitedCh }

// Status returns what is known about the exit so far. The code is nil while
// the process lives, when a signal ended it, and when it was not observed; the
// signal is "" or a name such as "killed".
func (c *Child) Status() (code *int, signal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit.code, c.exit.signal
}

// StderrSeen returns the bytes read so far from stderr.
func (c *Child) StderrSeen() int64 { return c.stderr.bytes.Load() }

// StdoutSeen returns the bytes read so far from stdout.
func (c *Child) StdoutSeen() int64 { return c.stdout.bytes.Load() }

// Signal sends a signal to the process group. When the group is gone it
// returns os.ErrProcessDone. It blocks for no one.
func (c *Child) Signal(sig os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return os.ErrProcessDone
	}
	return c.proc.signal(sig)
}

// Descendants lists the live processes outside the group that carry the
// marker; nil without one, and where the system cannot tell.
func (c *Child) Descendants() []Process {
	ps, err := c.proc.descendants(c.cfg.Marker)
	if err != nil {
		return nil
	}
	return ps
}

// Done returns a channel that is closed when Wait would return.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for the end of the child and all that belongs to it, and returns
// what was observed. Any number of goroutines may call it.
//
// A child that was not asked to stop ends when it exits: its pipes are read to
// EOF, for at most Grace, and what is left of its group is then ended by
// SIGTERM and SIGKILL, each with Grace.
func (c *Child) Wait() Report {
	<-c.done
	return c.report
}
