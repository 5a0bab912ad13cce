package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// modernMeta is what a request of revision 2026-07-28 carries.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func modernCall(id, name string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":{},` + modernMeta + `}}`
}

// readBy returns the methods that each process of the server read, in order.
func readBy(t *testing.T, ledger string) (perProcess [][]string) {
	t.Helper()
	last := 0
	for _, e := range events(t, ledger) {
		if e.What == "start" {
			perProcess = append(perProcess, nil)
			last = len(perProcess) - 1
		}
		if e.What == "read" && perProcess != nil {
			perProcess[last] = append(perProcess[last], e.Method)
		}
	}
	return perProcess
}

// A server that exits on server/discover, as some of the initialize era do: a
// fresh process gets initialize, which is not its second failure.
func TestR51_ExitOnDiscover(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, nil, "exits", "on=discover", "how=exit", "code=0", "ledger="+l)
	h.send(`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{` + modernMeta + `}}`)
	if m := h.answer("0"); m.Error == nil {
		t.Fatalf("discover: %s", m.raw)
	}
	h.send(initialize("1")) // at once, while the first process is being buried
	if m := h.answer("1"); m.Result == nil {
		t.Fatalf("initialize after the exit: %s", m.raw)
	}
	h.echo("2")
	if got := readBy(t, l); len(got) != 2 || got[1][0] != "initialize" {
		t.Errorf("the processes read %v", got)
	}
}

// Ten calls to a server that is not there start it once, and all are answered.
func TestR77_OneStart(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	h := start(t, nil, "restarts", "starts="+starts, "delay=100ms")
	h.hello()
	h.send(toolCall("1", "crash", `{}`))
	h.answer("1")
	for i := range 10 {
		h.send(toolCall(fmt.Sprint(100+i), "generation", `{}`))
	}
	seen := map[string]bool{}
	for range 10 {
		m := h.next()
		for m.Method != "" {
			m = h.next()
		}
		if m.Result == nil || m.Result.IsError {
			t.Errorf("a call during the restart: %s", m.raw)
		}
		seen[string(m.ID)] = true
	}
	if n := len(readLines(t, starts)); len(seen) != 10 || n != 2 {
		t.Errorf("%d of 10 calls answered by %d starts", len(seen), n)
	}
}

// What the first server was told, the second is told before all else, and none
// of its answers to that reach the host.
func TestRestartReplaysState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := filepath.Join(dir, "ledger")
	h := start(t, nil, "restarts", "starts="+filepath.Join(dir, "starts"), "ledger="+l)
	h.hello()
	sub := func(id, verb, uri string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"resources/` + verb + `","params":{"uri":"` + uri + `"}}`
	}
	h.send(`{"jsonrpc":"2.0","id":10,"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":11,"method":"logging/setLevel","params":{"level":"error"}}`,
		sub("12", "subscribe", "a://1"), sub("13", "subscribe", "a://2"), sub("14", "unsubscribe", "a://1"))
	for _, id := range []string{"10", "11", "12", "13", "14"} {
		h.answer(id)
	}
	h.send(toolCall("1", "crash", `{}`))
	h.answer("1")
	h.send(toolCall("2", "generation", `{}`))
	changed := map[string]int{}
	for {
		m := h.next()
		if m.Method != "" {
			changed[m.Method]++
			continue
		}
		if string(m.ID) != "2" {
			t.Fatalf("an answer to what was replayed reached the host: %s", m.raw)
		}
		break
	}
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if changed["notifications/"+kind+"/list_changed"] != 1 {
			t.Errorf("list_changed after the restart: %v", changed)
		}
	}
	got := readBy(t, l)
	want := []string{"initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "tools/call"}
	if len(got) != 2 || !slices.Equal(got[1], want) {
		t.Errorf("the second process read %v, want %v", got[1:], want)
	}
}

// A restarted server that is not what the session negotiated with.
func TestRestartMeetsAnotherServer(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"version", "capability", "info", "refuse", "exit"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			starts := filepath.Join(t.TempDir(), "starts")
			h := start(t, nil, "restarts", "starts="+starts, "then="+then)
			h.hello()
			h.send(toolCall("1", "crash", `{}`))
			h.answer("1")
			h.send(toolCall("2", "generation", `{}`))
			m := h.answer("2")
			n := len(readLines(t, starts))
			switch then {
			case "version":
				f := m.facts(t)
				if f.Dispatched || !f.RetrySafe || !strings.Contains(m.text(), "Restart it from the host") {
					t.Errorf("another version: %s", m.raw)
				}
				if n != 2 {
					t.Errorf("%d starts", n)
				}
			case "refuse", "exit":
				if f := m.facts(t); f.Dispatched || !strings.Contains(m.text(), "gave up") {
					t.Errorf("a server that cannot be initialized again: %s", m.raw)
				}
				if n != 1+maxFailures {
					t.Errorf("%d starts", n)
				}
				h.send(toolCall("3", "generation", `{}`))
				if f := h.answer("3").facts(t); f.Dispatched {
					t.Errorf("after the give-up: %+v", f)
				}
				if again := len(readLines(t, starts)); again != n {
					t.Errorf("%d starts after the give-up", again-n)
				}
			case "info", "capability":
				if m.Result == nil || m.Result.IsError {
					t.Fatalf("got %s", m.raw)
				}
				h.send(`{"jsonrpc":"2.0","id":3,"method":"prompts/list"}`)
				lost := h.answer("3").Error != nil
				if lost != (then == "capability") {
					t.Errorf("prompts/list is refused: %v", lost)
				}
			}
		})
	}
}

// Without restarts the session ends with its server.
func TestNoRestart(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	h := start(t, func(c *Config) { c.NoRestart = true }, "restarts", "starts="+starts)
	h.hello()
	h.send(toolCall("1", "crash", `{}`), toolCall("2", "generation", `{}`))
	if a, b := string(h.next().ID), string(h.next().ID); a+b != "12" && a+b != "21" {
		t.Errorf("answers to %s and %s", a, b)
	}
	if e := h.end(); e.Code != 3 || len(readLines(t, starts)) != 1 {
		t.Errorf("exit code %d, starts %v", e.Code, readLines(t, starts))
	}
}

// In the stateless era a subscription survives the server: it is sent again as
// it was, its second acknowledgement is swallowed, and the host hears that what
// it listens for may have changed.
func TestRestartContinuesListening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := filepath.Join(dir, "ledger")
	h := start(t, nil, "restarts", "starts="+filepath.Join(dir, "starts"), "era=modern", "ledger="+l)
	h.send(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`)
	if m := h.next(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("got %s", m.raw)
	}
	h.send(modernCall("1", "crash"))
	if f := h.answer("1").facts(t); f.State != "outcome_unknown" {
		t.Errorf("the crash: %+v", f)
	}
	m := h.next()
	if m.Method != "notifications/tools/list_changed" || !strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":"L"`) {
		t.Fatalf("after the restart came %s", m.raw)
	}
	h.send(modernCall("2", "change"))
	if m := h.next(); m.Method != "notifications/tools/list_changed" {
		t.Fatalf("a change in the second process: %s", m.raw)
	}
	if m := h.answer("2"); m.Result == nil {
		t.Fatalf("got %s", m.raw)
	}
	h.send(cancel(`"L"`))
	await(t, l, "cancelled", func(e hostile.Event) bool { return string(e.ID) == `"L"` })
	var sent []string
	for _, e := range events(t, l) {
		if e.What == "read" && e.Method == "subscriptions/listen" {
			sent = append(sent, string(e.ID))
		}
	}
	if !slices.Equal(sent, []string{`"L"`, `"L"`}) {
		t.Errorf("listens read: %v", sent)
	}
}

// A server of the stateless era that cannot stay up is given up, although
// nothing tells its restarts apart from starts that went well.
func TestGiveUpWithoutHandshake(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	h := start(t, nil, "slow-start", "starts="+starts, "era=modern")
	h.send(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`)
	h.next()
	// From now on it dies as it starts.
	if err := os.Chmod(starts, 0o400); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // whom modes do not stop
		os.Remove(starts)
		if err := os.Mkdir(starts, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.kill()
	m := h.answer(`"L"`)
	if m.Error == nil || !strings.Contains(m.Error.Message, "gave up") {
		t.Fatalf("the subscription: %s", m.raw)
	}
	if n := h.s.Stats().Starts; n > 1+maxFailures {
		t.Errorf("%d starts", n)
	}
}

// An initialize too large to keep: there is no restart, and the session says so
// by ending.
func TestRestartAfterLargeInitialize(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "restarts", "starts="+filepath.Join(t.TempDir(), "starts"))
	h.send(strings.Replace(initialize("0"), `"capabilities":{}`, `"capabilities":{"experimental":{"x":"`+strings.Repeat("x", maxSaved)+`"}}`, 1))
	h.answer("0")
	h.send(toolCall("1", "crash", `{}`))
	h.answer("1")
	if e := h.end(); e.Code != 3 {
		t.Errorf("exit code %d", e.Code)
	}
}
