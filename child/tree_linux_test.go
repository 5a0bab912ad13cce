package child

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	// owner owns a child that ignores all but SIGKILL, says its pid, and waits.
	roles["owner"] = func([]string) {
		exe, err := os.Executable()
		check(err)
		c := Config{Args: []string{exe, "eof", "term"}, Env: append(os.Environ(), roleEnv+"=hang")}
		line := firstLine(&c)
		ch, err := Start(c)
		check(err)
		<-line
		fmt.Println(ch.Pid())
		forever()
	}
	// reaper is a subreaper with an orphan of its own session, a child, and a
	// process of os/exec, and takes only the orphan.
	roles["reaper"] = func([]string) { check(reaperRole()) }
	// traced lets a process outside its group trace it, which keeps its exit
	// from its parent.
	roles["traced"] = func([]string) {
		// Where Yama is on, only ancestors may trace unless we let others.
		unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
		exe, err := os.Executable()
		check(err)
		cmd := exec.Command(exe, fmt.Sprint(os.Getpid()))
		cmd.Env = append(os.Environ(), roleEnv+"=tracer")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		fmt.Println(readLine(out), cmd.Process.Pid)
		forever()
	}
	roles["tracer"] = func(args []string) {
		runtime.LockOSThread()
		check(unix.PtraceSeize(atoi(args[0])))
		fmt.Println("tracing")
		forever()
	}
}

// awaitGone waits for a process that is not ours to end.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(ceiling.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			t.Fatalf("process %d still lives (%v)", pid, err)
		}
		return
	}
}

func lives(pid int) bool {
	st, err := readStat(pid)
	return err == nil && !st.dead()
}

func TestSignalEnds(t *testing.T) {
	c := config(t, "")
	c.Args = []string{"sh", "-c", "kill -ABRT $$"}
	r := wait(t, start(t, c))
	wantExit(t, r, 0, "aborted")

	c = config(t, "hang", "eof", "term")
	line := firstLine(&c)
	ch := start(t, c)
	receive(t, line)
	if err := ch.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	r = wait(t, ch)
	wantExit(t, r, 0, "killed")
	wantEnds(t, r, EndEOF, EndEOF)
	if r.Forced {
		t.Error("forced, although the ladder did nothing")
	}
}

// A process that has exited is dead, although a grandchild holds its stdout;
// what it had written before is delivered first.
func TestDeathWhilePipeIsHeld(t *testing.T) {
	const size = 50_000 // fits into the pipe, so the exit comes before the reading
	c := config(t, "burst", fmt.Sprint(size))
	c.DrainAfterDeath = time.Hour // only the empty pipe can end the draining
	c.Grace = time.Hour
	var got atomic.Int64
	begin, blocked := make(chan struct{}), make(chan struct{})
	c.Stdout = func(r io.Reader) {
		<-begin
		buf := make([]byte, 1000)
		for {
			n, err := r.Read(buf)
			if got.Add(int64(n)); err != nil {
				return
			}
			if got.Load() == 1000 {
				close(blocked)
			}
		}
	}
	ch := start(t, c)
	await(t, ch.Died(), "death by exit")
	if code, _ := ch.Status(); code == nil || *code != 0 {
		t.Errorf("status after death: %v", code)
	}
	if isClosed(ch.Drained()) {
		t.Error("drained before anything was read")
	}
	close(begin)
	await(t, blocked, "the first read")
	await(t, ch.Drained(), "drained")
	if n := got.Load(); n <= size {
		t.Errorf("%d bytes delivered before drained, want more than %d", n, size)
	}
	if isClosed(ch.Done()) {
		t.Error("done although a member of the group lives")
	}
	await(t, ch.stderr.ended, "EOF of stderr")
	ch.Stop(Ladder{Grace: time.Hour, TermNow: true})
	wantEnds(t, wait(t, ch), EndAfterCancel, EndEOF)
}

// A reader that waits for a pipe when the process exits looks whether it is
// empty.
func TestDrainedWhileReading(t *testing.T) {
	c := config(t, "family", "stdout", "stay")
	c.DrainAfterDeath, c.Grace = time.Hour, time.Hour
	line := firstLine(&c)
	ch := start(t, c)
	receive(t, line)
	ch.CloseStdin()
	await(t, ch.Drained(), "drained")
	if !isClosed(ch.Exited()) || isClosed(ch.Done()) {
		t.Error("drained, but not by the exit alone")
	}
	await(t, ch.stderr.ended, "EOF of stderr")
	ch.Stop(Ladder{Grace: time.Hour, TermNow: true})
	wantEnds(t, wait(t, ch), EndAfterCancel, EndEOF)
}

// Members of the group end with it: at once if they hold no pipe, and after
// the grace period if they do.
func TestGroupOutlivesLeader(t *testing.T) {
	for _, tt := range []struct {
		name           string
		args           []string
		grace          time.Duration
		stdout, stderr StreamEnd
		forced         bool
	}{
		{"holds nothing", nil, time.Hour, EndEOF, EndEOF, false},
		{"holds nothing, ignores TERM", []string{"term"}, 50 * time.Millisecond, EndEOF, EndEOF, true},
		{"holds stdout", []string{"stdout"}, time.Hour, EndAfterCancel, EndEOF, false},
		{"holds stderr", []string{"stderr"}, time.Hour, EndEOF, EndAfterCancel, false},
		{"holds both, ignores TERM", []string{"stdout", "stderr", "term"}, 50 * time.Millisecond, EndAfterKill, EndAfterKill, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, "family", tt.args...)
			c.Grace = tt.grace
			line := firstLine(&c)
			ch := start(t, c)
			pid := atoi(receive(t, line))
			if tt.stdout == EndAfterCancel || tt.stderr == EndAfterCancel {
				// The grace period would count for both rungs; this is the second alone.
				await(t, ch.Exited(), "the exit")
				if tt.stdout == EndEOF {
					await(t, ch.stdout.ended, "EOF of stdout")
				}
				if tt.stderr == EndEOF {
					await(t, ch.stderr.ended, "EOF of stderr")
				}
				ch.Stop(Ladder{TermNow: true})
			}
			r := wait(t, ch)
			wantExit(t, r, 0, "")
			wantEnds(t, r, tt.stdout, tt.stderr)
			if r.Forced != tt.forced {
				t.Errorf("forced %v, want %v", r.Forced, tt.forced)
			}
			if lives(pid) {
				t.Errorf("member %d of the group lives on", pid)
			}
			if len(r.Descendants) != 0 {
				t.Errorf("descendants %+v", r.Descendants)
			}
		})
	}
}

// A descendant in a session of its own is named and left, and our end of the
// pipe is closed.
func TestSessionIsLeft(t *testing.T) {
	for name, stop := range map[string]bool{"exit": false, "stop": true} {
		t.Run(name, func(t *testing.T) {
			args := []string{"session", "stdout", "stderr", "term"}
			if stop {
				args = append(args, "stubborn")
			}
			c := config(t, "family", args...)
			c.Grace = 50 * time.Millisecond
			c.DrainAfterDeath = 50 * time.Millisecond
			line := firstLine(&c)
			ch := start(t, c)
			pid := atoi(receive(t, line))
			if ds := ch.Descendants(); len(ds) != 1 || ds[0].Pid != pid {
				t.Errorf("live descendants %+v, want %d", ds, pid)
			}
			if stop {
				ch.Stop(Ladder{})
			}
			r := wait(t, ch)
			if stop {
				wantExit(t, r, 0, "killed")
			} else {
				wantExit(t, r, 0, "")
			}
			wantEnds(t, r, EndHeldLeft, EndHeldLeft)
			if r.Forced != stop {
				t.Errorf("forced %v", r.Forced)
			}
			if len(r.Descendants) != 1 {
				t.Fatalf("descendants %+v", r.Descendants)
			}
			d := r.Descendants[0]
			if d.Pid != pid || d.Session != pid || d.Killed || d.StartTime == 0 || !strings.Contains(d.Command, "child.test") {
				t.Errorf("descendant %+v, want %d", d, pid)
			}
			if !lives(pid) {
				t.Error("it was killed")
			}
			wrong := d
			wrong.StartTime++
			if err := wrong.Signal(os.Kill); err != os.ErrProcessDone {
				t.Errorf("signal to an earlier holder of the number: %v", err)
			}
			if err := d.Signal(os.Kill); err != nil {
				t.Error(err)
			}
			awaitGone(t, pid)
		})
	}
}

func TestSessionIsKilled(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		stop   bool
		end    StreamEnd
		killed bool
	}{
		{"exit, ignores TERM", []string{"term"}, false, EndHeldKilled, true},
		{"exit, obeys TERM", nil, false, EndAfterCancel, false},
		{"stop, ignores TERM", []string{"stay", "term"}, true, EndHeldKilled, true},
		{"stop, all ignore TERM", []string{"stubborn", "term"}, true, EndHeldKilled, true},
		{"stop, obeys TERM", []string{"stay"}, true, EndAfterCancel, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, "family", append(tt.args, "session", "stdout", "stderr")...)
			c.Grace = 50 * time.Millisecond
			c.KillDescendants = true
			if tt.end == EndAfterCancel {
				c.Grace = time.Hour
			}
			line := firstLine(&c)
			ch := start(t, c)
			pid := atoi(receive(t, line))
			switch {
			case tt.end == EndAfterCancel:
				// Obeying must be enough, however long it takes.
				if !tt.stop {
					await(t, ch.Exited(), "the exit")
				}
				ch.Stop(Ladder{Grace: time.Hour, TermNow: true})
			case tt.stop:
				ch.Stop(Ladder{})
			}
			r := wait(t, ch)
			wantEnds(t, r, tt.end, tt.end)
			awaitGone(t, pid)
			switch {
			case !tt.killed && len(r.Descendants) != 0:
				t.Errorf("descendants %+v", r.Descendants)
			case tt.killed && (len(r.Descendants) != 1 || r.Descendants[0].Pid != pid || !r.Descendants[0].Killed):
				t.Errorf("descendants %+v, want %d killed", r.Descendants, pid)
			}
		})
	}
}

// Shells as wrappers, without exec: the whole chain goes.
func TestWrapperChain(t *testing.T) {
	c := config(t, "")
	c.Args = []string{"sh", "-c", `sh -c "echo up; sleep 1000"; true`}
	c.Grace = 50 * time.Millisecond
	line := firstLine(&c)
	ch := start(t, c)
	receive(t, line)
	ch.Stop(Ladder{})
	r := wait(t, ch)
	if ps, err := FindMarked(c.Marker); err != nil || len(ps) != 0 {
		t.Errorf("left: %+v (%v)", ps, err)
	}
	if r.ExitCode == nil && r.Signal == "" {
		t.Errorf("no exit observed: %+v", r)
	}
}

// The death of the owner is the death of the child.
func TestOwnerKilled(t *testing.T) {
	c := config(t, "owner")
	line := firstLine(&c)
	ch := start(t, c)
	pid := atoi(receive(t, line))
	if !lives(pid) {
		t.Fatal("the owner's child does not live")
	}
	// Not the group: the child is in one of its own.
	if err := ch.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, pid)
	wantExit(t, wait(t, ch), 0, "killed")
}

// The kernel does not hand over the exit of a traced process. Wait must end
// all the same, and not invent an exit.
func TestExitIsNotObserved(t *testing.T) {
	c := config(t, "traced")
	c.Grace = time.Millisecond
	line := firstLine(&c)
	ch := start(t, c)
	said := receive(t, line)
	word, rest, _ := strings.Cut(said, " ")
	if word != "tracing" {
		t.Fatalf("the tracer said %q", said)
	}
	ch.Stop(Ladder{})
	r := wait(t, ch)
	if r.ExitCode != nil || r.Signal != "" || !r.Exited.IsZero() || !r.Forced {
		t.Errorf("report %+v", r)
	}
	if isClosed(ch.Exited()) {
		t.Error("an exit was observed after all")
	}
	if len(r.Descendants) != 1 || r.Descendants[0].Pid != atoi(rest) {
		t.Fatalf("descendants %+v, want the tracer %s", r.Descendants, rest)
	}
	if err := r.Descendants[0].Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	await(t, ch.Exited(), "the exit, now that nobody holds it back")
	if _, sig := ch.Status(); sig != "killed" {
		t.Errorf("late status: %q", sig)
	}
}

func TestReapOrphans(t *testing.T) {
	c := config(t, "reaper")
	out := NewCapture(CaptureConfig{Name: "stdout", Tail: 1000})
	errs := NewCapture(CaptureConfig{Tail: 10000})
	c.StdoutCapture, c.StderrCapture = out, errs
	r := wait(t, start(t, c))
	wantExit(t, r, 0, "")
	if got := out.Since(0).Text(-1); got != "reaped the orphan only\n" {
		t.Errorf("the subreaper said %q\n%s", got, errs.Since(0).Text(-1))
	}
}

func reaperRole() error {
	if err := BecomeSubreaper(); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	role := func(name string) []string { return append(os.Environ(), roleEnv+"="+name) }

	// A child that leaves an orphan in a session of its own.
	c := Config{Args: []string{exe, "session"}, Env: role("family"), Grace: time.Millisecond}
	line := firstLine(&c)
	family, err := Start(c)
	if err != nil {
		return err
	}
	orphan := atoi(<-line)
	family.Wait()
	st, err := readStat(orphan)
	if err != nil || st.ppid != os.Getpid() {
		return fmt.Errorf("orphan %d was not reparented: %+v %v", orphan, st, err)
	}

	// Zombies of which somebody will want the exit: of os/exec, and of a Child
	// whose end is held up by a member of its group.
	cmd := exec.Command(exe, "9")
	cmd.Env = role("exit")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	held := Config{Args: []string{exe, "stdout", "stderr"}, Env: role("family"), Grace: time.Hour}
	line = firstLine(&held)
	other, err := Start(held)
	if err != nil {
		return err
	}
	<-line
	<-other.Exited()
	if err := syscall.Kill(orphan, syscall.SIGKILL); err != nil {
		return err
	}
	for _, pid := range []int{orphan, cmd.Process.Pid, other.Pid()} {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			return fmt.Errorf("waiting for the zombie %d: %w", pid, err)
		}
	}

	n := ReapOrphans(func(pid int) bool { return pid == cmd.Process.Pid })
	if st, err := readStat(orphan); n != 1 || err == nil {
		return fmt.Errorf("reaped %d; the orphan is %+v", n, st)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 9 {
		return fmt.Errorf("the exit of os/exec was taken: %v", err)
	}
	other.Stop(Ladder{Grace: time.Millisecond})
	if r := other.Wait(); r.ExitCode == nil || *r.ExitCode != 0 {
		return fmt.Errorf("the exit of the child was taken: %+v", r)
	}
	if left := childProcesses(); len(left) != 0 {
		return fmt.Errorf("left: %q", left)
	}
	fmt.Println("reaped the orphan only")
	return nil
}

func TestPipeSize(t *testing.T) {
	c := config(t, "hang")
	c.PipeSize = 1 << 18
	ch := start(t, c)
	rc, err := ch.Stdin().SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var size int
	if cerr := rc.Control(func(fd uintptr) { size, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if size != c.PipeSize {
		t.Errorf("pipe of %d bytes, want %d", size, c.PipeSize)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 123456 1 2 3"
	want := stat{comm: "a) R 1 (b", state: 'S', ppid: 7, pgrp: 8, session: 9, threads: 3, start: 123456}
	if got, err := parseStat("42 (a) R 1 (b)" + rest); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 a)", "42 )(", "42 (a) S 1", "42 (a)" + strings.Replace(rest, "123456", "x", 1), "42 (a)" + strings.Replace(rest, " 7 ", " x ", 1)} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q parsed as %+v", bad, got)
		}
	}
}

// FindMarked finds by whole variables only.
func TestFindMarked(t *testing.T) {
	c := config(t, "hang")
	line := firstLine(&c)
	ch := start(t, c)
	receive(t, line)
	for marker, want := range map[string]int{
		c.Marker:                  1,
		c.Marker[1:]:              0,
		c.Marker + "x":            0,
		strings.ToLower(c.Marker): 0,
	} {
		ps, err := FindMarked(marker)
		if err != nil || len(ps) != want {
			t.Errorf("%q: %+v, %v; want %d", marker, ps, err, want)
		}
		if want == 1 && len(ps) == 1 && (ps[0].Pid != ch.Pid() || !bytes.HasPrefix([]byte(ps[0].Command), []byte("child.test"))) {
			t.Errorf("found %+v, want %d", ps[0], ch.Pid())
		}
	}
}
