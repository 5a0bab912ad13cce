//go:build unix

package hostile

import (
	"os"
	"os/exec"
	"syscall"
)

// polite lists the signals that ask a process to end.
func polite() []os.Signal {
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
}

// suicide sends this process the signal named how.
func suicide(how string) error {
	sig := map[string]syscall.Signal{"kill": syscall.SIGKILL, "term": syscall.SIGTERM}[how]
	return syscall.Kill(os.Getpid(), sig)
}

// leaveSession gives the command a session of its own.
func leaveSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}
