package child

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FindMarked lists the live processes of this system whose environment holds
// marker, "NAME=VALUE". Environments that the kernel does not let us read are
// passed over. On other systems than Linux it returns errors.ErrUnsupported.
func FindMarked(marker string) ([]Process, error) {
	return findMarked(marker, func(stat) bool { return true })
}

func findMarked(marker string, wanted func(stat) bool) ([]Process, error) {
	var found []Process
	self := os.Getpid()
	err := eachProcess(func(pid int) {
		if pid == self {
			return
		}
		st, err := readStat(pid)
		if err != nil || st.dead() || !wanted(st) || !marked(pid, marker) {
			return
		}
		// The number may have changed hands between the two reads.
		if again, err := readStat(pid); err != nil || again.start != st.start {
			return
		}
		found = append(found, Process{Pid: pid, StartTime: st.start, Session: st.session, Command: commandLine(pid, st.comm)})
	})
	return found, err
}

// Signal sends a signal to the process if it is still the same one, else it
// returns os.ErrProcessDone.
func (p Process) Signal(sig os.Signal) error {
	s, ok := sig.(unix.Signal)
	if !ok {
		return unix.EINVAL
	}
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		if err == unix.ESRCH {
			return os.ErrProcessDone
		}
		return err
	}
	defer unix.Close(fd)
	// The descriptor holds whoever has the number now; it is the one meant if
	// the start time, read after opening, is.
	st, err := readStat(p.Pid)
	if err != nil || st.start != p.StartTime || st.dead() {
		return os.ErrProcessDone
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != unix.ESRCH {
		return err
	}
	return os.ErrProcessDone
}

// stat is what we use of /proc/PID/stat.
type stat struct {
	comm                string
	state               byte
	ppid, pgrp, session int
	threads             int
	start               uint64
}

// dead reports whether nothing of the process runs. A zombie that has threads
// is not there yet: they hold its descriptors until they have ended.
func (s stat) dead() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }

var errStat = errors.New("child: unexpected form of /proc/PID/stat")

// readStat reads without an os.File, which would cost more than the rest: it
// is called for each process of the system whenever a child ends.
func readStat(pid int) (stat, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stat{}, err
	}
	defer unix.Close(fd)
	var buf [2048]byte // longer than any: 52 numbers of at most 20 digits and a name
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(buf[:n]))
}

func parseStat(s string) (stat, error) {
	// The name is in parentheses and may hold anything, parentheses too.
	open, shut := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || shut < open {
		return stat{}, errStat
	}
	f := strings.Fields(s[shut+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, errStat
	}
	st := stat{comm: s[open+1 : shut], state: f[0][0]}
	var errs [5]error
	st.ppid, errs[0] = strconv.Atoi(f[1])
	st.pgrp, errs[1] = strconv.Atoi(f[2])
	st.session, errs[2] = strconv.Atoi(f[3])
	st.threads, errs[4] = strconv.Atoi(f[17])
	st.start, errs[3] = strconv.ParseUint(f[19], 10, 64)
	for _, err := range errs {
		if err != nil {
			return stat{}, errStat
		}
	}
	return st, nil
}

// eachProcess calls f with the ids of all processes that we can see.
func eachProcess(f func(pid int)) error {
	d, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(256)
		for _, n := range names {
			if pid, err := strconv.Atoi(n); err == nil {
				f(pid)
			}
		}
		if err != nil || len(names) == 0 {
			return nil
		}
	}
}

func marked(pid int, marker string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for len(b) > 0 {
		kv, rest, _ := bytes.Cut(b, []byte{0})
		if string(kv) == marker {
			return true
		}
		b = rest
	}
	return false
}

func commandLine(pid int, comm string) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	b = bytes.TrimRight(b, "\x00")
	if err != nil || len(b) == 0 {
		return "[" + comm + "]"
	}
	args := strings.Split(string(b[:min(len(b), 256)]), "\x00")
	if filepath.IsAbs(args[0]) {
		args[0] = filepath.Base(args[0])
	}
	return strings.ToValidUTF8(strings.Join(args, " "), "\uFFFD")
}
