package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// leftOver says what outlived the tests: goroutines of sessions, descriptors,
// processes and zombies. before are the descriptors of the start.
func leftOver(before []string) (what string) {
	for range 1000 { // what has ended may need an instant to be gone
		what = ""
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for g := range strings.SplitSeq(string(buf), "\n\n") {
			if strings.Contains(g, "penstock/internal/bridge.") && !strings.Contains(g, "bridge.TestMain") {
				what += "goroutine: " + g + "\n"
			}
		}
		if now := descriptors(); len(now) > len(before) {
			what += fmt.Sprintf("descriptors: %q, before %q\n", now, before)
		}
		for _, p := range children() {
			what += "process: " + p + "\n"
		}
		if what == "" {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return what
}

// descriptors lists what this process has open, but for what the runtime keeps;
// nothing where the system has no /proc.
func descriptors() (open []string) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]" && !strings.HasPrefix(to, "/proc/") {
			open = append(open, to)
		}
	}
	return open
}

// children lists the processes that this one has started and not reaped,
// likewise.
func children() (all []string) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		all = append(all, strings.Fields(string(b))...)
	}
	return all
}
