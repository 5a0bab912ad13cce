package child

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// waited holds the processes of this package whose exit a Child will take.
// Children belong to the whole operating-system process, so this is the one
// place that is package-wide, as syscall.ForkLock is.
var waited = struct {
	mu   sync.Mutex // also held from before a fork until the pid is in the map
	pids map[int]struct{}
}{pids: make(map[int]struct{})}

// BecomeSubreaper makes this process the parent of descendants whose own
// parent dies, so that they stay findable. It is process-wide: only a command
// calls it, once, before it starts anything, and then calls ReapOrphans upon
// each SIGCHLD. On other systems than Linux it does nothing.
func BecomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// ReapOrphans reaps the zombies that were reparented to this process, as a
// subreaper or as process 1, and returns how many. It never takes the exit of
// a process that this package started. mine reports whether this process
// started pid in another way, with os/exec for example, and will wait for it;
// it must know pid before the process can exit, and is asked only where the
// process's group does not tell. Nil means that there are none.
func ReapOrphans(mine func(pid int) bool) int {
	self, n := os.Getpid(), 0
	group := unix.Getpgrp()
	eachProcess(func(pid int) {
		st, err := readStat(pid)
		if err != nil || st.ppid != self || st.state != 'Z' {
			return
		}
		waited.mu.Lock()
		defer waited.mu.Unlock()
		if _, ok := waited.pids[pid]; ok {
			return
		}
		// What we start is in our own group or the leader of a new one.
		if (st.pgrp == group || st.pgrp == pid) && mine != nil && mine(pid) {
			return
		}
		if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && got == pid {
			n++
		}
	})
	return n
}
