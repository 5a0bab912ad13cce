package bridge

import (
	"fmt"
	"time"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// ask is one open request of the server to the host.
type ask struct {
	raw   rpc.ID // as the server knows it
	token rpc.ID
	gen   *generation

	broken bool // an answer came that could not be read
}

// fromServer takes one event of a server's stdout. It is called with the lock
// held and waits for nothing. It returns an answer that must still be cut, or
// found no room: that is done without the lock.
func (s *Session) fromServer(g *generation, f frame.Frame) *large {
	switch f.Type {
	case frame.Violation:
		s.stats.ServerViolations++
		s.log.noise(f.Data, f.Reason)
		if id := rpc.MakeID(f.ID); id != "" && f.Reply {
			s.malformed(id, f.Reason)
		}
		for _, raw := range f.More {
			s.malformed(rpc.MakeID(raw), f.Reason)
		}
	case frame.Oversize:
		s.serverOversize(g, f)
	case frame.Message:
		e := rpc.Parse(f.Data, f.Head)
		if e.Kind != rpc.Batch && f.Head.Duplicate != "" {
			s.violation(&e, e.Refusal)
			return nil
		}
		switch e.Kind {
		case rpc.Request:
			s.serverRequest(g, &e)
		case rpc.Notification:
			s.serverNotification(g, &e)
		case rpc.Response:
			return s.serverResponse(g, &e)
		case rpc.Batch:
			s.serverBatch(g, &e)
		}
	}
	return nil
}

// violation counts a frame that is JSON-RPC in form but must not reach a host.
func (s *Session) violation(e *rpc.Envelope, reason string) {
	s.stats.ServerViolations++
	s.log.noise(e.Data, reason)
	if e.Kind == rpc.Response {
		s.malformed(e.ID, reason)
	}
}

// malformed marks a call whose answer came broken: it fails unless a whole one
// follows soon. What a broken line holds is never taken for an answer.
func (s *Session) malformed(id rpc.ID, reason string) {
	r := s.calls.Get(id)
	if r == nil || r.State != call.Dispatched || r.broken {
		return
	}
	r.broken = true
	time.AfterFunc(malformedWait, func() {
		s.locked(func() {
			if r.State != call.Dispatched || s.closing {
				return
			}
			r.Failure = call.Remote
			s.fail(r, call.FailedAfterDispatch, "malformed answer", "The server's answer was broken ("+reason+"). "+maySent, facts{})
			s.cancelServer(r, "the answer was malformed")
		})
	})
}

func (s *Session) serverOversize(g *generation, f frame.Frame) {
	s.stats.ServerOversize++
	id := rpc.MakeID(f.ID)
	if r := s.calls.Get(id); g.shaping != nil && f.Reply && f.Reason == "" && r != nil && r.State == call.Dispatched && s.cuts(r) && g.shaping.list == lists[r.Method] {
		return // its end will tell
	}
	g.unkept = true
	switch {
	case f.Reason != "":
		if f.Reply {
			s.malformed(id, f.Reason)
		}
	case f.Method != "" && id != "":
		s.toServer.OfferSmall(rpc.Item{Data: refuse(id, fmt.Sprintf("the request is larger than the wire limit of %d bytes", s.c.WireLimit))})
	case f.Method != "":
		s.log.say("oversize notification", fmt.Sprintf("dropped a %s of the server that is larger than the wire limit of %d bytes", f.Method, s.c.WireLimit))
	case id == "":
		s.log.say("oversize", fmt.Sprintf("dropped a message of the server without a readable id, larger than the wire limit of %d bytes", s.c.WireLimit))
	default:
		r := s.finish(id)
		if r == nil {
			return
		}
		s.answer(r, fmt.Sprintf("The server answered, but the answer is larger than the wire limit of %d bytes, so it was dropped. The call itself ran: do not repeat it as it is. Ask for less, or raise --wire-limit.", s.c.WireLimit))
	}
}

// finish takes the answered call out of the table. It returns nil, and counts
// why, if there is none that waits for this answer.
func (s *Session) finish(id rpc.ID) *request {
	r := s.calls.Get(id)
	if r == nil {
		if late := s.calls.Exhume(id); late != nil {
			late.LateReply = time.Since(late.At[late.State])
			s.stats.LateReplies++
			s.stats.LateReplyMax = max(s.stats.LateReplyMax, late.LateReply)
			s.recordLate(late)
			return nil
		}
		s.stats.UnknownReplies++
		return nil
	}
	if r.State != call.Dispatched || r.gen == nil {
		s.stats.UnknownReplies++ // an answer to what was not asked yet
		return nil
	}
	s.calls.Close(id)
	r.account.answered()
	s.end(r, call.Finished, "")
	r.gen.answered = true
	return r
}

// answer gives the host a text of ours in place of an answer that the server
// gave, but that the host cannot get.
func (s *Session) answer(r *request, text string) {
	s.stats.AnsweredByUs++
	r.account.replaced()
	if !s.toHost.OfferSmall(rpc.Item{Data: failure(r, text, facts{}), Owner: r}) {
		s.recordDelivery(r, false)
		s.stats.HostOverrun = true
		wake(s.wakeLife)
	}
}

func (s *Session) serverResponse(g *generation, e *rpc.Envelope) *large {
	if g.replayed(s, e) {
		return nil
	}
	id := e.ID
	if s.calls.Get(id) == nil && !(s.numbers && s.quoted) {
		if alike := s.calls.Alike(id); alike != "" && s.calls.Get(alike).State == call.Dispatched {
			s.stats.RepairedIDs++
			s.log.say("id type", "the server changed the spelling of an id from "+string(alike)+" to "+string(id))
			e.Data = rpc.Splice(e.Data, e.Head.ID.Span, []byte(alike))
			if h, err := frame.Parse(e.Data); err == nil {
				e.Head = h
			}
			id = alike
		}
	}
	r := s.finish(id)
	if r == nil {
		return nil
	}
	s.recordAnswer(r, e)
	data := s.era.response(s, r, e)
	if r.Method == "tools/list" {
		data = s.listed(r, e)
	}
	if r.Method == "tools/call" && s.restored && e.Head.Result.Kind == frame.Object {
		if noted := noteRestart(e); noted != nil && len(noted) <= s.c.WireLimit {
			data, s.restored = noted, false
		}
	}
	s.tasks.response(s, r, e)
	over := s.mayCut(r, data)
	if over || !s.toHost.Offer(rpc.Item{Data: s.buffers.line(data), Owner: r}) {
		s.shaping = r
		return &large{r, data, over}
	}
	return nil
}

func (s *Session) serverRequest(g *generation, e *rpc.Envelope) {
	if e.ID == "" {
		s.violation(e, e.Refusal)
		return
	}
	if s.era.modernOnly() {
		s.stats.ServerViolations++
		s.say(refuse(e.ID, "this revision of MCP has no requests from servers to hosts"))
		return
	}
	a := &ask{raw: e.ID, token: rpc.MakeID(e.In(e.Token)), gen: g}
	id, data := e.ID, line(e.Data)
	if g.prefix {
		id = g.prefixed(e.ID)
		data = line(rpc.Splice(e.Data, e.Head.ID.Span, []byte(id)))
	}
	switch {
	case s.asks.Len() >= s.c.Calls:
		s.stats.Overload++
		s.say(refuse(e.ID, "too many requests of this server are open at the host"))
		return
	case !s.asks.Open(id, a):
		s.stats.ServerViolations++
		s.log.say("ask id", "dropped a request of the server whose id "+string(e.ID)+" is in use")
		return
	}
	if !s.toHost.Offer(rpc.Item{Data: data, Owner: a}) {
		s.asks.Close(id)
		s.stats.Overload++
		s.say(refuse(e.ID, "the host is not reading, and the queue of what waits for it is full"))
		return
	}
}

// say sends the server a small message of our own.
func (s *Session) say(data []byte) {
	s.toServer.OfferSmall(rpc.Item{Data: data})
}

// answerAsk ends a request of the server with an error.
func (s *Session) answerAsk(id rpc.ID, a *ask, text string) {
	s.asks.Close(id)
	if a.gen == s.server {
		s.say(refuse(a.raw, text))
	}
}

func (s *Session) askByToken(t rpc.ID) *ask {
	if t == "" {
		return nil
	}
	for _, a := range s.asks.All {
		if a.token == t {
			return a
		}
	}
	return nil
}

func (s *Session) serverNotification(g *generation, e *rpc.Envelope) {
	it := rpc.Item{Class: rpc.Drop}
	switch e.Method {
	case "notifications/progress":
		r := s.tokens[rpc.MakeID(e.In(e.ProgressToken))]
		if r == nil {
			s.stats.ServerDebris++
			return
		}
		if !r.idleFrom.IsZero() {
			r.idleFrom = time.Now()
		}
		it.Owner = r
	case "notifications/cancelled":
		s.serverCancel(g, e)
		return
	case "notifications/subscriptions/acknowledged":
		if s.swallowAck(g, rpc.MakeID(e.In(e.Subscription))) {
			return
		}
		it.Class = rpc.Must
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/resources/updated":
		it.Class = rpc.Coalesce
		if e.URI.Len() > rpc.MaxID { // as a key it would double what the queue holds
			it.Class = rpc.Drop
			break
		}
		it.Key = e.Method + " " + string(rpc.MakeID(e.In(e.Subscription))) + " " + string(e.In(e.URI))
	case "notifications/tasks/status":
		s.tasks.status(s, e)
	}
	if sub := rpc.MakeID(e.In(e.Subscription)); sub != "" && s.calls.Get(sub) == nil {
		s.stats.ServerDebris++ // a subscription that has ended
		return
	}
	it.Data = line(e.Data)
	s.toHost.Offer(it)
}

// serverCancel passes on that the server does not want an answer any more, or
// that it ends a subscription.
func (s *Session) serverCancel(g *generation, e *rpc.Envelope) {
	id := rpc.MakeID(e.In(e.RequestID))
	seen := id
	if g.prefix {
		seen = g.prefixed(id)
	}
	data := e.Data
	if a := s.asks.Get(seen); a != nil && a.gen == g {
		s.asks.Close(seen)
		if s.toHost.Remove(func(it *rpc.Item) bool { return it.Owner == a }) > 0 {
			return // the host never saw the request
		}
		if seen != id {
			data = rpc.Splice(e.Data, e.RequestID.Span, []byte(seen))
		}
	} else if r := s.calls.Get(id); r == nil || r.Method != "subscriptions/listen" {
		s.stats.ServerDebris++
		return
	}
	s.toHost.OfferSmall(rpc.Item{Data: line(data)})
}
