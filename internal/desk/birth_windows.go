package desk

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// systemVariables are passed on; the system's libraries need them.
var systemVariables = []string{"SystemRoot", "USERPROFILE", "TEMP", "TMP"}

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// Detach has nothing to do here: handles are inherited by name only, and there
// are no cores.
func Detach(keep ...int) error { return nil }

func releaseOutput(stdout *os.File) { stdout.Close() }
