package child

import "time"

// A Report holds what was observed of a child, and nothing that was not.
type Report struct {
	Pid     int
	Started time.Time
	Exited  time.Time // zero: no exit was observed
	Ended   time.Time // everything that belonged to the child had ended

	ExitCode *int   // nil: not observed, or ended by a signal
	Signal   string // the signal that ended it, such as "killed"; else ""

	Stdout, Stderr Stream

	// Forced reports whether SIGKILL was sent to the group while the child or
	// others of the group lived.
	Forced bool

	// Descendants are those that had left the group and outlived it, and those
	// that were killed for that.
	Descendants []Process
}
