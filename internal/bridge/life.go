package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/penstock-dev/penstock/child"
	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// pipeSize is asked for the pipes of a server: fewer wake-ups for large frames.
const pipeSize = 256 << 10

// generation is one process of the server.
type generation struct {
	n       int
	ch      *child.Child
	ready   chan struct{} // closed when ch is set and the generation is the session's
	stderr  *child.Capture
	started time.Time

	// Guarded by the session's lock.
	stdin     outlet
	out       *frame.Reader
	prefix    bool              // ids of its requests are rewritten for the host
	own       map[rpc.ID]string // requests of ours that are open: id to method
	resent    map[rpc.ID]bool   // subscriptions whose second acknowledgement is swallowed
	used      bool              // it was sent a request of the host
	greeted   bool              // and one of them was initialize
	answered  bool              // it answered a request of the host
	deaf      bool              // it closed its stdin
	condemned string            // why it must end; "" while it need not
	exit      *call.Exit        // as it was recorded; nil before

	// Since when the server is watched for a sign of life after a cancellation,
	// and what it had written then.
	watching bool
	since    time.Time
	written  int64

	// Of its reader alone.
	shaping *shaping // of the frame over the wire limit that is being read
	unkept  bool     // that frame is not to be kept
}

// spawn starts the next generation and makes it the session's.
func (s *Session) spawn() error {
	s.mu.Lock()
	g := &generation{
		n: s.start.n + 1, ready: make(chan struct{}), started: time.Now(), prefix: s.start.prefix,
		own: map[rpc.ID]string{}, resent: map[rpc.ID]bool{},
	}
	s.start.n = g.n
	s.mu.Unlock()
	cc := child.CaptureConfig{Tail: s.c.StderrPerCall, Budget: s.captures}
	if s.c.StderrHead {
		cc.Head = s.c.StderrPerCall / 8
		cc.Tail -= cc.Head
	}
	g.stderr = child.NewCapture(cc)
	ch, err := child.Start(child.Config{
		Args: s.c.Args, Env: s.c.Env, Dir: s.c.Dir,
		Marker:          "PENSTOCK_SESSION=" + s.id + "." + strconv.Itoa(g.n),
		Stdout:          func(r io.Reader) { s.readServer(g, r) },
		StderrCapture:   g.stderr,
		OnStderr:        s.log.stderr,
		Grace:           s.c.Grace,
		KillDescendants: s.c.KillDescendants,
		PipeSize:        pipeSize,
	})
	if err != nil {
		g.stderr.Close()
		return err
	}
	g.ch = ch
	s.mu.Lock()
	g.stdin = newOutlet(ch.Stdin())
	s.server = g
	s.stats.Starts++
	if g.n > 1 {
		s.replay(g)
	}
	s.mu.Unlock()
	close(g.ready)
	wake(s.wakeServer)
	return nil
}

// readServer reads the server's stdout until it ends, and never waits for
// anything but the moment at which the server is entered.
func (s *Session) readServer(g *generation, r io.Reader) {
	<-g.ready
	defer s.push()
	out := frame.NewReader(&beforeRead{r, s.push}, frame.Options{
		Limit: s.c.WireLimit, EscapeSeparators: true,
		Oversized: func(piece []byte) { g.oversized(s, piece) },
	})
	s.mu.Lock()
	g.out = out
	s.mu.Unlock()
	for {
		f, err := out.Next()
		if err != nil {
			if errors.Is(err, frame.ErrNoise) || errors.Is(err, frame.ErrRunaway) {
				s.condemn(g, err.Error())
			}
			return
		}
		if f.Type == frame.OversizeEnd {
			s.endOversize(g, f)
			continue
		}
		var a *large
		s.mu.Lock()
		if s.server == g {
			a = s.fromServer(g, f)
		}
		s.mu.Unlock()
		if a != nil {
			s.deliver(a)
		}
	}
}

func (s *Session) condemn(g *generation, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.condemned = why
	wake(s.wakeLife)
}

// bytesOut returns what the server has written so far.
func (g *generation) bytesOut() int64 { return g.ch.StdoutSeen() }

// live keeps the life of the server until the session is over.
func (s *Session) live(ctx context.Context) Exit {
	g := s.server
	for {
		select {
		case <-g.ch.Drained():
			exit := s.mourn(g, "died")
			if g = s.next(ctx, g, exit); g == nil {
				return exit
			}
		case <-s.hostEOF:
			return s.farewell(ctx, g)
		case <-s.hostGone:
			return s.farewell(ctx, g)
		case <-ctx.Done():
			g.ch.Stop(child.Ladder{Grace: hostGrace, TermNow: true})
			return s.mourn(g, "was stopped")
		case <-s.wakeLife:
			s.mu.Lock()
			deaf, why, overrun := g.deaf, g.condemned, s.stats.HostOverrun
			s.mu.Unlock()
			switch {
			case overrun:
				s.log.say("overrun", "ending the session: the host keeps sending requests and reads no answers")
				return s.farewell(ctx, g)
			case why != "":
				s.log.say("condemned", "ending the server: "+why)
				g.ch.Stop(child.Ladder{Grace: hostGrace, TermNow: true})
			case deaf:
				g.ch.Stop(child.Ladder{Grace: s.c.Grace})
			}
		}
	}
}

// farewell ends the server after the host has gone: what is queued is written
// first, its stdin is closed, and what it still answers is passed on.
func (s *Session) farewell(ctx context.Context, g *generation) Exit {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	wake(s.wakeServer) // its writer closes stdin when the queue is empty
	limit := time.NewTimer(hostGrace)
	defer limit.Stop()
	select {
	case <-g.ch.Done():
	case <-limit.C:
		g.ch.Stop(child.Ladder{Grace: hostGrace, TermNow: true})
	case <-ctx.Done():
		g.ch.Stop(child.Ladder{Grace: hostGrace, TermNow: true})
	}
	return s.mourn(g, "ended with the host")
}

// mourn answers what a dead or dying server owes, waits for its end, and
// reports it.
func (s *Session) mourn(g *generation, how string) Exit {
	select {
	case <-g.ch.Drained():
	case <-g.ch.Done():
	}
	select { // the exit status is worth a short wait
	case <-g.ch.Exited():
		select { // and so are its last words, which come by another pipe
		case <-g.ch.Done():
		case <-time.After(exitWait):
		}
	case <-time.After(exitWait):
	}
	code, signal := g.ch.Status()
	s.mu.Lock()
	s.server = nil
	s.stats.Exits++
	if code != nil {
		s.stats.LastExit = code
	}
	what := "The server " + how + exitPhrase(code, signal)
	s.start.last, s.start.facts = what, facts{exit: code, stderr: g.stderr.Since(0).Text(s.c.StderrExcerpt)}
	for id, r := range s.calls.All {
		switch {
		case r.gen != g: // not sent yet, or answered by us
		case r.State == call.Dispatched && r.listen == nil:
			s.fail(r, call.OutcomeUnknown, "server died", what+" while this call was open. "+maySent,
				facts{exit: code, stderr: g.stderr.Since(r.stderr).Text(s.c.StderrExcerpt)})
			s.calls.Close(id)
		case r.State == call.Dispatched && s.final(g):
			s.fail(r, call.OutcomeUnknown, "server died", what+". The subscription has ended.", facts{exit: code})
		}
	}
	s.calls.Forget()
	s.tasks.forget(s)
	s.dropAsks()
	s.dropForServer()
	s.addStreams(g)
	s.mu.Unlock()
	s.push()
	s.log.say("death", what)

	g.ch.Stop(child.Ladder{Grace: hostGrace, TermNow: true}) // its group, if anything is left of it
	rep := g.ch.Wait()
	last := s.lastWords(g)
	g.stderr.Close()
	s.mu.Lock()
	s.stats.report(rep)
	s.recordExit(g, rep, last)
	s.mu.Unlock()
	for _, p := range rep.Descendants {
		s.log.say("descendant", fmt.Sprintf("process %d (%s) of the server outlived it", p.Pid, p.Command))
	}
	return Exit{Code: exitCode(rep), Left: rep.Descendants}
}

// dropAsks ends what a dead server had asked the host: the host is told, and
// its answers will be dropped.
func (s *Session) dropAsks() {
	for id, a := range s.asks.All {
		s.start.prefix = true
		s.asks.Close(id)
		if s.toHost.Remove(func(it *rpc.Item) bool { return it.Owner == a }) == 0 {
			s.toHost.OfferSmall(rpc.Item{Data: cancelled(id, "the server died")})
		}
	}
}

// dropForServer drops what only the dead process could use; calls that were not
// sent stay, for the next one.
func (s *Session) dropForServer() {
	s.toServer.Remove(func(it *rpc.Item) bool { return it.Owner == nil })
}

func exitPhrase(code *int, signal string) string {
	switch {
	case signal != "":
		return " (signal: " + signal + ")"
	case code != nil:
		return " (exit status " + strconv.Itoa(*code) + ")"
	}
	return " (it closed its stdout; no exit status was observed)"
}

// exitCode is what penstock run exits with for the server's end.
func exitCode(r child.Report) int {
	if r.ExitCode != nil {
		return *r.ExitCode
	}
	for n := 1; n < 65; n++ {
		if syscall.Signal(n).String() == r.Signal {
			return 128 + n
		}
	}
	return 1
}

// watch has g looked at WedgeAfter after the last sign of life before a
// cancellation; there is one timer, however many calls are cancelled. It is
// called with the lock held.
func (s *Session) watch(g *generation) {
	if s.c.WedgeAfter == 0 {
		return
	}
	if n := g.bytesOut(); !g.watching || n != g.written {
		g.since, g.written = time.Now(), n
	}
	if !g.watching {
		g.watching = true
		s.lookAfter(g, s.c.WedgeAfter)
	}
}

func (s *Session) lookAfter(g *generation, d time.Duration) {
	time.AfterFunc(d, func() { s.locked(func() { s.wedged(g) }) })
}

// wedged looks whether a server has been silent since a cancellation while
// requests cannot even be written to it. It is called with the lock held.
func (s *Session) wedged(g *generation) {
	if s.server != g || s.closing || g.bytesOut() != g.written {
		g.watching = false
		return
	}
	if left := s.c.WedgeAfter - time.Since(g.since); left > 0 {
		s.lookAfter(g, left)
		return
	}
	again := func() { s.lookAfter(g, s.c.WedgeAfter) }
	var waiting []*request
	for _, r := range s.calls.All {
		if r.State == call.Authorized {
			waiting = append(waiting, r)
		}
	}
	if len(waiting) == 0 {
		again()
		return
	}
	s.stats.Unresponsive++
	text := fmt.Sprintf("The server is unresponsive: since a call was cancelled it has written nothing and read nothing for %v. %s", s.c.WedgeAfter, notSent)
	s.log.say("wedged", text)
	for _, r := range waiting {
		s.unsend(r)
		s.fail(r, call.FailedBeforeDispatch, "server unresponsive", text, facts{})
	}
	if s.c.RestartWedged {
		g.condemned = "it is unresponsive after a cancellation"
		wake(s.wakeLife)
		return
	}
	again()
}
