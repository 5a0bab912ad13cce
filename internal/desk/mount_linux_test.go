package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-dev/penstock/internal/link"
)

func init() {
	roles["session"] = playSession
	roles["stranger"] = playStranger
}

// mounted mounts something at dir until the end of the test and reports whether
// it could: only root may, and not in every container. Elsewhere the tests with
// a made-up disk in disk_test.go have to do.
func mounted(t *testing.T, dir string, args ...string) bool {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Logf("nothing can be mounted here: %v: %s", err, out)
		return false
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestFullDisk fills the disk under a put.
func TestFullDisk(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	results := filepath.Join(home, resultsFolder)
	if !mounted(t, results, "-t", "tmpfs", "-o", "size=1m", "none") {
		return
	}
	d := local(t, Config{Home: home})
	c := connect(t, d, link.Bridge, "s1")
	before := keep(t, c, text(100<<10))
	p := slowly(t, c, text(4<<20))
	wantCode(t, p.Wait(deadline(t)), link.CodeDisk, "the disk is full")
	_, err := c.Read(deadline(t), p.Handle(), args(p.Handle()))
	wantCode(t, err, link.CodeLost, "not kept: the disk is full")
	waitFor(t, "what was written is removed", func() bool { return len(files(t, home)) == 2 })
	after := keep(t, c, text(100<<10))
	for _, h := range []string{before, after} {
		if _, err := c.Read(deadline(t), h, args(h)); err != nil {
			t.Error(err)
		}
	}
}

// TestReadOnlyDisk makes the disk read-only under the desk.
func TestReadOnlyDisk(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	results := filepath.Join(home, resultsFolder)
	if !mounted(t, results, "-t", "tmpfs", "none") {
		return
	}
	d := local(t, Config{Home: home})
	c := connect(t, d, link.Bridge, "s1")
	before := keep(t, c, text(1000))
	if err := unix.Mount("none", results, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	p := c.NewPut()
	p.Write(text(1000))
	p.Commit(link.Info{})
	wantCode(t, p.Wait(deadline(t)), link.CodeDisk, "read-only")
	if _, err := c.Read(deadline(t), before, args(before)); err != nil {
		t.Error(err)
	}
	if err := unix.Mount("none", results, "tmpfs", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	keep(t, c, text(1000))
}

// frozen makes a file system in a file, mounts it at dir, and returns what
// freezes and thaws it; false if this cannot be done here. It is thawed at the end in any case, by a process of its
// own if this one does not come to it.
func frozen(t *testing.T, dir string) (freeze, thaw func(), ok bool) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Logf("no file system can be made here: %v: %s", err, out)
		return nil, nil, false
	}
	if !mounted(t, dir, "-o", "loop", image) {
		return nil, nil, false
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	const fifreeze, fithaw = 0xC0045877, 0xC0045878
	thaw = func() { unix.IoctlSetInt(int(f.Fd()), fithaw, 0) }
	guard := exec.Command("sh", "-c", `sleep 60; fsfreeze -u "$0"`, dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		thaw()
		f.Close()
		syscall.Kill(-guard.Process.Pid, syscall.SIGKILL)
		guard.Wait()
	})
	return func() {
		if err := unix.IoctlSetInt(int(f.Fd()), fifreeze, 0); err != nil {
			t.Fatalf("freeze: %v", err)
		}
	}, thaw, true
}

// TestFrozenDisk freezes the file system of the results: what is written is
// lost and says so, all the rest goes on.
func TestFrozenDisk(t *testing.T) {
	home := newHome(t, knobs{Stall: 300 * time.Millisecond})
	freeze, thaw, ok := frozen(t, filepath.Join(home, resultsFolder))
	if !ok {
		return
	}
	c := bridge(t, home, "s1")
	before := keep(t, c, text(100<<10))
	freeze()
	p := slowly(t, c, text(1<<20))
	wantCode(t, p.Wait(deadline(t)), link.CodeDisk, "did not answer for 300ms")
	if s, err := c.Status(deadline(t)); err != nil || s.Results.Lost != 1 {
		t.Errorf("status: %+v, %v", s.Results, err)
	}
	if _, err := c.Read(deadline(t), before, args(before)); err != nil {
		t.Errorf("what was kept before: %v", err)
	}
	_, err := c.Read(deadline(t), p.Handle(), args(p.Handle()))
	wantCode(t, err, link.CodeLost, "did not answer")
	thaw()
	waitFor(t, "what hung is over", func() bool {
		s, err := c.Status(deadline(t))
		return err == nil && s.Results.Writing == 0 && len(files(t, home)) == 3 // with lost+found
	})
	keep(t, c, text(1000))
}

// playSession is a bridge in a process of its own: it keeps and reads a result
// and says where the desk is.
func playSession(argv []string) {
	home := argv[0]
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := link.Dial(link.Options{
		Home: home, Session: "s1", Server: "files",
		Start:   func(ctx context.Context) error { return Start(ctx, program, home) },
		Private: func(ctx context.Context) (net.Conn, error) { return Private(ctx, program, home) },
	})
	p := c.NewPut()
	p.Write(text(100 << 10))
	p.Commit(link.Info{})
	out := sessionReport{Kept: "yes"}
	if err := p.Wait(ctx); err != nil {
		out.Kept = err.Error()
	}
	if page, err := c.Read(ctx, p.Handle(), args(p.Handle())); err != nil || len(page) < 64<<10 {
		out.Kept = fmt.Sprintf("a page of %d bytes, %v", len(page), err)
	}
	if s, err := c.Status(ctx); err == nil {
		out.Private, out.Place, out.Desk = s.Private, s.Place, s.PID
	}
	start := time.Now()
	c.Close(ctx)
	out.Closing = time.Since(start)
	json.NewEncoder(os.Stdout).Encode(out)
}

type sessionReport struct {
	Kept, Place string
	Private     bool
	Desk        int
	Closing     time.Duration
}

// runSession runs playSession and returns its report.
func runSession(t *testing.T, home string, env ...string) sessionReport {
	t.Helper()
	cmd := exec.Command(program(t), "session", home)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var r sessionReport
	if err := cmd.Run(); err != nil {
		t.Fatalf("session: %v: %s", err, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("session: %v: %s %s", err, out.String(), errs.String())
	}
	return r
}

// TestFrozenHome starts a session whose home is frozen: it gets a desk of its
// own that writes elsewhere, and it ends in time.
func TestFrozenHome(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	freeze, thaw, ok := frozen(t, home)
	if !ok {
		return
	}
	knobs{}.write(t, home)
	t.Cleanup(func() { thaw(); stopDesk(t, home) }) // the one that hung while it started
	temp := t.TempDir()
	freeze()
	r := runSession(t, home, "TMPDIR="+temp)
	if r.Kept != "yes" || !r.Private || !strings.HasPrefix(r.Place, temp) {
		t.Errorf("got %+v", r)
	}
	waitFor(t, "nothing is left over", func() bool {
		names, _ := filepath.Glob(temp + "/*")
		return len(names) == 0
	})
}

// TestPrivate starts sessions where there can be no shared desk.
func TestPrivate(t *testing.T) {
	temp := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	type private struct{ name, home, temp, place string }
	tests := []private{
		{"no home", "", temp, temp},
		{"home that cannot be", filepath.Join(file, "home"), temp, temp},
		{"nothing", filepath.Join(file, "home"), file, "memory"},
	}
	if home := filepath.Join(t.TempDir(), "home"); mounted(t, home, "-t", "tmpfs", "none") {
		if err := unix.Mount("none", home, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		tests = append(tests, private{"read-only home", home, temp, temp})
	}
	for _, tt := range tests {
		r := runSession(t, tt.home, "TMPDIR="+tt.temp)
		if r.Kept != "yes" || !r.Private || !strings.HasPrefix(r.Place, tt.place) {
			t.Errorf("%s: got %+v", tt.name, r)
		}
		waitFor(t, "its desk has ended", func() bool { return syscall.Kill(r.Desk, 0) == syscall.ESRCH })
	}
	waitFor(t, "nothing is left over", func() bool {
		names, _ := filepath.Glob(temp + "/*")
		return len(names) == 0
	})
}

// playStranger connects as another user and prints what came of it.
func playStranger(args []string) {
	nc, err := net.Dial("unix", args[0])
	if err != nil {
		fmt.Println("dial:", err)
		return
	}
	_, err = link.NewConn(nc).Greet(link.HelloHead{Who: link.Person}, true)
	fmt.Println("greet:", err)
}

// TestOtherUser lets another user reach the socket in spite of the modes of the
// folders: the desk looks who it is.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can be another user; TestSameUser of package link has to do")
		return
	}
	dir, err := os.MkdirTemp("/tmp", "penstock-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(dir, 0o755))
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(err)
	must(os.Chmod(filepath.Join(dir, "s"), 0o777))
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, Config{Home: filepath.Join(dir, "home")}) }()
	defer func() { cancel(); <-served }()

	// The test binary is in a folder that others may not enter.
	self, err := os.ReadFile(program(t))
	must(err)
	copied := filepath.Join(dir, "stranger")
	must(os.WriteFile(copied, self, 0o755))
	ask := func(uid uint32) string {
		cmd := exec.Command(copied, "stranger", filepath.Join(dir, "s"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("stranger: %v: %s", err, out)
		}
		return string(out)
	}
	if got := ask(65534); !strings.HasPrefix(got, "greet: ") || strings.Contains(got, "<nil>") {
		t.Errorf("another user: %s", got)
	}
	if got := ask(0); got != "greet: <nil>\n" {
		t.Errorf("the same user: %s", got)
	}
}

// TestDetached looks at the process that Start makes.
func TestDetached(t *testing.T) {
	home := newHome(t, knobs{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	unix.FcntlInt(w.Fd(), unix.F_SETFD, 0) // inherited by everything, as some hosts do
	t.Setenv("PENSTOCK_SESSION", "s1")
	t.Setenv("SECRET", "x")
	s, err := bridge(t, home, "s1").Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d/", s.PID)
	if sid, err := unix.Getsid(s.PID); err != nil || sid != s.PID {
		t.Errorf("session %d, %v", sid, err)
	}
	if cwd, err := os.Readlink(proc + "cwd"); err != nil || cwd != "/" {
		t.Errorf("working folder %s, %v", cwd, err)
	}
	env, err := os.ReadFile(proc + "environ")
	if err != nil || bytes.Contains(env, []byte("SECRET")) || bytes.Contains(env, []byte("PENSTOCK_SESSION")) {
		t.Errorf("environment %q, %v", env, err)
	}
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	fds, err := filepath.Glob(proc + "fd/*")
	if err != nil || len(fds) < 3 {
		t.Fatalf("files %v, %v", fds, err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		if err == nil && to == pipe {
			t.Errorf("%s is an inherited pipe", fd)
		}
		if n := filepath.Base(fd); (n == "0" || n == "1" || n == "2") && to != os.DevNull {
			t.Errorf("%s is %s", fd, to)
		}
	}
	// A process that is not dumpable has its files owned by root; as root that
	// does not show, but its core limit does.
	limits, err := os.ReadFile(proc + "limits")
	if err != nil || !bytes.Contains(limits, []byte("Max core file size        0                    0")) {
		t.Errorf("limits %s, %v", limits, err)
	}
}
