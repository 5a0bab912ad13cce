//go:build unix

package link

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

func narrow(dir string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("%s has mode %04o: %w (%v)", dir, info.Mode().Perm(), ErrNotPrivate, err)
	}
	return nil
}
