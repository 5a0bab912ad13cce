package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ceiling ends a test that hangs; no test waits for it to pass.
const ceiling = 60 * time.Second

var used sync.Map // names of the fixtures that ran

func TestMain(m *testing.M) {
	Main()
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		for _, f := range All() {
			if _, ok := used.Load(f.Name); !ok {
				fmt.Fprintf(os.Stderr, "no test runs the fixture %q\n", f.Name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// A proc is a fixture in a process of its own, its stdin and stdout pipes,
// its stderr a file.
type proc struct {
	t      *testing.T
	ctx    context.Context
	cmd    *exec.Cmd
	in     *os.File // write end
	out    *bufio.Reader
	stdout *os.File // read end, under out
	stderr string
	ledger string
}

func start(t *testing.T, name string, args ...string) *proc {
	t.Helper()
	used.Store(name, true)
	return spawn(t, name, args...)
}

// spawn starts a fixture that is not expected to play.
func spawn(t *testing.T, name string, args ...string) *proc {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ceiling)
	dir := t.TempDir()
	p := &proc{t: t, ctx: ctx, stderr: filepath.Join(dir, "stderr"), ledger: filepath.Join(dir, "ledger")}
	args = slices.Insert(args, 0, "ledger="+p.ledger)
	argv := Command(name, args...)
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	// A binary built with -race sleeps a second before it ends, unless told not to.
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	errFile, err := os.Create(p.stderr)
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.stdout, p.out = inW, outR, bufio.NewReader(outR)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errFile
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{inR, outW, errFile} {
		_ = f.Close()
	}
	// A read that hangs ends with the deadline.
	deadline, _ := ctx.Deadline()
	_ = outR.SetReadDeadline(deadline)
	t.Cleanup(func() {
		_ = inW.Close()
		_ = outR.Close()
		cancel()
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *proc) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

func (p *proc) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("no line: %v, got %.200q, ledger %s", err, s, brief(p.events()))
	}
	return s
}

// answer is a decoded line from a server.
type answer struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result struct {
		Content []struct{ Type, Text string }
		IsError bool
		Tools   []struct {
			Name        string
			InputSchema map[string]any
		}
		ProtocolVersion   string
		ResultType        string
		SupportedVersions []string
		StructuredContent json.RawMessage
	}
	Error *struct {
		Code    int
		Message string
	}
}

func (a answer) text() string {
	if len(a.Result.Content) == 0 {
		return ""
	}
	return a.Result.Content[0].Text
}

func (p *proc) answer() answer {
	p.t.Helper()
	line := p.line()
	var a answer
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		p.t.Fatalf("%v in %.200q", err, line)
	}
	return a
}

// call sends a tools/call.
func (p *proc) call(id, tool, arguments string) {
	p.t.Helper()
	if arguments == "" {
		arguments = "{}"
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

// echo proves that the server still serves.
func (p *proc) echo(id string) {
	p.t.Helper()
	p.call(id, "echo", `{"text":"still here"}`)
	if a := p.answer(); string(a.ID) != id || a.text() != "still here" {
		p.t.Fatalf("echo: got %+v", a)
	}
}

func (p *proc) cancel(id string) {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"test"}}`, id)
}

func (p *proc) await(what, text string) Event {
	p.t.Helper()
	e, err := Await(p.ctx, p.ledger, func(e Event) bool { return e.What == what && (text == "" || e.Text == text) })
	if err != nil {
		p.t.Fatalf("event %s %s: %v", what, text, err)
	}
	return e
}

func (p *proc) events() []Event {
	p.t.Helper()
	events, err := ReadLedger(p.ledger)
	if err != nil {
		p.t.Fatal(err)
	}
	return events
}

func (p *proc) count(what string) (n int) {
	p.t.Helper()
	for _, e := range p.events() {
		if e.What == what {
			n++
		}
	}
	return n
}

// wait closes stdin and returns the exit status, or the signal as text.
func (p *proc) wait() string {
	p.t.Helper()
	_ = p.in.Close()
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	if p.ctx.Err() != nil {
		p.t.Fatalf("ended only at the ceiling, ledger %s", brief(p.events()))
	}
	return p.cmd.ProcessState.String()
}

func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *proc) stderrText() string {
	p.t.Helper()
	b, err := os.ReadFile(p.stderr)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// lines reads up to the end of stdout.
func (p *proc) lines() []string {
	p.t.Helper()
	b, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.SplitAfter(string(bytes.TrimSuffix(b, []byte("\n"))), "\n")
}

func TestEchoIsAServer(t *testing.T) {
	effect := filepath.Join(t.TempDir(), "effect")
	p := start(t, "echo", "effect="+effect)
	p.send(`{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{}}`)
	if a := p.answer(); a.Error == nil || a.Error.Code != -32601 || string(a.ID) != `"a"` {
		t.Errorf("server/discover: got %+v", a)
	}
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	if a := p.answer(); a.Result.ProtocolVersion != "2025-06-18" {
		t.Errorf("initialize: got %+v", a)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list"}`)
	a := p.answer()
	if string(a.ID) != "9007199254740993" {
		t.Errorf("id came back as %s", a.ID)
	}
	var names []string
	for _, tool := range a.Result.Tools {
		names = append(names, tool.Name)
		if tool.InputSchema["type"] != "object" {
			t.Errorf("%s: schema %v", tool.Name, tool.InputSchema)
		}
	}
	if got, want := strings.Join(names, " "), "echo sleep big fail error counter"; got != want {
		t.Errorf("tools %q, want %q", got, want)
	}
	p.echo(`"x"`)
	p.call("2", "fail", "")
	if a := p.answer(); !a.Result.IsError {
		t.Errorf("fail: got %+v", a)
	}
	p.call("3", "error", "")
	if a := p.answer(); a.Error == nil || a.Error.Code != 7001 {
		t.Errorf("error: got %+v", a)
	}
	for _, id := range []string{"4", "5"} {
		p.call(id, "counter", "")
		if a := p.answer(); a.Result.IsError {
			t.Errorf("counter: got %+v", a)
		}
	}
	if b, _ := os.ReadFile(effect); string(b) != "4\n5\n" {
		t.Errorf("effect file %q", b)
	}
	p.call("6", "sleep", `{"ms":3600000}`)
	p.await("read", "")
	p.echo("7") // beside the call that sleeps
	p.cancel("6")
	p.await("cancelled", "")
	p.send("not json")
	for _, m := range []string{"ping", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get", "logging/setLevel"} {
		p.send(`{"jsonrpc":"2.0","id":8,"method":%q}`, m)
		if a := p.answer(); a.Error != nil {
			t.Errorf("%s: got %+v", m, a.Error)
		}
	}
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s", got)
	}
	events := p.events()
	if last := events[len(events)-1]; last.What != "exit" || p.count("junk") != 1 || p.count("effect") != 2 || p.count("eof") != 1 {
		t.Errorf("ledger: %s", brief(events))
	}
}

func TestModernEra(t *testing.T) {
	p := start(t, "echo", "era=modern")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	if a := p.answer(); a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("initialize: got %+v", a)
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	p.send(`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{` + meta + `}}`)
	if a := p.answer(); a.Result.ResultType != "complete" || !slices.Equal(a.Result.SupportedVersions, []string{"2026-07-28"}) {
		t.Errorf("discover: got %+v", a)
	}
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{` + meta + `}}`)
	if line := p.line(); !strings.Contains(line, `"cacheScope":"private"`) || !strings.Contains(line, `"resultType":"complete"`) {
		t.Errorf("tools/list: got %s", line)
	}
}

func TestSubscriptions(t *testing.T) {
	p := start(t, "restarts", "era=modern", "starts="+filepath.Join(t.TempDir(), "starts"))
	p.call("1", "change", "")
	if a := p.answer(); a.text() != "changed" { // nobody listens
		t.Errorf("got %+v", a)
	}
	p.send(`{"jsonrpc":"2.0","id":"a","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`)
	const want = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"a"}}}`
	if got := p.line(); got != want+"\n" {
		t.Errorf("got %s", got)
	}
	p.call("2", "change", "")
	if a := p.answer(); a.Method != "notifications/tools/list_changed" || !strings.Contains(string(a.Params), `"io.modelcontextprotocol/subscriptionId":"a"`) {
		t.Errorf("got %+v", a)
	}
	p.answer()
	p.cancel(`"a"`)
	p.await("cancelled", "")
	p.call("3", "change", "")
	if a := p.answer(); a.text() != "changed" {
		t.Errorf("got %+v", a)
	}
	q := start(t, "restarts", "starts="+filepath.Join(t.TempDir(), "starts"))
	q.send(`{"jsonrpc":"2.0","id":"a","method":"subscriptions/listen","params":{"notifications":{}}}`)
	if a := q.answer(); a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("got %+v", a)
	}
	q.call("1", "change", "")
	if a := q.answer(); a.Method != "notifications/tools/list_changed" {
		t.Errorf("got %+v", a)
	}
}

func TestArgumentsAreStrict(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"oversized", "unknown key \"byte\"", []string{"byte=1"}},
		{"oversized", "is not a number", []string{"bytes=1MB"}},
		{"oversized", "is not a number", []string{"bytes=-1"}},
		{"oversized", "is none of", []string{"shape=round"}},
		{"oversized", "is given twice", []string{"bytes=1", "bytes=2"}},
		{"oversized", "is not key=value", []string{"bytes"}},
		{"oversized", "neither true nor false", []string{"endless=1"}},
		{"echo", "is not a duration", []string{"delay=5"}},
		{"exits", "has no answer", []string{"on=cancelled", "when=after"}},
	} {
		p := spawn(t, tc.name, tc.args...)
		if got := p.wait(); got != "exit status 2" || !strings.Contains(p.stderrText(), tc.want) {
			t.Errorf("%s %q: %s, stderr %q, want %q", tc.name, tc.args, got, p.stderrText(), tc.want)
		}
	}
}

func TestForgottenFixtureEnds(t *testing.T) {
	p := start(t, "ignores-both", "life=20ms")
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != lifeExit {
		t.Errorf("got %v", err)
	}
	p.await("life", "")
}

func TestRegistry(t *testing.T) {
	for _, f := range All() {
		if got, ok := Lookup(f.Name); !ok || got.Name != f.Name {
			t.Errorf("Lookup(%q) failed", f.Name)
		}
		if f.Summary == "" || f.Run == nil || f.Side == "" {
			t.Errorf("%q is not complete", f.Name)
		}
		seen := map[string]bool{}
		for _, k := range f.Keys {
			if seen[k.Name] || k.Meaning == "" {
				t.Errorf("%s: key %q is given twice or not explained", f.Name, k.Name)
			}
			seen[k.Name] = true
		}
		if _, _, err := parse(f.Keys, nil); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if _, ok := Lookup("none"); ok {
		t.Error("Lookup found what is not there")
	}
}
