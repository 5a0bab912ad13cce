//go:build unix

package bridge

import (
	"os"

	"golang.org/x/sys/unix"
)

// canTry reports whether a write to f can be tried without waiting: f is a
// pipe or a socket that was set to non-blocking.
func canTry(f *os.File) bool {
	c, err := f.SyscallConn()
	if err != nil {
		return false
	}
	try := false
	c.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		try = err == nil && flags&unix.O_NONBLOCK != 0
	})
	return try
}

// tryWrite writes what f takes at once. An error is that of a broken pipe, not
// of a full one.
func tryWrite(f *os.File, data []byte) (n int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := c.Control(func(fd uintptr) {
		for n < len(data) {
			var m int
			m, err = unix.Write(int(fd), data[n:])
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				err = nil
				return
			case err != nil:
				return
			}
			n += m
		}
	})
	if err == nil {
		err = cerr
	}
	return n, err
}

// writable reports whether a write to the pipe f would take at least a byte.
func writable(f *os.File) bool {
	c, err := f.SyscallConn()
	if err != nil {
		return true
	}
	ready := true
	c.Control(func(fd uintptr) {
		var err error
		ready, err = poll(fd)
		ready = ready && err == nil
	})
	return ready
}

// waitWritable waits until a write to the pipe f would take at least a byte, or
// fails if nobody reads it any more. Closing f ends the wait.
func waitWritable(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var broken error
	err = c.Write(func(fd uintptr) (ready bool) {
		ready, broken = poll(fd)
		return ready
	})
	if err == nil {
		err = broken
	}
	return err
}

func poll(fd uintptr) (ready bool, err error) {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for {
		n, err := unix.Poll(p[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return true, err
		case n > 0 && p[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0:
			return true, unix.EPIPE
		}
		return n > 0, nil
	}
}
