package desk

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func openFiles() []string {
	names, _ := filepath.Glob("/proc/self/fd/*")
	var open []string
	for _, n := range names {
		if to, err := os.Readlink(n); err == nil && !strings.HasPrefix(to, "anon_inode:") {
			open = append(open, n+" "+to)
		}
	}
	return open
}

// childProcesses lists the children of this process.
func childProcesses() []string {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []string
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if ppid, err := strconv.Atoi(f[1]); err == nil && ppid == os.Getpid() {
			found = append(found, string(b))
		}
	}
	return found
}
