package bridge

import (
	"fmt"
	"time"

	"github.com/penstock-dev/penstock/internal/call"
)

// limit gives a new call its deadlines. One timer serves all calls: it fires at
// the earliest, ends what is due and is set to the next. A call that ends in
// time costs nothing.
func (s *Session) limit(r *request, now time.Time) {
	if r.Method == "subscriptions/listen" || r.Method == "tasks/result" {
		return // they stay open by design
	}
	r.idleFrom = now
	if !s.armed {
		s.arm(now, r)
	}
}

// due returns when r must end, by which limit; zero if by none.
func (s *Session) due(r *request) (at time.Time, which string, limit time.Duration) {
	if r.idleFrom.IsZero() || r.State.Terminal() {
		return
	}
	if s.c.Total > 0 {
		at, which, limit = r.At[call.Received].Add(s.c.Total), "total", s.c.Total
	}
	if s.c.Idle > 0 {
		if idle := r.idleFrom.Add(s.c.Idle); at.IsZero() || idle.Before(at) {
			at, which, limit = idle, "idle", s.c.Idle
		}
	}
	return at, which, limit
}

// arm sets the timer to the deadline of r.
func (s *Session) arm(now time.Time, r *request) {
	at, _, _ := s.due(r)
	if at.IsZero() {
		return
	}
	s.armed = true
	if d := at.Sub(now); s.deadline == nil {
		s.deadline = time.AfterFunc(d, func() { s.locked(s.expire) })
	} else {
		s.deadline.Reset(d)
	}
}

// expire ends the calls whose time is over.
func (s *Session) expire() {
	s.armed = false
	if s.closing {
		return
	}
	now := time.Now()
	var next *request
	var first time.Time
	for _, r := range s.calls.All {
		at, which, limit := s.due(r)
		switch {
		case at.IsZero():
		case !at.After(now):
			s.timeout(r, which, limit)
		case next == nil || at.Before(first):
			next, first = r, at
		}
	}
	if next != nil {
		s.arm(now, next)
	}
}

func (s *Session) timeout(r *request, which string, limit time.Duration) {
	s.stats.Timeouts++
	text := fmt.Sprintf("The call did not end within its %s limit of %v. ", which, limit)
	cause := which + " timeout"
	if s.unsend(r) {
		s.fail(r, call.FailedBeforeDispatch, cause, text+"The server was not reading. "+notSent, facts{})
		return
	}
	s.fail(r, call.CancelledAfterDispatch, cause, text+"The server was told to stop. "+maySent, facts{})
	s.cancelServer(r, "the call did not end within its time limit")
}
