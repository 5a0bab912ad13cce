package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOversizedFrameHasItsSize(t *testing.T) {
	p := start(t, "oversized")
	id := 0
	for _, shape := range shapes {
		for _, size := range []int{1000, 65536, 65537, 200001} {
			id++
			p.call(fmt.Sprint(id), "large", fmt.Sprintf(`{"bytes":%d,"shape":%q}`, size, shape))
			line := p.line()
			if len(line) != size {
				t.Errorf("%s: frame of %d bytes, want %d", shape, len(line), size)
			}
			var a answer
			if err := json.Unmarshal([]byte(line), &a); shape != "deep" && (err != nil || string(a.ID) != fmt.Sprint(id)) {
				t.Errorf("%s: %v, id %s", shape, err, a.ID)
			}
			if !utf8.ValidString(line) {
				t.Errorf("%s is not UTF-8", shape)
			}
			if opened := strings.Count(line, "["); shape == "deep" && (opened < size/2-100 || opened != strings.Count(line, "]")) {
				t.Errorf("deep: %d brackets", opened)
			}
		}
	}
	p.echo("100")
	p.wait()
}

func TestOversizedIDBehindTheResult(t *testing.T) {
	for place, tail := range map[string]string{"last": `},"id":5}`, "escaped": `},"\u0069d":5}`} {
		p := start(t, "oversized", "id="+place, "bytes=70000", "shape=nested")
		p.call("5", "large", "")
		line := p.line()
		if len(line) != 70000 || !strings.HasSuffix(line, tail+"\n") || !strings.Contains(line, `"id":999`) {
			t.Errorf("%d bytes that end in %q", len(line), line[len(line)-20:])
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil || string(a.ID) != "5" {
			t.Errorf("%s: %v, id %s", place, err, a.ID)
		}
	}
}

// A parent that does not read leaves the server in write: it neither ends
// the frame nor reads the cancellation. When the parent reads again all goes on.
func TestOversizedBlocksWhereNobodyReads(t *testing.T) {
	p := start(t, "oversized", "bytes=1MiB", "stall=20ms")
	p.call("1", "large", "")
	e := p.await("blocked", "stdout")
	if e.N <= 0 || e.N >= 1<<20 {
		t.Errorf("blocked after %d bytes", e.N)
	}
	p.cancel("1")
	p.call("2", "echo", `{"text":"x"}`)
	if n := p.count("read"); n != 1 {
		t.Errorf("%d messages were read by a server that is blocked", n)
	}
	if n := p.count("wrote"); n != 0 {
		t.Errorf("the frame was written in full: %s", brief(p.events()))
	}
	if line := p.line(); len(line) != 1<<20 {
		t.Errorf("frame of %d bytes", len(line))
	}
	p.answer()
	if n := p.count("read"); n != 3 {
		t.Errorf("%d messages were read in the end", n)
	}
	if !strings.Contains(p.stderrText(), "stdout backpressure observed after") {
		t.Errorf("stderr %q", p.stderrText())
	}
}

func TestOversizedEndless(t *testing.T) {
	p := start(t, "oversized", "endless=true")
	p.call("1", "large", "")
	if n, err := io.CopyN(io.Discard, p.out, 32<<20); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	p.kill()
	if rest, _ := io.ReadAll(p.out); bytes.Contains(rest, []byte("\n")) {
		t.Error("the frame ended")
	}
}

func TestOversizedStopsWhenCancelled(t *testing.T) {
	p := start(t, "oversized", "endless=true", "reader=own")
	p.call("1", "large", "")
	head := make([]byte, 1<<20)
	if _, err := io.ReadFull(p.out, head); err != nil {
		t.Fatal(err)
	}
	p.cancel("1")
	rest := p.line()
	if !json.Valid(append(head, rest...)) {
		t.Error("the frame is not well formed")
	}
	p.await("cancelled", "")
	p.echo("2")
}

func TestStderrFlood(t *testing.T) {
	p := start(t, "stderr-flood", "at=start,initialize,call,ping,eof", "bytes=100001", "exit=7")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	p.answer()
	p.echo("2")
	p.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	p.answer()
	if got := p.wait(); got != "exit status 7" {
		t.Errorf("end: %s", got)
	}
	if n := len(p.stderrText()); n != 5*100001 {
		t.Errorf("%d bytes of stderr", n)
	}
}

func TestStderrFloodShapes(t *testing.T) {
	for shape, check := range map[string]func(string) bool{
		"lines":    func(s string) bool { return strings.Count(s, "\n") > 100 },
		"unbroken": func(s string) bool { return !strings.Contains(s, "\n") },
		"invalid":  func(s string) bool { return !utf8.ValidString(s) },
		"control":  func(s string) bool { return strings.Contains(s, "\x1b[31m") },
	} {
		p := start(t, "stderr-flood", "at=start", "serve=false", "exit=3", "bytes=10000", "shape="+shape)
		if got := p.wait(); got != "exit status 3" {
			t.Errorf("%s: %s", shape, got)
		}
		if s := p.stderrText(); len(s) != 10000 || !check(s) {
			t.Errorf("%s: %d bytes, %.60q", shape, len(s), s)
		}
	}
}

func TestStderrFloodAfterTheEffect(t *testing.T) {
	effect := filepath.Join(t.TempDir(), "effect")
	p := start(t, "stderr-flood", "at=effect", "forever=true", "bytes=1000", "effect="+effect)
	p.call("1", "counter", "")
	p.await("effect", "")
	p.kill()
	if b, _ := os.ReadFile(effect); string(b) != "1\n" {
		t.Errorf("effect %q", b)
	}
	if p.count("wrote") != 0 {
		t.Error("a flood without an end ended")
	}
}

func TestNotificationFlood(t *testing.T) {
	p := start(t, "notification-flood", "count=1001", "kind=message,progress,list_changed,updated,vendor", "bytes=10")
	p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"flood","_meta":{"progressToken":7}}}`)
	kinds := map[string]int{}
	for range 1001 {
		a := p.answer()
		kinds[a.Method]++
		if a.Method == "notifications/progress" && !bytes.Contains(a.Params, []byte(`"progressToken":7,`)) {
			t.Fatalf("progress %s", a.Params)
		}
	}
	if len(kinds) != 5 || kinds["notifications/message"] != 201 {
		t.Errorf("got %v", kinds)
	}
	if a := p.answer(); string(a.ID) != "5" {
		t.Errorf("got %+v", a)
	}
	q := start(t, "notification-flood", "at=start", "count=3")
	for range 3 {
		if a := q.answer(); a.Method != "notifications/message" {
			t.Errorf("got %+v", a)
		}
	}
	q.echo("1")
}

func TestNoise(t *testing.T) {
	p := start(t, "noise", "kind=", "again=true")
	for i, sp := range spoilers() {
		id := fmt.Sprint(i + 1)
		p.call(id, "noisy", fmt.Sprintf(`{"kind":%q}`, sp.kind))
		good := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"answer amid %s"}]}}`, id, sp.kind)
		noisy := 0
		for {
			line := p.line()
			if line == good+"\n" {
				break
			}
			noisy++
			// Good answers in odd dress end their call too.
			if strings.Contains(line, good) && !sp.loses {
				break
			}
		}
		if noisy == 0 {
			t.Errorf("%s made no noise", sp.kind)
		}
	}
	p.echo("1000")
	if got, want := p.count("note"), len(spoilers()); got != want {
		t.Errorf("%d notes of noise, want %d", got, want)
	}
}

func TestNoiseBeforeTheHandshake(t *testing.T) {
	p := start(t, "noise", "kind=banner,text,bom")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	for range 36 {
		if line := p.line(); !strings.HasPrefix(line, "Browser") {
			t.Fatalf("got %q", line)
		}
	}
	for range 3 {
		if line := p.line(); line != "\n" {
			t.Fatalf("got %q", line)
		}
	}
	p.line()
	if a := p.answer(); string(a.ID) != "1" {
		t.Errorf("got %+v", a)
	}
	p.echo("2")
}

// What noise loses without again= stays lost, and the session goes on.
func TestNoiseLosesAnswers(t *testing.T) {
	p := start(t, "noise", "kind=")
	p.call("1", "noisy", `{"kind":"nan"}`)
	if line := p.line(); json.Valid([]byte(line)) || !strings.Contains(line, "NaN") {
		t.Errorf("got %q", line)
	}
	p.call("2", "noisy", `{"kind":"cut"}`)
	p.call("3", "echo", `{"text":"x"}`)
	if line := p.line(); json.Valid([]byte(line)) || strings.Count(line, "jsonrpc") != 2 {
		t.Errorf("got %q", line)
	}
	p.echo("4")
}

func TestSilent(t *testing.T) {
	p := start(t, "silent", "methods=ping,tools/list")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	p.echo("3")
	if p.count("read") != 3 {
		t.Errorf("ledger %s", brief(p.events()))
	}
}

func TestNeverReadsButTalks(t *testing.T) {
	p := start(t, "never-reads", "chatty=true")
	for range 1000 {
		if a := p.answer(); a.Method != "notifications/message" {
			t.Fatalf("got %+v", a)
		}
	}
	p.kill()
}

// The server writes before it has read the whole call: a parent that only
// writes first and reads then would stand still.
func TestReadThenBlock(t *testing.T) {
	p := start(t, "read-then-block", "stall=20ms")
	p.echo("1")
	written := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`+"\n", strings.Repeat("y", 1<<20))
		written <- err
	}()
	p.await("blocked", "stdout")
	select {
	case err := <-written:
		t.Fatalf("the call was written in full while the server was blocked: %v", err)
	default:
	}
	if a := p.answer(); a.Method != "notifications/message" {
		t.Fatalf("got %+v", a)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if a := p.answer(); string(a.ID) != "2" || len(a.text()) != 1<<20 {
		t.Errorf("got id %s with %d bytes", a.ID, len(a.text()))
	}
}

// writes remembers each write.
type writes [][]byte

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, bytes.Clone(p))
	return len(p), nil
}

func TestTrickle(t *testing.T) {
	p := start(t, "trickle")
	p.call("1", "echo", `{"text":"— 读取 🎉"}`)
	if a := p.answer(); a.text() != "— 读取 🎉" {
		t.Errorf("got %q", a.text())
	}
	// How it was cut is not to be seen through a pipe.
	f, _ := Lookup("trickle")
	var out writes
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"读"}}}` + "\n")
	if code := f.Run(t.Context(), nil, in, &out, io.Discard); code != 0 {
		t.Fatalf("status %d", code)
	}
	for _, w := range out {
		if len(w) != 1 {
			t.Errorf("a write of %d bytes", len(w))
		}
	}
}

func TestSlowStartCountsItsStarts(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	for range 2 {
		p := start(t, "slow-start", "starts="+starts, "delay=10ms")
		p.echo("1")
		p.wait()
	}
	if b, _ := os.ReadFile(starts); bytes.Count(b, []byte("\n")) != 2 {
		t.Errorf("starts file %q", b)
	}
}

func TestRestartsKnowsItsGeneration(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	for gen := 1; gen <= 2; gen++ {
		p := start(t, "restarts", "starts="+starts)
		p.call("1", "generation", "")
		if a := p.answer(); a.text() != fmt.Sprint(gen) {
			t.Errorf("generation %q, want %d", a.text(), gen)
		}
		p.call("2", "crash", "")
		if p.lines(); p.wait() != "exit status 3" {
			t.Errorf("end: %s", p.cmd.ProcessState)
		}
	}
}
