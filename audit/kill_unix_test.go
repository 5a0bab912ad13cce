//go:build unix

package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func init() { roles["victim"] = victim }

// victim writes a few calls and kills itself at a given operation of the disk:
// before it or, for a write, in the middle of it. It prints what was
// acknowledged.
func victim(args []string) {
	dir, recipients := args[0], args[1]
	at, _ := strconv.Atoi(args[2])
	half := args[3] == "half"
	check := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(3)
		}
	}
	r, err := ParseRecipients(recipients)
	check(err)
	var n atomic.Int64
	root, err := os.OpenRoot(dir)
	check(err)
	disk := &hookDisk{osDisk: osDisk{root}}
	disk.hook = func(op, name string, p []byte) error {
		if half && op != "write" || int(n.Add(1)) != at {
			return nil
		}
		if half {
			f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			check(err)
			f.Write(p[:len(p)/2])
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	ctx := context.Background()
	w, err := Open(ctx, Config{Dir: dir, Recipients: r, Disk: disk, Deadline: ceiling, SegmentBytes: 2500, SyncAfter: time.Millisecond})
	check(err)
	for i := range 4 {
		for _, level := range []Level{Written, Durable} {
			name := fmt.Sprintf("c%d.%d", i, level)
			in, err := w.Intent(intentBody(name), level)
			check(err)
			_, err = in.Wait(ctx)
			check(err)
			fmt.Println("ack", name)
			check(in.Terminal(outcomeBody(name)))
		}
	}
	check(w.Close(ctx))
	fmt.Println("closed")
}

// runVictim starts a victim, waits for its end, and returns what it said.
func runVictim(t *testing.T, l *testLog, at int, mode string) (out string, killed bool) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	must(t, os.MkdirAll(l.dir, 0o700))
	cmd := exec.Command(exe, l.dir, l.recipients.Strings()[0], strconv.Itoa(at), mode)
	cmd.Env = append(os.Environ(), roleEnv+"=victim")
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return b.String(), true
	}
	if err != nil {
		t.Fatalf("victim: %v\n%s", err, b.String())
	}
	return b.String(), false
}

// killedAt kills a writer at one operation and judges what it left.
func killedAt(t *testing.T, at int, mode string) (killed bool) {
	l := newTestLog(t)
	out, killed := runVictim(t, l, at, mode)
	if !killed {
		l.want(Unanchored, "1 closed")
		return false
	}
	if strands, _ := filepath.Glob(filepath.Join(l.dir, nameStrands, "*")); len(strands) == 0 {
		t.Fatalf("killed at %d before anything began", at)
	}
	before, err := Verify(context.Background(), l.dir, VerifyOptions{Identities: l.ids, Classify: classify})
	if errors.Is(err, ErrNoLog) {
		return true // not even opened
	}
	must(t, err)
	if before.Verdict == Failed {
		wantVerdict(t, before, Incomplete, "")
	}
	s := l.spine()
	_, err = s.Sweep(context.Background())
	must(t, err)
	if again, err := s.Sweep(context.Background()); err != nil || len(again) != 0 {
		t.Errorf("the second sweep found %v, %v", again, err)
	}
	if _, err := os.Stat(filepath.Join(l.dir, nameCheckpoint)); err != nil {
		return true
	}
	l.want2(t, out)
	segs, _ := filepath.Glob(filepath.Join(l.dir, nameStrands, "*", "*.seg"))
	for _, seg := range segs {
		st, err := os.Stat(seg)
		must(t, err)
		// What a strand that was never opened kept is small change.
		if n := st.Sys().(*syscall.Stat_t).Blocks * 512; n > 1<<20 && st.Size() > 0 && len(segs) > 0 && before.Strands > 0 {
			t.Errorf("%s still keeps %d bytes of the disk", seg, n)
		}
	}
	return true
}

// want2 checks a swept log against what its writer had said.
func (l *testLog) want2(t *testing.T, out string) {
	t.Helper()
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.Classify = nil }), Unanchored, "")
	after := l.verify(nil)
	if after.Verdict != Unanchored && !(after.Verdict == Incomplete && after.Calls.Unknown > 0) {
		wantVerdict(t, after, Unanchored, "")
	}
	have := strings.Join(l.bodies(), "\n")
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "ack "); ok && !strings.Contains(have, string(intentBody(name))) {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
}

func TestKillAtEveryPoint(t *testing.T) {
	for _, mode := range []string{"before", "half"} {
		step := 3
		if thorough {
			step = 1
		}
		n := 0
		for at := 1; killedAt(t, at, mode); at += step {
			n++
		}
		t.Logf("%s: %d kills", mode, n)
		if n < 5 {
			t.Errorf("%d kills: the victim did too little", n)
		}
	}
}
