//go:build !unix

package hostile

import (
	"os"
	"os/exec"
)

// polite lists the signals that ask a process to end.
func polite() []os.Signal { return []os.Signal{os.Interrupt} }

// suicide ends this process as hard as the system can; there is one way only.
func suicide(string) error {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return p.Kill()
}

// leaveSession does nothing: there are no sessions.
func leaveSession(*exec.Cmd) {}
