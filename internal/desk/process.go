package desk

import "time"

// awayAtMost is how long a bridge of which the system tells nothing may be away
// before it counts as gone: longer than its client waits between attempts.
const awayAtMost = 30 * time.Second

// process is another process; id and start together name one for as long as
// the system is up.
type process struct {
	pid   int    // 0 if the system does not tell
	start uint64 // in clock ticks since boot
}

// gone reports whether the process, which left the desk that long ago, has
// ended.
func (p process) gone(away time.Duration) bool {
	if p.start == 0 {
		return away > awayAtMost
	}
	start, err := startOf(p.pid)
	return err == nil && start != p.start
}
