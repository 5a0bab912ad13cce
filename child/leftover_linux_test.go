package child

import (
	"fmt"
	"os"
)

// openFiles lists this process's descriptors but those of the runtime, which
// it opens when it first needs them.
func openFiles() []string {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var files []string
	for _, n := range names {
		to, err := os.Readlink("/proc/self/fd/" + n)
		if err != nil || to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]" || to == "/proc" {
			continue
		}
		files = append(files, n+" "+to)
	}
	return files
}

// childProcesses lists this process's children, zombies too.
func childProcesses() []string {
	var ps []string
	eachProcess(func(pid int) {
		if st, err := readStat(pid); err == nil && st.ppid == os.Getpid() {
			ps = append(ps, fmt.Sprintf("%d (%s) %c", pid, st.comm, st.state))
		}
	})
	return ps
}
