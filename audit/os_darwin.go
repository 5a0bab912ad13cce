package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData is F_FULLFSYNC: there is nothing lighter that lasts.
func syncData(f *os.File) error { return f.Sync() }

// reserve keeps blocks for n bytes past the end of the file.
func reserve(f *os.File, off, n int64) error {
	st := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: n}
	err := unix.FcntlFstore(f.Fd(), unix.F_PREALLOCATE, &st)
	if errors.Is(err, unix.ENOTSUP) {
		return errors.ErrUnsupported
	}
	return os.NewSyscallError("fcntl", err)
}

// networkFS names the file system that dir lies on if it is not a local one.
func networkFS(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return "a network file system (" + unix.ByteSliceToString(st.Fstypename[:]) + ")"
}

func bootHash() [32]byte { return [32]byte{} }
