package desk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// startOf returns when a process began, 0 if there is none, or only its zombie,
// which does nothing any more.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; behind it are plain fields, of
	// which the state is the first and the start the 20th.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("strange /proc/%d/stat", pid)
	}
	if s := fields[0][0]; s == 'Z' || s == 'X' {
		return 0, nil
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
