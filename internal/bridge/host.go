package bridge

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// fromHost takes one event of the host's stream. It is called with the lock
// held and waits for nothing.
func (s *Session) fromHost(f frame.Frame) {
	switch f.Type {
	case frame.Violation:
		s.stats.HostViolations++
		s.log.say("host violation", "dropped a line of the host that is no message ("+f.Reason+")")
		switch id := rpc.MakeID(f.ID); {
		case id == "":
		case f.Reply:
			s.malformedAsk(id, f.Reason)
		default:
			s.refuseID(id, f.Method, "Penstock could not read this request ("+f.Reason+"). "+notSent)
		}
	case frame.Oversize:
		s.stats.HostOversize++
		id := rpc.MakeID(f.ID)
		switch {
		case id == "":
		case f.Reply:
			if a := s.asks.Get(id); a != nil {
				s.answerAsk(id, a, fmt.Sprintf("the host's answer is larger than the wire limit of %d bytes", s.c.WireLimit))
			}
		default:
			s.refuseID(id, f.Method, fmt.Sprintf("This request is larger than the wire limit of %d bytes. %s Send less, or raise --wire-limit.", s.c.WireLimit, notSent))
		}
	case frame.Message:
		e := rpc.Parse(f.Data, f.Head)
		switch e.Kind {
		case rpc.Request:
			s.hostRequest(&e)
		case rpc.Notification:
			s.hostNotification(&e)
		case rpc.Response:
			s.hostResponse(&e)
		case rpc.Batch:
			s.hostBatch(&e)
		}
	}
}

// hostRequest enters a call and queues it for the server.
func (s *Session) hostRequest(e *rpc.Envelope) {
	r := s.open(e)
	if r == nil {
		return
	}
	if s.answersItself(r) {
		s.answerItself(r, e)
		return
	}
	it := rpc.Item{Data: s.buffers.line(e.Data), Owner: r}
	if r.Method == "subscriptions/listen" && len(it.Data) <= maxKept {
		r.listen = it.Data
	}
	s.queueCall(r, it)
}

// answersItself reports whether r is a request for a kept result, which the
// server does not see.
func (s *Session) answersItself(r *request) bool {
	return s.ownTool(r) || r.Method == "resources/read" && s.tools.own != "" && strings.HasPrefix(r.key, resultURI)
}

func (s *Session) answerItself(r *request, e *rpc.Envelope) {
	s.to(r, call.Dispatched, time.Now(), "answered by penstock")
	if r.Method == "tools/call" {
		s.readResult(r, e.In(e.Arguments))
	} else {
		s.readResource(r, r.key)
	}
}

// open validates a request and enters it in the table. It answers and returns
// nil if the request must not go on.
func (s *Session) open(e *rpc.Envelope) *request {
	now := time.Now()
	s.seq++
	r := &request{id: e.ID, modern: e.Version.Kind != frame.Absent}
	r.Call = call.Call{Session: s.id, Seq: s.seq, Method: e.Method}
	r.At[call.Received] = now
	s.stats.Calls++
	if e.Name.Kind == frame.String && e.Name.Len() <= rpc.MaxID {
		r.Tool = frame.Unquote(e.In(e.Name))
	}
	s.intend(r, e, s.awaits(r))
	if e.ID == "" {
		s.stats.HostViolations++
		s.end(r, call.FailedBeforeDispatch, "unreadable id")
		s.log.say("host id", "dropped a request of the host whose id is longer than 1 KiB")
		return nil
	}
	s.numbers, s.quoted = s.numbers || e.ID[0] != '"', s.quoted || e.ID.QuotedNumber()
	switch {
	case e.Refusal != "":
		s.stats.HostViolations++
		s.fail(r, call.FailedBeforeDispatch, "refused", "Penstock refused this request: "+e.Refusal+". "+notSent, facts{})
		return nil
	case s.calls.Len() >= s.c.Calls:
		s.stats.Overload++
		s.fail(r, call.FailedBeforeDispatch, "too many open calls", fmt.Sprintf("There are %d open calls already, the limit of this session. %s Wait for some of them to end.", s.c.Calls, notSent), facts{})
		return nil
	case s.start.lost(e.Method):
		s.fail(r, call.FailedBeforeDispatch, "capability lost", "The server was restarted and no longer offers this. "+notSent, facts{})
		return nil
	case s.start.gaveUp != "":
		s.fail(r, call.FailedBeforeDispatch, "server gone", s.start.gaveUp+" "+notSent, s.start.facts)
		return nil
	case !s.calls.Open(r.id, r):
		s.stats.HostViolations++
		s.fail(r, call.FailedBeforeDispatch, "id in use", "The id of this request belongs to another one that is still open. "+notSent, facts{})
		return nil
	}
	s.to(r, call.Validated, now, "")
	if t := rpc.MakeID(e.In(e.Token)); t != "" {
		r.token = t
		s.tokens[t] = r
	}
	s.era.request(e, r)
	s.limit(r, now)
	s.to(r, call.Authorized, now, "")
	return r
}

// queueCall puts a call's frame into the queue, or answers that it has no room.
func (s *Session) queueCall(r *request, it rpc.Item) {
	it.Held = s.hold(r)
	if !s.toServer.Offer(it) {
		s.stats.Overload++
		s.fail(r, call.FailedBeforeDispatch, "queue full", "The server is not reading, and the queue of what waits for it is full. "+notSent, facts{})
		return
	}
}

func (s *Session) hostNotification(e *rpc.Envelope) {
	if e.Refusal != "" {
		s.stats.HostViolations++
		s.log.say("host notification", "dropped a "+e.Method+" of the host: "+e.Refusal)
		return
	}
	it := rpc.Item{Class: rpc.Drop}
	switch e.Method {
	case "notifications/cancelled":
		s.hostCancel(e)
		return
	case "notifications/progress":
		if a := s.askByToken(rpc.MakeID(e.In(e.ProgressToken))); a == nil {
			s.stats.HostDebris++
			return
		}
	case "notifications/initialized":
		it.Class = rpc.Must
		s.era.initialized = line(e.Data)
	case "notifications/roots/list_changed":
		it.Class, it.Key = rpc.Coalesce, e.Method
	}
	if s.server == nil { // nobody to tell; a restarted server asks again
		return
	}
	it.Data = line(e.Data)
	s.toServer.Offer(it)
}

// hostCancel ends a call that the host does not want any more. The call is over
// for the host at once; the server is told if it was sent the call.
func (s *Session) hostCancel(e *rpc.Envelope) {
	id := rpc.MakeID(e.In(e.RequestID))
	r := s.calls.Get(id)
	if r == nil {
		// Its answer may still wait for the host, which must not see it now.
		if s.toHost.Remove(func(it *rpc.Item) bool { o, ok := it.Owner.(*request); return ok && o.id == id }) > 0 {
			s.stats.CancelledDelivery++
			s.undelivered(id)
		}
		if s.shaping != nil && s.shaping.id == id {
			s.shaping.unwanted = true
		}
		s.stats.CancelsIgnored++
		return
	}
	if r.Method == "initialize" {
		s.stats.CancelsIgnored++
		return
	}
	s.stats.CancelsReceived++
	if s.unsend(r) {
		s.end(r, call.CancelledBeforeDispatch, "cancelled by the host")
		s.calls.Close(r.id)
		return
	}
	s.end(r, call.CancelledAfterDispatch, "cancelled by the host")
	if r.cancelRead != nil { // ours: no answer will come
		s.calls.Close(r.id)
		return
	}
	s.calls.Bury(r.id)
	s.tellServer(r, line(e.Data))
}

// unsend takes a call that was not dispatched out of the queue, and reports
// whether it was there.
func (s *Session) unsend(r *request) bool {
	if r.State.AfterDispatch() {
		return false
	}
	if r.batch == nil {
		s.toServer.Remove(func(it *rpc.Item) bool { return it.Owner == r })
		return true
	}
	return s.unsendElement(r)
}

// tellServer sends a cancellation of a dispatched call before all else, and
// watches what the server does.
func (s *Session) tellServer(r *request, notification []byte) {
	s.toHost.Remove(func(it *rpc.Item) bool { return it.Owner == r && it.Class == rpc.Drop }) // its progress
	if s.server == nil || s.server != r.gen {
		return
	}
	if !s.toServer.OfferSmall(rpc.Item{Data: notification, Urgent: true}) {
		// The host's own is large, and nothing large fits.
		s.toServer.OfferSmall(rpc.Item{Data: cancelled(r.id, "cancelled by the host"), Urgent: true})
	}
	s.stats.CancelsSent++
	if t := s.c.CancelGrace; t > 0 && s.unacked < maxUnacked {
		s.unacked++
		time.AfterFunc(t, func() { s.unacknowledged(r) })
	}
	s.watch(s.server)
}

// maxUnacked bounds the cancellations that are watched for an answer at once;
// of more it is not known whether they were acknowledged in time.
const maxUnacked = 1024

// cancelServer cancels a dispatched call that we ended ourselves: a deadline, a
// broken answer. The server must not go on working for nobody.
func (s *Session) cancelServer(r *request, reason string) {
	if r.Method != "initialize" {
		s.tellServer(r, cancelled(r.id, reason))
	}
}

func (s *Session) unacknowledged(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unacked--
	if r.LateReply == 0 && !s.closing {
		s.stats.CancelsNotAcknowledged++
	}
}

// hostResponse passes the host's answer on to the server that asked.
func (s *Session) hostResponse(e *rpc.Envelope) {
	a := s.asks.Get(e.ID)
	switch {
	case a == nil || a.gen != s.server:
		s.asks.Close(e.ID)
		s.stats.HostDebris++
		return
	case e.Refusal != "":
		s.stats.HostViolations++
		s.answerAsk(e.ID, a, "the host's answer was refused: "+e.Refusal)
		return
	}
	s.asks.Close(e.ID)
	data := line(e.Data)
	if a.raw != e.ID {
		data = line(rpc.Splice(e.Data, e.Head.ID.Span, []byte(a.raw)))
	}
	if !s.toServer.Offer(rpc.Item{Data: data}) {
		s.stats.Overload++
		s.toServer.OfferSmall(rpc.Item{Data: refuse(a.raw, "the host's answer did not fit into the queue of what waits for this server")})
	}
}

// malformedAsk marks a request of the server whose answer came broken: it fails
// unless a whole one follows soon.
func (s *Session) malformedAsk(id rpc.ID, reason string) {
	a := s.asks.Get(id)
	if a == nil || a.broken {
		return
	}
	a.broken = true
	time.AfterFunc(malformedWait, func() {
		s.locked(func() {
			if s.asks.Get(id) == a && !s.closing {
				s.answerAsk(id, a, "the host's answer was broken ("+reason+")")
			}
		})
	})
}

// refuseID answers a request of which only the id could be read.
func (s *Session) refuseID(id rpc.ID, method, text string) {
	if s.calls.Get(id) != nil {
		return // the answer would be taken for another call's
	}
	s.seq++
	r := &request{id: id}
	r.Call = call.Call{Session: s.id, Seq: s.seq, Method: method}
	r.At[call.Received] = time.Now()
	s.stats.Calls++
	s.intend(r, nil, false)
	s.fail(r, call.FailedBeforeDispatch, "unreadable", text, facts{})
}

// to moves a call. An impossible transition is a bug of ours; it must not end
// the session of a user.
func (s *Session) to(r *request, state call.State, at time.Time, cause string) {
	if err := r.To(state, at, cause); err != nil {
		s.stats.Impossible++
		s.log.say("bug", "please report: "+err.Error())
	} else if state == call.Dispatched {
		s.recordDispatch(r, at)
	}
}

// end makes the last transition of a call and releases what it holds. The
// caller closes or buries its id.
func (s *Session) end(r *request, state call.State, cause string) {
	s.to(r, state, time.Now(), cause)
	s.stats.end(state)
	if r.cancelRead != nil {
		r.cancelRead()
	}
	if r.token != "" && s.tokens[r.token] == r {
		delete(s.tokens, r.token)
	}
	s.recordEnd(r)
}

// fail ends a call with an answer of our own.
func (s *Session) fail(r *request, state call.State, cause, text string, f facts) {
	r.account.replaced()
	s.end(r, state, cause)
	if s.calls.Get(r.id) == r {
		if state.AfterDispatch() {
			s.calls.Bury(r.id)
		} else {
			s.calls.Close(r.id)
		}
	}
	s.stats.AnsweredByUs++
	ok := s.toHost.OfferSmall(rpc.Item{Data: failure(r, text, f), Owner: r})
	if !ok && f.stderr != "" { // too large for what is kept free for small answers
		f.stderr = ""
		ok = s.toHost.OfferSmall(rpc.Item{Data: failure(r, text, f), Owner: r})
	}
	if !ok {
		s.recordDelivery(r, false)
		// The host asks on and on without reading one answer. Nothing
		// bounded can serve it.
		s.stats.HostOverrun = true
		wake(s.wakeLife)
	}
}
