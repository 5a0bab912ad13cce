//go:build unix

package main

import (
	"os"
	"syscall"
)

// statsSignal asks for the counters on standard error.
const statsSignal = syscall.SIGUSR1

// childSignal says that a child has ended, which may be an orphan of the
// server that has come to us.
const childSignal = syscall.SIGCHLD

// caught are the signals that concern a session, besides those that end it:
// the one for the counters, and those that are passed on to the server.
var caught = []os.Signal{statsSignal, childSignal, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR2}

// pollable returns f so that a read or write of it can be ended by closing it,
// and what undoes that for other processes that have the same open file. Pipes
// and sockets allow it once they are non-blocking; a terminal or a file is left
// alone.
func pollable(f *os.File) (_ *os.File, restore func()) {
	fd := int(f.Fd())
	if !isPipe(f) {
		return f, func() {}
	}
	keep, err := syscall.Dup(fd) // fd itself is closed at the end of the session
	if err != nil {
		return f, func() {}
	}
	syscall.CloseOnExec(keep)
	if syscall.SetNonblock(fd, true) != nil {
		syscall.Close(keep)
		return f, func() {}
	}
	return os.NewFile(uintptr(fd), f.Name()), func() {
		syscall.SetNonblock(keep, false)
		syscall.Close(keep)
	}
}

func isPipe(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// openFD returns the open file of a descriptor that we were started with.
func openFD(fd int) (*os.File, error) {
	f := os.NewFile(uintptr(fd), "stats")
	if f == nil {
		return nil, syscall.EBADF
	}
	if _, err := f.Stat(); err != nil {
		return nil, syscall.EBADF
	}
	return f, nil
}
