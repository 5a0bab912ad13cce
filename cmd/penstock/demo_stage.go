package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// A stage is where one scene is played one way.
type stage struct {
	ctx     context.Context
	exe     string // this program
	dir     string // for the ledger; made and removed by others
	behind  bool   // the server stands behind penstock run
	environ []string
	line    progressLine
	actors  []*actor
}

// run plays a scene and ends whatever it started.
func (s *stage) run(play func(*stage, *observed) error, o *observed) error {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	defer func() {
		for _, a := range s.actors {
			a.end()
		}
	}()
	return play(s, o)
}

// An actor is a server, or penstock run in front of one, and the agent's ends
// of its pipes. Its stderr is a pipe that nobody reads: agents do that too.
type actor struct {
	s      *stage
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	err    *os.File
	lines  *bufio.Reader
	ledger string
	exited chan struct{} // closed once cmd has been waited for

	release func() bool // stops watching the end of the demo
}

// start starts the fixture the way of the stage.
func (s *stage) start(name string, args ...string) (*actor, error) {
	a := &actor{s: s, ledger: filepath.Join(s.dir, "ledger"), exited: make(chan struct{})}
	// Should the demo be killed, its servers go after a minute.
	argv := hostile.Command(name, append(args, "ledger="+a.ledger, "life=1m")...)
	if s.behind {
		// Whole answers, so that no desk is started to keep the rest of one.
		argv = append([]string{s.exe, "run", "--content-limit", "off", "--"}, argv...)
	}
	a.cmd = exec.Command(argv[0], argv[1:]...)
	// The settings of this user and their home stay out of it.
	a.cmd.Env = append(slices.DeleteFunc(slices.Clone(s.environ), func(e string) bool {
		return strings.HasPrefix(e, "PENSTOCK_")
	}), "PENSTOCK_HOME="+filepath.Join(s.dir, "home"))
	var theirs [3]*os.File
	var err error
	open := func(f func() (*os.File, *os.File, error)) (r, w *os.File) {
		if err == nil {
			r, w, err = f()
		}
		return r, w
	}
	theirs[0], a.in = open(os.Pipe)
	a.out, theirs[1] = open(os.Pipe)
	a.err, theirs[2] = open(os.Pipe)
	if err != nil {
		return nil, err
	}
	a.cmd.Stdin, a.cmd.Stdout, a.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	err = a.cmd.Start()
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		return nil, err
	}
	a.lines = bufio.NewReader(a.out)
	go func() { // ends with the process, which end kills and waits for
		defer close(a.exited)
		_ = a.cmd.Wait()
	}()
	s.actors = append(s.actors, a)
	// A read or write that would hang ends with the demo.
	a.release = context.AfterFunc(s.ctx, func() {
		_ = a.in.Close()
		if !s.behind {
			_ = a.cmd.Process.Kill()
		}
	})
	return a, nil
}

func callLine(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

func (a *actor) send(lines ...string) error {
	for _, l := range lines {
		if _, err := io.WriteString(a.in, l+"\n"); err != nil {
			return fmt.Errorf("writing to the server: %w", err)
		}
	}
	return nil
}

// answers reads until all the ids, raw JSON, have been answered, and returns
// how many were.
func (a *actor) answers(ids ...string) (n int, err error) {
	for len(ids) > 0 {
		line, err := a.lines.ReadBytes('\n')
		if err != nil {
			return n, fmt.Errorf("reading from the server: %w", err)
		}
		var m struct {
			ID     json.RawMessage
			Result json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return n, fmt.Errorf("reading from the server: %w", err)
		}
		if i := slices.Index(ids, string(m.ID)); i >= 0 && m.Result != nil {
			ids = slices.Delete(ids, i, i+1)
			n++
		}
	}
	return n, nil
}

func (a *actor) handshake() error {
	if err := a.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"penstock demo","version":"1"}}}`); err != nil {
		return err
	}
	if _, err := a.answers("0"); err != nil {
		return err
	}
	return a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// sees waits for a fact that must come.
func (a *actor) sees(match func(hostile.Event) bool) (hostile.Event, error) {
	return hostile.Await(a.s.ctx, a.ledger, match)
}

// settles waits until the server has written what done matches or, over a
// plain pipe, has stood still in a write to stream for as long as patience. It
// reports whether done.
func (a *actor) settles(stream string, done func(hostile.Event) bool) (bool, error) {
	var stuck time.Time
	blocked := 0 // reports of the block that stuck is the time of
	for {
		events, err := hostile.ReadLedger(a.ledger)
		if err != nil {
			return false, err
		}
		still, n := false, 0
		for _, e := range events {
			switch {
			case done(e):
				return true, nil
			case e.What == "blocked" && e.Text == stream:
				still = true
				n++
			case e.What == "unblocked" && e.Text == stream:
				still = false
			}
		}
		switch {
		case !still:
			stuck = time.Time{}
		case stuck.IsZero() || n != blocked:
			stuck, blocked = time.Now(), n
		case time.Since(stuck) >= patience && !a.s.behind:
			return false, nil
		}
		select {
		case <-a.s.ctx.Done():
			return false, context.Cause(a.s.ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// happens reports whether a fact comes, and how long after begin. Behind
// penstock it waits as long as the demo may last, since a slow machine is no
// proof of anything; over a plain pipe up to patience after begin.
func (a *actor) happens(begin time.Time, match func(hostile.Event) bool) (*bool, *int64, error) {
	ctx, cancel := a.s.ctx, func() {}
	if !a.s.behind {
		ctx, cancel = context.WithDeadline(ctx, begin.Add(patience))
	}
	defer cancel()
	_, err := hostile.Await(ctx, a.ledger, match)
	switch {
	case err == nil:
		yes, ms := true, time.Since(begin).Milliseconds()
		return &yes, &ms, nil
	case a.s.ctx.Err() != nil:
		return nil, nil, err
	case ctx.Err() != nil:
		no := false
		return &no, nil, nil
	}
	return nil, nil, err
}

// output notes how much of total the server got rid of on stream: all that it
// reports as written, or what had gone when its write stopped.
func (a *actor) output(o *observed, stream string, total int64, mine func(hostile.Event) bool) error {
	events, err := hostile.ReadLedger(a.ledger)
	if err != nil {
		return err
	}
	still, n := false, int64(0)
	var before int64 // written before this output
	for _, e := range events {
		switch {
		case e.What == "wrote" && mine(e):
			n, still = e.N, false
		case e.What == "wrote" && n == 0 && stream == "stdout":
			before += e.N
		case e.What == "blocked" && e.Text == stream:
			still, n = true, e.N-before
		case e.What == "unblocked" && e.Text == stream:
			still = false
		}
	}
	o.OutputBytes, o.WrittenBytes, o.StandsStill = &total, &n, &still
	return nil
}

// leave closes the server's stdin, as an agent that ends does, and notes
// whether the server then ends.
func (a *actor) leave(o *observed) error {
	server, err := a.sees(func(e hostile.Event) bool { return e.What == "start" })
	if err != nil {
		return err
	}
	enough := time.Duration(0)
	if !a.s.behind {
		enough = patience
	}
	if err := a.quit(enough); err != nil {
		return err
	}
	runs, err := processRuns(server.PID)
	o.ServerRuns = &runs
	return err
}

// leaveBehind ends a server that leaves a process, pid, and notes what is left.
func (a *actor) leaveBehind(o *observed, pid int) error {
	// The server itself does end; that it may take its time is no matter.
	if err := a.quit(0); err != nil {
		return err
	}
	runs, err := processRuns(pid)
	if err != nil {
		return err
	}
	left := 0
	if runs {
		left = 1
	}
	o.ProcessesLeft = &left
	end := make(chan error, 1)
	go func() { // joined below: it ends when no process holds the pipe
		_, err := io.Copy(io.Discard, a.lines)
		end <- err
	}()
	ended := false
	select {
	case err := <-end:
		ended = err == nil
	case <-time.After(patience):
		kill(pid)
		<-end
	}
	o.OutputEnded = &ended
	return nil
}

// quit closes stdin and waits for the end of the process: for as long as
// enough, 0 being as long as the demo may last.
func (a *actor) quit(enough time.Duration) error {
	a.s.line.show("the agent ends")
	_ = a.in.Close()
	var over <-chan time.Time
	if enough > 0 {
		over = time.After(enough)
	}
	select {
	case <-a.exited:
	case <-over:
	case <-a.s.ctx.Done():
		return context.Cause(a.s.ctx)
	}
	return nil
}

// end makes sure that the process is gone, and with it what it started, and
// closes the pipes.
func (a *actor) end() {
	a.release()
	_ = a.in.Close()
	if a.s.behind {
		// It ends its server by itself; killed, it could not.
		select {
		case <-a.exited:
		case <-time.After(10 * time.Second):
		}
	} else {
		// An unreadable ledger leaves them to end by themselves, in a minute or two.
		events, _ := hostile.ReadLedger(a.ledger)
		for _, e := range events {
			if e.What == "start" && e.PID != a.cmd.Process.Pid {
				kill(e.PID)
			}
		}
	}
	_ = a.cmd.Process.Kill()
	<-a.exited
	_ = a.out.Close()
	_ = a.err.Close()
}

// kill ends a process that is no child of ours, if it is still there.
func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

// sizeText writes a count of bytes for people, rounded to its unit.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
