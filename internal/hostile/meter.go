package hostile

import (
	"io"
	"sync/atomic"
	"time"
)

// A meter counts the bytes that went into w, hands them on in pieces of at
// most piece bytes (0: as they come), and reports in the ledger a write that does not
// return. One goroutine writes; count may be asked by any.
type meter struct {
	s      *stage
	stream string // its name in the ledger
	w      io.Writer
	piece  int
	n      atomic.Int64
	notice func(n int64) // also called when a write is blocked; may be nil
}

func (m *meter) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		piece := p
		if m.piece > 0 && len(piece) > m.piece {
			piece = piece[:m.piece]
		}
		n, err := m.write(piece)
		total += n
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

func (m *meter) write(p []byte) (int, error) {
	if m.s.ledger == nil && m.notice == nil {
		n, err := m.w.Write(p)
		m.n.Add(int64(n))
		return n, err
	}
	done := make(chan struct{})
	late := time.AfterFunc(m.s.duration("stall"), func() {
		defer close(done)
		n := m.n.Load()
		m.s.record(Event{What: "blocked", Text: m.stream, N: n})
		if m.notice != nil {
			m.notice(n)
		}
	})
	n, err := m.w.Write(p)
	m.n.Add(int64(n))
	if !late.Stop() {
		<-done
		m.s.record(Event{What: "unblocked", Text: m.stream, N: m.n.Load()})
	}
	return n, err
}
