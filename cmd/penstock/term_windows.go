package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// isTerminal is for progress lines and colours, so a console that does not
// read escape sequences counts as none.
func isTerminal(f *os.File) bool {
	var mode uint32
	err := windows.GetConsoleMode(windows.Handle(f.Fd()), &mode)
	return err == nil && mode&windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING != 0
}
