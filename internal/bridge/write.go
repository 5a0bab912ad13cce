package bridge

import (
	"time"

	"github.com/penstock-dev/penstock/internal/call"
)

// writeServer writes what is queued for the server, whichever process it is. A
// frame is taken from the queue only when the pipe takes a byte, so that a call
// counts as dispatched exactly from its first one, and a cancellation overtakes
// every call that waits.
func (s *Session) writeServer() {
	var broken *generation // its stdin takes nothing more
	for {
		s.mu.Lock()
		g := s.server
		if g == broken {
			g = nil
		}
		ready := g != nil && s.toServer.Ready()
		finish := g != nil && s.closing && s.toServer.Len() == 0
		s.mu.Unlock()
		if finish {
			g.ch.CloseStdin()
			broken = g
			continue
		}
		if !ready {
			select {
			case <-s.wakeServer:
				continue
			case <-s.ended:
				return
			}
		}
		err := waitWritable(g.ch.Stdin())
		if err == nil {
			err = s.writeOne(g)
		}
		if err != nil {
			broken = g
			s.mu.Lock()
			g.deaf = true
			s.mu.Unlock()
			wake(s.wakeLife)
		}
	}
}

// writeOne takes the next frame and writes it to g.
func (s *Session) writeOne(g *generation) error {
	s.mu.Lock()
	if s.server != g {
		s.mu.Unlock()
		return nil
	}
	it, ok := s.toServer.Pop()
	if ok {
		now := time.Now()
		switch o := it.Owner.(type) {
		case *request:
			s.dispatch(o, g, now)
		case *batch:
			for i, r := range o.owner {
				if r != nil && !o.gone[i] {
					s.dispatch(r, g, now)
				}
			}
		}
	}
	s.mu.Unlock()
	if !ok {
		return nil
	}
	n, err := g.ch.Stdin().Write(it.Data)
	s.mu.Lock()
	s.stats.BytesToServer += int64(n)
	if err == nil {
		s.stats.FramesToServer++
	}
	s.mu.Unlock()
	return err
}

// dispatch notes that a call is being handed to the server.
func (s *Session) dispatch(r *request, g *generation, now time.Time) {
	if r.State != call.Authorized {
		return
	}
	r.gen, r.stderr = g, g.stderr.Seen()
	s.to(r, call.Dispatched, "")
	wait := now.Sub(r.At[call.Authorized])
	s.stats.DispatchWait += wait
	s.stats.DispatchWaitMax = max(s.stats.DispatchWaitMax, wait)
}
