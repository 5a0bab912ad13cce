package child

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// ceiling bounds what a test waits for something that must happen. It is far
// beyond what a loaded machine needs.
const ceiling = 60 * time.Second

// roles are what this test binary can be as a child.
var roles = map[string]func(args []string){
	// echo answers each line of stdin on stdout.
	"echo": func([]string) {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			os.Stdout.WriteString(in.Text() + "\n")
		}
	},
	// exit writes a line to both streams and exits with its argument.
	"exit": func(args []string) {
		os.Stdout.WriteString("out\n")
		os.Stderr.WriteString("err\n")
		os.Exit(atoi(args[0]))
	},
}

// config returns a Config that starts this binary in a role.
func config(t *testing.T, role string, args ...string) Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Args: append([]string{exe}, args...),
		Env:  append(os.Environ(), roleEnv+"="+role),
	}
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
		t.Fatalf("waited %v for %s", ceiling, what)
	}
}

func TestEcho(t *testing.T) {
	c := config(t, "echo")
	lines := make(chan string, 1)
	c.Stdout = func(r io.Reader) {
		in := bufio.NewScanner(r)
		for in.Scan() {
			lines <- in.Text()
		}
		close(lines)
	}
	ch := start(t, c)
	io.WriteString(ch.Stdin(), "hello\n")
	if got := <-lines; got != "hello" {
		t.Errorf("got %q", got)
	}
	ch.CloseStdin()
	r := wait(t, ch)
	if r.ExitCode == nil || *r.ExitCode != 0 || r.Stdout.End != EndEOF || r.Stderr.End != EndEOF || r.Stdout.Bytes != 6 {
		t.Errorf("report %+v", r)
	}
}

func TestExitCode(t *testing.T) {
	c := config(t, "exit", "7")
	c.StdoutCapture = NewCapture(CaptureConfig{Name: "stdout", Tail: 100})
	c.StderrCapture = NewCapture(CaptureConfig{Tail: 100})
	r := wait(t, start(t, c))
	if r.ExitCode == nil || *r.ExitCode != 7 || r.Signal != "" {
		t.Errorf("exit code %v, signal %q", r.ExitCode, r.Signal)
	}
	if got := c.StdoutCapture.Since(0).Text(-1) + c.StderrCapture.Since(0).Text(-1); got != "out\nerr\n" {
		t.Errorf("captured %q", got)
	}
}

func TestNotFound(t *testing.T) {
	_, err := Start(Config{Args: []string{"no-such-command"}, Env: []string{"PATH=/usr/bin:/bin"}})
	se, ok := err.(*StartError)
	if !ok || se.ExitCode() != 127 || !strings.Contains(err.Error(), "/usr/bin:/bin") {
		t.Errorf("got %v", err)
	}
}
