package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

func TestMain(m *testing.M) {
	hostile.Main()
	// Most of these tests wait for a limit of some seconds and use no processor.
	// A -parallel of the command line is read later and wins.
	flag.Set("test.parallel", "6")
	before := descriptors()
	code := m.Run()
	if what := leftOver(before); code == 0 && what != "" {
		fmt.Fprint(os.Stderr, "left over after the tests:\n", what)
		code = 1
	}
	os.Exit(code)
}

// patience bounds every wait of these tests. It is a ceiling for a machine
// that is ten times slower than expected, not a measure.
const patience = 2 * time.Minute

func config(args []string) Config {
	return Config{
		Name: "srv", Args: args,
		WireLimit: 8 << 20, Queues: 16 << 20, Calls: 256,
		Total: time.Hour, CancelGrace: 5 * time.Second, WedgeAfter: 30 * time.Second,
		StderrPerCall: 16 << 10, StderrProcess: 256 << 10, StderrExcerpt: 4 << 10, StderrPerMinute: 1 << 20,
		Grace: 500 * time.Millisecond,
	}
}

// host plays the host of a session over real pipes.
type host struct {
	t      *testing.T
	s      *Session
	in     *os.File // what it writes to
	out    *os.File // what it reads
	lines  *bufio.Reader
	log    *logBuffer
	stop   context.CancelFunc
	result chan Exit
	err    chan error
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start begins a session with a fixture of package hostile as its server.
func start(t *testing.T, change func(*Config), fixture string, args ...string) *host {
	t.Helper()
	c := config(hostile.Command(fixture, args...))
	if change != nil {
		change(&c)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, in: inW, out: outR, lines: bufio.NewReader(outR), log: &logBuffer{}, result: make(chan Exit, 1), err: make(chan error, 1)}
	var all *book
	if c.Recorder == nil { // every test is one of its records too
		all = &book{t: t}
		recorded(all, nil)(&c)
	}
	h.s = New(c, inR, outW, h.log)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() {
		exit, err := h.s.Run(ctx)
		h.err <- err
		h.result <- exit
	}()
	t.Cleanup(func() {
		stop()
		inW.Close()
		outR.Close()
		h.end()
		if all != nil && !t.Failed() {
			all.check(t)
		}
		if t.Failed() {
			st, _ := json.Marshal(h.s.Stats())
			t.Logf("log:\n%s\nstats: %s", h.log, st)
		}
	})
	return h
}

// end waits for the session and returns how it ended.
func (h *host) end() Exit {
	h.t.Helper()
	select {
	case e := <-h.result:
		h.result <- e
		return e
	case <-time.After(patience):
		h.t.Fatalf("the session did not end")
	}
	return Exit{}
}

func (h *host) send(lines ...string) {
	h.t.Helper()
	for _, l := range lines {
		h.in.SetWriteDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(h.in, l+"\n"); err != nil {
			h.t.Fatalf("writing to the bridge: %v", err)
		}
	}
}

type msg struct {
	raw    string
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result *struct {
		Content []struct{ Type, Text string }
		IsError bool
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
		Data    map[string]json.RawMessage
	}
}

// facts returns what an answer of the bridge says to programs.
func (m msg) facts(t *testing.T) (f struct {
	CallID, State         string
	Dispatched, RetrySafe bool
	ExitStatus            *int
	Stderr                string
}) {
	t.Helper()
	var raw json.RawMessage
	switch {
	case m.Result != nil:
		raw = m.Result.Meta["dev.penstock/call"]
	case m.Error != nil:
		raw = m.Error.Data["dev.penstock/call"]
	}
	var w struct {
		CallID     string `json:"call_id"`
		State      string `json:"state"`
		Dispatched bool   `json:"dispatched"`
		RetrySafe  bool   `json:"retry_safe"`
		ExitStatus *int   `json:"exit_status"`
		Stderr     string `json:"stderr"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatalf("no facts of ours in %.300s", m.raw)
	}
	f.CallID, f.State, f.Dispatched, f.RetrySafe, f.ExitStatus, f.Stderr = w.CallID, w.State, w.Dispatched, w.RetrySafe, w.ExitStatus, w.Stderr
	return f
}

func (m msg) text() string {
	if m.Result == nil || len(m.Result.Content) == 0 {
		return ""
	}
	return m.Result.Content[0].Text
}

// next reads the next message.
func (h *host) next() msg {
	h.t.Helper()
	h.out.SetReadDeadline(time.Now().Add(patience))
	l, err := h.lines.ReadString('\n')
	if err != nil {
		h.t.Fatalf("reading from the bridge: %v (after %.200q)", err, l)
	}
	var m msg
	if err := json.Unmarshal([]byte(l), &m); err != nil {
		h.t.Fatalf("the bridge wrote a line that is not JSON: %v: %.300q", err, l)
	}
	m.raw = strings.TrimSuffix(l, "\n")
	return m
}

// limits changes the deadlines of what is asked from now on, so that those of
// the handshake do not depend on the machine.
func (h *host) limits(idle, total time.Duration) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.c.Idle, h.s.c.Total = idle, total
	h.s.armed = false
}

// nextLine reads the next line as it is.
func (h *host) nextLine() string {
	h.t.Helper()
	h.out.SetReadDeadline(time.Now().Add(patience))
	l, err := h.lines.ReadString('\n')
	if err != nil {
		h.t.Fatalf("reading from the bridge: %v (after %.200q)", err, l)
	}
	return strings.TrimSuffix(l, "\n")
}

// kill ends the process of the server by SIGKILL, if there is one.
func (h *host) kill() {
	h.s.mu.Lock()
	g := h.s.server
	h.s.mu.Unlock()
	if g != nil {
		g.ch.Signal(os.Kill)
	}
}

// answer reads until the answer to id, and fails on any other answer.
func (h *host) answer(id string) msg {
	h.t.Helper()
	for {
		m := h.next()
		if m.Method != "" {
			continue
		}
		if string(m.ID) != id {
			h.t.Fatalf("got the answer to %s, want that to %s: %.300s", m.ID, id, m.raw)
		}
		return m
	}
}

func initialize(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
}

func toolCall(id, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}

// cancel is the host's cancellation of id.
func cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"test"}}`
}

// hello does the handshake.
func (h *host) hello() {
	h.t.Helper()
	h.send(initialize(`"hello"`))
	if m := h.answer(`"hello"`); m.Error != nil {
		h.t.Fatalf("initialize: %s", m.raw)
	}
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// echo proves that a second request is served.
func (h *host) echo(id string) {
	h.t.Helper()
	h.send(toolCall(id, "echo", `{"text":"hi"}`))
	if m := h.answer(id); m.Result == nil || m.Result.IsError {
		h.t.Fatalf("echo after the trouble: %.300s", m.raw)
	}
}

// eventually waits for a state that an event outside of this test brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
