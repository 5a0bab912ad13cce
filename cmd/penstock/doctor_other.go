//go:build !linux

package main

import "runtime"

// systemFacts leaves null what only Linux has a way to ask. Elsewhere there
// are no subreapers, process handles and parent-death signals of this kind.
func systemFacts() systemFact {
	no := false
	s := systemFact{OS: runtime.GOOS, Subreaper: &no, ParentDeath: &no}
	if runtime.GOOS == "windows" {
		// A job object does the work of both, and ends with its last handle.
		s.Subreaper, s.ParentDeath = nil, nil
	}
	return s
}
