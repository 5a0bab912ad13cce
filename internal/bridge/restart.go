package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock-dev/penstock/child"
	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

const (
	maxFailures = 5 // restarts in a row that do not get through the handshake
	replayLimit = 30 * time.Second
	maxBackoff  = 8 * time.Second
)

// starting is what the session knows about starting its server again.
type starting struct {
	n        int    // generations so far
	failures int    // restarts in a row that failed
	useless  int    // generations in a row that answered nothing
	served   bool   // some generation has answered
	prefix   bool   // a request of a dead server was left open at the host
	last     string // how the last generation ended
	facts    facts
	gaveUp   string // why there will be no server any more; "" while there may be
	missing  map[string]bool
}

// lost reports whether method needs a capability that a restarted server lacks.
func (st *starting) lost(method string) bool {
	return len(st.missing) > 0 && st.missing[capabilityOf(method)]
}

// final reports whether no generation follows g. It is called with the lock
// held.
func (s *Session) final(g *generation) bool {
	return s.c.NoRestart || s.closing || s.start.gaveUp != "" || s.unborn(g) ||
		s.era.result != nil && s.era.initialize == nil // nothing to restart it with
}

// unborn reports whether g died over the host's first initialize, or before it
// took anything at all. One that died over something else, as some servers do
// over server/discover, has not refused the initialize that came meanwhile.
func (s *Session) unborn(g *generation) bool {
	return s.era.asked && s.era.result == nil && (g.greeted || !g.used)
}

// next waits until a server is needed again and starts it. It returns nil when
// the session is over.
func (s *Session) next(ctx context.Context, g *generation, exit Exit) *generation {
	s.mu.Lock()
	if g.answered {
		s.start.useless, s.start.served = 0, true
	} else {
		s.start.useless++
	}
	unasked := s.start.n == 1 && s.seq == 0 // it died before the host said a word
	final := s.final(g)
	switch {
	case g.answered:
		s.start.failures = 0
	case s.era.result == nil && g.n > 1: // no handshake tells whether the restart went well
		s.start.failures++
	}
	useless := s.start.failures >= maxFailures
	if s.unborn(g) {
		s.start.gaveUp = s.start.last + " before it had answered initialize."
	}
	s.mu.Unlock()
	if unasked {
		s.giveUp(s.start.last + " before it was asked anything.")
		s.awaitRequest(ctx, firstRequest)
		return nil
	}
	if final {
		s.giveUp(s.start.last + ".")
		return nil
	}
	if useless {
		s.giveUp(fmt.Sprintf("Penstock gave up restarting the server after %d attempts (it answered nothing). Restart it from the host.", maxFailures))
	}
	for {
		if !s.awaitRequest(ctx, 0) || !s.pause(ctx) {
			return nil
		}
		err := s.spawn()
		if err == nil {
			if err = s.settle(ctx); err == nil {
				s.mu.Lock()
				g := s.server
				s.mu.Unlock()
				return g
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		s.mu.Lock()
		s.start.failures++
		s.start.useless++
		over := s.start.failures >= maxFailures || s.start.gaveUp != ""
		n := s.start.failures
		s.mu.Unlock()
		s.log.say("restart", fmt.Sprintf("restart %d of the server failed: %v", n, err))
		if over {
			s.giveUp(fmt.Sprintf("Penstock gave up restarting the server after %d attempts (%v). Restart it from the host.", n, err))
		}
	}
}

// giveUp answers all calls that wait, and every later one at once.
func (s *Session) giveUp(why string) {
	s.mu.Lock()
	defer s.push()
	defer s.mu.Unlock()
	if s.start.gaveUp == "" {
		s.start.gaveUp = why
	}
	for _, r := range s.calls.All {
		switch {
		case r.State == call.Authorized:
			s.unsend(r)
			s.fail(r, call.FailedBeforeDispatch, "server gone", s.start.gaveUp+" "+notSent, s.start.facts)
		case r.State == call.Dispatched: // a subscription that was to be continued
			s.fail(r, call.OutcomeUnknown, "server gone", s.start.gaveUp+" The subscription has ended.", s.start.facts)
		}
	}
}

// awaitRequest waits until a request of the host needs a server, for at most
// limit unless that is zero. It reports false if the session is over instead.
func (s *Session) awaitRequest(ctx context.Context, limit time.Duration) bool {
	var timeout <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		timeout = t.C
	}
	for {
		s.mu.Lock()
		needed := s.calls.Len() > 0 || limit > 0 && s.seq > 0
		overrun := s.stats.HostOverrun
		s.mu.Unlock()
		if needed {
			return true
		}
		if overrun {
			return false
		}
		select {
		case <-s.wakeLife:
		case <-s.hostEOF:
			return false
		case <-s.hostGone:
			return false
		case <-ctx.Done():
			return false
		case <-timeout:
			return false
		}
	}
}

// pause waits before a restart, the longer the more generations were useless.
func (s *Session) pause(ctx context.Context) bool {
	s.mu.Lock()
	n := s.start.useless
	s.mu.Unlock()
	if n < 2 {
		return true
	}
	wait := time.NewTimer(min(maxBackoff, 250*time.Millisecond<<min(n-2, 10)))
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-s.hostEOF:
	case <-s.hostGone:
	case <-ctx.Done():
	}
	return false
}

// settle waits until the restarted server knows its past.
func (s *Session) settle(ctx context.Context) error {
	limit := time.NewTimer(replayLimit)
	defer limit.Stop()
	s.mu.Lock()
	g := s.server
	s.mu.Unlock()
	for {
		s.mu.Lock()
		open, why := len(g.own) > 0 && s.toServer.Hold, g.condemned
		s.mu.Unlock()
		if !open && why == "" {
			s.mu.Lock()
			if s.era.result != nil {
				s.start.failures = 0
			}
			s.mu.Unlock()
			return nil
		}
		err := fmt.Errorf("%s", why)
		if why == "" {
			select {
			case <-s.wakeLife:
				continue
			case <-g.ch.Drained():
				err = fmt.Errorf("it died before it had answered initialize")
			case <-limit.C:
				err = fmt.Errorf("it did not answer initialize within %v", replayLimit)
			case <-ctx.Done():
				err = ctx.Err()
			case <-s.hostEOF:
				err = context.Canceled
			}
		}
		s.mu.Lock()
		g.condemned = err.Error()
		s.mu.Unlock()
		g.ch.Stop(child.Ladder{Grace: hostGrace, TermNow: true})
		s.mourn(g, "could not be restarted")
		s.mu.Lock()
		s.toServer.Hold = false // not earlier: this one must get no call
		s.mu.Unlock()
		return err
	}
}

// replay tells a restarted server what its predecessor knew. It is called with
// the lock held; the host's messages wait until the handshake is done.
func (s *Session) replay(g *generation) {
	s.stats.Restarts++
	if s.era.result == nil { // 2026-07-28, or nothing had been said yet
		for _, r := range s.calls.All {
			if r.listen != nil && r.State == call.Dispatched {
				g.resent[r.id] = true
				r.gen = g
				s.toServer.OfferSmall(rpc.Item{Data: r.listen, Urgent: true})
			}
		}
		s.restored = s.start.served
		return
	}
	s.toServer.Hold = true
	s.sendOwn(g, s.era.initialize, "initialize")
}

// sendOwn sends a saved request of the host again under an id of ours.
func (s *Session) sendOwn(g *generation, saved []byte, method string) {
	data := bytes.TrimSuffix(saved, []byte("\n"))
	h, err := frame.Parse(data)
	if err != nil {
		return
	}
	id := rpc.ID(`"penstock-` + rand.Text() + `"`)
	g.own[id] = method
	s.toServer.OfferSmall(rpc.Item{Data: line(rpc.Splice(data, h.ID.Span, []byte(id))), Urgent: true})
}

// replayed takes the answer to a request of ours, and reports whether e was
// one.
func (g *generation) replayed(s *Session, e *rpc.Envelope) bool {
	method, ours := g.own[e.ID]
	if !ours {
		return false
	}
	delete(g.own, e.ID)
	defer wake(s.wakeLife)
	if method != "initialize" {
		if e.Head.Error.Kind != frame.Absent {
			s.log.say("replay", "the restarted server refused "+method)
		}
		return true
	}
	if e.Head.Result.Kind == frame.Absent {
		g.condemned = "it refused initialize"
		return true
	}
	before, after := handshakeOf(s.era.result), handshakeOf(e.In(e.Head.Result))
	if before.ProtocolVersion != after.ProtocolVersion {
		g.condemned = fmt.Sprintf("it speaks MCP %.40q now, the session %.40q", after.ProtocolVersion, before.ProtocolVersion)
		s.start.gaveUp = "The server was restarted, but " + g.condemned + ". Restart it from the host."
		return true
	}
	s.start.missing = map[string]bool{}
	for c := range before.Capabilities {
		if _, still := after.Capabilities[c]; !still {
			s.start.missing[c] = true
			s.log.say("capability", "the restarted server no longer offers "+c)
		}
	}
	if !bytes.Equal(before.ServerInfo, after.ServerInfo) {
		s.log.say("server info", "the restarted server calls itself "+string(after.ServerInfo))
	}
	if s.era.initialized != nil {
		s.toServer.OfferSmall(rpc.Item{Data: s.era.initialized, Urgent: true})
	}
	if s.era.setLevel != nil {
		s.sendOwn(g, s.era.setLevel, "logging/setLevel")
	}
	for _, sub := range s.era.subscribed {
		s.sendOwn(g, sub, "resources/subscribe")
	}
	s.toServer.Hold = false
	s.restored = true
	for _, kind := range after.listChanged() {
		m := "notifications/" + kind + "/list_changed"
		s.toHost.Offer(rpc.Item{Data: []byte(`{"jsonrpc":"2.0","method":"` + m + "\"}\n"), Class: rpc.Coalesce, Key: m + "  "})
	}
	return true
}

// swallowAck takes the acknowledgement of a subscription that was sent again:
// the host has seen the first, and is told instead that what it listens for may
// have changed. It reports whether it was one.
func (s *Session) swallowAck(g *generation, id rpc.ID) bool {
	r := s.calls.Get(id)
	if r == nil || !g.resent[id] {
		return false
	}
	delete(g.resent, id)
	var listen struct {
		Params struct {
			Notifications struct{ ToolsListChanged, PromptsListChanged, ResourcesListChanged bool }
		}
	}
	json.Unmarshal(r.listen, &listen)
	n := listen.Params.Notifications
	for kind, wanted := range map[string]bool{"tools": n.ToolsListChanged, "prompts": n.PromptsListChanged, "resources": n.ResourcesListChanged} {
		if wanted {
			m := "notifications/" + kind + "/list_changed"
			s.toHost.Offer(rpc.Item{
				Data:  fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`+"\n", m, id),
				Class: rpc.Coalesce, Key: m + " " + string(id) + " ",
			})
		}
	}
	return true
}
