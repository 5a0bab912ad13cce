package child

import "testing"

// BenchmarkCaptureWrite is the cost of draining: counting, keeping the tail,
// and hashing what is let go.
func BenchmarkCaptureWrite(b *testing.B) {
	c := NewCapture(CaptureConfig{Tail: 16384, Budget: NewBudget(262144)})
	defer c.Close()
	p := patternBytes(chunk)
	b.SetBytes(chunk)
	for b.Loop() {
		c.Write(p)
	}
}

// BenchmarkStart is a child from start to report.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		ch, err := Start(Config{Args: []string{"true"}, Marker: "CHILD_BENCH=1"})
		if err != nil {
			b.Fatal(err)
		}
		ch.Wait()
	}
}
