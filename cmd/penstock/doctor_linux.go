package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemFacts tries each thing. It changes nothing that outlasts it.
func systemFacts() systemFact {
	s := systemFact{OS: runtime.GOOS}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel := unix.ByteSliceToString(name.Release[:])
		s.Kernel = &kernel
	}
	// Asking for the present value tells whether the option exists.
	var value int32
	subreaper := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&value)), 0, 0, 0) == nil
	death := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&value)), 0, 0, 0) == nil
	s.Subreaper, s.ParentDeath = &subreaper, &death

	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	pidfd := err == nil
	if pidfd {
		unix.Close(fd)
	}
	s.PIDFD = &pidfd

	if r, w, err := os.Pipe(); err == nil {
		if n, err := unix.FcntlInt(r.Fd(), unix.F_GETPIPE_SZ, 0); err == nil {
			size := int64(n)
			s.PipeBytes = &size
		}
		r.Close()
		w.Close()
	}
	if text, err := os.ReadFile("/proc/sys/fs/pipe-max-size"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			s.PipeMaxBytes = &n
		}
	}
	return s
}
