// Package peers_test runs Penstock between MCP clients and servers that other
// people wrote, and compares what they see with what they see without it.
//
// Two kinds of test live here. The tee tests need nothing but Go and run with
// every `go test ./...`: they hold whole conversations through `penstock run`
// and compare them byte for byte. The tests behind the build tag peers install
// real clients and servers from package-lock.json (see install_test.go) and
// take minutes:
//
//	go test -tags peers ./peers/...
//
// The flag -bridge puts something else than the Penstock of this tree in the
// middle: by an absolute path another build of it, by a name of bridge_test.go
// a pipe ("copy"), to see that the tests hold, or a broken bridge, to see that
// they fail.
//
// Every process is started and ended here; what is written goes to temporary
// directories, and to node_modules and .cache beside this file.
package peers_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// roles are the programs that this test binary is when its first argument
// names one. They get the other arguments and return the exit code.
var roles = map[string]func(args []string) int{
	"tee":    tee,
	"bridge": brokenBridge,
	"replay": replay,
}

var bridgeFlag = flag.String("bridge", "", "what stands in the middle instead of this tree's penstock: a path, or a name of bridge_test.go")

// marker is the environment variable that every process started here inherits.
const marker = "PENSTOCK_PEERS_TEST"

// scratch is the directory of what is built once for all tests, set by
// TestMain before any of them starts.
var scratch string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			os.Exit(role(os.Args[2:]))
		}
	}
	// Most of a test's time is spent waiting for processes to start and end.
	// An argument of the command line still overrides this.
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-peers-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	mark := rand.Text()
	os.Setenv(marker, mark)
	// Nothing may leak in from a real home, nor out to it. The go command keeps
	// its caches there, so it runs with the environment as it was.
	goEnviron = os.Environ()
	for name, value := range map[string]string{"HOME": dir, "PENSTOCK_HOME": filepath.Join(dir, "penstock-home")} {
		os.Setenv(name, value)
	}
	code := m.Run()
	if left := leftovers(mark); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "peers: processes left running:\n%s\n", strings.Join(left, "\n"))
		code = max(code, 1)
	}
	return code
}

// goEnviron is the environment that the go command gets, set by TestMain.
var goEnviron []string

// leftovers returns the command lines of the processes that carry mark, after
// giving them time to end. Where there is no /proc it finds nothing.
func leftovers(mark string) []string {
	var left []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		left = nil
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environs {
			if path == fmt.Sprintf("/proc/%d/environ", os.Getpid()) {
				continue
			}
			if environ, err := os.ReadFile(path); err != nil || !bytes.Contains(environ, []byte(marker+"="+mark)) {
				continue
			}
			cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			if err == nil {
				left = append(left, filepath.Base(filepath.Dir(path))+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// self is the path of this test binary.
func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// through returns the command that puts what is under test in front of server.
func through(t testing.TB, server ...string) []string {
	t.Helper()
	path := *bridgeFlag
	switch {
	case path == "":
		var err error
		if path, err = buildPenstock(); err != nil {
			t.Fatal(err)
		}
	case !filepath.IsAbs(path):
		return append([]string{self(t), "bridge", path}, server...)
	}
	return append([]string{path, "run", "--content-limit", "off", "--"}, server...)
}

var buildPenstock = sync.OnceValues(func() (string, error) {
	return goBuild("github.com/penstock-dev/penstock/cmd/penstock")
})

// goBuild builds the command pkg into scratch and returns its path.
func goBuild(pkg string) (string, error) {
	path := filepath.Join(scratch, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = goEnviron
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// start runs one command that gets until the deadline of ctx. Its standard
// error becomes part of the test's output if the test fails.
func start(ctx context.Context, t testing.TB, command []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	cmd.WaitDelay = 10 * time.Second
	t.Cleanup(func() {
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("standard error of %q:\n%s", command, tail(stderr.Bytes(), 4096))
		}
	})
	return cmd
}

// tail returns the last n bytes of b.
func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
