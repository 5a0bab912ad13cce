package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// knobs are what tests set of a desk that runs in a process of its own. They
// are in a file, since a desk takes nothing from the environment.
type knobs struct {
	Quota, SessionQuota int64
	Expire, Idle, Stall time.Duration
	Log                 string
}

const knobsName = "test.json"

func (k knobs) write(t *testing.T, home string) {
	t.Helper()
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, knobsName), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMain plays a desk if it is called like one, a role of a test, or runs the
// tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "desk" {
		debug.SetMemoryLimit(40 << 20) // as the command does
		debug.SetGCPercent(50)
		if err := playDesk(os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			role(os.Args[2:])
			os.Exit(0)
		}
	}
	before := openFiles()
	code := m.Run()
	if code == 0 {
		code = leftOver(before)
	}
	os.Exit(code)
}

func playDesk(args []string) error {
	home := os.Getenv("PENSTOCK_HOME")
	cfg := Config{Home: home, Build: "test", Idle: 30 * time.Second}
	var k knobs
	if b, err := os.ReadFile(filepath.Join(home, knobsName)); err == nil {
		if err := json.Unmarshal(b, &k); err != nil {
			return err
		}
		cfg.Quota, cfg.SessionQuota, cfg.Expire, cfg.stall = k.Quota, k.SessionQuota, k.Expire, k.Stall
		if k.Idle > 0 {
			cfg.Idle = k.Idle
		}
		if k.Log != "" {
			f, err := os.OpenFile(k.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				return err
			}
			cfg.Log = slog.New(slog.NewTextHandler(f, nil))
		}
	}
	if len(args) == 2 && args[0] == "--private-fd" {
		fd, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		if err := Detach(fd); err != nil {
			return err
		}
		return ServePrivate(context.Background(), fd, cfg)
	}
	if err := Detach(); err != nil {
		return err
	}
	return Run(context.Background(), cfg, Ready(os.Stdout))
}

// leftOver reports goroutines, descriptors and child processes that outlived
// the tests.
func leftOver(files []string) int {
	var what string
	for range 1000 {
		what = ""
		buf := make([]byte, 4<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n") {
			if (strings.Contains(g, "/desk.") || strings.Contains(g, "/link.")) && !strings.Contains(g, "desk.TestMain") {
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
		time.Sleep(10 * time.Millisecond) // what has ended may need an instant to be gone
	}
	fmt.Fprint(os.Stderr, "left over after the tests:\n", what)
	return 1
}
