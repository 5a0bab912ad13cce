package child

import (
	"errors"
	"os"
)

var errWouldBlock = errors.New("child: nothing to read")

// readNow cannot look into an anonymous pipe without a race here; drained then
// follows by DrainAfterDeath.
func readNow(*os.File, []byte) (int, error) { return 0, nil }
