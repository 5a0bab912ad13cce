package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// helloAs does the handshake at another revision.
func (h *host) helloAs(version, id string) {
	h.t.Helper()
	h.send(strings.Replace(initialize(id), "2025-11-25", version, 1))
	h.answer(id)
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Ids that look alike are different, also when both are open at once.
func TestR45_AlikeIDs(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "stray")
	h.hello()
	h.send(toolCall(`"1"`, "sleep", `{"ms":600000}`), toolCall("1", "sleep", `{"ms":600000}`))
	// The server answers "1" of its own accord only when cancelled: never. A
	// second answer to 2 must not become that of "2".
	h.send(toolCall(`"2"`, "sleep", `{"ms":600000}`), toolCall("2", "stray", `{"kind":"duplicate"}`))
	if m := h.next(); string(m.ID) != "2" || m.text() != "first answer" {
		t.Fatalf("got %s", m.raw)
	}
	h.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if m := h.next(); string(m.ID) != "3" {
		t.Fatalf("the second answer to 2 was taken for that of \"2\": %s", m.raw)
	}
}

// A server that echoes ids as another type is understood where no other call
// can be meant.
func TestR45_EchoedType(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"other-type", "respelled"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil, "stray")
			h.hello()
			for _, id := range []string{"7", "9007199254740993", "0"} {
				h.send(toolCall(id, "stray", `{"kind":"`+kind+`"}`))
				if m := h.next(); string(m.ID) != id {
					t.Fatalf("id %s came back as %s", id, m.raw)
				}
			}
			if n := h.s.Stats().RepairedIDs; n != 3 {
				t.Errorf("%d ids repaired", n)
			}
		})
	}
}

// A late answer to a cancelled call whose id looks like that of an open one.
func TestR45_LateTwin(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "cancel-ignoring", "ledger="+l)
	h.hello()
	h.send(toolCall(`"1"`, "slow", `{}`))
	await(t, l, "note", func(e hostile.Event) bool { return e.Text == "work began" })
	h.send(toolCall("1", "sleep", `{"ms":600000}`), cancel(`"1"`))
	await(t, l, "note", func(e hostile.Event) bool { return e.Text == "cancellation ignored" })
	h.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if m := h.next(); string(m.ID) != "3" {
		t.Fatalf("the late answer to \"1\" was taken for that of 1: %s", m.raw)
	}
	if n := h.s.Stats().LateReplies; n != 1 {
		t.Errorf("%d late replies", n)
	}
}

// Debris by id never reaches the host; what has an answer gets it.
func TestR25_StrayAnswers(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "stray")
	h.hello()
	for i, kind := range []string{"duplicate", "unknown"} {
		id := fmt.Sprint(10 + i)
		h.send(toolCall(id, "stray", `{"kind":"`+kind+`"}`))
		if m := h.next(); string(m.ID) != id {
			t.Fatalf("%s: %s", kind, m.raw)
		}
	}
	// Answers that name no call: the call stays open, the session goes on.
	for i, kind := range []string{"null", "missing", "object"} {
		id := fmt.Sprint(20 + i)
		h.send(toolCall(id, "stray", `{"kind":"`+kind+`"}`))
		h.echo(id + "0")
		h.send(cancel(id))
	}
	// An answer with two ids is nobody's, and the call fails.
	h.send(toolCall("30", "stray", `{"kind":"twin"}`))
	if f := h.answer("30").facts(t); f.State != "failed_after_dispatch" {
		t.Errorf("two ids in one answer: %+v", f)
	}
	st := h.s.Stats()
	if st.UnknownReplies != 2 || st.ServerViolations != 4 {
		t.Errorf("unknown %d, violations %d", st.UnknownReplies, st.ServerViolations)
	}
}

// Requests of the server reach the host and its answers come back, although
// their ids are those of the host's own calls.
func TestR49_ServerRequests(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "requests", "kind=roots,sampling,elicitation,ping,unknown", "id=count", "count=5")
	h.hello()
	h.send(toolCall("1000", "ask", `{}`))
	want := []string{"roots/list", "sampling/createMessage", "elicitation/create", "ping", "vendor/question"}
	for i, method := range want {
		m := h.next()
		if m.Method != method || string(m.ID) != fmt.Sprint(1000+i) {
			t.Fatalf("got %s, want %s", m.raw, method)
		}
		if method == "vendor/question" {
			h.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"no"}}`)
		} else {
			h.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		}
	}
	if m := h.answer("1000"); m.text() != "4 answered, 1 refused" {
		t.Errorf("got %s", m.raw)
	}
}

// A server that withdraws its requests: the host is told, and its late answer
// is dropped.
func TestR49_WithdrawnRequest(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "requests", "kind=elicitation", "id=same", "ledger="+l)
	h.hello()
	h.send(toolCall("3", "ask", `{}`))
	if m := h.next(); m.Method != "elicitation/create" || string(m.ID) != "3" {
		t.Fatalf("got %s", m.raw)
	}
	h.send(cancel("3"))
	if m := h.next(); m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), `"requestId":3`) {
		t.Fatalf("got %s", m.raw)
	}
	h.send(`{"jsonrpc":"2.0","id":3,"result":{"action":"accept"}}`)
	h.echo("4")
	for _, e := range events(t, l) {
		if e.Text == "answer to no question" {
			t.Error("an answer to a withdrawn request reached the server")
		}
	}
	if n := h.s.Stats().HostDebris; n != 1 {
		t.Errorf("debris %d", n)
	}
}

// A request that is withdrawn before the host has seen it is never seen.
func TestR49_WithdrawnUnseen(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "requests", "kind=elicitation", "id=string", "ledger="+l)
	h.hello()
	h.send(toolCall("1", "big", `{"bytes":1048576}`), toolCall("3", "ask", `{}`))
	await(t, l, "wrote", func(e hostile.Event) bool { return e.Method == "elicitation/create" })
	h.send(cancel("3"))
	await(t, l, "cancelled", nil)
	h.send(toolCall("4", "echo", `{"text":"hi"}`))
	if m := h.next(); string(m.ID) != "1" {
		t.Fatalf("got %.200s", m.raw)
	}
	if m := h.next(); string(m.ID) != "4" {
		t.Fatalf("what was withdrawn reached the host: %s", m.raw)
	}
}

// The broken answer of a host ends the request of the server that waits for it.
func TestR49_BrokenHostAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"twice":    `{"jsonrpc":"2.0","id":"ask-1000","result":{},"result":{}}`,
		"broken":   `{"jsonrpc":"2.0","id":"ask-1000","result":{"a":}}`,
		"oversize": `{"jsonrpc":"2.0","id":"ask-1000","result":{"a":"` + strings.Repeat("x", 70<<10) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, func(c *Config) { c.WireLimit = 64 << 10 }, "requests", "kind=sampling", "id=string")
			h.hello()
			h.send(toolCall("1", "ask", `{}`))
			if m := h.next(); string(m.ID) != `"ask-1000"` {
				t.Fatalf("got %s", m.raw)
			}
			h.send(answer)
			if m := h.answer("1"); m.text() != "0 answered, 1 refused" {
				t.Errorf("got %s", m.raw)
			}
		})
	}
}

// From the second server on, ids of its requests differ from those that the
// first may have left open; answers to the dead are dropped.
func TestServerRequestsAfterRestart(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "requests", "kind=roots", "id=restart", "ledger="+l)
	h.hello()
	h.send(toolCall("1", "ask", `{}`))
	if m := h.next(); m.Method != "roots/list" || string(m.ID) != "0" {
		t.Fatalf("got %s", m.raw)
	}
	h.kill()
	if m := h.next(); m.Method != "notifications/cancelled" && string(m.ID) != "1" {
		t.Fatalf("got %s", m.raw)
	}
	if m := h.next(); m.Method != "notifications/cancelled" && string(m.ID) != "1" {
		t.Fatalf("got %s", m.raw)
	}
	h.send(toolCall("2", "ask", `{}`))
	m := h.next()
	for m.Method != "roots/list" {
		m = h.next()
	}
	if string(m.ID) != `"2:0"` {
		t.Fatalf("the second process's request came as %s", m.raw)
	}
	h.send(`{"jsonrpc":"2.0","id":0,"result":{"roots":["old"]}}`)
	h.send(`{"jsonrpc":"2.0","id":"2:0","result":{"roots":[]}}`)
	if m := h.answer("2"); m.Result == nil || m.Result.IsError {
		t.Errorf("got %s", m.raw)
	}
	if n := h.s.Stats().HostDebris; n != 1 {
		t.Errorf("debris %d", n)
	}
	// Cancelled across the rewrite.
	h.send(toolCall("3", "ask", `{}`))
	if m := h.next(); string(m.ID) != `"2:0"` {
		t.Fatalf("got %s", m.raw)
	}
	h.send(cancel("3"))
	if m := h.next(); m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), `"requestId":"2:0"`) {
		t.Fatalf("got %s", m.raw)
	}
}

// Cursors pass as they are; an empty one too.
func TestR47_Pages(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"offset", "empty", "loop"} {
		h := start(t, nil, "pages", "cursor="+cursor)
		h.hello()
		seen := map[string]bool{}
		params := "{}"
		for i := range 3 {
			id := fmt.Sprint(i)
			h.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":` + params + `}`)
			var page struct {
				Result struct {
					Tools      []struct{ Name string }
					NextCursor *string
				}
			}
			if err := json.Unmarshal([]byte(h.answer(id).raw), &page); err != nil {
				t.Fatal(err)
			}
			for _, tool := range page.Result.Tools {
				seen[tool.Name] = true
			}
			if page.Result.NextCursor == nil {
				break
			}
			params = fmt.Sprintf(`{"cursor":%q}`, *page.Result.NextCursor)
		}
		if want := map[string]int{"offset": 14, "empty": 14, "loop": 8}[cursor]; len(seen) != want {
			t.Errorf("%s: %d tools", cursor, len(seen))
		}
	}
}

// Progress reaches the host with its own token, value and type kept, and only
// while its call is open.
func TestR27_Progress(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "progress")
	h.hello()
	work := func(id, kind, meta string) {
		h.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"work","arguments":{"steps":2,"every_ms":0,"kind":"` + kind + `"}` + meta + `}}`)
	}
	for i, token := range []string{`"t"`, "7", `"7"`} {
		id := fmt.Sprint(i + 1)
		work(id, "after", `,"_meta":{"progressToken":`+token+`}`)
		for range 2 {
			if m := h.next(); m.Method != "notifications/progress" || !strings.Contains(string(m.Params), `"progressToken":`+token+`,`) {
				t.Fatalf("token %s: %s", token, m.raw)
			}
		}
		if m := h.next(); string(m.ID) != id {
			t.Fatalf("got %s", m.raw)
		}
	}
	work("10", "always", "")                            // nobody gave a token
	work("11", "token", `,"_meta":{"progressToken":1}`) // another than was given
	for range 2 {
		if m := h.next(); m.Method != "" {
			t.Fatalf("progress that nobody can place reached the host: %s", m.raw)
		}
	}
	eventually(t, "all debris is counted", func() bool { return h.s.Stats().ServerDebris == 3+4 })
}

// Progress extends the idle deadline, and never the total one.
func TestR27_ProgressAndDeadlines(t *testing.T) {
	t.Parallel()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{"steps":%d,"every_ms":100,"kind":%q},"_meta":{"progressToken":"t"}}}`
	t.Run("extends idle", func(t *testing.T) {
		t.Parallel()
		const idle = 3 * time.Second
		h := start(t, nil, "progress")
		h.hello()
		h.limits(idle, time.Hour)
		began := time.Now()
		h.send(fmt.Sprintf(call, 45, "normal"))
		if m := h.answer("1"); m.text() != "work is done" || time.Since(began) < idle {
			t.Errorf("got %s after %v", m.raw, time.Since(began))
		}
	})
	for name, limits := range map[string]struct{ idle, total time.Duration }{
		"never total":     {time.Minute, time.Second},
		"not by a stray":  {time.Second, 0},
		"idle before end": {time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil, "progress")
			h.hello()
			h.limits(limits.idle, limits.total)
			kind := "normal"
			if name != "never total" {
				kind = "token"
			}
			h.send(fmt.Sprintf(call, 100000, kind))
			if f := h.answer("1").facts(t); f.State != "cancelled_after_dispatch" {
				t.Errorf("facts %+v", f)
			}
			eventually(t, "the server is told", func() bool { return h.s.Stats().CancelsSent == 1 })
			h.limits(0, time.Hour)
			h.echo("2")
		})
	}
}

// Notifications that a restart or two servers cannot explain pass unchanged:
// unknown methods, members, number spellings.
func TestR13_BytesPassUnchanged(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "numbers", "ledger="+l)
	h.hello()
	args := `{"id":9223372036854775807,  "f":1.0,"e":1e400, "n":-0,"s":"\u00e9\/","deep":[[[{"a":[]}]]]}`
	h.send(`{"vendor":{"x":1.50}, "jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"same","arguments":` + args + `},"z":null}`)
	if m := h.answer("1"); !strings.Contains(m.raw, `"structuredContent":`+args) {
		t.Errorf("got %s", m.raw)
	}
	await(t, l, "note", func(e hostile.Event) bool { return e.Text == args })
	h.send(toolCall("2", "numbers", `{}`))
	if m := h.answer("2"); !strings.Contains(m.raw, `"exp":1e400,"small":1E-7,"zero":-0`) {
		t.Errorf("got %s", m.raw)
	}
}

// Batches exist at 2025-03-26: they go both ways as one frame.
func TestBatchPasses(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "batch", "ledger="+l)
	h.helloAs("2025-03-26", "0")
	b := `[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","method":"vendor/x","params":{"a":1.0}},{"jsonrpc":"2.0","id":"1","method":"ping"}]`
	h.send(b)
	l1 := h.nextLine()
	if l1 != `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"1","result":{}}]` {
		t.Errorf("got %s", l1)
	}
	e := await(t, l, "note", func(e hostile.Event) bool { return strings.HasPrefix(e.Text, "batch ") })
	if e.Text != "batch "+b {
		t.Errorf("the server read %s", e.Text)
	}
}

// A batch is refused whole if one of its elements may not pass.
func TestBatchRefusedWhole(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "batch", "ledger="+l)
	h.helloAs("2025-03-26", "0")
	h.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","name":"b"}},{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
	var ids []string
	for range 3 {
		m := h.next()
		if f := m.facts(t); f.Dispatched {
			t.Errorf("%s", m.raw)
		}
		ids = append(ids, string(m.ID))
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"1", "2", "3"}) {
		t.Errorf("answered %v", ids)
	}
	h.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	h.answer("4")
	for _, e := range events(t, l) {
		if strings.HasPrefix(e.Text, "batch ") {
			t.Errorf("the server read %s", e.Text)
		}
	}
}

// One element of a batch that waits is cancelled: the rest goes on without it.
func TestBatchElementCancelled(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	until := filepath.Join(t.TempDir(), "until")
	h := start(t, nil, "batch", "ledger="+l, "until="+until)
	h.helloAs("2025-03-26", "0")
	// The server stops reading at its tool "hold" until the file appears.
	h.send(toolCall("1", "hold", `{}`))
	await(t, l, "note", func(e hostile.Event) bool { return e.Text == "holds" })
	h.send(toolCall("2", "echo", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`)) // fills the pipe
	h.send(`[{"jsonrpc":"2.0","id":11,"method":"ping"},{"jsonrpc":"2.0","id":12,"method":"ping"},{"jsonrpc":"2.0","id":13,"method":"ping"}]`)
	h.send(cancel("12"))
	// The third is cancelled by a batch, together with a call that was sent.
	h.send(`[` + cancel("13") + `,` + cancel("1") + `]`)
	eventually(t, "all are cancelled", func() bool {
		st := h.s.Stats().States
		return st["cancelled_before_dispatch"] == 2 && st["cancelled_after_dispatch"] == 1
	})
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.answer("2")
	if got := h.nextLine(); got != `[{"jsonrpc":"2.0","id":11,"result":{}}]` {
		t.Errorf("got %s", got)
	}
	e := await(t, l, "note", func(e hostile.Event) bool { return strings.HasPrefix(e.Text, "batch ") })
	if e.Text != `batch [{"jsonrpc":"2.0","id":11,"method":"ping"}]` {
		t.Errorf("the server read %s", e.Text)
	}
	if n := h.s.Stats().Impossible; n != 0 {
		t.Errorf("%d impossible transitions", n)
	}
}

// A batch of the server: what the host must not see is taken out, the rest
// stays one frame.
func TestServerBatch(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "batch", "ledger="+l)
	h.helloAs("2025-03-26", "0")
	h.send(toolCall("5", "together", `{}`))
	want := `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"batched"}},` +
		`{"jsonrpc":"2.0","id":"q","method":"roots/list"},` +
		`{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"together"}]}}]`
	if got := h.nextLine(); got != want {
		t.Fatalf("got %s", got)
	}
	h.send(`[{"jsonrpc":"2.0","id":"q","result":{"roots":[]}},{"jsonrpc":"2.0","id":"nobody","result":{}}]`)
	await(t, l, "note", func(e hostile.Event) bool {
		return e.Text == `batch [{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}]`
	})
}

// Outside of 2025-03-26 an array of the server is no message, and the call it
// answers fails.
func TestServerBatchOutOfPlace(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "batch")
	h.hello()
	h.send(toolCall("5", "together", `{}`))
	if f := h.answer("5").facts(t); f.State != "failed_after_dispatch" {
		t.Errorf("facts %+v", f)
	}
	h.echo("6")
}

// Each request of a batch that is refused gets its answer, also where other
// elements are no messages or there are far too many.
func TestBatchOfAnything(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "batch")
	h.helloAs("2025-03-26", "0")
	h.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},17,{"jsonrpc":"2.0","id":2,"result":{},"error":{}},[{"jsonrpc":"2.0","id":3,"method":"ping"}]]`)
	if f := h.answer("1").facts(t); f.Dispatched {
		t.Errorf("facts %+v", f)
	}
	var many []string
	for i := range 1100 {
		many = append(many, `{"jsonrpc":"2.0","id":`+fmt.Sprint(1000+i)+`,"method":"ping"}`)
	}
	h.send("[" + strings.Join(many, ",") + "]")
	for range many {
		if f := h.next().facts(t); f.Dispatched {
			t.Fatalf("facts %+v", f)
		}
	}
	h.echo("5")
}

// Rule 8: what two readers could understand differently is not passed on, nor
// acted upon.
func TestRefusedNotifications(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "echo", "ledger="+l)
	h.hello()
	h.send(toolCall("1", "sleep", `{"ms":600000}`), toolCall("2", "sleep", `{"ms":600000}`))
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"RequestId":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed","method":"notifications/cancelled","params":{"requestId":1}}`)
	h.echo("3")
	for _, e := range events(t, l) {
		if e.What == "read" && e.Method != "notifications/initialized" && strings.HasPrefix(e.Method, "notifications/") {
			t.Errorf("the server read %+v", e)
		}
	}
	if st := h.s.Stats(); st.HostViolations != 3 || st.OpenCalls != 2 {
		t.Errorf("violations %d, open calls %d", st.HostViolations, st.OpenCalls)
	}
}
