//go:build unix

package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

func init() {
	// family starts a hanging grandchild, writes its pid, and exits or, with
	// "stay", ends at EOF of stdin. Its arguments: "session" (of its own),
	// "stdout", "stderr" (that it holds), "term" (that it ignores SIGTERM),
	// "bare" (without the marker).
	roles["family"] = func(args []string) {
		has := func(a string) bool { return slices.Contains(args, a) }
		var extra []string
		if has("term") {
			extra = append(extra, "term")
		}
		grandchild(has("session"), has("stdout"), has("stderr"), extra...)
		if has("stay") {
			hang(os.Stderr, nil)
		}
		if has("stubborn") {
			hang(os.Stderr, []string{"eof", "term"})
		}
	}
	// burst writes to stdout so many bytes and leaves a member of its group
	// that holds stdout.
	roles["burst"] = func(args []string) {
		io.CopyN(os.Stdout, &pattern{left: 1 << 40}, int64(atoi(args[0])))
		grandchild(false, true, false)
	}
	// settled is the grandchild: it announces itself on descriptor 3.
	roles["settled"] = func(args []string) {
		f := os.NewFile(3, "ready")
		if slices.Contains(args, "term") {
			hang(f, []string{"eof", "term"})
		}
		f.WriteString("ready\n")
		f.Close()
		forever()
	}
}

// grandchild starts a process that outlives its parent, and writes its pid to
// stdout when it is ready.
func grandchild(session, stdout, stderr bool, args ...string) {
	exe, err := os.Executable()
	check(err)
	r, w, err := os.Pipe()
	check(err)
	cmd := exec.Command(exe, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, roleEnv+"=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, roleEnv+"=settled")
	cmd.ExtraFiles = []*os.File{w}
	if stdout {
		cmd.Stdout = os.Stdout
	}
	if stderr {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	check(cmd.Start())
	w.Close()
	if got := readLine(r); got != "ready" {
		check(fmt.Errorf("grandchild said %q", got))
	}
	fmt.Println(cmd.Process.Pid)
}
