// Package bridge is the data plane: one host and one MCP server on stdio, and
// between them bounded queues, so that neither can freeze, flood or kill the
// other.
//
// [New] and [Session.Run] are what callers need. A session has one goroutine
// that reads the host, one that writes to it, one that writes to the server,
// the server's owner (package child) with its readers, and one that keeps the
// life of the server. The readers only read: they decide under the session's
// lock, which is never held while anything is waited for, and put frames into
// queues whose overload rules apply at once. The package touches no file.
//
// What is rewritten on the way is listed in docs/protocol.md.
package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/penstock-dev/penstock/child"
	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/result"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// Config says what to run and within which limits. Sizes are bytes. Every
// limit must be set; internal/config has the defaults.
type Config struct {
	Name string   // of the server, for labels
	Args []string // argv of the server
	Env  []string // nil: this process's
	Dir  string

	WireLimit int // of one frame
	Queues    int // of both queues together; at least two frames
	Calls     int // open calls

	ContentLimit int         // of what a host is shown of one tool result; 0: not cut
	ContentMost  int         // what a tool may raise it to for its own results
	MediaLimit   int         // of one image or sound, which is whole or replaced
	Keep         result.Keep // which end of a text is shown
	Spill        bool        // keep answers over the wire limit, and those that find no room

	// Rule returns what is set for the results of one tool, by its name. Nil
	// sets nothing. It is called under a lock: it must only look something up.
	Rule func(tool string) Rule
	// CutAll has answers to prompts/get and resources/read cut too, at
	// ContentLimit.
	CutAll bool

	// Desk returns the session's client of the desk; called once at most, when
	// it is first needed. Nil, or a nil client, keeps nothing.
	Desk func(sessionID string) *link.Client

	Idle        time.Duration // a call without an answer or progress; 0: none
	Total       time.Duration // a call altogether; 0: none
	CancelGrace time.Duration // until a cancelled call counts as not acknowledged
	WedgeAfter  time.Duration // until a silent server counts as unresponsive

	RestartWedged   bool // end and restart an unresponsive server
	NoRestart       bool
	KillDescendants bool

	StderrPerCall   int  // kept of stderr
	StderrProcess   int  // kept of all streams together
	StderrExcerpt   int  // shown in an answer
	StderrPerMinute int  // forwarded to our stderr
	StderrHead      bool // keep a head besides the tail

	Grace time.Duration // each rung of the stop ladder while the host is there

	Records // what is recorded, and what happens where that fails
}

// Rule is what is set for the results of one tool. Fields that are zero set
// nothing.
type Rule struct {
	Content int          // bytes, in place of ContentLimit and of what the tool asks for; negative: not cut
	Media   int          // bytes, in place of MediaLimit
	Keep    *result.Keep // in place of Keep
}

const (
	// hostGrace is each rung of the stop ladder once the host has gone: hosts
	// send SIGTERM after 2 s and SIGKILL after 4 s.
	hostGrace = 1500 * time.Millisecond
	// exitWait is how long an answer about a dead server waits for the exit
	// status after the end of its stdout, and then for the end of its stderr.
	exitWait = 250 * time.Millisecond
	// firstRequest is how long a server that died at once waits to be asked,
	// so that the host learns why.
	firstRequest = time.Second
	// flushWait is how long the end of a session waits for the host to take
	// what is queued. With both rungs and exitWait it stays below the 4 s.
	flushWait = 500 * time.Millisecond
	// malformedWait is how long a call whose answer came broken waits for a
	// whole one.
	malformedWait = 2 * time.Second

	maxItems = 8192    // entries of each queue
	slack    = 4 << 10 // room for what two whole frames are charged besides their bytes
)

// Session is one host connected to one server. Create it with [New], run it
// once.
type Session struct {
	c        Config
	id       string
	in       io.ReadCloser
	out      io.WriteCloser
	log      *logger
	captures *child.Budget
	host     *frame.Reader

	// Signals to the loops; capacity 1, never waited for by the sender.
	reads sync.WaitGroup // calls of the continuation tool

	wakeHost, wakeServer, wakeLife chan struct{}
	hostEOF                        chan struct{} // closed when the host sends nothing more
	hostGone                       chan struct{} // closed when the host takes nothing more
	ended                          chan struct{} // closed when the session is over

	mu       sync.Mutex // guards all below
	toHost   *rpc.Queue
	toServer *rpc.Queue
	hostOut  outlet
	buffers  buffers
	records  *records            // nil: nothing is recorded
	calls    rpc.Table[*request] // of the host
	tokens   map[rpc.ID]*request // progress tokens of the host's open calls
	asks     rpc.Table[*ask]     // requests of the server, by the id that the host sees
	tasks    tasks
	tools    toolset
	link     *link.Client // nil until it is needed
	linked   bool         // Desk was called
	shaping  *request     // whose answer is being cut outside the lock
	seq      uint64
	server   *generation // the running one; nil while there is none
	start    starting
	era      era
	stats    counters
	closing  bool        // the host has gone, or the session is over
	deadline *time.Timer // looks at the time limits of calls; nil until there is one
	armed    bool        // deadline will fire
	restored bool        // the next tool result says that the server was restarted
	unacked  int         // cancellations whose grace runs
	// The host used numbers, or strings that look like numbers, as ids. Only
	// while it keeps to one of them can an answer's id be repaired.
	numbers, quoted bool
}

// request is one open request of the host.
type request struct {
	call.Call
	id     rpc.ID
	token  rpc.ID // progress token; "" if none
	key    string // the URI of a subscription, or "task" where one was asked for
	replay []byte // the frame, where a restarted server must be told it again
	modern bool
	listen []byte // the frame of a subscription, to be sent again after a restart; nil where none can
	broken bool   // an answer came that could not be read
	batch  *batch
	stderr int64       // bytes of the server's stderr before it
	gen    *generation // it was sent to; nil before that, and for what we answer

	firstPage  bool   // it asks for the first page of a list
	unwanted   bool   // cancelled while its answer was being cut
	cancelRead func() // of a call that we answer; nil for others

	idleFrom time.Time // the last sign of life; zero where nothing limits it
	account  *account  // of what is recorded; nil: nothing is
}

// batch is a frame of several requests that waits to be sent.
type batch struct {
	data     []byte // nil once sent
	elements []frame.Span
	owner    []*request // of each element; nil for what is no request
	gone     []bool     // not to be sent: cancelled, or dealt with alone
	waiting  int        // intents that are awaited
	held     bool       // waiting > 0
}

// New returns a session between a host, which writes to in and reads out, and
// the server that c describes. Diagnostics go to errw, in whole lines, from a
// goroutine of its own. Run closes in and out.
func New(c Config, in io.ReadCloser, out io.WriteCloser, errw io.Writer) *Session {
	var id [8]byte
	rand.Read(id[:])
	// Frames for the server may take all but one frame of the room, so that
	// its answers find room while it does not read.
	room := &rpc.Room{Max: c.Queues + slack}
	s := &Session{
		c: c, id: "s_" + hex.EncodeToString(id[:]), in: in, out: out,
		log:      newLogger(errw, c.Name, c.StderrPerMinute),
		captures: child.NewBudget(int64(c.StderrProcess)),
		wakeHost: make(chan struct{}, 1), wakeServer: make(chan struct{}, 1), wakeLife: make(chan struct{}, 1),
		hostEOF: make(chan struct{}), hostGone: make(chan struct{}), ended: make(chan struct{}),
		toHost: rpc.NewQueue(room, room.Max, maxItems), toServer: rpc.NewQueue(room, room.Max-c.WireLimit-slack/2, maxItems),
		tokens: map[rpc.ID]*request{}, hostOut: newOutlet(out),
	}
	if c.ContentLimit > 0 || c.Spill || c.Rule != nil {
		s.tools.own = result.ToolName // until tools/list tells of another one of that name
	}
	s.host = frame.NewReader(&beforeRead{in, s.push}, frame.Options{Limit: c.WireLimit})
	return s
}

// ID returns the session_id. The server and its descendants carry it in the
// environment variable PENSTOCK_SESSION.
func (s *Session) ID() string { return s.id }

// Exit says how a session ended.
type Exit struct {
	Code int // the server's exit status; 128 + n for a signal; 1 if unknown
	// Left are processes of the server that outlived it in sessions of their own.
	Left []child.Process
}

// Run starts the server and moves frames until the host has gone, the server
// has ended for good, or ctx is done, which ends the server at once. All
// goroutines and processes of the session have ended when it returns, except a
// read of an in, or a write to an out, that cannot be interrupted. It returns a *child.StartError if
// the server cannot be started at all.
func (s *Session) Run(ctx context.Context) (Exit, error) {
	defer s.log.close()
	s.beginRecords()
	if err := s.spawn(); err != nil {
		s.endRecords(ctx, "the server could not be started: "+err.Error())
		s.in.Close()
		s.out.Close()
		close(s.ended)
		return Exit{}, err
	}
	var reader, writer, toServer sync.WaitGroup
	reader.Go(s.readHost)
	writer.Go(s.writeHost)
	toServer.Go(s.writeServer)
	if s.records != nil {
		toServer.Go(s.awaitRecords)
	}

	exit := s.live(ctx)

	s.endReads()
	s.giveUp("The session has ended.")
	s.flush(ctx)
	close(s.ended)
	s.mu.Lock()
	s.closing = true
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.mu.Unlock()
	toServer.Wait()
	closeAndJoin(s.out, &writer) // a write that the host does not take ends here
	closeAndJoin(s.in, &reader)
	s.endRecords(ctx, "")
	return exit, nil
}

// closeAndJoin closes f and waits for the goroutine that reads or writes it.
// Closing ends that for a pipe or a socket; a terminal may keep it, and only
// then it is left to the end of the process.
func closeAndJoin(f io.Closer, g *sync.WaitGroup) {
	file, ok := f.(*os.File)
	stuck := ok && file.SetDeadline(time.Time{}) == os.ErrNoDeadline // to be asked before
	f.Close()
	if !stuck {
		g.Wait()
	}
}

// desk returns the client of the desk, nil if there is none. It is called with
// the lock held; finding a desk goes on in the background.
func (s *Session) desk() *link.Client {
	if !s.linked && s.c.Desk != nil {
		s.link = s.c.Desk(s.id)
	}
	s.linked = true
	return s.link
}

// endReads gives up calls of the continuation tool that are still open.
func (s *Session) endReads() {
	s.mu.Lock()
	for _, r := range s.calls.All {
		if r.cancelRead != nil {
			r.cancelRead()
		}
	}
	s.mu.Unlock()
	s.reads.Wait()
}

// closeDesk waits a moment for results that are still on their way to the desk.
func (s *Session) closeDesk() {
	s.mu.Lock()
	desk := s.link
	s.mu.Unlock()
	if desk == nil {
		return
	}
	wait := flushWait
	if s.records != nil {
		wait = recordsWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	desk.Close(ctx)
}

// Signal passes a signal on to the server's process group.
func (s *Session) Signal(sig os.Signal) {
	s.mu.Lock()
	g := s.server
	s.mu.Unlock()
	if g != nil {
		g.ch.Signal(sig) // an error says that it has just ended
	}
}

// flush waits until the host has taken what is queued for it.
func (s *Session) flush(ctx context.Context) {
	limit := time.NewTimer(flushWait)
	defer limit.Stop()
	for {
		s.mu.Lock()
		s.stats.flushing = true
		empty := s.toHost.Len() == 0 && !s.hostOut.busy
		s.mu.Unlock()
		if empty {
			return
		}
		select {
		case <-s.wakeLife: // the writer says that it is done with one
		case <-s.hostGone:
			return
		case <-limit.C:
			return
		}
	}
}

// wake lets the loop that waits on ch look again.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// locked runs f under the lock and lets out what it queued.
func (s *Session) locked(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	s.push()
}

// readHost reads the host until it ends, and never waits for anything else.
func (s *Session) readHost() {
	defer close(s.hostEOF)
	defer s.push()
	for {
		f, err := s.host.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				s.log.say("host", "the host's messages cannot be read any further: "+err.Error())
			}
			return
		}
		s.mu.Lock()
		s.fromHost(f)
		s.mu.Unlock()
	}
}
