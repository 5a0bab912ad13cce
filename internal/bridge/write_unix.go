//go:build unix

package bridge

import (
	"os"

	"golang.org/x/sys/unix"
)

// waitWritable waits until a write to the pipe f would take at least a byte, or
// fails if nobody reads it any more. Closing f ends the wait.
func waitWritable(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var broken error
	err = c.Write(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		for {
			n, err := unix.Poll(p, 0)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil:
				broken = err
			case n > 0 && p[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0:
				broken = unix.EPIPE
			case n == 0:
				return false
			}
			return true
		}
	})
	if err == nil {
		err = broken
	}
	return err
}
