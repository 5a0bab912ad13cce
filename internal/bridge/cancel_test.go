package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// R23, rule 9: a cancellation reaches the producer with its id and reason, and
// the second request works. Cancelled before work, in work and after the answer.
func TestR23_CancelReachesTheProducer(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "cancel-obeying", "ledger="+l, "progress=true")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":7}}}`)
	if m := h.next(); m.Method != "notifications/progress" { // the work has begun
		t.Fatalf("got %s", m.raw)
	}
	h.send(cancel("9"))
	await(t, l, "cancelled", func(e hostile.Event) bool { return string(e.ID) == "9" })
	h.echo("10")
	h.send(cancel("10")) // it has been answered
	h.send(cancel("9"))  // twice
	h.send(cancel("77")) // never asked
	h.echo("11")
	st := h.s.Stats()
	if st.CancelsSent != 1 || st.CancelsIgnored != 3 {
		t.Errorf("sent %d, ignored %d", st.CancelsSent, st.CancelsIgnored)
	}
	n := 0
	for _, e := range events(t, l) {
		if e.What == "read" && e.Method == "notifications/cancelled" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the server read %d cancellations", n)
	}
}

// A call of the server's own making that the host cancels before it was sent
// never reaches the server.
func TestCancelBeforeDispatch(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, func(c *Config) { c.WireLimit, c.Queues = 1<<20, 4<<20 }, "never-reads", "after=2", "ledger="+l)
	h.hello()
	pad := strings.Repeat("x", 700<<10)
	h.send(toolCall("1", "echo", `{"text":"`+pad+`"}`))
	eventually(t, "the call is being written", func() bool { return h.s.Stats().BytesToServer > 1000 })
	h.send(toolCall("2", "counter", `{}`), cancel("2"))
	eventually(t, "the call was taken back", func() bool { return h.s.Stats().States["cancelled_before_dispatch"] == 1 })
	if st := h.s.Stats(); st.CancelsSent != 0 {
		t.Error("the server was told to cancel what it never got")
	}
}

// R29: a late answer is recorded under its own call and never taken for the
// next one's.
func TestR29_LateAnswer(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, func(c *Config) { c.Total = 4 * time.Second }, "cancel-ignoring", "ledger="+l, "replies=late")
	h.hello()
	h.send(toolCall("1", "slow", `{}`))
	if f := h.answer("1").facts(t); f.State != "cancelled_after_dispatch" {
		t.Errorf("facts %+v", f)
	}
	eventually(t, "the late answer came", func() bool { return h.s.Stats().LateReplies == 1 })
	h.echo("2")
}

// A silent server with requests that cannot even be written is unresponsive:
// they are answered, and where the settings say so it is restarted.
func TestWedged(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "report", true: "restart"}[restart], func(t *testing.T) {
			h := start(t, func(c *Config) {
				c.WireLimit, c.Queues, c.WedgeAfter, c.RestartWedged = 1<<20, 4<<20, 200*time.Millisecond, restart
				c.Grace = 100 * time.Millisecond
			}, "never-reads", "after=2")
			h.hello()
			pad := strings.Repeat("x", 700<<10)
			h.send(toolCall("1", "echo", `{"text":"`+pad+`"}`))
			eventually(t, "the call is being written", func() bool { return h.s.Stats().BytesToServer > 1000 })
			h.send(toolCall("2", "echo", `{"text":"y"}`), cancel("1"))
			m := h.answer("2")
			if f := m.facts(t); f.Dispatched || !strings.Contains(m.text(), "unresponsive") {
				t.Errorf("got %s", m.raw)
			}
			if restart {
				eventually(t, "the server was ended", func() bool { return h.s.Stats().Exits == 1 })
			}
			if st := h.s.Stats(); st.Unresponsive == 0 {
				t.Error("not counted")
			}
		})
	}
}
