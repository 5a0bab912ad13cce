package bridge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// R15: notifications are bounded, and an answer is never lost behind them.
func TestR15_FloodOfNotifications(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ count, kind string }{
		{"101", "message"}, {"100000", "message"}, {"100000", "vendor"}, {"100000", "list_changed"}, {"100000", "updated"}, {"100000", "message,list_changed,updated,progress"},
	} {
		t.Run(c.kind+"/"+c.count, func(t *testing.T) {
			t.Parallel()
			l := ledgerOf(t)
			h := start(t, nil, "notification-flood", "ledger="+l, "count="+c.count, "kind="+c.kind)
			h.hello()
			h.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"flood","arguments":{},"_meta":{"progressToken":"t"}}}`)
			await(t, l, "wrote", func(e hostile.Event) bool { return string(e.ID) == "5" }) // the host has read nothing
			if st := h.s.Stats(); st.QueueToHost.Most > 16<<20+slack {
				t.Errorf("the queue held %d bytes", st.QueueToHost.Most)
			}
			if m := h.answer("5"); m.Result == nil || m.Result.IsError {
				t.Errorf("got %.200s", m.raw)
			}
			if st := h.s.Stats(); c.count != "101" && st.QueueToHost.Oldest+st.QueueToHost.Coalesced == 0 {
				t.Error("nothing was dropped or coalesced")
			}
			h.echo("6")
		})
	}
}

// R17: a server that writes much before it has read all of a request is drained
// meanwhile.
func TestR17_BothWriting(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "read-then-block", "write=4MiB")
	h.hello()
	h.send(toolCall("1", "echo", `{"text":"`+strings.Repeat("y", 1<<20)+`"}`))
	if m := h.answer("1"); m.Result == nil || m.Result.IsError {
		t.Errorf("got %.200s", m.raw)
	}
}

// R19, R21: stderr is drained, counted to the byte, and decides nothing; rule 5.
func TestR19_StderrNeverDecides(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"lines", "unbroken", "invalid", "control"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			const flood = 256 << 10
			h := start(t, nil, "stderr-flood", "bytes=256KiB", "shape="+shape, "at=start,initialize,call,ping")
			h.hello()
			for i := range 3 {
				h.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
				if m := h.answer(fmt.Sprint(i)); m.Result == nil {
					t.Errorf("ping: %s", m.raw)
				}
			}
			h.echo("10")
			h.in.Close()
			if e := h.end(); e.Code != 0 {
				t.Errorf("exit code %d", e.Code)
			}
			st := h.s.Stats()
			if st.StderrSeen != 6*flood || st.StderrKept > 16<<10 {
				t.Errorf("seen %d, kept %d", st.StderrSeen, st.StderrKept)
			}
			if st.States["finished"] != st.Calls || st.ServerViolations != 0 {
				t.Errorf("stderr changed states: %v", st.States)
			}
			for _, line := range strings.Split(strings.TrimSuffix(h.log.String(), "\n"), "\n") {
				if !strings.HasPrefix(line, "[srv") && !strings.HasPrefix(line, "[penstock") {
					t.Fatalf("a line of the log has no label: %.100q", line)
				}
			}
		})
	}
}

// Rule 2: a host that asks without end and reads nothing gets bounded memory and
// an end of the session that says why.
func TestHostThatOnlyAsks(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.Calls, c.WireLimit, c.Queues = 4, 64<<10, 128<<10 }, "never-reads", "after=2")
	h.hello()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(h.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`+"\n", i, strings.Repeat("z", 200)); err != nil {
				return
			}
		}
	}()
	h.end()
	<-asked
	st := h.s.Stats()
	if !st.HostOverrun || st.QueueToHost.Most > 16<<20+1<<20+slack {
		t.Errorf("overrun %v, most bytes %d", st.HostOverrun, st.QueueToHost.Most)
	}
	if !strings.Contains(h.log.String(), "reads no answers") {
		t.Error("nobody was told why")
	}
}
