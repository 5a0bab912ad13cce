//go:build !linux

package child

// BecomeSubreaper does nothing on this system.
func BecomeSubreaper() error { return nil }

// ReapOrphans does nothing on this system: orphans become children of the
// system's first process.
func ReapOrphans(mine func(pid int) bool) int { return 0 }
