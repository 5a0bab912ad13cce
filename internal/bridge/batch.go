package bridge

import (
	"slices"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// hostBatch takes an array of messages, which only revision 2025-03-26 has. It
// passes as it is if every element may pass, and is refused whole if not.
func (s *Session) hostBatch(e *rpc.Envelope) {
	elements, heads, ok := rpc.Split(e.Data)
	if !ok {
		s.stats.HostViolations++
		s.log.say("host batch", "dropped a batch of the host that holds something else than messages")
		return
	}
	envs := make([]rpc.Envelope, len(elements))
	why := ""
	if !s.era.batches() {
		why = "this session did not negotiate revision 2025-03-26, the only one with batches"
	}
	for i, span := range elements {
		envs[i] = rpc.Parse(span.In(e.Data), heads[i])
		switch {
		case why != "":
		case envs[i].Refusal != "":
			why = "in one of its messages, " + envs[i].Refusal
		case envs[i].Method == "initialize":
			why = "initialize must not be batched"
		}
	}
	b := &batch{elements: elements, owner: make([]*request, len(elements)), gone: make([]bool, len(elements))}
	for i := range envs {
		if envs[i].Kind != rpc.Request {
			continue
		}
		if why != "" {
			s.refuseID(envs[i].ID, envs[i].Method, "Penstock refused the batch that this request is part of: "+why+". "+notSent)
			continue
		}
		r := s.open(&envs[i])
		if r == nil { // answered already
			why = "another of its requests was refused"
			for _, o := range b.owner[:i] {
				if o != nil {
					s.fail(o, call.FailedBeforeDispatch, "refused", "Penstock refused the batch that this request is part of: "+why+". "+notSent, facts{})
				}
			}
			continue
		}
		r.batch, b.owner[i] = b, r
	}
	if why != "" {
		s.stats.HostViolations++
		return
	}
	for i := range envs {
		switch env := &envs[i]; {
		case env.Kind == rpc.Response:
			s.asks.Close(env.ID)
		case env.Method == "notifications/cancelled":
			if r := s.calls.Get(rpc.MakeID(env.In(env.RequestID))); r != nil && r.State == call.Dispatched && r.Method != "initialize" {
				s.end(r, call.CancelledAfterDispatch, "cancelled by the host")
				s.calls.Bury(r.id)
			}
		}
	}
	b.data = line(e.Data)
	if !s.toServer.Offer(rpc.Item{Data: b.data, Owner: b}) {
		s.stats.Overload++
		for _, r := range b.owner {
			if r != nil {
				s.fail(r, call.FailedBeforeDispatch, "queue full", "The server is not reading, and the queue of what waits for it is full. "+notSent, facts{})
			}
		}
		return
	}
}

// unsendElement takes one call out of a batch that was not sent.
func (s *Session) unsendElement(r *request) bool {
	b := r.batch
	item := s.toServer.Find(func(it *rpc.Item) bool { return it.Owner == b })
	if item == nil {
		return false
	}
	b.gone[slices.Index(b.owner, r)] = true
	if rest := rpc.Join(b.data, b.elements, func(i int) bool { return !b.gone[i] }); rest != nil {
		s.toServer.Replace(item, append(rest, '\n'))
	} else {
		s.toServer.Remove(func(it *rpc.Item) bool { return it.Owner == b })
	}
	return true
}

// serverBatch takes an array of a server: answers to a batch, or messages of its
// own. Elements that the host must not see are taken out.
func (s *Session) serverBatch(g *generation, e *rpc.Envelope) {
	elements, heads, ok := rpc.Split(e.Data)
	if !ok || !s.era.batches() {
		s.violation(e, "an array where revision "+s.era.version+" has none, or of something else than messages")
		for i := range elements {
			if heads[i].Method.Kind == frame.Absent {
				s.malformed(rpc.MakeID(heads[i].ID.Span.In(elements[i].In(e.Data))), "a batch")
			}
		}
		return
	}
	keep := make([]bool, len(elements))
	owner := make([]*request, len(elements))
	kept := 0
	for i, span := range elements {
		env := rpc.Parse(span.In(e.Data), heads[i])
		switch {
		case heads[i].Duplicate != "":
			s.violation(&env, env.Refusal)
		case env.Kind == rpc.Response:
			if owner[i] = s.finish(env.ID); owner[i] != nil {
				s.era.response(s, owner[i], &env)
				s.tasks.response(s, owner[i], &env)
				keep[i] = true
			}
		case env.Kind == rpc.Notification:
			keep[i] = env.Method != "notifications/progress" || s.tokens[rpc.MakeID(env.In(env.ProgressToken))] != nil
		default:
			a := &ask{raw: env.ID, token: rpc.MakeID(env.In(env.Token)), gen: g}
			if keep[i] = !g.prefix && env.ID != "" && s.asks.Len() < s.c.Calls && s.asks.Open(env.ID, a); !keep[i] && env.ID != "" {
				s.say(refuse(env.ID, "this request cannot be passed on now"))
			}
		}
		if keep[i] {
			kept++
		} else {
			s.stats.ServerDebris++
		}
	}
	if kept == 0 {
		return
	}
	data := e.Data
	if kept < len(elements) {
		data = rpc.Join(e.Data, elements, func(i int) bool { return keep[i] })
	}
	if s.toHost.Offer(rpc.Item{Data: line(data)}) {
		return
	}
	s.stats.Overload++
	for _, r := range owner {
		if r != nil {
			s.answer(r, "The server answered, but this host was not reading and what waits for it is full, so the answer was dropped. The call itself ran: do not repeat it blindly.")
		}
	}
}
