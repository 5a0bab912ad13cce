package child

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// ceiling bounds what a test waits for something that must happen. It is far
// beyond what a loaded machine needs.
const ceiling = 60 * time.Second

// config returns a Config that starts this binary in a role.
func config(t *testing.T, role string, args ...string) Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Args: append([]string{exe}, args...),
		// The race detector would make each exit last a second.
		Env:    append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0"),
		Marker: fmt.Sprintf("CHILD_TEST_%d=%s", os.Getpid(), t.Name()),
		// Ends by itself where nobody holds a pipe, however slow the machine.
		DrainAfterDeath: ceiling,
	}
}

// firstLine makes c's stdout a channel of its first line; the rest is dropped.
func firstLine(c *Config) <-chan string {
	line := make(chan string, 1)
	c.Stdout = func(r io.Reader) {
		in := bufio.NewReader(r)
		s, _ := in.ReadString('\n')
		line <- strings.TrimSuffix(s, "\n")
		io.Copy(io.Discard, in)
	}
	return line
}

func start(t *testing.T, c Config) *Child {
	t.Helper()
	ch, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ch.Stop(Ladder{Grace: 1, TermNow: true})
		ch.Wait()
		ps, _ := FindMarked(c.Marker)
		for _, p := range ps {
			p.Signal(os.Kill)
		}
	})
	return ch
}

// wait waits for the end of a child, for as long as a test may last.
func wait(t *testing.T, c *Child) Report {
	t.Helper()
	await(t, c.Done(), "the child's end")
	return c.Wait()
}

func await(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(ceiling):
		buf := make([]byte, 1<<16)
		t.Fatalf("waited %v for %s\n%s", ceiling, what, buf[:runtime.Stack(buf, true)])
	}
}

func receive(t *testing.T, ch <-chan string) string {
	t.Helper()
	select {
	case s := <-ch:
		return s
	case <-time.After(ceiling):
		t.Fatal("nothing was written")
		return ""
	}
}

func wantExit(t *testing.T, r Report, code int, signal string) {
	t.Helper()
	switch {
	case signal != "" && (r.Signal != signal || r.ExitCode != nil):
		t.Errorf("signal %q, exit code %v; want signal %q and no code", r.Signal, r.ExitCode, signal)
	case signal == "" && (r.ExitCode == nil || *r.ExitCode != code || r.Signal != ""):
		t.Errorf("signal %q, exit code %v; want code %d", r.Signal, r.ExitCode, code)
	}
}

func wantEnds(t *testing.T, r Report, stdout, stderr StreamEnd) {
	t.Helper()
	if r.Stdout.End != stdout || r.Stderr.End != stderr {
		t.Errorf("streams ended %q and %q, want %q and %q", r.Stdout.End, r.Stderr.End, stdout, stderr)
	}
}

func TestEcho(t *testing.T) {
	c := config(t, "echo")
	lines := firstLine(&c)
	ch := start(t, c)
	io.WriteString(ch.Stdin(), "hello\n")
	if got := receive(t, lines); got != "hello" {
		t.Errorf("got %q", got)
	}
	if err := ch.CloseStdin(); err != nil {
		t.Error(err)
	}
	if err := ch.CloseStdin(); err != nil {
		t.Errorf("second CloseStdin: %v", err)
	}
	r := wait(t, ch)
	wantExit(t, r, 0, "")
	wantEnds(t, r, EndEOF, EndEOF)
	if r.Stdout.Bytes != 6 || r.Stderr.Bytes != 0 || r.Forced || r.Pid != ch.Pid() || len(r.Descendants) != 0 {
		t.Errorf("report %+v", r)
	}
	if r.Started.IsZero() || r.Exited.Before(r.Started) || r.Ended.Before(r.Exited) {
		t.Errorf("times out of order: %+v", r)
	}
	if err := ch.Signal(os.Kill); err != os.ErrProcessDone {
		t.Errorf("Signal after the end: %v", err)
	}
	ch.Stop(Ladder{}) // must do nothing
}

func TestExitCodes(t *testing.T) {
	for _, code := range []int{0, 1, 7, 255} {
		c := config(t, "exit", fmt.Sprint(code))
		c.StdoutCapture = NewCapture(CaptureConfig{Name: "stdout", Tail: 100})
		c.StderrCapture = NewCapture(CaptureConfig{Tail: 100})
		ch := start(t, c)
		r := wait(t, ch)
		wantExit(t, r, code, "")
		if got, sig := ch.Status(); got == nil || *got != code || sig != "" {
			t.Errorf("Status: %v, %q", got, sig)
		}
		if got := c.StdoutCapture.Since(0).Text(-1) + c.StderrCapture.Since(0).Text(-1); got != "out\nerr\n" {
			t.Errorf("captured %q", got)
		}
		if r.Stderr.Capture.Seen != 4 || r.Stderr.Capture.Truncated {
			t.Errorf("snapshot %+v", r.Stderr.Capture)
		}
	}
}

// A server that writes a MiB to stderr before each answer must still answer.
func TestStderrIsDrained(t *testing.T) {
	c := config(t, "chatty")
	answers := make(chan string)
	c.Stdout = func(r io.Reader) {
		for in := bufio.NewScanner(r); in.Scan(); {
			answers <- in.Text()
		}
	}
	ch := start(t, c)
	for i := range 3 {
		want := fmt.Sprint("ping ", i)
		io.WriteString(ch.Stdin(), want+"\n")
		if got := receive(t, answers); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	ch.CloseStdin()
	r := wait(t, ch)
	if want := int64(3 * 6 * (1<<20/6 + 1)); r.Stderr.Bytes != want || ch.StderrSeen() != want {
		t.Errorf("stderr %d bytes, want %d", r.Stderr.Bytes, want)
	}
}

// A flood is read to its end, and retained flat.
func TestFlood(t *testing.T) {
	const size, head, tail = 64 << 20, 2048, 14336
	b := NewBudget(head + tail)
	c := config(t, "flood", fmt.Sprint(size))
	c.StderrCapture = NewCapture(CaptureConfig{Head: head, Tail: tail, Budget: b})
	defer c.StderrCapture.Close()
	c.OnStderr = func(p []byte) {
		if n := b.Retained(); n > head+tail {
			t.Errorf("retained %d bytes", n)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := wait(t, start(t, c))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("allocated %d bytes for a flood of %d", got, size)
	}
	wantExit(t, r, 3, "")
	wantEnds(t, r, EndEOF, EndEOF)

	h := sha256.New()
	io.Copy(h, &pattern{at: head, left: size - head - tail})
	want := Snapshot{
		Seen: size, HeadKept: head, TailKept: tail, Truncated: true,
		LetGo: hex.EncodeToString(h.Sum(nil)), Retain: RetainHeadAndTail,
	}
	if r.Stderr.Capture != want || r.Stderr.Bytes != size {
		t.Errorf("snapshot %+v\nwant %+v", r.Stderr.Capture, want)
	}
	e := c.StderrCapture.Since(0)
	first, _ := io.ReadAll(&pattern{left: head})
	last, _ := io.ReadAll(&pattern{at: size - tail, left: tail})
	if !bytes.Equal(e.Head, first) || !bytes.Equal(e.Tail, last) {
		t.Error("head or tail is not that of the stream")
	}
	if want := "[stderr truncated: kept first 2048 and last 14336 of 67108864 bytes]\n"; !strings.HasPrefix(e.Text(-1), want) {
		t.Errorf("text begins %q", e.Text(-1)[:100])
	}
}

func TestStopIgnoresEOF(t *testing.T) {
	c := config(t, "hang", "eof")
	c.Grace = 2 * time.Second // time enough to die of SIGTERM
	ready := firstLine(&c)
	ch := start(t, c)
	receive(t, ready)
	ch.Stop(Ladder{})
	r := wait(t, ch)
	wantExit(t, r, 0, "terminated")
	wantEnds(t, r, EndAfterCancel, EndAfterCancel)
	if r.Forced {
		t.Error("forced, although SIGTERM was enough")
	}
}

func TestStopIgnoresAll(t *testing.T) {
	c := config(t, "hang", "eof", "term")
	c.Grace = 50 * time.Millisecond
	ready := firstLine(&c)
	ch := start(t, c)
	receive(t, ready)
	asked := time.Now()
	ch.Stop(Ladder{})
	r := wait(t, ch)
	wantExit(t, r, 0, "killed")
	wantEnds(t, r, EndAfterKill, EndAfterKill)
	if !r.Forced {
		t.Error("not forced")
	}
	if d := r.Exited.Sub(asked); d < 2*c.Grace {
		t.Errorf("killed after %v: a rung was left out", d)
	}
}

func TestStopObeysEOF(t *testing.T) {
	c := config(t, "hang")
	c.Grace = ceiling
	ready := firstLine(&c)
	ch := start(t, c)
	receive(t, ready)
	ch.Stop(Ladder{})
	r := wait(t, ch)
	wantExit(t, r, 0, "")
	wantEnds(t, r, EndAfterCancel, EndAfterCancel)
}

// A later Stop shortens the ladder and never lengthens it.
func TestStopFaster(t *testing.T) {
	for name, ladders := range map[string][]Ladder{
		"shorter":     {{Grace: time.Hour}, {Grace: time.Millisecond}},
		"not longer":  {{Grace: time.Millisecond}, {Grace: time.Hour}},
		"term sooner": {{Grace: time.Hour}, {Grace: time.Millisecond, TermNow: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, "hang", "eof", "term")
			c.Grace = time.Hour
			ready := firstLine(&c)
			ch := start(t, c)
			receive(t, ready)
			for _, l := range ladders {
				ch.Stop(l)
			}
			wantExit(t, wait(t, ch), 0, "killed")
		})
	}
}

// TermNow does not wait for the first rung.
func TestTermNow(t *testing.T) {
	c := config(t, "hang", "eof")
	c.Grace = time.Millisecond // which Stop's own overrides
	ready := firstLine(&c)
	ch := start(t, c)
	receive(t, ready)
	ch.Stop(Ladder{Grace: time.Hour, TermNow: true})
	wantExit(t, wait(t, ch), 0, "terminated")
}

// EOF of stdout is death, although the process lives.
func TestDeathByEOF(t *testing.T) {
	ch := start(t, config(t, "mute"))
	await(t, ch.Died(), "death by EOF")
	await(t, ch.Drained(), "drained")
	if isClosed(ch.Exited()) || isClosed(ch.Done()) {
		t.Error("the process has ended, too")
	}
	ch.CloseStdin()
	wantEnds(t, wait(t, ch), EndEOF, EndEOF)
}

// A Stdout function that returns early does not block the child.
func TestStdoutFunctionReturnsEarly(t *testing.T) {
	c := config(t, "echo")
	c.Stdout = func(io.Reader) {}
	ch := start(t, c)
	line := strings.Repeat("x", 1023) + "\n"
	for range 1024 {
		if _, err := io.WriteString(ch.Stdin(), line); err != nil {
			t.Fatal(err)
		}
	}
	ch.CloseStdin()
	if r := wait(t, ch); r.Stdout.Bytes != 1<<20 || ch.StdoutSeen() != 1<<20 {
		t.Errorf("%d bytes of stdout, want %d", r.Stdout.Bytes, 1<<20)
	}
}

// A write to a child that does not read ends by its deadline, or by CloseStdin.
func TestStdinDoesNotBlockForEver(t *testing.T) {
	c := config(t, "partial")
	c.PipeSize = 1 << 16
	ch := start(t, c)
	big := make([]byte, 4<<20)
	ch.Stdin().SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := ch.Stdin().Write(big); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write with a deadline: %v", err)
	}
	ch.Stdin().SetWriteDeadline(time.Time{})
	wrote := make(chan string)
	go func() {
		_, err := ch.Stdin().Write(big)
		wrote <- fmt.Sprint(errors.Is(err, os.ErrClosed))
	}()
	ch.CloseStdin()
	if receive(t, wrote) != "true" {
		t.Error("a write did not end by CloseStdin")
	}
}

// Many at once share one budget and never exceed it.
func TestConcurrentChildren(t *testing.T) {
	const children, size, limit = 12, 2 << 20, 50_000
	b := NewBudget(limit)
	var wg sync.WaitGroup
	reports := make([]Report, children)
	for i := range children {
		c := config(t, "flood", fmt.Sprint(size))
		c.StderrCapture = NewCapture(CaptureConfig{Tail: 16384, Budget: b})
		c.OnStderr = func([]byte) {
			if n := b.Retained(); n > limit {
				t.Errorf("retained %d bytes of %d", n, limit)
			}
		}
		ch := start(t, c)
		wg.Go(func() {
			reports[i] = wait(t, ch)
			c.StderrCapture.Close()
		})
	}
	wg.Wait()
	for _, r := range reports {
		wantExit(t, r, 3, "")
		if r.Stderr.Bytes != size || r.Stderr.Capture.Seen != size || !r.Stderr.Capture.Truncated {
			t.Errorf("stderr %+v", r.Stderr)
		}
	}
	if n := b.Retained(); n != 0 {
		t.Errorf("%d bytes retained after all were closed", n)
	}
}

func TestBadMarker(t *testing.T) {
	if _, err := Start(Config{Args: []string{"x"}, Marker: "nonsense"}); err == nil || !strings.Contains(err.Error(), "marker") {
		t.Errorf("got %v", err)
	}
}
