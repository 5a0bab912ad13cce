package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// ceiling bounds every wait of these tests, for a slow machine; it measures
// nothing.
const ceiling = 40 * time.Second

// front is a real `penstock run` with a fixture of package hostile as its
// server, and this test as its host.
type front struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     *os.File // its stdin, our end
	out    *os.File // its stdout, our end
	lines  *bufio.Reader
	err    *safeBuffer
	ledger string
	ended  chan struct{}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// behind returns the command line of a bridge before a fixture, which writes
// ledger. Answers pass whole, and no desk is started to keep any.
func behind(ledger string, flags []string, fixture string, args ...string) []string {
	argv := append([]string{"penstock", "run", "--name", "srv", "--content-limit", "off", "--oversize", "reject"}, flags...)
	at := len(args)
	for i, a := range args {
		if a == "--" {
			at = i
			break
		}
	}
	args = append(append(append([]string{}, args[:at]...), "ledger="+ledger), args[at:]...)
	return append(append(argv, "--"), hostile.Command(fixture, args...)...)
}

// cleanEnv is the environment of a bridge in these tests.
func cleanEnv(t *testing.T, more ...string) []string {
	return append(append(os.Environ(), "PENSTOCK_HOME="+t.TempDir()), more...)
}

// startFront starts it. change, if not nil, may change the command before.
func startFront(t *testing.T, change func(*exec.Cmd), flags []string, fixture string, args ...string) *front {
	t.Helper()
	f := &front{t: t, ledger: filepath.Join(t.TempDir(), "ledger"), err: &safeBuffer{}, ended: make(chan struct{})}
	argv := behind(f.ledger, flags, fixture, args...)
	f.cmd = exec.Command(argv[0], argv[1:]...)
	f.cmd.Env = cleanEnv(t)
	f.cmd.WaitDelay = ceiling // a holder of stderr must not hang the test
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f.cmd.Stdin, f.cmd.Stdout, f.cmd.Stderr = inR, outW, f.err
	f.in, f.out, f.lines = inW, outR, bufio.NewReader(outR)
	if change != nil {
		change(f.cmd)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	go func() {
		f.cmd.Wait()
		close(f.ended)
	}()
	t.Cleanup(func() {
		f.in.Close()
		f.out.Close()
		select {
		case <-f.ended:
		case <-time.After(ceiling):
			t.Error("penstock did not end")
			f.cmd.Process.Kill()
			<-f.ended
		}
		if t.Failed() {
			t.Logf("stderr: %.4000s", f.err)
		}
	})
	return f
}

func (f *front) send(lines ...string) {
	f.t.Helper()
	for _, l := range lines {
		f.in.SetWriteDeadline(time.Now().Add(ceiling))
		if _, err := io.WriteString(f.in, l+"\n"); err != nil {
			f.t.Fatalf("writing to penstock: %v", err)
		}
	}
}

// answer reads until an answer comes, and fails if it is not that to id.
func (f *front) answer(id string) string {
	f.t.Helper()
	for {
		f.out.SetReadDeadline(time.Now().Add(ceiling))
		l, err := f.lines.ReadString('\n')
		if err != nil {
			f.t.Fatalf("reading from penstock: %v after %.200q", err, l)
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			f.t.Fatalf("a line that is not JSON: %.200q", l)
		}
		if m.Method != "" {
			continue
		}
		if string(m.ID) != id {
			f.t.Fatalf("got %.300s, want the answer to %s", l, id)
		}
		return l
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func (f *front) hello() {
	f.t.Helper()
	f.send(initialize)
	if l := f.answer("0"); !strings.Contains(l, `"result"`) {
		f.t.Fatalf("initialize: %s", l)
	}
	f.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func call(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// wait waits for the end and returns the exit status, -1 if a signal ended it.
func (f *front) wait() int {
	f.t.Helper()
	select {
	case <-f.ended:
		return f.cmd.ProcessState.ExitCode()
	case <-time.After(ceiling):
		f.t.Fatal("penstock did not end")
	}
	return -1
}

func ledger(t *testing.T, path string) []hostile.Event {
	t.Helper()
	ev, err := hostile.ReadLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// await waits until a fixture has noted what match looks for.
func (f *front) await(what string, match func(hostile.Event) bool) hostile.Event {
	f.t.Helper()
	return await(f.t, f.ledger, what, match)
}

func await(t *testing.T, path, what string, match func(hostile.Event) bool) hostile.Event {
	t.Helper()
	var found hostile.Event
	eventually(t, what, func() bool {
		for _, e := range ledger(t, path) {
			if match(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// eventually waits for what an event outside of this process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(ceiling); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
