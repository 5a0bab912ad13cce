//go:build soak

package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Real disks: small ones that are filled to the last block, and a frozen one.
// They are mounted in a mount namespace of the child's own, which takes them
// along when it ends. Needs root, mkfs.ext4 and fsfreeze.

func init() {
	roles["disk"] = func(args []string) {
		t := &diskTest{kind: args[0], dir: args[1]}
		if err := t.run(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ok", t.said)
	}
}

func TestRealDisks(t *testing.T) {
	for _, kind := range []string{"full tmpfs", "full ext4", "frozen ext4"} {
		t.Run(kind, func(t *testing.T) {
			exe, err := os.Executable()
			must(t, err)
			cmd := exec.Command(exe, kind, t.TempDir())
			cmd.Env = append(os.Environ(), roleEnv+"=disk")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			must(t, err)
		})
	}
}

type diskTest struct {
	kind, dir string
	said      string
}

func command(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (d *diskTest) run() error {
	if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		return err
	}
	how, fs, _ := strings.Cut(d.kind, " ")
	at := filepath.Join(d.dir, "disk")
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	if fs == "tmpfs" {
		if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=24m"); err != nil {
			return err
		}
	} else {
		img := filepath.Join(d.dir, "img")
		if err := os.WriteFile(img, nil, 0o600); err != nil {
			return err
		}
		if err := os.Truncate(img, 24<<20); err != nil {
			return err
		}
		if err := command("mkfs.ext4", "-q", img); err != nil {
			return err
		}
		if err := command("mount", "-o", "loop", img, at); err != nil {
			return err
		}
	}
	defer syscall.Unmount(at, syscall.MNT_DETACH)
	if how == "full" {
		return d.full(at)
	}
	return d.frozen(at)
}

func (d *diskTest) log(at string) (*testLog, error) {
	l := &testLog{dir: filepath.Join(at, "audit")}
	identity, recipient, err := NewIdentity(true)
	if err != nil {
		return nil, err
	}
	if l.recipients, err = ParseRecipients(recipient); err != nil {
		return nil, err
	}
	l.ids, err = ParseIdentities([]byte(identity), nil)
	return l, err
}

// full fills the disk under a writer: what was promised must still be written.
func (d *diskTest) full(at string) error {
	l, err := d.log(at)
	if err != nil {
		return err
	}
	ctx := context.Background()
	w, err := Open(ctx, Config{Dir: l.dir, Recipients: l.recipients, Deadline: ceiling})
	if err != nil {
		return err
	}
	filler := filepath.Join(at, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				return err
			}
			chunk = chunk[:len(chunk)/2]
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	var open []*Intent
	total := 0
	for {
		i, err := w.Intent(intentBody(fmt.Sprint(total)), Durable)
		if errors.Is(err, ErrFull) && len(open) > 200 {
			// 256 are open: end them and go on until the disk is the reason.
			for n, o := range open {
				body := fmt.Appendf(nil, `{"v":1,"k":"outcome","call":"%d","x":"%0*d"}`, total-len(open)+n, 3900, 0)
				if err := o.Terminal(body); err != nil {
					return err
				}
			}
			open = nil
			for w.Stats().Queued > 0 {
				time.Sleep(time.Millisecond)
			}
			continue
		}
		if errors.Is(err, ErrFull) {
			d.said = fmt.Sprintf("%d intents with outcomes of 4,000 bytes on a full disk, then: %v", total, err)
			break
		} else if err != nil {
			return err
		}
		if _, err := i.Wait(ctx); err != nil {
			return err
		}
		open = append(open, i)
		total++
	}
	for n, o := range open {
		body := fmt.Appendf(nil, `{"v":1,"k":"outcome","call":"%d","x":"%0*d"}`, total-len(open)+n, 3900, 0)
		if err := o.Terminal(body); err != nil {
			return err
		}
	}
	var loss *LossError
	if err := w.Close(ctx); errors.As(err, &loss) {
		return err
	}
	if s := w.Stats(); s.Segments != 1 {
		return fmt.Errorf("the segment was given up: %+v", s)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	s, err := OpenSpine(ctx, l.dir, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Sweep(ctx); err != nil {
		return err
	}
	r, err := Verify(ctx, l.dir, VerifyOptions{Identities: l.ids, Classify: func(b []byte) (Event, error) {
		return classify([]byte(strings.Split(string(b), `,"x"`)[0] + "}"))
	}})
	if err != nil {
		return err
	}
	if r.Verdict != Unanchored || r.Calls.Complete != total || total == 0 || r.Closed != 1 {
		var b strings.Builder
		r.WriteText(&b)
		return fmt.Errorf("%d calls:\n%s", total, b.String())
	}
	return nil
}

// frozen freezes the disk under a writer.
func (d *diskTest) frozen(at string) error {
	l, err := d.log(at)
	if err != nil {
		return err
	}
	ctx := context.Background()
	w, err := Open(ctx, Config{Dir: l.dir, Recipients: l.recipients, Deadline: 250 * time.Millisecond})
	if err != nil {
		return err
	}
	// The guard thaws whatever happens to this process.
	guard := exec.Command("sh", "-c", "sleep 20; fsfreeze -u "+at)
	if err := guard.Start(); err != nil {
		return err
	}
	defer guard.Wait()
	defer guard.Process.Kill()
	thaw := func() error { return command("fsfreeze", "-u", at) }
	if err := command("fsfreeze", "-f", at); err != nil {
		return err
	}
	defer thaw()
	i, err := w.Intent(intentBody("frozen"), Durable)
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = i.Wait(ctx)
	refused := time.Since(began)
	if !errors.Is(err, ErrDeadline) {
		return fmt.Errorf("Wait on a frozen disk: %v", err)
	}
	i.Abandon()
	if refused > 3*time.Second {
		return fmt.Errorf("refused after %v", refused)
	}
	worst := time.Duration(0)
	for n := range 10000 {
		began := time.Now()
		w.Diagnostic(fmt.Appendf(nil, `{"v":1,"k":"note","call":"%d"}`, n))
		worst = max(worst, time.Since(began))
	}
	bounded, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	began = time.Now()
	var loss *LossError
	if err := w.Close(bounded); !errors.As(err, &loss) {
		return fmt.Errorf("Close on a frozen disk: %v", err)
	}
	closed := time.Since(began)
	if err := thaw(); err != nil {
		return err
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	r, err := Verify(ctx, l.dir, VerifyOptions{Identities: l.ids, Classify: classify})
	if err != nil {
		return err
	}
	if r.Calls.Unknown != 0 || r.Calls.Abandons > 1 || r.Verdict == Failed {
		return fmt.Errorf("after the thaw: %+v %+v", r, r.Calls)
	}
	d.said = fmt.Sprintf("refused after %v, 10,000 hand-overs at most %v, Close gave up after %v", refused, worst, closed)
	return nil
}
