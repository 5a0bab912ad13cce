//go:build !linux

package child

import (
	"errors"
	"os"
)

// FindMarked is supported on Linux only; it returns errors.ErrUnsupported.
func FindMarked(marker string) ([]Process, error) { return nil, errors.ErrUnsupported }

// Signal is supported on Linux only; it returns errors.ErrUnsupported.
func (p Process) Signal(sig os.Signal) error { return errors.ErrUnsupported }
