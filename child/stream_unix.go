//go:build unix

package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var errWouldBlock = errors.New("child: nothing to read")

// readNow reads what is there without waiting. A zero result and nil error
// mean EOF.
func readNow(f *os.File, p []byte) (n int, err error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := rc.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), p); err != unix.EINTR {
				return true
			}
		}
	})
	n = max(n, 0)
	switch {
	case cerr != nil:
		return 0, cerr
	case err == unix.EAGAIN:
		return 0, errWouldBlock
	}
	return n, err
}
