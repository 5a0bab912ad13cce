//go:build soak

package bridge

import (
	"fmt"
	"testing"
	"time"
)

// TestSoakChaos plays the random mix with ever new seeds for some minutes.
func TestSoakChaos(t *testing.T) {
	const long = 3 * time.Minute
	end := time.Now().Add(long)
	n := uint64(0)
	for ; time.Now().Before(end) && !t.Failed(); n++ {
		t.Run(fmt.Sprint(1000+n), func(t *testing.T) { chaos(t, 1000+n, 400) })
	}
	t.Logf("%d seeds", n)
}
