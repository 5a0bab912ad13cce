//go:build unix

package desk

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// systemVariables are passed on. TMPDIR matters to a private desk only.
var systemVariables = []string{"TMPDIR"}

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Detach makes this process fit to be a desk: it closes files that it
// inherited by accident, except the ones listed, leaves no core, lets no other
// process of the user look into its memory, and makes files for this user only.
// The process should do nothing else.
func Detach(keep ...int) error {
	closeInherited(keep)
	unix.Umask(0o077)
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return undumpable()
}

// closeInherited closes what came from whoever started us. What this program
// has opened itself closes on exec, and what came through an exec cannot.
func closeInherited(keep []int) {
	dir := "/proc/self/fd"
	if _, err := os.Stat(dir); err != nil {
		dir = "/dev/fd"
	}
	names, err := filepath.Glob(dir + "/*")
	if err != nil {
		return
	}
next:
	for _, name := range names {
		fd, err := strconv.Atoi(filepath.Base(name))
		if err != nil || fd <= 2 {
			continue
		}
		for _, k := range keep {
			if fd == k {
				continue next
			}
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// releaseOutput puts nothing in the place of standard output, so that whoever
// reads it sees its end and nothing else takes its number.
func releaseOutput(stdout *os.File) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		stdout.Close()
		return
	}
	defer null.Close()
	unix.Dup2(int(null.Fd()), int(stdout.Fd()))
}
