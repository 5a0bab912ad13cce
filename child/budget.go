package child

import "sync"

// A Budget bounds what all captures of a process retain together. It may be
// used concurrently and needs no Close.
//
// When it is full, a capture that wants to grow takes from the capture with
// the largest tail, as long as that one keeps more than the taker gets; the
// oldest bytes go first. So a flood cannot take a quiet stream's last words.
type Budget struct {
	mu       sync.Mutex // also guards the contents of all captures of the budget
	limit    int64
	used     int64 // allocated bytes of all captures
	captures map[*Capture]struct{}
}

// NewBudget returns a budget of so many bytes; not positive means no bound.
func NewBudget(bytes int64) *Budget {
	return &Budget{limit: bytes, captures: make(map[*Capture]struct{})}
}

// Retained returns the bytes that the captures of the budget hold now.
func (b *Budget) Retained() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// reserve gets up to want bytes for c and returns how many. b.mu is held.
func (b *Budget) reserve(c *Capture, want int) int {
	if b.limit <= 0 {
		b.used += int64(want)
		return want
	}
	for int64(want) > b.limit-b.used {
		// Take half of what the largest has more than c, so that they meet; and
		// little steps are not worth the copying.
		m, have := b.largest(), c.retained()
		if m == nil {
			break
		}
		take := (m.tail.cap() - have) / 2
		if take < 1 || take < have/8 {
			break
		}
		m.shrink(m.tail.cap() - take)
	}
	got := int(min(int64(want), max(0, b.limit-b.used)))
	b.used += int64(got)
	return got
}

// largest returns the capture with the largest tail, nil if all are empty.
func (b *Budget) largest() *Capture {
	var m *Capture
	size := 0
	for c := range b.captures {
		if c.tail.cap() > size {
			m, size = c, c.tail.cap()
		}
	}
	return m
}
