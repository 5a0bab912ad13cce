package bridge

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// await waits until the fixture has noted an event.
func await(t *testing.T, ledger string, what string, ok func(hostile.Event) bool) hostile.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := hostile.Await(ctx, ledger, func(e hostile.Event) bool { return e.What == what && (ok == nil || ok(e)) })
	if err != nil {
		t.Fatalf("the fixture never noted %q: %v", what, err)
	}
	return e
}

func ledgerOf(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger") }

func TestEcho(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "echo")
	h.hello()
	h.echo("1")
	h.in.Close()
	if e := h.end(); e.Code != 0 {
		t.Errorf("exit code %d", e.Code)
	}
}

// Rule 1 and 2: while the host does not read, the server is drained, cancels
// reach it, and every call gets its result or an honest error afterwards.
func TestHostStalls(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, func(c *Config) { c.WireLimit, c.Queues = 1<<20, 2<<20 }, "echo", "ledger="+l)
	h.hello()
	h.send(toolCall(`"slow"`, "sleep", `{"ms":600000}`))
	const calls, size = 64, 256 << 10
	for i := range calls {
		h.send(toolCall(fmt.Sprint(i), "big", fmt.Sprintf(`{"bytes":%d}`, size)))
	}
	// The host reads nothing. All answers leave the server all the same.
	await(t, l, "wrote", func(e hostile.Event) bool { return string(e.ID) == fmt.Sprint(calls-1) })
	h.send(cancel(`"slow"`))
	await(t, l, "cancelled", func(e hostile.Event) bool { return string(e.ID) == `"slow"` })
	if st := h.s.Stats(); st.QueueToHost.Most > 2<<20+1<<20+slack {
		t.Errorf("the queue held %d bytes", st.QueueToHost.Most)
	}
	whole, small := 0, 0
	for range calls {
		m := h.next()
		switch {
		case m.Result == nil:
			t.Fatalf("neither result nor honest error: %.200s", m.raw)
		case m.Result.IsError:
			small++
			if f := m.facts(t); f.State != "finished" || !f.Dispatched || f.RetrySafe {
				t.Errorf("facts of a call that ran but whose result is lost: %+v", f)
			}
			if !strings.Contains(m.text(), "do not repeat it") {
				t.Errorf("text: %q", m.text())
			}
		default:
			whole++
		}
	}
	if whole < 4 || small == 0 {
		t.Errorf("%d whole results and %d errors; the queue holds at least 4 and not all", whole, small)
	}
	h.echo("1000")
}

// The server does not read: cancels and requests of the host are still taken,
// and what was not sent says so.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.WireLimit, c.Queues, c.Calls = 1<<20, 2<<20, 8 }, "never-reads", "after=2")
	h.hello()
	pad := strings.Repeat("x", 512<<10) // more than the pipe takes
	h.send(toolCall("1", "echo", `{"text":"`+pad+`"}`), toolCall("2", "echo", `{"text":"`+pad+`"}`), toolCall("3", "echo", `{"text":"short"}`))
	h.send(cancel("2"), cancel("3"))
	for i := 4; i < 20; i++ {
		h.send(toolCall(fmt.Sprint(i), "echo", `{"text":"`+pad+`"}`))
	}
	// Refusals come at once, although the server does nothing.
	m := h.next()
	if f := m.facts(t); f.Dispatched || !f.RetrySafe || f.State != "failed_before_dispatch" {
		t.Errorf("facts of a refused call: %+v", f)
	}
	eventually(t, "both cancels were taken", func() bool { return h.s.Stats().States["cancelled_before_dispatch"] == 2 })
	if st := h.s.Stats(); st.CancelsSent != 0 {
		t.Errorf("%d cancels were sent for calls that never were", st.CancelsSent)
	}
}

// A cancelled call is over for the host at once; what the server still says of
// it never reaches the host.
func TestCancelIgnored(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, func(c *Config) { c.CancelGrace = time.Millisecond }, "cancel-ignoring", "ledger="+l, "replies=late,error,duplicate,unknown,progress")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":"t"}}}`)
	await(t, l, "read", func(e hostile.Event) bool { return e.Method == "tools/call" })
	h.send(cancel("9"))
	await(t, l, "read", func(e hostile.Event) bool { return e.Method == "notifications/cancelled" })
	h.send(toolCall("10", "echo", `{"text":"hi"}`))
	if m := h.next(); string(m.ID) != "10" {
		t.Fatalf("debris reached the host: %s", m.raw)
	}
	st := h.s.Stats()
	if st.LateReplies != 1 || st.UnknownReplies < 2 || st.ServerDebris != 1 {
		t.Errorf("late %d, unknown %d, debris %d", st.LateReplies, st.UnknownReplies, st.ServerDebris)
	}
	if st.States["cancelled_after_dispatch"] != 1 {
		t.Errorf("states %v", st.States)
	}
}

// An answer that waits for a stalled host is taken back when the host cancels:
// some hosts close the connection on the answer to a call they cancelled.
func TestCancelTakesQueuedAnswerBack(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "echo", "ledger="+l)
	h.hello()
	h.send(toolCall("1", "big", `{"bytes":1048576}`), toolCall("2", "big", `{"bytes":1048576}`))
	eventually(t, "both answers are queued or being written", func() bool { return h.s.Stats().States["finished"] == 3 })
	h.send(cancel("2"))
	eventually(t, "the answer was taken back", func() bool { return h.s.Stats().CancelledDelivery == 1 })
	h.send(toolCall("3", "echo", `{"text":"hi"}`))
	if m := h.next(); string(m.ID) != "1" {
		t.Fatalf("first answer is %s", m.ID)
	}
	if m := h.next(); string(m.ID) != "3" {
		t.Fatalf("the answer to a cancelled call reached the host: %.100s", m.raw)
	}
}

// The server dies in a call: the call is answered at once with what was
// observed, the next one finds a restarted server and is told so, and the side
// effect happened once.
func TestDeathAndRestart(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"exit", "kill", "close"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			effect := filepath.Join(dir, "effect")
			h := start(t, nil, "exits", "on=call", "when=effect", "how="+how, "code=3", "nth=1", "say=goodbye", "effect="+effect)
			h.hello()
			h.send(toolCall("1", "counter", `{}`))
			m := h.answer("1")
			f := m.facts(t)
			if f.State != "outcome_unknown" || !f.Dispatched || f.RetrySafe {
				t.Errorf("facts %+v", f)
			}
			switch { // what was not observed is not there
			case how == "exit" && (f.ExitStatus == nil || *f.ExitStatus != 3), how != "exit" && f.ExitStatus != nil:
				t.Errorf("exit status %v", f.ExitStatus)
			}
			if !strings.Contains(f.Stderr, "goodbye") {
				t.Errorf("stderr %q", f.Stderr)
			}
			if n := len(readLines(t, effect)); n != 1 {
				t.Errorf("the side effect happened %d times", n)
			}
		})
	}
}

func TestRestartTellsItsPast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	starts, l := filepath.Join(dir, "starts"), filepath.Join(dir, "ledger")
	h := start(t, nil, "restarts", "starts="+starts, "ledger="+l)
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":"lvl","method":"logging/setLevel","params":{"level":"debug"}}`)
	h.answer(`"lvl"`)
	h.send(toolCall("1", "crash", `{}`))
	if f := h.answer("1").facts(t); f.State != "outcome_unknown" {
		t.Errorf("facts of the crash %+v", f)
	}
	h.send(toolCall("2", "generation", `{}`))
	m := h.answer("2")
	if m.Result == nil || len(m.Result.Content) != 2 || !strings.Contains(m.text(), "restarted") {
		t.Fatalf("the first result after a restart does not say so: %s", m.raw)
	}
	if got := m.Result.Content[1].Text; !strings.Contains(got, "2") {
		t.Errorf("generation %q", got)
	}
	h.send(toolCall("3", "generation", `{}`))
	if m := h.answer("3"); len(m.Result.Content) != 1 {
		t.Errorf("the second result still speaks of the restart: %s", m.raw)
	}
	var methods []string
	for _, e := range events(t, l) {
		if e.What == "read" {
			methods = append(methods, e.Method)
		}
	}
	i := slices.Index(methods[1:], "initialize") + 1
	if i < 1 || !slices.Equal(methods[i:i+3], []string{"initialize", "notifications/initialized", "logging/setLevel"}) {
		t.Errorf("the second process read %v", methods)
	}
}

// A server that dies before the handshake: the host learns why within a moment.
func TestDeathBeforeInitialize(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"start", "initialize"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil, "exits", "on="+on, "code=7", "say=ERR_MODULE_NOT_FOUND")
			h.send(initialize("1"))
			m := h.answer("1")
			if m.Error == nil {
				t.Fatalf("got %s", m.raw)
			}
			f := m.facts(t)
			if f.ExitStatus == nil || *f.ExitStatus != 7 || !strings.Contains(f.Stderr, "ERR_MODULE_NOT_FOUND") {
				t.Errorf("facts %+v", f)
			}
			if e := h.end(); e.Code != 7 {
				t.Errorf("exit code %d", e.Code)
			}
		})
	}
}

// The frame sizes around the wire limit.
func TestWireLimit(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	h := start(t, func(c *Config) { c.WireLimit, c.Queues = limit, 4*limit }, "echo")
	h.hello()
	for i, size := range []int{65537, limit, limit + 1, limit + 2, 5 << 20} { // with the line feed
		id := fmt.Sprint(i + 1)
		h.send(toolCall(id, "big", fmt.Sprintf(`{"bytes":%d}`, size)))
		m := h.answer(id)
		switch over := size > limit+1; {
		case over && (m.Result == nil || !m.Result.IsError || !strings.Contains(m.text(), "wire limit")):
			t.Errorf("%d bytes: %.200s", size, m.raw)
		case !over && (m.Result == nil || m.Result.IsError || len(m.raw)+1 != size):
			t.Errorf("%d bytes: got %d", size, len(m.raw)+1)
		case over && m.facts(t).State != "finished":
			t.Errorf("%d bytes: facts %+v", size, m.facts(t))
		}
		h.echo(id + "00")
	}
}

// Every kind of noise is counted and none reaches the host.
func TestNoise(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"banner", "ansi", "blank", "spaces", "text", "scalars", "invalid-utf8", "nul", "idless-error", "null-id", "quoted", "crlf", "bom", "padded", "nan", "wrong-version", "no-version"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil, "noise", "kind="+kind, "on=initialize,tools/list,tools/call,ping", "again=true")
			h.hello()
			h.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if m := h.answer("1"); m.Result == nil {
				t.Errorf("ping: %s", m.raw)
			}
			h.echo("2")
		})
	}
}

// Ids of every kind come back as they were.
func TestIDs(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "echo")
	h.hello()
	for _, id := range []string{`"1"`, "1", "0", "-1", `""`, "9007199254740993", "18446744073709551616", `"é"`, `"a\u0062"`} {
		h.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if m := h.next(); string(m.ID) != id {
			t.Errorf("id %s came back as %s", id, m.ID)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "echo", "ledger="+l)
	h.hello()
	for i, bad := range []string{
		`{"jsonrpc":"2.0","id":ID,"id":999,"method":"tools/call","params":{"name":"echo","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":"tools/call","Method":"ping","params":{"name":"echo","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","name":"counter","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","n\u0061me":"counter","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","NAME":"counter","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","arguments":{"path":1,"path":2}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","arguments":{"a":}}}`,
		`{"jsonrpc":"2.0","id":ID,"method":17}`,
	} {
		id := fmt.Sprint(100 + i)
		h.send(strings.ReplaceAll(bad, "ID", id))
		if f := h.answer(id).facts(t); f.Dispatched || !f.RetrySafe {
			t.Errorf("%s: facts %+v", bad, f)
		}
	}
	h.send("{bad json", "null", "[]", `{"jsonrpc":"2.0","id":null,"method":"ping"}`)
	h.echo("1")
	for _, e := range events(t, l) {
		if e.What == "read" && e.Method == "tools/call" && string(e.ID) != "1" || e.What == "junk" {
			t.Errorf("a refused message reached the server: %+v", e)
		}
	}
}

// A batch passes at the revision that has them, and is refused at others.
func TestBatch(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "echo", "ledger="+l)
	h.hello()
	h.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	for _, id := range []string{"1", "2"} {
		if f := h.answer(id).facts(t); f.Dispatched {
			t.Errorf("a batch outside of 2025-03-26 was sent: %+v", f)
		}
	}
	h.echo("3")
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	// Long enough for a handshake on a machine that is busy otherwise.
	h := start(t, func(c *Config) { c.Total = 4 * time.Second }, "echo", "ledger="+l)
	h.hello()
	h.send(toolCall("1", "sleep", `{"ms":600000}`))
	m := h.answer("1")
	if f := m.facts(t); f.State != "cancelled_after_dispatch" || f.RetrySafe {
		t.Errorf("facts %+v", f)
	}
	await(t, l, "cancelled", func(e hostile.Event) bool { return string(e.ID) == "1" })
}

// What one broken answer holds is never taken for the answer, but the call does
// not wait for its deadline.
func TestMalformedAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"bad-value", "half", "glued"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil, "noise", "kind=blank", "on=")
			h.hello()
			h.send(toolCall("1", "noisy", `{"kind":"`+kind+`"}`))
			m := h.answer("1")
			if f := m.facts(t); f.State != "failed_after_dispatch" || !f.Dispatched {
				t.Errorf("facts %+v in %s", f, m.raw)
			}
			h.echo("2")
		})
	}
}

func TestStderrFlood(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "stderr-flood", "bytes=64MiB", "at=start,call,ping")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	h.answer("1")
	h.echo("2")
	h.in.Close()
	h.end()
	st := h.s.Stats()
	if st.StderrSeen < 3*64<<20 || st.StderrKept > 16<<10 {
		t.Errorf("stderr seen %d, kept %d", st.StderrSeen, st.StderrKept)
	}
	if n := len(h.log.String()); n > 1<<20+4096 {
		t.Errorf("%d bytes were forwarded, more than a minute's budget", n)
	}
	if !strings.Contains(h.log.String(), "were dropped") {
		t.Error("what was dropped of the log is not said")
	}
}

func events(t *testing.T, ledger string) []hostile.Event {
	t.Helper()
	ev, err := hostile.ReadLedger(ledger)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}
