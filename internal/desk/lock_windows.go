package desk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks f until it is closed, and reports false if somebody else has
// it locked.
func tryLock(f *os.File) (bool, error) {
	// A byte far behind the end, so that the file can be read meanwhile.
	at := windows.Overlapped{OffsetHigh: 1}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
