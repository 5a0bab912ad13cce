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
		s.log.say("host batch", "refused a batch of the host that holds something else than messages, or too many")
		for v := range frame.Elements(e.Data) {
			if h, err := frame.Parse(v.Span.In(e.Data)); err == nil && h.Method.Kind == frame.String && !s.stats.HostOverrun {
				if env := rpc.Parse(v.Span.In(e.Data), h); env.Kind == rpc.Request && env.ID != "" {
					s.refuseID(env.ID, env.Method, "Penstock refused the batch that this request is part of: it holds something else than messages, or too many. "+notSent)
				}
			}
		}
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
	// What must be rewritten, overtake the queue or not be sent at all is dealt
	// with as if it had come alone.
	var alone []*rpc.Envelope
	for i := range envs {
		env := &envs[i]
		switch a := s.asks.Get(env.ID); {
		case env.Kind == rpc.Response && a != nil && a.gen == s.server && a.raw == env.ID:
			s.asks.Close(env.ID)
		case env.Kind == rpc.Response,
			env.Method == "notifications/cancelled",
			env.Method == "notifications/progress" && s.askByToken(rpc.MakeID(env.In(env.ProgressToken))) == nil:
			alone, b.gone[i] = append(alone, env), true
		case b.owner[i] != nil && s.answersItself(b.owner[i]):
			r := b.owner[i]
			b.owner[i], b.gone[i], r.batch = nil, true, nil
			s.answerItself(r, env)
		case env.Method == "notifications/initialized":
			s.era.initialized = line(env.Data)
		}
	}
	defer func() { // after the batch is queued: a cancellation may concern it
		for _, env := range alone {
			if env.Kind == rpc.Response {
				s.hostResponse(env)
			} else {
				s.hostNotification(env)
			}
		}
	}()
	b.data = e.Data
	if slices.Contains(b.gone, true) {
		b.data = rpc.Join(e.Data, elements, func(i int) bool { return !b.gone[i] })
	}
	if b.data == nil {
		return
	}
	b.data = line(b.data)
	if !s.toServer.Offer(rpc.Item{Data: b.data, Owner: b, Held: s.holdBatch(b)}) {
		s.stats.Overload++
		for _, r := range b.owner {
			if r != nil {
				r.batch = nil
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
		for v := range frame.Elements(e.Data) {
			el := v.Span.In(e.Data)
			if h, err := frame.Parse(el); err == nil && h.Method.Kind == frame.Absent && h.ID.Kind != frame.Absent {
				s.malformed(rpc.MakeID(h.ID.Span.In(el)), "in an array that is no batch")
			}
		}
		return
	}
	keep := make([]bool, len(elements))
	owner := make([]*request, len(elements))
	var asks []*ask
	kept := 0
	for i, span := range elements {
		env := rpc.Parse(span.In(e.Data), heads[i])
		switch {
		case heads[i].Duplicate != "":
			s.violation(&env, env.Refusal)
		case env.Kind == rpc.Response:
			if owner[i] = s.finish(env.ID); owner[i] != nil {
				s.recordAnswer(owner[i], &env)
				s.era.response(s, owner[i], &env)
				s.tasks.response(s, owner[i], &env)
				keep[i] = true
			}
		case env.Method == "notifications/cancelled":
			s.serverCancel(g, &env)
			continue
		case env.Kind == rpc.Notification:
			keep[i] = env.Method != "notifications/progress" || s.tokens[rpc.MakeID(env.In(env.ProgressToken))] != nil
		default:
			a := &ask{raw: env.ID, token: rpc.MakeID(env.In(env.Token)), gen: g}
			asks = append(asks, a)
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
	if s.toHost.Offer(rpc.Item{Data: line(data), Owner: &replies{owner}}) {
		return
	}
	s.stats.Overload++
	for _, a := range asks {
		if s.asks.Get(a.raw) == a {
			s.answerAsk(a.raw, a, "the host is not reading, and the queue of what waits for it is full")
		}
	}
	for _, r := range owner {
		if r != nil {
			s.answer(r, "The server answered, but this host was not reading and what waits for it is full, so the answer was dropped. The call itself ran: do not repeat it blindly.")
		}
	}
}
