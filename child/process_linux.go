package child

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// process is the system's side of a child. Until reap the leader stays a
// zombie, so that its number, and with it the group's, belongs to nobody else
// and a signal to the group cannot reach strangers.
type process struct {
	pid   int
	start uint64 // start time in clock ticks since boot; 0 if /proc is missing
}

func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func startProcess(file string, argv []string, attr *os.ProcAttr) (*process, error) {
	sys := &syscall.ProcAttr{
		Dir: attr.Dir, Env: attr.Env,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	for _, f := range attr.Files {
		sys.Files = append(sys.Files, f.Fd())
	}
	waited.mu.Lock()
	defer waited.mu.Unlock()
	// Not os.StartProcess: it forks once more to try out process descriptors,
	// which an unreaped leader makes needless.
	pid, err := syscall.ForkExec(file, argv, sys)
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: file, Err: err}
	}
	waited.pids[pid] = struct{}{}
	pr := &process{pid: pid}
	if st, err := readStat(pid); err == nil {
		pr.start = st.start
	}
	return pr, nil
}

// await waits for the exit without reaping.
func (p *process) await() exit {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return exit{} // somebody else took the status, or SIGCHLD is ignored
		}
		break
	}
	// siginfo_t for SIGCHLD: signo, errno, code, then, aligned to a pointer,
	// pid, uid, status. x/sys does not name the last three.
	words := (*[8]int32)(unsafe.Pointer(&info))
	status := words[5]
	if unsafe.Sizeof(uintptr(0)) == 8 {
		status = words[6]
	}
	const cldExited, cldKilled, cldDumped = 1, 2, 3
	switch info.Code {
	case cldExited:
		code := int(status)
		return exit{code: &code}
	case cldKilled, cldDumped:
		return exit{signal: syscall.Signal(status).String()}
	}
	return exit{}
}

// reap ends the zombie. The group must not be signalled after it.
func (p *process) reap() {
	// Under the lock, since the next start may get the same number.
	waited.mu.Lock()
	defer waited.mu.Unlock()
	for {
		if _, err := unix.Wait4(p.pid, nil, 0, nil); err != unix.EINTR {
			break
		}
	}
	delete(waited.pids, p.pid)
}

// groupAlive reports whether members of the group other than the leader live,
// and reaps those that became ours by being orphaned. Without /proc it reports
// false; sweep reaches them all the same.
func (p *process) groupAlive() bool {
	self, alive := os.Getpid(), false
	eachProcess(func(pid int) {
		if pid == p.pid {
			return
		}
		st, err := readStat(pid)
		switch {
		case err != nil || st.pgrp != p.pid:
		case !st.dead():
			alive = true
		case st.ppid == self:
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	})
	return alive
}

// sweep ends members of the group that the system hides from us. Where there
// are none it reaches only the zombie.
func (p *process) sweep() { p.kill() }

func (p *process) descendants(marker string) ([]Process, error) {
	if marker == "" {
		return nil, nil
	}
	return findMarked(marker, func(st stat) bool { return st.pgrp != p.pid && st.start >= p.start })
}

func setPipeSize(f *os.File, n int) {
	rc, err := f.SyscallConn()
	if err != nil {
		return
	}
	rc.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, n) })
}
