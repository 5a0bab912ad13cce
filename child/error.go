package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// A StartError says why a child could not be started. It unwraps to the
// system's error.
type StartError struct {
	Args0 string // as it was asked for
	File  string // the file that was tried; "" if none was found
	Path  string // the PATH that was searched; "" where Args0 has a slash
	Dir   string // the working directory that was asked for
	Err   error

	badDir bool
}

// ExitCode returns what a shell would exit with: 127 if the command was not
// found, 126 if it or the working directory cannot be used.
func (e *StartError) ExitCode() int {
	if !e.badDir && e.File == "" && errors.Is(e.Err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

func (e *StartError) Unwrap() error { return e.Err }

// Error is one line that names the command and the PATH searched, or the
// directory.
func (e *StartError) Error() string {
	switch {
	case e.Args0 == "":
		return "cannot start a command: no command given"
	case e.badDir:
		return fmt.Sprintf("cannot start %q: working directory %q: %v", e.Args0, e.Dir, e.Err)
	case e.File == "" && !errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("cannot start %q: %v", e.Args0, e.Err)
	case e.File == "" && e.Path != "":
		return fmt.Sprintf("cannot start %q: not found in PATH %q", e.Args0, e.Path)
	case e.File == "" && !hasSeparator(e.Args0):
		return fmt.Sprintf("cannot start %q: not found, and PATH is empty", e.Args0)
	case e.File == "" && e.Dir != "":
		return fmt.Sprintf("cannot start %q in directory %q: %v", e.Args0, e.Dir, e.Err)
	case e.File == "":
		return fmt.Sprintf("cannot start %q: %v", e.Args0, e.Err)
	case e.Path != "":
		return fmt.Sprintf("cannot start %q: %q, found in PATH %q: %v", e.Args0, e.File, e.Path, e.Err)
	case errors.Is(e.Err, fs.ErrNotExist):
		// The file is there, so it is the interpreter in its first line that is not.
		return fmt.Sprintf("cannot start %q: the interpreter that %q names: %v", e.Args0, e.File, e.Err)
	}
	return fmt.Sprintf("cannot start %q: %q: %v", e.Args0, e.File, e.Err)
}

// startError tells apart why the system refused to start file, whose lookup
// had succeeded.
func startError(c Config, file string, err error) *StartError {
	e := &StartError{Args0: c.Args[0], File: file, Dir: c.Dir, Err: err}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Err = errno
	}
	if derr := checkDir(c.Dir); derr != nil {
		e.Err, e.File, e.badDir = derr, "", true
	}
	return e
}

// checkDir reports why dir cannot be a working directory, nil if it can.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	fi, err := os.Stat(dir)
	if err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return errno
		}
		return err
	}
	if !fi.IsDir() {
		return syscall.ENOTDIR
	}
	return checkSearch(dir)
}
