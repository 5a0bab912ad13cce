//go:build !linux

package desk

import "errors"

func startOf(int) (uint64, error) { return 0, errors.ErrUnsupported }
