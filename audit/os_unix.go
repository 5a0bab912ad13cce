//go:build unix

package audit

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const openNonblock = unix.O_NONBLOCK | unix.O_NOFOLLOW

func links(st os.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// checkOwner reports whether others than this user could write into a folder.
func checkOwner(st os.FileInfo) error {
	if s, ok := st.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return errors.New("belongs to another user")
	}
	if st.Mode().Perm()&0o022 != 0 {
		return errors.New("can be written by others")
	}
	return nil
}

// tryLock takes the lock of an open file, for itself or shared, and reports
// whether it could. The kernel drops it with the file.
func tryLock(f *os.File, shared bool) (bool, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

func syncFolder(d *os.File) error { return d.Sync() }
