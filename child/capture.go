package child

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// CaptureConfig says what a Capture keeps.
type CaptureConfig struct {
	Name   string  // of the stream, for the words shown; "" means "stderr"
	Head   int     // first bytes to keep
	Tail   int     // last bytes to keep after those
	Budget *Budget // shared bound; nil means none but Head and Tail
}

// The modes in which a Capture retains, as records name them.
const (
	RetainTail        = "tail"
	RetainHeadAndTail = "head_and_tail"
)

// A Capture keeps the first and the last bytes of a stream, counts all of
// them, and keeps a digest of those that it let go. What it keeps is the
// stream's first head bytes and its newest bytes; what it let go is one
// stretch between them.
//
// Its methods may be called concurrently; none of them waits for anything but
// other calls of the same budget, which only copy and hash. The owner calls
// Close to give the bytes back.
type Capture struct {
	name       string
	headMax    int
	tailMax    int
	mode       string
	b          *Budget
	seen       int64 // this and all below: guarded by b.mu
	head       []byte
	headLen    int // of head, what is written
	headClosed bool
	tail       ring
	gone       hash.Hash // of the bytes let go, in order
	shrunk     bool      // the budget kept it from retaining what it may
	closed     bool
}

// NewCapture returns an empty capture. Negative sizes mean zero.
func NewCapture(c CaptureConfig) *Capture {
	if c.Budget == nil {
		c.Budget = NewBudget(0)
	}
	if c.Name == "" {
		c.Name = "stderr"
	}
	k := &Capture{
		name: c.Name, headMax: max(0, c.Head), tailMax: max(0, c.Tail),
		mode: RetainTail, b: c.Budget, gone: sha256.New(),
	}
	if k.headMax > 0 {
		k.mode = RetainHeadAndTail
	}
	k.headClosed = k.headMax == 0
	k.b.mu.Lock()
	k.b.captures[k] = struct{}{}
	k.b.mu.Unlock()
	return k
}

// Write takes the next bytes of the stream. It never fails.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.seen += int64(n)
	if c.closed {
		return n, nil
	}
	if !c.headClosed {
		p = c.writeHead(p)
	}
	if len(p) > 0 {
		c.writeTail(p)
	}
	return n, nil
}

// Seen returns the count of all bytes written.
func (c *Capture) Seen() int64 {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.seen
}

// Close drops what is kept and gives it back to the budget. Writes after it
// are only counted. It may be called more than once.
func (c *Capture) Close() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.b.used -= int64(c.retained())
	c.head, c.headLen, c.tail = nil, 0, ring{}
	delete(c.b.captures, c)
}

// A Snapshot is what a Capture has done so far.
type Snapshot struct {
	Seen      int64  // bytes written
	HeadKept  int64  // first bytes kept
	TailKept  int64  // last bytes kept
	Truncated bool   // some were let go
	LetGo     string // SHA-256 in hex of those, in order; "" if none were
	Retain    string // RetainTail or RetainHeadAndTail
	Shrunk    bool   // the budget took or denied bytes that Head and Tail allow
}

// Kept returns the bytes kept.
func (s Snapshot) Kept() int64 { return s.HeadKept + s.TailKept }

// Snapshot describes what was captured so far. After Close there is nothing
// kept, and LetGo covers what had been let go before.
func (c *Capture) Snapshot() Snapshot {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	s := Snapshot{Seen: c.seen, HeadKept: int64(c.headLen), TailKept: int64(c.tail.n), Retain: c.mode, Shrunk: c.shrunk}
	s.Truncated = s.Kept() < s.Seen
	if s.Truncated {
		s.LetGo = hex.EncodeToString(c.gone.Sum(nil))
	}
	return s
}

// retained returns the bytes allocated. b.mu is held, as in all below.
func (c *Capture) retained() int { return len(c.head) + c.tail.cap() }

// writeHead fills the head and returns what did not fit. A head that cannot
// grow is finished, since it must stay the beginning of the stream.
func (c *Capture) writeHead(p []byte) []byte {
	if need := min(c.headMax, c.headLen+len(p)); need > len(c.head) {
		size := c.grown(len(c.head), need, c.headMax)
		if size > len(c.head) {
			head := make([]byte, size)
			copy(head, c.head[:c.headLen])
			c.head = head
		}
	}
	k := copy(c.head[c.headLen:], p)
	c.headLen += k
	c.headClosed = c.headLen == c.headMax || k < len(p)
	return p[k:]
}

// writeTail lets the oldest go to make room for p.
func (c *Capture) writeTail(p []byte) {
	if need := min(c.tailMax, c.tail.n+len(p)); need > c.tail.cap() {
		if size := c.grown(c.tail.cap(), need, c.tailMax); size > c.tail.cap() {
			c.tail.resize(size)
		}
	}
	over := c.tail.n + len(p) - c.tail.cap()
	if over > 0 {
		k := min(over, c.tail.n)
		c.tail.drop(k, c.gone)
		over -= k
		c.gone.Write(p[:over])
		p = p[over:]
	}
	c.tail.push(p)
}

// grown returns the size to which a buffer of size now may be made: at least
// need, at most limit, where the budget allows.
func (c *Capture) grown(now, need, limit int) int {
	want := min(limit, max(need, 2*now))
	got := now + c.b.reserve(c, want-now)
	if got < need {
		c.shrunk = true
	}
	return got
}

// shrink cuts the tail's buffer for the budget's sake.
func (c *Capture) shrink(size int) {
	c.b.used -= int64(c.tail.cap() - size)
	if over := c.tail.n - size; over > 0 {
		c.tail.drop(over, c.gone)
		c.shrunk = true
	}
	c.tail.resize(size)
}
