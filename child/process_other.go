//go:build unix && !linux

package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is the system's side of a child. The leader is reaped when it exits;
// from then on the group's number stays taken only while members live, so that
// a signal sent in the instant after the last of them ended could reach a new
// group of the same number. Numbers are not reused that quickly.
type process struct {
	pid int
	p   *os.Process
}

func lockThread() (unlock func()) { return func() {} }

func startProcess(file string, argv []string, attr *os.ProcAttr) (*process, error) {
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	p, err := os.StartProcess(file, argv, attr)
	if err != nil {
		return nil, err
	}
	return &process{pid: p.Pid, p: p}, nil
}

func (p *process) await() exit {
	st, err := p.p.Wait()
	if err != nil {
		return exit{}
	}
	return exitOf(st)
}

func (p *process) reap() {}

// groupAlive reports whether the group has members. It is asked only when the
// leader has been waited for.
func (p *process) groupAlive() bool {
	return unix.Kill(-p.pid, 0) != unix.ESRCH
}

// sweep does nothing: groupAlive saw all, and the number may be another's now.
func (p *process) sweep() {}

func (p *process) descendants(string) ([]Process, error) { return nil, nil }

func setPipeSize(*os.File, int) {}

// exitOf reads a wait status.
func exitOf(st *os.ProcessState) exit {
	ws, ok := st.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		return exit{signal: ws.Signal().String()}
	case ok && ws.Exited():
		code := ws.ExitStatus()
		return exit{code: &code}
	}
	return exit{}
}
