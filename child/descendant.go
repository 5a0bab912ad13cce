package child

// A Process is a live process that was found by its marker. Pid and StartTime
// together name one process for as long as the system is up.
type Process struct {
	Pid       int
	StartTime uint64 // in clock ticks since boot
	Session   int    // id of its session
	Command   string // its command line, or its name in brackets; at most 256 bytes
	Killed    bool   // only in reports: it was sent SIGKILL
}
