package bridge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// A server that closed its stdin: what was meant for it was never sent, and the
// answer says so.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) {
		c.Args = []string{"sh", "-c", "exec 0<&-; echo ready >&2; sleep 600"}
	}, "echo")
	eventually(t, "stdin is closed", func() bool { return strings.Contains(h.log.String(), "ready") })
	h.send(initialize("1"))
	if f := h.answer("1").facts(t); f.Dispatched || !f.RetrySafe || f.State != "failed_before_dispatch" {
		t.Errorf("facts %+v", f)
	}
	h.end()
}

// Requests of a host that is going get their answers, whether the server
// answers, ignores its end, or has died.
func TestRequestsThenEOF(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"echo":        {"echo"},
		"never reads": {"never-reads", "after=2"},
		"dies":        {"exits", "on=ping"},
		"ignores EOF": {"ignores-eof"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil, args[0], args[1:]...)
			h.hello()
			const calls = 20
			h.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			for i := range calls {
				h.send(toolCall(fmt.Sprint(i), "echo", `{"text":"`+strings.Repeat("x", 32<<10)+`"}`))
			}
			h.in.Close()
			answered := map[string]int{}
			for n := 0; n < calls+1; {
				if m := h.next(); m.Method == "" { // not list_changed, after a restart
					answered[string(m.ID)]++
					n++
				}
			}
			if len(answered) != calls+1 {
				t.Errorf("answers by id: %v", answered)
			}
			h.end()
		})
	}
}

// What the server says after the end of stdin still reaches the host.
func TestAnswersAfterEOF(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "echo", "ledger="+l)
	h.hello()
	h.send(toolCall("1", "sleep", `{"ms":600000}`), toolCall("2", "big", `{"bytes":65536}`))
	await(t, l, "read", func(e hostile.Event) bool { return string(e.ID) == "2" })
	h.in.Close()
	if m := h.answer("2"); len(m.raw)+1 != 65536 {
		t.Errorf("%d bytes", len(m.raw))
	}
	h.answer("1") // stopped by the end of stdin: a failure that says so
	h.end()
}
