//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// processRuns reports whether the process exists and has not ended. One that
// ended and that nobody has collected does not count.
func processRuns(pid int) (bool, error) {
	err := syscall.Kill(pid, 0)
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	if err != nil && !errors.Is(err, syscall.EPERM) {
		return false, err
	}
	// Linux only: elsewhere there is no such file, and the init process collects.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !hasProc(), nil
	}
	i := bytes.LastIndexByte(stat, ')') // the name before it may hold anything
	return i < 0 || len(stat) < i+3 || stat[i+2] != 'Z' && stat[i+2] != 'X', nil
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
