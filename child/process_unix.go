//go:build unix

package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func (p *process) signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return unix.EINVAL
	}
	if err := unix.Kill(-p.pid, s); err != unix.ESRCH {
		return err
	}
	return os.ErrProcessDone
}

func (p *process) terminate() { p.signal(unix.SIGTERM) }
func (p *process) kill()      { p.signal(unix.SIGKILL) }
