//go:build !unix

package main

import "os"

// processRuns reports whether the process exists.
func processRuns(pid int) (bool, error) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false, nil // there is no handle for what has ended
	}
	return true, p.Release()
}
