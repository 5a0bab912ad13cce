package bridge

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// book is a recorder in memory. It keeps what it is given in order, and says
// yes, no, or nothing for now to intents.
type book struct {
	t  *testing.T
	mu sync.Mutex // guards all below

	list    []*call.Record
	classes []Class
	mute    bool  // receipts of intents stay open
	err     error // of all records; they are not kept then
	open    []*receipt
}

type receipt struct {
	done chan struct{}
	err  error
}

func (r *receipt) Done() <-chan struct{} { return r.done }
func (r *receipt) Err() error            { return r.err }

func (b *book) Record(body []byte, class Class, _ Level) Receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := call.ParseRecord(body)
	if err != nil {
		b.t.Errorf("a record that does not parse: %v\n%s", err, body)
	}
	if r.Kind == call.CallOutcome && len(body) > call.MaxOutcome {
		b.t.Errorf("an outcome of %d bytes", len(body))
	}
	out := &receipt{done: make(chan struct{}), err: b.err}
	if b.err == nil {
		b.list, b.classes = append(b.list, r), append(b.classes, class)
	}
	if b.mute && class == Intent {
		b.open = append(b.open, out)
	} else {
		close(out.done)
	}
	return out
}

// speak gives the receipts that were held back, the latest ones first, and from
// now on all at once.
func (b *book) speak(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = false
	for i := len(b.open) - 1; i >= 0; i-- {
		b.open[i].err = err
		close(b.open[i].done)
	}
	b.open = nil
}

func (b *book) silence() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = true
}

func (b *book) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *book) records() []*call.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*call.Record(nil), b.list...)
}

// muted returns how many intents wait for their receipt.
func (b *book) muted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// recorded gives a session the recorder b.
func recorded(b *book, change func(*Config)) func(*Config) {
	return func(c *Config) {
		if change != nil {
			change(c)
		}
		c.Recorder = func(string, *link.Client) Recorder { return b }
		if c.RecordWait == 0 {
			c.RecordWait = patience // no test depends on how fast the machine is
		}
	}
}

// check holds what every log must satisfy once its session has ended: numbers
// without a hole, the start first and the end last, and for each call one intent
// before its dispatch before its one outcome.
func (b *book) check(t *testing.T) *call.Fold {
	t.Helper()
	var f call.Fold
	intents, dispatches, outcomes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	list := b.records()
	for i, r := range list {
		if !f.Add(r) {
			t.Errorf("record %d is a repeat", r.Seq)
		}
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has the number %d", i+1, r.Seq)
		}
		switch r.Kind {
		case call.CallIntent:
			if intents[r.CallID] {
				t.Errorf("%s has two intents", r.CallID)
			}
			intents[r.CallID] = true
		case call.CallDispatch:
			if !intents[r.CallID] || outcomes[r.CallID] {
				t.Errorf("%s was dispatched out of order", r.CallID)
			}
			dispatches[r.CallID] = true
		case call.CallOutcome:
			if !intents[r.CallID] || outcomes[r.CallID] {
				t.Errorf("%s ended without an intent, or twice", r.CallID)
			}
			if sent := r.Outcome.State.AfterDispatch(); sent != dispatches[r.CallID] {
				t.Errorf("%s: dispatched %v, but its outcome is %s", r.CallID, dispatches[r.CallID], r.Outcome.State)
			}
			outcomes[r.CallID] = true
		}
	}
	if len(intents) != len(outcomes) {
		t.Errorf("%d intents and %d outcomes", len(intents), len(outcomes))
	}
	if len(list) < 2 || list[0].Kind != call.SessionStart || list[len(list)-1].Kind != call.SessionEnd {
		t.Errorf("%d records without start or end", len(list))
	}
	return &f
}

// outcome returns the outcome of the call with the host's id.
func (b *book) outcome(t *testing.T, id string) call.Outcome {
	t.Helper()
	callID := ""
	for _, r := range b.records() {
		switch {
		case r.Intent != nil && r.Intent.RequestID == id:
			callID = r.CallID
		case r.Outcome != nil && r.CallID == callID && callID != "":
			return *r.Outcome
		}
	}
	t.Fatalf("no outcome of the call with id %s", id)
	return call.Outcome{}
}

// leave ends the session as a host does and returns what it left.
func (h *host) leave(b *book) *call.Fold {
	h.t.Helper()
	h.in.Close()
	h.end()
	return b.check(h.t)
}

// R69: a server that dies, a JSON-RPC error, isError, and a success that is cut
// are four different things.
func TestFourKindsOfOutcome(t *testing.T) {
	b := &book{t: t}
	desk := withDesk(t, 4096)
	h := start(t, recorded(b, desk), "exits", "on=call", "nth=5", "when=before", "code=3", "say=gone")
	h.hello()
	h.send(toolCall("1", "error", "{}"))
	h.answer("1")
	h.send(toolCall("2", "fail", "{}"))
	h.answer("2")
	h.send(toolCall("3", "big", `{"bytes":20000}`))
	h.answer("3")
	h.send(toolCall("4", "echo", `{"text":"x","token":"hunter2"}`))
	h.answer("4")
	h.send(toolCall("5", "echo", `{"text":"x"}`))
	h.answer("5")
	h.leave(b)

	type facts struct {
		state                       string
		delivered                   bool
		rpc, isError, given, by     string
		exit                        int
		stream                      string
		failure                     call.Failure
		attempts                    int
		answered, stderr, truncated bool
	}
	want := map[string]facts{
		"1": {state: "finished", delivered: true, rpc: "error", isError: "null", given: "whole", by: "server", exit: -1, stream: "open", attempts: 1, answered: true},
		"2": {state: "finished", delivered: true, rpc: "result", isError: "true", given: "whole", by: "server", exit: -1, stream: "open", attempts: 1, answered: true},
		"3": {state: "finished", delivered: true, rpc: "result", isError: "false", given: "cut", by: "server", exit: -1, stream: "open", attempts: 1, answered: true},
		"4": {state: "finished", delivered: true, rpc: "result", isError: "false", given: "whole", by: "server", exit: -1, stream: "open", attempts: 1, answered: true},
		"5": {state: "outcome_unknown", delivered: true, rpc: "none", isError: "null", given: "replaced", by: "penstock", exit: 3, stream: "eof", attempts: 1, stderr: true},
	}
	for id, w := range want {
		o := b.outcome(t, id)
		got := facts{
			state: o.State.String(), delivered: o.Delivered != nil && *o.Delivered, rpc: o.RPC, isError: "null", given: o.Given, by: o.AnsweredBy,
			exit: -1, stream: o.StreamEnd, failure: o.Failure, attempts: o.Attempts, answered: o.BytesOut > 0, stderr: o.Seen > 0, truncated: o.Truncated,
		}
		if o.IsError != nil {
			got.isError = fmt.Sprint(*o.IsError)
		}
		if o.ExitStatus != nil {
			got.exit = *o.ExitStatus
		}
		if got != w {
			t.Errorf("call %s: got  %+v\nwant %+v", id, got, w)
		}
	}
	if o := b.outcome(t, "3"); o.BytesOut != 19999 || o.BytesGiven >= o.BytesOut || o.Handle == "" {
		t.Errorf("the cut result: %d bytes out, %d given, handle %q", o.BytesOut, o.BytesGiven, o.Handle)
	}
	for _, r := range b.records() {
		if strings.Contains(string(r.Marshal()), "hunter2") {
			t.Errorf("a secret was recorded: %s", r.Marshal())
		}
	}
}

// R31: the call that was lost with its server ran once, is recorded as tried
// once, and its outcome is unknown.
func TestLostCallIsRecordedAsTriedOnce(t *testing.T) {
	b := &book{t: t}
	effect := filepath.Join(t.TempDir(), "effect")
	h := start(t, recorded(b, nil), "exits", "on=call", "when=effect", "how=kill", "effect="+effect)
	h.hello()
	h.send(toolCall("1", "counter", "{}"))
	h.answer("1")
	h.leave(b)
	if n := len(readLines(t, effect)); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	o := b.outcome(t, "1")
	if o.State != call.OutcomeUnknown || o.Attempts != 1 || o.ExitStatus != nil || o.Signal != "killed" {
		t.Errorf("outcome %+v", o)
	}
}

// Until the intent is recorded the call does not reach the server; what needs
// no record goes on, and cancelling takes the call back.
func TestCallWaitsForItsIntent(t *testing.T) {
	b := &book{t: t}
	ledger := filepath.Join(t.TempDir(), "ledger")
	h := start(t, recorded(b, nil), "echo", "ledger="+ledger)
	h.hello()
	b.silence()
	h.send(toolCall("1", "echo", `{"text":"a"}`), toolCall("2", "echo", `{"text":"b"}`), cancel("2"))
	eventually(t, "the cancellation was taken", func() bool { return h.s.Stats().CancelsReceived == 1 })
	if n := b.muted(); n != 2 {
		t.Errorf("%d intents", n)
	}
	for _, l := range readLines(t, ledger) {
		if strings.Contains(l, "tools/call") {
			t.Errorf("sent before its intent was recorded: %s", l)
		}
	}
	b.speak(nil)
	h.answer("1")
	h.leave(b)
	if o := b.outcome(t, "2"); o.State != call.CancelledBeforeDispatch || *o.Delivered || o.Given != "nothing" || o.Attempts != 0 || o.StreamEnd != call.StreamNone {
		t.Errorf("the cancelled call: %+v", o)
	}
	for _, l := range readLines(t, ledger) {
		if strings.Contains(l, `"tools/call"`) && strings.Contains(l, `"id":2`) {
			t.Errorf("the cancelled call was sent: %s", l)
		}
	}
}

// A call whose intent is not taken in time goes on with observe, and is refused
// as not dispatched with refuse.
func TestIntentThatIsNotTakenInTime(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse=%v", refuse), func(t *testing.T) {
			b := &book{t: t}
			h := start(t, recorded(b, func(c *Config) { c.Refuse, c.RecordWait = refuse, time.Millisecond }), "echo")
			h.hello()
			b.silence()
			h.send(toolCall("1", "echo", `{"text":"a"}`))
			m := h.answer("1")
			if refuse {
				if f := m.facts(t); f.Dispatched || !f.RetrySafe || f.State != "failed_before_dispatch" {
					t.Errorf("refused with %+v", f)
				}
			} else if m.text() != "a" {
				t.Errorf("answer %s", m.raw)
			}
			b.speak(nil)
			h.leave(b)
			want := call.Finished
			if refuse {
				want = call.FailedBeforeDispatch
			}
			if o := b.outcome(t, "1"); o.State != want {
				t.Errorf("state %s, want %s", o.State, want)
			}
			list := b.records()
			if end := list[len(list)-1].End; end.Overdue != 1 || end.Unrecorded != 0 {
				t.Errorf("end %+v", end)
			}
		})
	}
}

// Intents that are lost leave a gap record as soon as records are taken again,
// or at the end.
func TestLostIntentsLeaveAGap(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse=%v", refuse), func(t *testing.T) {
			b := &book{t: t}
			h := start(t, recorded(b, func(c *Config) { c.Refuse = refuse }), "echo")
			h.hello()
			b.refuse(errors.New("the disk is full"))
			for _, id := range []string{"1", "2"} {
				h.send(toolCall(id, "echo", `{"text":"a"}`))
				m := h.answer(id)
				if refuse {
					if f := m.facts(t); f.Dispatched || !strings.Contains(m.text(), "the disk is full") {
						t.Errorf("refused with %s", m.raw)
					}
				} else if m.text() != "a" {
					t.Errorf("answer %s", m.raw)
				}
			}
			b.refuse(nil)
			h.echo("3")
			h.in.Close()
			h.end()
			var gaps []call.Gap
			last := call.Kind("")
			for _, r := range b.records() {
				if r.Gap != nil {
					gaps = append(gaps, *r.Gap)
					if last != call.CallIntent {
						t.Errorf("the gap was told of after %s, not after the first intent that was taken", last)
					}
				}
				last = r.Kind
			}
			if len(gaps) != 1 || gaps[0].Count != 2 || gaps[0].Reason != "the disk is full" {
				t.Errorf("gaps %+v", gaps)
			}
			if o := b.outcome(t, "3"); o.State != call.Finished {
				t.Errorf("after the gap: %+v", o)
			}
			list := b.records()
			if end := list[len(list)-1].End; end == nil || end.Unrecorded != 2 {
				t.Errorf("end %+v", list[len(list)-1])
			}
		})
	}
}

// A late answer is recorded with its delay, under the call that it is of.
func TestLateReplyIsRecorded(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, nil), "cancel-ignoring")
	h.hello()
	h.send(toolCall("1", "slow", "{}"))
	eventually(t, "dispatched", func() bool { return h.s.Stats().FramesToServer >= 3 })
	h.send(cancel("1"))
	eventually(t, "the late answer", func() bool { return h.s.Stats().LateReplies == 1 })
	f := h.leave(b)
	o := b.outcome(t, "1")
	if o.State != call.CancelledAfterDispatch || o.RPC != "none" || *o.Delivered || o.ExitStatus != nil || o.StreamEnd != "open" {
		t.Errorf("outcome %+v", o)
	}
	for _, row := range f.Activity() {
		if (row.Tool == "slow") != (row.LateReply != nil) {
			t.Errorf("row %+v", row)
		}
	}
}

// A host that does not read: the outcome says that it is not known whether the
// answer was delivered, and a later record tells.
func TestDeliveryIsWhatWasObserved(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, nil), "echo")
	h.hello()
	h.send(toolCall("1", "big", `{"bytes":4000000}`))
	eventually(t, "the outcome", func() bool {
		for _, r := range b.records() {
			if r.Outcome != nil && r.Outcome.BytesOut == 3999999 {
				return true
			}
		}
		return false
	})
	if o := b.outcome(t, "1"); o.Delivered != nil || o.State != call.Finished {
		t.Errorf("while the host does not read: %+v", o)
	}
	h.answer("1")
	f := h.leave(b)
	rows := f.Activity()
	if r := rows[len(rows)-1]; r.Delivered == nil || !*r.Delivered || r.Given != "whole" {
		t.Errorf("row %+v", r)
	}
}

// An answer that the host never took was not delivered, and its outcome says so.
func TestAnswerThatNobodyTook(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, nil), "echo")
	h.hello()
	h.send(toolCall("1", "echo", `{"text":"a"}`))
	h.answer("1")
	h.out.Close()
	h.send(toolCall("2", "echo", `{"text":"b"}`))
	h.end()
	b.check(t)
	o := b.outcome(t, "2")
	if o.Delivered == nil || *o.Delivered {
		t.Errorf("outcome %+v", o)
	}
}

// What is refused before it is read is recorded too.
func TestRefusedRequestsAreRecorded(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, nil), "echo")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","NAME":"fail","arguments":{}}}`)
	h.answer("1")
	h.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":`)
	h.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	for {
		if m := h.next(); string(m.ID) == "3" {
			break
		}
	}
	h.leave(b)
	if o := b.outcome(t, "1"); o.State != call.FailedBeforeDispatch || o.Given != "replaced" || !*o.Delivered {
		t.Errorf("outcome %+v", o)
	}
	for _, r := range b.records() {
		if r.Intent != nil && r.Intent.RequestID == "1" && (r.Intent.Decision != "deny" || r.Intent.DecidedBy != "penstock") {
			t.Errorf("intent %+v", r.Intent)
		}
	}
}

// Records that are made in a debug window say so.
func TestDebugWindow(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, nil), "echo")
	h.hello()
	h.s.Debug(time.Now().Add(time.Hour))
	h.echo("1")
	h.s.Debug(time.Time{})
	h.echo("2")
	h.leave(b)
	if !b.outcome(t, "1").Debug || b.outcome(t, "2").Debug {
		t.Error("the outcomes do not tell the window from the rest")
	}
	var windows []bool
	for _, r := range b.records() {
		if r.Window != nil {
			windows = append(windows, r.Window.On)
		}
	}
	if len(windows) != 2 || !windows[0] || windows[1] {
		t.Errorf("windows %v", windows)
	}
}

// The continuation tool is recorded like any other.
func TestOwnToolIsRecorded(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, withDesk(t, 4096)), "echo")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	h.answer("1")
	h.send(toolCall("2", "penstock_result", `{"handle":"r_none"}`))
	h.answer("2")
	h.leave(b)
	o := b.outcome(t, "2")
	if o.State != call.Finished || o.AnsweredBy != "penstock" || o.IsError == nil || !*o.IsError || !*o.Delivered || o.StreamEnd != "none" {
		t.Errorf("outcome %+v", o)
	}
}

// Intents name the definition of their tool; one that changes is told of.
func TestToolDefinitions(t *testing.T) {
	s := &Session{c: Config{Name: "srv"}, records: &records{digests: map[string]string{}}}
	b := &book{t: t}
	s.id, s.records.to, s.records.began = "s_1", b, time.Now()
	list := func(description string) {
		data := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","x":1},"description":"` + description + `"},{"name":"b"}]}}`)
		s.recordTools(envelope(t, data))
	}
	list("one")
	first := s.records.digests["a"]
	list("one")
	if len(b.records()) != 0 || first == "" || first == s.records.digests["b"] {
		t.Errorf("unchanged: %v", s.records.digests)
	}
	list("two")
	got := b.records()
	if len(got) != 1 || got[0].Tool.Name != "a" || got[0].Tool.Old != first || got[0].Tool.New == first {
		t.Errorf("changed: %+v", got)
	}
}

func envelope(t *testing.T, data []byte) *rpc.Envelope {
	t.Helper()
	head, err := frame.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	e := rpc.Parse(data, head)
	return &e
}
