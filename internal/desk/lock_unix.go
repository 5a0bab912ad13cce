//go:build unix

package desk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks f until it is closed, and reports false if somebody else has
// it locked.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
