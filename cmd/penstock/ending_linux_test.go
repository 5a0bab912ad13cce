package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(stat, ')')
	return i > 0 && !bytes.ContainsAny(stat[i+2:i+3], "ZX")
}

// family returns the processes that the fixtures of a ledger were.
func family(t *testing.T, path string) (pids []int) {
	seen := map[int]bool{}
	for _, e := range ledger(t, path) {
		if pid := e.PID; !seen[pid] {
			seen[pid] = true
			pids = append(pids, pid)
		}
		if pid := int(e.N); e.What == "spawn" && !seen[pid] {
			seen[pid] = true
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until none of the family lives, except those of spared.
func gone(t *testing.T, path string, spared ...int) {
	t.Helper()
	eventually(t, "all processes of the server are gone", func() bool {
		for _, pid := range family(t, path) {
			if alive(pid) && !(len(spared) > 0 && spared[0] == pid) {
				return false
			}
		}
		return true
	})
}

// endings are the ways in which a session ends from outside.
var endings = map[string]func(*front){
	"host EOF":    func(f *front) { f.in.Close() },
	"host gone":   func(f *front) { f.in.Close(); f.out.Close() },
	"stdout gone": func(f *front) { f.out.Close(); f.in.WriteString(call(99, "echo", `{"text":"x"}`) + "\n") },
	"SIGTERM":     func(f *front) { f.cmd.Process.Signal(syscall.SIGTERM) },
	"SIGINT":      func(f *front) { f.cmd.Process.Signal(syscall.SIGINT) },
}

// After every ending no process of the server's group is left, whatever the
// server makes of it.
func TestR33_R35_NothingIsLeft(t *testing.T) {
	t.Parallel()
	servers := map[string][]string{
		"echo":         {"echo"},
		"ignores EOF":  {"ignores-eof"},
		"ignores TERM": {"ignores-term"},
		"ignores both": {"ignores-both"},
		"wrapped":      {"wrapper", "depth=2", "server=ignores-both"},
		"grandchild":   {"grandchild", "stubborn=true", "holds=stdin,stdout,stderr"},
		"floods":       {"stderr-flood", "at=eof", "forever=true"},
	}
	for ending, end := range endings {
		for name, args := range servers {
			t.Run(ending+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := startFront(t, nil, nil, args[0], args[1:]...)
				f.hello()
				f.send(call(1, "echo", `{"text":"x"}`))
				f.answer("1")
				end(f)
				began := time.Now()
				f.wait()
				gone(t, f.ledger)
				t.Logf("ended within %v", time.Since(began).Round(time.Millisecond))
			})
		}
	}
}

// SIGKILL leaves no time to clean up: the death of the parent and the ends of
// the pipes must reach the server.
func TestR33_PenstockKilled(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"echo":         {"echo"},
		"ignores both": {"ignores-both"},
		"wrapped":      {"wrapper", "depth=2", "server=echo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFront(t, nil, nil, args[0], args[1:]...)
			f.hello()
			f.cmd.Process.Kill()
			gone(t, f.ledger)
		})
	}
}

// The wrapper goes first: its process was the server, so the server has died,
// and what it left of its group is ended.
func TestR33_WrapperGoneFirst(t *testing.T) {
	t.Parallel()
	f := startFront(t, nil, nil, "wrapper", "depth=2", "gone=true", "server=ignores-both")
	f.send(initialize)
	f.answer("0") // the inner server's, if it was quick, else a failure
	f.in.Close()
	f.wait()
	f.await("the inner server ran", func(e hostile.Event) bool { return e.Fixture == "wrapper" && e.What == "spawn" })
	gone(t, f.ledger)
}

// A descendant with a session of its own is named; it lives on, unless the
// settings say that it must not.
func TestR33_OwnSession(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"report", "kill"} {
		for ending, end := range endings {
			t.Run(policy+"/"+ending, func(t *testing.T) {
				t.Parallel()
				f := startFront(t, func(cmd *exec.Cmd) {
					cmd.Env = append(cmd.Env, "PENSTOCK_DESCENDANTS="+policy)
				}, nil, "grandchild", "setsid=true", "stubborn=true", "holds=stdin,stdout,stderr")
				f.hello()
				holder := f.await("the holder ignores signals", func(e hostile.Event) bool {
					return e.Fixture == "holder" && e.Text == "ignores signals"
				}).PID
				end(f)
				f.wait()
				if policy == "kill" {
					gone(t, f.ledger)
					return
				}
				gone(t, f.ledger, holder)
				if !alive(holder) {
					t.Error("the descendant was killed, which nothing had allowed")
				}
				syscall.Kill(holder, syscall.SIGKILL)
				if !strings.Contains(f.err.String(), fmt.Sprintf("process %d ", holder)) {
					t.Errorf("process %d is not named", holder)
				}
			})
		}
	}
}

// A host that kills itself, with everything that it had open.
func TestHostKilled(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "exit", "close-stdin", "close-stdout"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			hl, sl := filepath.Join(dir, "host"), filepath.Join(dir, "server")
			argv := append(hostile.Command("vanishing-host", "ledger="+hl, "how="+how, "tool=big", `arguments={"bytes":4194304}`, "after=1000", "--"),
				behind(sl, nil, "ignores-both")...)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = cleanEnv(t)
			cmd.Run()
			gone(t, hl) // the bridge too
			gone(t, sl)
		})
	}
}

// The exit status is the server's.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"exits", "on=call", "code=7"}, 7},
		{[]string{"exits", "on=call", "how=kill"}, 128 + 9},
		{[]string{"exits", "on=call", "how=term"}, 128 + 15},
		{[]string{"exits", "on=initialize", "code=5"}, 5},
		{[]string{"exits", "on=start", "code=6"}, 6},
		{[]string{"grandchild", "spawn=call", "code=9"}, 9},
		{[]string{"echo"}, 0},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			f := startFront(t, nil, []string{"--no-restart"}, c.args[0], c.args[1:]...)
			if on := strings.Join(c.args, " "); strings.Contains(on, "on=start") || strings.Contains(on, "on=initialize") {
				f.send(initialize)
				f.answer("0")
			} else {
				f.hello()
				f.send(call(1, "echo", `{"text":"x"}`))
				f.answer("1")
			}
			f.in.Close()
			if got := f.wait(); got != c.want {
				t.Errorf("exit status %d, want %d", got, c.want)
			}
			gone(t, f.ledger)
		})
	}
}

// Signals that do not ask to end go to the server, whose end they may be.
func TestSignalsPassedOn(t *testing.T) {
	t.Parallel()
	f := startFront(t, nil, nil, "ignores-term")
	f.hello()
	f.cmd.Process.Signal(syscall.SIGHUP)
	f.await("SIGHUP came", func(e hostile.Event) bool { return e.What == "signal" && e.Text == "hangup" })
	f.cmd.Process.Signal(syscall.SIGQUIT)
	f.await("SIGQUIT came", func(e hostile.Event) bool { return e.What == "signal" && e.Text == "quit" })
	f.send(call(1, "echo", `{"text":"x"}`))
	f.answer("1")
}

// A server that ends at a signal of its own choice.
func TestUSR2PassedOn(t *testing.T) {
	t.Parallel()
	f := startFront(t, func(cmd *exec.Cmd) {
		cmd.Args = []string{"penstock", "run", "--no-restart", "--", "sh", "-c", `trap 'exit 42' USR2; echo ready >&2; while :; do sleep 0.01; done`}
	}, nil, "echo")
	eventually(t, "the server is ready", func() bool { return strings.Contains(f.err.String(), "ready") })
	f.cmd.Process.Signal(syscall.SIGUSR2)
	eventually(t, "the server ended", func() bool { return strings.Contains(f.err.String(), "exit status 42") })
	f.in.Close()
	if code := f.wait(); code != 42 {
		t.Errorf("exit status %d", code)
	}
}

// Counters come on stderr at SIGUSR1, and on a descriptor at the end.
func TestStats(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := startFront(t, func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{w} }, []string{"--stats-fd", "3"}, "echo")
	w.Close()
	f.hello()
	f.send(call(1, "echo", `{"text":"x"}`))
	f.answer("1")
	type counts struct {
		Calls    int `json:"calls"`
		LastExit *int
		Stdout   struct {
			Bytes, Frames int
		} `json:"server_stdout"`
		ServerExits []struct {
			ExitStatus *int `json:"exit_status"`
		} `json:"server_exits"`
	}
	f.cmd.Process.Signal(syscall.SIGUSR1)
	eventually(t, "counters on stderr", func() bool {
		for line := range strings.Lines(f.err.String()) {
			var c counts
			if json.Unmarshal([]byte(line), &c) == nil && c.Calls == 2 && c.Stdout.Frames == 2 {
				return true
			}
		}
		return false
	})
	f.in.Close()
	f.wait()
	var c counts
	if err := json.NewDecoder(r).Decode(&c); err != nil || c.Calls != 2 || len(c.ServerExits) != 1 || c.ServerExits[0].ExitStatus == nil {
		t.Errorf("%v, %+v", err, c)
	}
}

// Nobody reads our stderr, and somebody asks for counters there: neither the
// session nor its end waits for that.
func TestStderrStalls(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := startFront(t, func(cmd *exec.Cmd) { cmd.Stderr = w }, nil, "stderr-flood", "at=call", "bytes=4MiB")
	w.Close()
	f.hello()
	for i := range 4 {
		f.send(call(1+i, "echo", `{"text":"x"}`))
		f.answer(fmt.Sprint(1 + i))
		f.cmd.Process.Signal(syscall.SIGUSR1)
	}
	f.cmd.Process.Signal(syscall.SIGTERM)
	f.wait()
	gone(t, f.ledger)
}

// stdin and stdout as hosts of many kinds give them.
func TestStdioKinds(t *testing.T) {
	t.Parallel()
	conversation := initialize + "\n"
	// A server that is there at once, however slow the machine: after the end of
	// stdin it has no more than its grace. It sends everything back.
	const echoed = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"from a file"}}` + "\n"
	mirror := func(cmd *exec.Cmd) { cmd.Args = []string{"penstock", "run", "--", "cat"} }
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
		if err := os.WriteFile(in, []byte(echoed), 0o600); err != nil {
			t.Fatal(err)
		}
		stdin, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		f := startFront(t, func(cmd *exec.Cmd) { mirror(cmd); cmd.Stdin, cmd.Stdout = stdin, stdout }, nil, "echo")
		stdin.Close()
		stdout.Close()
		if code := f.wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		got, _ := os.ReadFile(out)
		if string(got) != echoed {
			t.Errorf("stdout: %s", got)
		}
	})
	t.Run("no stdin", func(t *testing.T) {
		t.Parallel()
		f := startFront(t, func(cmd *exec.Cmd) { mirror(cmd); cmd.Stdin = nil }, nil, "echo")
		if code := f.wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
	})
	for name, closed := range map[string]string{"closed stdin": "0<&-", "closed stdout": "1>&-", "closed stderr": "2>&-", "all closed": "0<&- 1>&- 2>&-"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh, err := exec.LookPath("sh")
			if err != nil {
				t.Fatal(err)
			}
			f := startFront(t, func(cmd *exec.Cmd) {
				cmd.Args = append([]string{"sh", "-c", `exec "$@" ` + closed, "sh"}, cmd.Args...)
				cmd.Path, cmd.Err = sh, nil
			}, nil, "ignores-eof")
			if !strings.Contains(closed, "0<&-") { // else the session may end before the server begins
				f.in.WriteString(conversation)
				f.await("the server read it", func(e hostile.Event) bool { return e.What == "start" || e.Method == "initialize" })
				f.in.Close()
			}
			f.wait()
			gone(t, f.ledger)
		})
	}
	t.Run("socket pairs", func(t *testing.T) {
		t.Parallel()
		pair := func() (ours, theirs *os.File) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			unix.SetNonblock(fds[0], true)
			return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
		}
		in, inT := pair()
		out, outT := pair()
		f := startFront(t, func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout = inT, outT }, nil, "echo")
		inT.Close()
		outT.Close()
		f.in.Close()
		f.out.Close()
		f.in, f.out = in, out
		f.lines.Reset(out)
		f.hello()
		f.send(call(1, "big", `{"bytes":4194304}`))
		if l := f.answer("1"); len(l) != 4<<20 {
			t.Errorf("%d bytes", len(l))
		}
		in.Close()
		if code := f.wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		gone(t, f.ledger)
	})
	t.Run("terminal", func(t *testing.T) {
		t.Parallel()
		ours, theirs := openPTY(t)
		f := startFront(t, func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.Stdout = theirs, theirs
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		}, nil, "ignores-eof")
		theirs.Close()
		f.in.Close()
		f.out.Close()
		f.in, f.out = ours, ours
		f.lines.Reset(ours)
		f.hello()
		// What it writes is more than a terminal takes, and nobody reads it.
		f.send(call(1, "big", `{"bytes":1048576}`))
		f.await("the answer was written", func(e hostile.Event) bool { return e.What == "wrote" && string(e.ID) == "1" })
		f.cmd.Process.Signal(syscall.SIGTERM)
		f.wait()
		gone(t, f.ledger)
	})
}

// openPTY returns the two ends of a terminal in raw mode.
func openPTY(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Fatal("no terminals here: /dev/ptmx is missing")
	} else if err != nil {
		t.Fatal(err)
	}
	c, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	c.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	tio, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	tio.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	tio.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, tio); err != nil {
		t.Fatal(err)
	}
	return ours, os.NewFile(uintptr(fd), "pts")
}
