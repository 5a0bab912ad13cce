package bridge

import (
	"time"

	"github.com/penstock-dev/penstock/child"
	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// account is what is recorded of one call, besides its transitions. Its methods
// may be called on nil.
type account struct {
	out       call.Outcome
	receipt   Receipt // of the intent; nil if nobody waits for it
	held      bool    // its frame waits for the receipt
	answering bool    // an answer is on its way to the host
	awaits    *generation
	ended     time.Time
	at        int64 // calls dispatched before this one, without those that had ended
	recorded  bool
}

// replies is the owner of a frame that answers several calls.
type replies struct{ of []*request }

func (a *account) replaced() {
	if a != nil {
		a.answering = true
		a.out.Given, a.out.AnsweredBy = call.GivenReplaced, "penstock"
	}
}

func (a *account) answered() {
	if a != nil {
		a.answering = true
		a.out.RPC, a.out.Given, a.out.AnsweredBy = call.RPCUnread, call.GivenWhole, "server"
	}
}

// own notes that we answered in place of a server.
func (a *account) own(failed bool) {
	if a != nil {
		a.answering = true
		a.out.RPC, a.out.Given, a.out.AnsweredBy, a.out.IsError = call.RPCResult, call.GivenWhole, "penstock", &failed
	}
}

func (a *account) keep(handle string) {
	if a != nil {
		a.out.Handle = handle
	}
}

// lastWords notes, when all of g's stderr has been read, what the calls that end
// with it saw of it, and returns what was kept of all.
func (s *Session) lastWords(g *generation) child.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records != nil {
		for r := range s.records.open {
			if r.account.awaits == g {
				s.recordStderr(r)
			}
		}
	}
	return g.stderr.Snapshot()
}

// recordDispatch tells that a call is being handed over.
func (s *Session) recordDispatch(r *request, at time.Time) {
	k, a := s.records, r.account
	if a == nil {
		return
	}
	a.at = k.sent - k.active
	k.sent++
	k.active++
	a.out.Attempts = 1
	d := &call.Dispatch{Attempt: 1, Queued: max(0, at.Sub(r.At[call.Authorized]).Milliseconds())}
	if r.gen != nil {
		d.PID = r.gen.ch.Pid()
	}
	s.record(&call.Record{Kind: call.CallDispatch, CallID: r.ID(), Dispatch: d}, Diagnostic)
}

// recordEnd notes the end of a call. Its outcome is recorded when it is known
// what became of the answer and, where the server died, of the server.
func (s *Session) recordEnd(r *request) {
	k, a := s.records, r.account
	if a == nil || !r.State.Terminal() || !a.ended.IsZero() {
		return
	}
	a.ended = time.Now()
	if g := r.gen; g != nil {
		a.out.StreamEnd = call.StreamOpen
		s.recordStderr(r)
		switch {
		case g.exit != nil:
			a.exit(g.exit)
		case r.State == call.OutcomeUnknown:
			a.awaits = g
		}
	}
	if r.State.AfterDispatch() {
		k.active--
	}
	if !a.answering {
		no := false
		a.out.Delivered = &no
	}
	k.open[r] = struct{}{}
	if !s.tryOutcome(r) && k.lookAt.IsZero() { // it is looked at once a second at most: that costs a call nothing
		k.lookAt = a.ended.Add(deliveryWait)
		wake(k.wake)
	}
}

// recordStderr notes what was seen and kept of stderr since r was dispatched.
func (s *Session) recordStderr(r *request) {
	a, g := r.account, r.gen
	seen := g.stderr.Seen() - r.stderr
	if seen == 0 {
		a.out.Stderr = call.Stderr{Retain: s.retain()}
		return
	}
	e, all := g.stderr.Since(r.stderr), g.stderr.Snapshot()
	a.out.Stderr = call.Stderr{
		Seen: e.Seen, Retained: e.Kept, Truncated: e.Truncated, Retain: all.Retain,
		Shared: s.records.sent - a.at - 1,
	}
	if e.Truncated {
		a.out.Stderr.LetGo = all.LetGo
	}
}

func (s *Session) retain() string {
	if s.c.StderrHead {
		return child.RetainHeadAndTail
	}
	return child.RetainTail
}

func (a *account) exit(e *call.Exit) {
	a.out.ExitStatus, a.out.Signal, a.out.StreamEnd = e.ExitStatus, e.Signal, e.StderrEnd
}

// recordExit tells how a process of the server ended, and with it the outcomes
// that waited for that. all is what its stderr held.
func (s *Session) recordExit(g *generation, rep child.Report, all child.Snapshot) {
	k := s.records
	if k == nil {
		return
	}
	e := &call.Exit{
		PID: rep.Pid, ExitStatus: rep.ExitCode, Signal: rep.Signal, Forced: rep.Forced,
		StdoutEnd: string(rep.Stdout.End), StderrEnd: string(rep.Stderr.End),
		Stderr: call.Stderr{Seen: all.Seen, Retained: all.Kept(), Truncated: all.Truncated, Retain: all.Retain, LetGo: all.LetGo},
	}
	for i, p := range rep.Descendants {
		if i == maxLeft {
			e.LeftMore = len(rep.Descendants) - maxLeft
			break
		}
		e.Left = append(e.Left, call.Process{PID: p.Pid, Command: call.Clip(p.Command, 64)})
	}
	g.exit, k.last = e, e
	s.record(&call.Record{Kind: call.ServerExit, Exit: e}, Diagnostic)
	for r := range k.open {
		if r.account.awaits == g {
			r.account.awaits = nil
			r.account.exit(e)
			if !s.tryOutcome(r) && k.lookAt.IsZero() {
				k.lookAt = r.account.ended.Add(deliveryWait)
				wake(k.wake)
			}
		}
	}
}

// recordAnswer notes what the server answered.
func (s *Session) recordAnswer(r *request, e *rpc.Envelope) {
	a := r.account
	if a == nil {
		return
	}
	a.out.BytesOut = int64(len(e.Data))
	a.rpc(r, e)
	if r.Method == "tools/list" {
		s.recordTools(e)
	}
}

// rpc reads what kind of answer e is.
func (a *account) rpc(r *request, e *rpc.Envelope) {
	if e.Head.Error.Kind != frame.Absent {
		a.out.RPC = call.RPCError
		return
	}
	a.out.RPC = call.RPCResult
	if r.Method != "tools/call" || e.Head.Result.Kind != frame.Object {
		return
	}
	failed := false
	result := e.In(e.Head.Result)
	for name, v := range frame.Members(result) {
		if frame.Is(name.In(result), "isError") {
			failed = v.Kind == frame.True
		}
	}
	a.out.IsError = &failed
}

func (s *Session) recordSize(r *request, n int64) {
	if r.account != nil {
		r.account.out.BytesOut = n
	}
}

// recordCut notes that an answer was cut, and what it says.
func (s *Session) recordCut(l *large, cut bool) {
	a := l.r.account
	if a == nil || !cut {
		return
	}
	a.out.Given = call.GivenCut
	if a.out.RPC == call.RPCUnread { // it was over the wire limit
		if h, err := frame.Parse(l.data); err == nil {
			e := rpc.Parse(l.data, h)
			a.rpc(l.r, &e)
		}
	}
}

// recordLeaving notes which answers are in the write that begins.
func (s *Session) recordLeaving(it *rpc.Item) {
	k := s.records
	if k == nil || it.Class != rpc.Must {
		return
	}
	switch o := it.Owner.(type) {
	case *request:
		s.leave(o, len(it.Data))
	case *replies:
		for _, r := range o.of {
			if r != nil {
				s.leave(r, len(it.Data))
			}
		}
	}
}

func (s *Session) leave(r *request, n int) {
	if a := r.account; a != nil && r.State.Terminal() {
		a.out.BytesGiven = int64(n)
		s.records.leaving = append(s.records.leaving, r)
	}
}

// recordWritten tells whether the host's pipe took the whole write.
func (s *Session) recordWritten(ok bool) {
	k := s.records
	if k == nil {
		return
	}
	for i, r := range k.leaving {
		k.leaving[i] = nil
		s.recordDelivery(r, ok)
	}
	k.leaving = k.leaving[:0]
}

// undelivered notes that the answer to id was taken back.
func (s *Session) undelivered(id rpc.ID) {
	if s.records == nil {
		return
	}
	for r := range s.records.open {
		if r.id == id {
			s.recordDelivery(r, false)
		}
	}
}

// recordDelivery notes whether the host got the answer to r.
func (s *Session) recordDelivery(r *request, ok bool) {
	a := r.account
	if a == nil || a.out.Delivered != nil {
		return
	}
	a.out.Delivered = &ok
	if !ok {
		a.out.Given, a.out.BytesGiven = call.GivenNothing, 0
	}
	if a.recorded {
		s.record(&call.Record{Kind: call.CallGiven, CallID: r.ID(), Given: &call.Given{Delivered: ok}}, Diagnostic)
		return
	}
	s.tryOutcome(r)
}

// tryOutcome records the outcome of a call if nothing more is awaited for it.
func (s *Session) tryOutcome(r *request) bool {
	a := r.account
	if a.awaits != nil || a.out.Delivered == nil || a.ended.IsZero() {
		return false
	}
	s.recordOutcome(r)
	return true
}

func (s *Session) recordOutcome(r *request) {
	k, a := s.records, r.account
	delete(k.open, r)
	if a.recorded {
		return
	}
	a.recorded = true
	o := a.out
	o.State, o.Cause, o.Failure = r.State, call.Clip(r.Cause, maxCause), r.Failure
	o.Debug = o.Debug || k.debugging()
	for state, at := range r.At {
		if !at.IsZero() {
			o.Steps = append(o.Steps, call.Step{State: call.State(state), Time: call.At(at), Mono: k.mono(at)})
		}
	}
	s.record(&call.Record{Kind: call.CallOutcome, CallID: r.ID(), Outcome: &o}, Terminal)
}

// recordLate tells of an answer that came after the end of its call.
func (s *Session) recordLate(r *request) {
	if r.account != nil {
		s.record(&call.Record{Kind: call.CallLate, CallID: r.ID(), Late: &call.Late{Delay: max(0, r.LateReply.Milliseconds())}}, Diagnostic)
	}
}

// recordTools remembers the digests of the definitions in an answer to
// tools/list, and tells of those that changed.
func (s *Session) recordTools(e *rpc.Envelope) {
	k := s.records
	if e.Head.Result.Kind != frame.Object {
		return
	}
	result := e.In(e.Head.Result)
	for name, v := range frame.Members(result) {
		if !frame.Is(name.In(result), "tools") || v.Kind != frame.Array {
			continue
		}
		list := v.Span.In(result)
		for el := range frame.Elements(list) {
			tool, digest := digestTool(el.Span.In(list))
			old, known := k.digests[tool]
			switch {
			case tool == "" || !known && len(k.digests) >= maxDigests || old == digest:
				continue
			case known:
				s.record(&call.Record{Kind: call.ToolChanged, Tool: &call.Tool{Name: call.Clip(tool, maxTarget), Old: old, New: digest}}, Terminal)
			}
			k.digests[tool] = digest
		}
	}
}

func digestTool(def []byte) (tool, digest string) {
	var name, description, input, output []byte
	for n, v := range frame.Members(def) {
		switch raw := n.In(def); {
		case frame.Is(raw, "name") && v.Kind == frame.String && v.Len() <= rpc.MaxID:
			name = v.Span.In(def)
			tool = frame.Unquote(name)
		case frame.Is(raw, "description"):
			description = v.Span.In(def)
		case frame.Is(raw, "inputSchema"):
			input = v.Span.In(def)
		case frame.Is(raw, "outputSchema"):
			output = v.Span.In(def)
		}
	}
	return tool, call.ToolDigest(name, description, input, output)
}
