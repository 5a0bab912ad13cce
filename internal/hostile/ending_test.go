//go:build unix

package hostile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func (p *proc) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// fill writes to a pipe until it takes no more, and fails if somebody reads it.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	c, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for range 1 << 10 {
		var werr error
		err := c.Write(func(fd uintptr) bool {
			_, werr = syscall.Write(int(fd), make([]byte, 4096))
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if werr == syscall.EAGAIN {
			return
		}
		if werr != nil {
			t.Fatal(werr)
		}
	}
	t.Fatal("the pipe took 4 MiB: somebody reads it")
}

func TestNeverReads(t *testing.T) {
	p := start(t, "never-reads", "after=1", "bytes=10")
	p.echo("1")
	if _, err := p.in.WriteString("0123456789"); err != nil {
		t.Fatal(err)
	}
	p.await("note", "stops reading")
	fill(t, p.in)
	if p.count("read") != 1 {
		t.Errorf("ledger %s", brief(p.events()))
	}
	p.kill()
}

// It takes not a byte more than it says, whatever is there to be read.
func TestNeverReadsAhead(t *testing.T) {
	f, _ := Lookup("never-reads")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that it does not wait for ever
	in := strings.NewReader(call1 + "\n0123456789" + strings.Repeat("x", 1000))
	if code := f.Run(ctx, []string{"after=1", "bytes=10"}, in, io.Discard, io.Discard); code != 0 || in.Len() != 1000 {
		t.Errorf("status %d, %d bytes left, want 1000", code, in.Len())
	}
}

func TestIgnoresEOF(t *testing.T) {
	p := start(t, "ignores-eof")
	p.echo("1")
	_ = p.in.Close()
	p.await("eof", "")
	p.signal(syscall.Signal(0)) // alive
	p.signal(syscall.SIGTERM)
	if got := p.wait(); got != "signal: terminated" {
		t.Errorf("end: %s", got)
	}
}

func TestIgnoresTerm(t *testing.T) {
	p := start(t, "ignores-term")
	p.echo("1")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p.signal(sig)
		p.await("signal", sig.String())
	}
	p.echo("2")
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s", got)
	}
}

func TestIgnoresBoth(t *testing.T) {
	p := start(t, "ignores-both")
	p.echo("1")
	_ = p.in.Close()
	p.await("eof", "")
	p.signal(syscall.SIGTERM)
	p.await("signal", syscall.SIGTERM.String())
	p.signal(syscall.SIGKILL)
	if got := p.wait(); got != "signal: killed" {
		t.Errorf("end: %s", got)
	}
}

func TestExits(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	for _, tc := range []struct {
		args       []string
		send       []string
		end        string
		out        int // lines on stdout
		half       bool
		effect     string
		diagnostic string
	}{
		{args: []string{"on=start", "say=ERR_MODULE_NOT_FOUND"}, end: "exit status 1", diagnostic: "ERR_MODULE_NOT_FOUND\n"},
		{args: []string{"on=initialize", "code=3"}, send: []string{initialize}, end: "exit status 3"},
		{args: []string{"on=initialize", "when=after", "code=0"}, send: []string{initialize}, end: "exit status 0", out: 1},
		{args: []string{"on=discover", "code=0"}, send: []string{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`}, end: "exit status 0"},
		{args: []string{"on=initialized"}, send: []string{initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`}, end: "exit status 1", out: 1},
		{args: []string{"on=call", "nth=2", "how=kill"}, send: []string{call1, call1}, end: "signal: killed", out: 1},
		{args: []string{"on=call", "when=effect", "how=kill"}, send: []string{call1}, end: "signal: killed", effect: "1\n"},
		{args: []string{"on=call", "when=midframe"}, send: []string{call1}, end: "exit status 1", half: true},
		{args: []string{"on=call", "when=after", "how=term"}, send: []string{call1}, end: "signal: terminated", out: 1},
		{args: []string{"on=ping"}, send: []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`}, end: "exit status 1"},
		{args: []string{"on=list"}, send: []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}, end: "exit status 1"},
		{args: []string{"on=cancelled"}, send: []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}, end: "exit status 1"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			effect := filepath.Join(t.TempDir(), "effect")
			p := start(t, "exits", append(tc.args, "effect="+effect)...)
			for _, line := range tc.send {
				// The server may be gone before it has read all.
				_, _ = io.WriteString(p.in, line+"\n")
			}
			out, err := io.ReadAll(p.out) // ends with the process, since stdin is still open
			if err != nil {
				t.Fatal(err)
			}
			if got := p.wait(); got != tc.end {
				t.Errorf("end: %q, want %q", got, tc.end)
			}
			n, left := strings.Count(string(out), "\n"), len(out)-strings.LastIndex(string(out), "\n")-1
			if n != tc.out || tc.half != (left > 0) {
				t.Errorf("stdout %q, want %d lines", out, tc.out)
			}
			if b, _ := os.ReadFile(effect); string(b) != tc.effect {
				t.Errorf("effect %q, want %q", b, tc.effect)
			}
			if tc.diagnostic != "" && p.stderrText() != tc.diagnostic {
				t.Errorf("stderr %q", p.stderrText())
			}
		})
	}
}

// glance tries to read a byte without waiting: EAGAIN means that there is
// neither a byte nor an end.
func glance(t *testing.T, f *os.File) (err error) {
	t.Helper()
	c, cerr := f.SyscallConn()
	if cerr != nil {
		t.Fatal(cerr)
	}
	cerr = c.Read(func(fd uintptr) bool {
		_, err = syscall.Read(int(fd), make([]byte, 1))
		return true
	})
	if cerr != nil {
		t.Fatal(cerr)
	}
	return err
}

const call1 = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`

func TestExitsByClosingStdoutOnly(t *testing.T) {
	p := start(t, "exits", "on=call", "how=close")
	p.send(call1)
	if rest, err := io.ReadAll(p.out); err != nil || len(rest) != 0 {
		t.Errorf("stdout gave %q, %v", rest, err)
	}
	p.send(call1)
	p.signal(syscall.Signal(0)) // alive
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s", got)
	}
	if p.count("read") != 2 {
		t.Errorf("ledger %s", brief(p.events()))
	}
}

// gone waits until no process has that pid.
func gone(t *testing.T, p *proc, pid int) {
	t.Helper()
	for syscall.Kill(pid, 0) == nil {
		if p.ctx.Err() != nil {
			t.Fatalf("%d is still there", pid)
		}
		// A zombie that nobody reaps is gone too.
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(b), ") Z ") {
			return
		}
	}
}

func TestGrandchildHoldsThePipes(t *testing.T) {
	for _, setsid := range []bool{false, true} {
		p := start(t, "grandchild", "stubborn=true", "chatty=true", fmt.Sprint("setsid=", setsid), "code=4")
		used.Store("holder", true)
		p.echo("1")
		pid := int(p.await("spawn", "holder").N)
		p.await("start", "") // of the server
		if got := p.wait(); got != "exit status 4" {
			t.Errorf("end: %s", got)
		}
		group, err := syscall.Getpgid(pid)
		if err != nil {
			t.Fatalf("the grandchild has gone: %v", err)
		}
		if own, _ := syscall.Getpgid(0); (group == own) == setsid {
			t.Errorf("setsid=%v: group %d, ours is %d", setsid, group, own)
		}
		if _, err := Await(p.ctx, p.ledger, func(e Event) bool { return e.PID == pid && e.Text == "ignores signals" }); err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
		p.await("signal", syscall.SIGTERM.String())
		// stdout has no end while the grandchild lives.
		if err := glance(t, p.stdout); err != syscall.EAGAIN {
			t.Errorf("a read of stdout: %v", err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		gone(t, p, pid)
		if !strings.Contains(p.stderrText(), "holder is still here") {
			t.Errorf("stderr %q", p.stderrText())
		}
	}
}

func TestGrandchildOnCallAndLeave(t *testing.T) {
	p := start(t, "grandchild", "spawn=call", "holds=stderr", "holder-life=1h")
	p.call("1", "spawn", "")
	var pid int
	if _, err := fmt.Sscan(p.answer().text(), &pid); err != nil {
		t.Fatal(err)
	}
	p.wait()
	if rest, err := io.ReadAll(p.out); err != nil || len(rest) > 0 { // nobody else holds stdout
		t.Errorf("stdout gave %q, %v", rest, err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	gone(t, p, pid)

	q := start(t, "grandchild", "leave=true", "holds=stdin,stdout")
	pid = int(q.await("spawn", "holder").N)
	q.signal(syscall.Signal(0))
	if err := q.cmd.Wait(); err != nil {
		t.Errorf("end: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the grandchild has gone: %v", err)
	}
	if _, err := io.ReadAll(q.out); err != nil {
		t.Error(err)
	}
}

func TestWrapper(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "inner")
	p := start(t, "wrapper", "depth=3", "server=exits", "--", "on=ping", "code=5", "ledger="+ledger)
	p.echo("1")
	if n := p.count("spawn"); n != 3 {
		t.Errorf("%d spawns, want 3", n)
	}
	p.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	p.lines()
	if got := p.wait(); got != "exit status 5" {
		t.Errorf("end: %s", got)
	}
	if e, err := Await(p.ctx, ledger, func(e Event) bool { return e.What == "exit" }); err != nil || e.N != 5 {
		t.Errorf("inner: %+v, %v", e, err)
	}
}

func TestWrapperThatGoes(t *testing.T) {
	p := start(t, "wrapper", "gone=true")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("end: %v", err)
	}
	p.echo("1") // the server behind it is still there
	_ = p.in.Close()
	p.lines()
}

func TestCancelObeying(t *testing.T) {
	p := start(t, "cancel-obeying", "progress=true")
	p.send(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}`)
	if a := p.answer(); a.Method != "notifications/progress" {
		t.Errorf("got %+v", a)
	}
	p.cancel("1") // another id
	p.echo("2")
	if p.count("cancelled") != 0 {
		t.Error(`the cancellation of 1 stopped "1"`)
	}
	p.cancel(`"1"`)
	p.await("cancelled", "")
	p.echo("3")
	p.wait()
	if rest := p.lines(); len(rest) != 1 || rest[0] != "" {
		t.Errorf("the cancelled call was answered: %q", rest)
	}
}

func TestCancelIgnoring(t *testing.T) {
	p := start(t, "cancel-ignoring", "replies=error,duplicate,unknown,late,duplicate,progress")
	p.call("3", "slow", "")
	p.echo("4")
	p.cancel("3")
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":3,"error":{"code":0,"message":"Request cancelled"}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":0,"message":"Request cancelled"}}`,
		`{"jsonrpc":"2.0","id":999,"result":{"content":[{"type":"text","text":"an answer nobody asked for"}]}}`,
		`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"late result"}]}}`,
		`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"late result"}]}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody","progress":2}}`,
	} {
		if line := p.line(); line != want+"\n" {
			t.Errorf("got  %swant %s", line, want)
		}
	}
	p.echo("5")
}

func TestCancelIgnoringSilently(t *testing.T) {
	p := start(t, "cancel-ignoring", "replies=")
	p.call("3", "slow", "")
	p.cancel("3")
	p.echo("4")
	p.await("note", "cancellation ignored")
}
