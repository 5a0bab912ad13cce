package desk

import "golang.org/x/sys/unix"

func undumpable() error {
	_, _, errno := unix.Syscall(unix.SYS_PTRACE, 31, 0, 0) // PT_DENY_ATTACH
	if errno != 0 {
		return errno
	}
	return nil
}
