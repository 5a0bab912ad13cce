//go:build soak

package audit

// The long forms: every bit, every truncation, every kill.
func init() { thorough = true }
