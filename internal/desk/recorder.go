package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-dev/penstock/audit"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/link"
)

// Bounds of the recorder.
const (
	maxEarly     = 4096 // records that wait for the log to be opened
	maxPast      = 1024 // sessions that ended and are remembered
	maxOpenCalls = 1024 // of all sessions
	maxQueued    = 4096
	maxInMemory  = 16 << 20

	openTimeout = 10 * time.Second
	retryAfter  = 5 * time.Second // of a log that could not be opened
	lookEvery   = 50 * time.Millisecond
	tidyEvery   = time.Hour
)

// recorder writes the records of all sessions to one strand of the audit log,
// which it opens with the first of them. Nothing that calls it waits for a disk.
type recorder struct {
	d    *desk
	wake chan struct{}  // tells the acknowledging goroutine to look
	wg   sync.WaitGroup // what the recorder started

	mu       sync.Mutex
	w        *audit.Writer // nil until it is open
	exposed  bool
	opening  bool
	why      error     // why it could not be opened
	tryAt    time.Time // when to try again
	early    []*entryOf
	missed   int // intents that were refused before it was open
	sessions map[string]*recorded
	past     []string // sessions that ended, oldest first
	acks     []*entryOf
	closed   bool
}

// recorded is a session that has records. Guarded by the recorder's mu.
type recorded struct {
	id      string
	owner   [32]byte
	clients int
	bridge  process
	upTo    uint64 // highest sequence so far
	last    *call.Record
	waiting map[uint64]*entryOf // not answered
	failed  map[uint64]*link.Error
	open    map[string]*openCall
	ended   bool
}

// openCall is an intent without an outcome.
type openCall struct {
	slot   *audit.Intent // nil if it has none
	record *call.Record
}

// entryOf is a record on its way, and who waits to hear of it.
type entryOf struct {
	s       *recorded
	record  *call.Record
	body    []byte
	class   link.Class
	level   audit.Level
	waiters []waiter
	receipt *audit.Receipt // nil: it is taken when something behind it is
}

type waiter struct {
	c  *client
	id uint32
}

func newRecorder(d *desk) *recorder {
	return &recorder{d: d, wake: make(chan struct{}, 1), sessions: map[string]*recorded{}}
}

// join takes note of a bridge that connected.
func (r *recorder) join(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[c.hello.Session]; s != nil && s.owner == c.owner {
		s.clients++
	}
}

// take takes a record from the connection's reader.
func (r *recorder) take(c *client, id uint32, body []byte, class link.Class, level link.Level) {
	rec, err := call.ParseRecord(body)
	switch {
	case err != nil:
		c.fail(id, link.Errorf(link.CodeRefused, "%v", err))
		return
	case rec.Session != c.hello.Session:
		c.fail(id, link.Errorf(link.CodeForeign, "a record of another session"))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[rec.Session]
	if s == nil {
		s = &recorded{
			id: rec.Session, owner: c.owner, clients: 1, bridge: c.peer,
			waiting: map[uint64]*entryOf{}, failed: map[uint64]*link.Error{}, open: map[string]*openCall{},
		}
		r.sessions[rec.Session] = s
	}
	if s.owner != c.owner {
		c.fail(id, link.Errorf(link.CodeForeign, "another session has this id"))
		return
	}
	if rec.Seq <= s.upTo { // it was sent again since the answer was lost
		switch e, why := s.waiting[rec.Seq], s.failed[rec.Seq]; {
		case e != nil:
			e.waiters = append(e.waiters, waiter{c, id})
		case why != nil:
			c.fail(id, why)
		default:
			c.took(id)
		}
		return
	}
	if s.ended {
		c.fail(id, link.Errorf(link.CodeRefused, "the session's end is on record already"))
		return
	}
	s.upTo, s.last = rec.Seq, rec
	e := &entryOf{s: s, record: rec, body: body, class: class, level: audit.Level(level), waiters: []waiter{{c, id}}}
	s.waiting[rec.Seq] = e
	r.put(e)
}

// put hands a record to the log, or keeps it until there is one. mu is held.
func (r *recorder) put(e *entryOf) {
	if r.w != nil {
		r.write(e)
		return
	}
	if !r.opening && !r.closed && !r.d.cfg.now().Before(r.tryAt) {
		r.opening = true
		r.wg.Go(r.open)
	}
	switch {
	case !r.opening:
		r.refuse(e, r.why)
	case len(r.early) >= maxEarly:
		r.refuse(e, errors.New("the audit log is not open yet"))
	default:
		r.early = append(r.early, e)
	}
}

// refuse answers that a record is not kept. mu is held.
func (r *recorder) refuse(e *entryOf, why error) {
	if e.class == link.Intent {
		if r.w != nil {
			r.w.Missed(audit.ClassIntent, "refused")
		} else {
			r.missed++
		}
	}
	code := link.CodeDisk
	if errors.Is(why, audit.ErrFull) || errors.Is(why, audit.ErrDeadline) {
		code = link.CodeBusy
	}
	err := link.Errorf(code, "not recorded: %v", why)
	delete(e.s.waiting, e.record.Seq)
	if len(e.s.failed) < maxEarly {
		e.s.failed[e.record.Seq] = err
	}
	for _, w := range e.waiters {
		w.c.fail(w.id, err)
	}
}

// took answers that a record is kept. mu is held.
func (r *recorder) took(e *entryOf) {
	delete(e.s.waiting, e.record.Seq)
	for _, w := range e.waiters {
		w.c.took(w.id)
	}
}

// write appends a record to the open log. mu is held.
func (r *recorder) write(e *entryOf) {
	var err error
	switch rec := e.record; {
	case rec.Kind == call.CallIntent:
		var it *audit.Intent
		if it, err = r.w.Intent(e.body, e.level); err == nil {
			e.receipt = &it.Receipt
			e.s.open[rec.CallID] = &openCall{it, rec}
		}
	case rec.Kind == call.CallOutcome:
		o := e.s.open[rec.CallID]
		delete(e.s.open, rec.CallID)
		if o == nil || o.slot == nil || o.slot.Terminal(e.body) != nil {
			err = r.w.Terminal(e.body) // its intent is in another strand, or missing
		}
	case rec.Kind == call.SessionEnd:
		// One that is waited for, since nothing comes behind it.
		if e.receipt, err = r.w.Append(e.body, audit.Written); err != nil {
			err = r.w.Terminal(e.body)
		}
		r.end(e.s)
	case e.class == link.Intent:
		e.receipt, err = r.w.Append(e.body, e.level)
	case e.class == link.Terminal:
		err = r.w.Terminal(e.body)
	default:
		if err = r.w.Diagnostic(e.body); err == nil {
			r.took(e) // nobody is promised a diagnostic
			return
		}
	}
	if err != nil {
		r.refuse(e, err)
		return
	}
	r.acks = append(r.acks, e)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// end forgets all of a session but that it ended. mu is held.
func (r *recorder) end(s *recorded) {
	if s.ended {
		return
	}
	s.ended = true
	for _, o := range s.open {
		if o.slot != nil {
			o.slot.Release()
		}
	}
	clear(s.open)
	if r.past = append(r.past, s.id); len(r.past) > maxPast {
		delete(r.sessions, r.past[0])
		r.past = r.past[1:]
	}
}

// acknowledge tells the clients when their records are where they should be.
// The log is written in the order in which it takes records, so one that nobody
// can wait for is there when one behind it is, or when nothing is queued.
func (r *recorder) acknowledge(w *audit.Writer) {
	var behind []*entryOf // written when the next one is
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		r.mu.Lock()
		acks, closed := r.acks, r.closed
		r.acks = nil
		r.mu.Unlock()
		for _, e := range acks {
			if e.receipt == nil {
				behind = append(behind, e)
				continue
			}
			_, err := e.receipt.Wait(context.Background()) // for the log's deadline at most
			r.mu.Lock()
			if err != nil {
				// It may still arrive, so it counts as missing only if it does not,
				// which the log itself says.
				delete(e.s.waiting, e.record.Seq)
				for _, w := range e.waiters {
					w.c.fail(w.id, link.Errorf(link.CodeBusy, "not recorded in time: %v", err))
				}
			} else {
				for _, b := range behind {
					r.took(b)
				}
				behind = nil
				r.took(e)
			}
			r.mu.Unlock()
		}
		if len(acks) > 0 {
			continue
		}
		if len(behind) > 0 && w.Stats().Queued == 0 {
			r.mu.Lock()
			for _, b := range behind {
				r.took(b)
			}
			r.mu.Unlock()
			behind = nil
		}
		if closed {
			return
		}
		var tick <-chan time.Time
		if len(behind) > 0 {
			tick = look.C
		}
		select {
		case <-r.wake:
		case <-tick:
		}
	}
}

// left takes note of a bridge whose connection ended.
func (r *recorder) left(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[c.hello.Session]
	if s == nil || s.owner != c.owner {
		return
	}
	if s.clients--; s.clients > 0 || s.ended {
		return
	}
	if r.d.cfg.private {
		r.lose(s) // nobody else can come back
		return
	}
	r.wg.Go(func() { r.watch(s) })
}

// watch waits until a session has come back, or its bridge has gone.
func (r *recorder) watch(s *recorded) {
	since := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		gone := s.bridge.gone(time.Since(since))
		r.mu.Lock()
		over := s.clients > 0 || s.ended
		if gone && !over {
			r.lose(s)
		}
		r.mu.Unlock()
		if gone || over {
			return
		}
		select {
		case <-tick.C:
		case <-r.d.ctx.Done():
			return // the next desk may see it again
		}
	}
}

// lose records what is known of a session whose bridge vanished: that the ends
// of its open calls were not observed. mu is held.
func (r *recorder) lose(s *recorded) {
	now := r.d.cfg.now()
	for _, o := range s.open {
		s.upTo++
		r.own(s, call.Lost(o.record, s.upTo, now, "the bridge vanished"))
	}
	s.upTo++
	at := call.At(now)
	r.own(s, &call.Record{
		V: call.Version, Kind: call.SessionEnd, Session: s.id, Seq: s.upTo, Time: at,
		Mono: s.last.Mono + max(0, at.Sub(s.last.Time.Time).Milliseconds()),
		End:  &call.End{Reason: "the bridge vanished"},
	})
}

// own writes a record that the desk made. mu is held.
func (r *recorder) own(s *recorded, rec *call.Record) {
	e := &entryOf{s: s, record: rec, body: rec.Marshal(), class: link.Terminal}
	s.waiting[rec.Seq] = e
	r.put(e)
}

// open opens the log and writes what has waited for it.
func (r *recorder) open() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.d.ctx), openTimeout)
	defer cancel()
	w, exposed, err := openLog(ctx, r.d.cfg)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opening = false
	early := r.early
	r.early = nil
	if err != nil {
		r.d.cfg.Log.Warn("the audit log cannot be opened", "err", err)
		r.why, r.tryAt = err, r.d.cfg.now().Add(retryAfter)
		for _, e := range early {
			r.refuse(e, err)
		}
		return
	}
	r.w, r.exposed, r.why = w, exposed, nil
	for range r.missed {
		w.Missed(audit.ClassIntent, "not open")
	}
	for _, e := range early {
		r.write(e)
	}
	r.wg.Go(func() { r.acknowledge(w) })
	r.wg.Go(func() { r.tidy(w.Spine()) })
}

// tidy records the ends of strands whose writers died, and disposes of what is
// too old or too much, now and then.
func (r *recorder) tidy(spine *audit.Spine) {
	for {
		if _, err := spine.Sweep(r.d.ctx); err != nil && r.d.ctx.Err() == nil {
			r.d.cfg.Log.Warn("ends of earlier desks are not recorded", "err", err)
		}
		_, err := spine.Retain(r.d.ctx, audit.Retention{Keep: r.d.cfg.AuditKeep, Quota: r.d.cfg.AuditQuota})
		if err != nil && r.d.ctx.Err() == nil {
			r.d.cfg.Log.Warn("old records are not disposed of", "err", err)
		}
		select {
		case <-time.After(tidyEvery):
		case <-r.d.ctx.Done():
			return
		}
	}
}

// close writes what is queued and ends the strand. Clients are gone by then.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	r.wg.Wait()
	r.mu.Lock()
	w := r.w
	r.mu.Unlock()
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace-time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		r.d.cfg.Log.Error("the audit log was not ended as it should be", "err", err)
	}
}

func (r *recorder) status() link.Audit {
	r.mu.Lock()
	w, why, exposed := r.w, r.why, r.exposed
	r.mu.Unlock()
	a := link.Audit{Exposed: exposed}
	if w != nil {
		s := w.Stats()
		a.Open, a.Strand, a.Records, a.Refused, a.Dropped = true, w.Strand().String(), s.Records, s.Refused, s.Dropped
		why = s.Err
	}
	if why != nil {
		a.Why = fmt.Sprint(why)
	}
	return a
}
