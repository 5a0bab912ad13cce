//go:build soak

package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSoakEndings ends real bridges in the middle of work, in every way and at
// random moments, for some minutes, and looks for what is left.
func TestSoakEndings(t *testing.T) {
	const long = 3 * time.Minute
	servers := [][]string{
		{"echo"}, {"ignores-both"}, {"ignores-eof"}, {"ignores-term"},
		{"stderr-flood", "at=start,call,eof", "bytes=16MiB"},
		{"notification-flood", "at=start", "count=100000"},
		{"wrapper", "depth=3", "server=ignores-eof"},
		{"grandchild", "stubborn=true", "holds=stdin,stdout,stderr"},
		{"never-reads", "chatty=true"},
	}
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	worst := time.Duration(0)
	for end, n := time.Now().Add(long), 0; time.Now().Before(end) && !t.Failed(); n++ {
		server := servers[r.IntN(len(servers))]
		how := r.IntN(len(endings))
		pause := time.Duration(r.IntN(300)) * time.Millisecond
		calls := r.IntN(50)
		for name, finish := range endings {
			if how--; how >= 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d/%s/%s after %v", n, name, server[0], pause), func(t *testing.T) {
				f := startFront(t, nil, nil, server[0], server[1:]...)
				f.send(initialize)
				for i := range calls {
					f.send(call(1+i, "big", `{"bytes":100000}`))
				}
				time.Sleep(pause) // the moment is what is random here
				began := time.Now()
				finish(f)
				f.wait()
				gone(t, f.ledger)
				worst = max(worst, time.Since(began))
			})
			break
		}
	}
	t.Logf("the slowest took %v from its end to the last process", worst)
}
