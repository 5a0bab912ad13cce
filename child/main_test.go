package child

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roleEnv asks this test binary to play a child: its value is the name of one
// of roles.
const roleEnv = "CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	if name := os.Getenv(roleEnv); name != "" {
		role, ok := roles[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no role %q\n", name)
			os.Exit(99)
		}
		role(os.Args[1:])
		os.Exit(0)
	}
	before := openFiles()
	code := m.Run()
	if code == 0 {
		code = leftOver(before)
	}
	os.Exit(code)
}

// leftOver reports goroutines, descriptors and child processes that outlived
// the tests.
func leftOver(files []string) int {
	var what string
	// What has ended may need an instant to be gone.
	for range 1000 {
		what = ""
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n") {
			if strings.Contains(g, "/child.") && !strings.Contains(g, "child.TestMain") {
				what += "goroutine: " + g + "\n"
			}
		}
		if now := openFiles(); len(now) > len(files) {
			what += fmt.Sprintf("descriptors: %q, before %q\n", now, files)
		}
		for _, p := range childProcesses() {
			what += "process: " + p + "\n"
		}
		if what == "" {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprint(os.Stderr, "left over after the tests:\n", what)
	return 1
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
