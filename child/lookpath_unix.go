//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable reports why file cannot be run; it returns syscall.Errno values.
func executable(file string, _ []string) (string, error) {
	fi, err := os.Stat(file)
	if err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return "", errno
		}
		return "", err
	}
	if fi.IsDir() {
		return "", syscall.EISDIR
	}
	switch err := access(file); {
	case err == nil:
	case err == unix.ENOSYS, err == unix.EPERM, err == unix.EINVAL:
		if fi.Mode()&0o111 == 0 {
			return "", syscall.EACCES
		}
	default:
		return "", err
	}
	return file, nil
}

func checkSearch(dir string) error { return access(dir) }

func access(file string) error {
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}
