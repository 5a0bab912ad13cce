package audit

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
)

// Receipt stands for a record that was taken.
type Receipt struct {
	w  *Writer
	it *item
}

// Intent is a record that somebody waits for before acting, with the slot that
// is kept for the record of how it ended. One of Terminal, Abandon and Release
// ends it; further ones do nothing.
type Intent struct {
	Receipt
	ended bool // guarded by w.mu
}

// Append takes a record that somebody waits for. It does not block; it fails at
// once with [ErrFull], [ErrBroken], [ErrClosed] or [ErrBody]. The body is copied.
func (w *Writer) Append(body []byte, level Level) (*Receipt, error) {
	it, err := w.admit(ClassIntent, body, level, false)
	if err != nil {
		return nil, err
	}
	return &Receipt{w, it}, nil
}

// Intent is Append with a slot for the terminal record, in memory and on disk.
func (w *Writer) Intent(body []byte, level Level) (*Intent, error) {
	it, err := w.admit(ClassIntent, body, level, true)
	if err != nil {
		return nil, err
	}
	return &Intent{Receipt: Receipt{w, it}}, nil
}

// Terminal takes a terminal record that has no slot: of an intent that stands in
// another strand, say. Nobody waits for it. One that cannot be taken becomes
// part of a gap, besides the error.
func (w *Writer) Terminal(body []byte) error {
	_, err := w.admit(ClassTerminal, body, Written, false)
	return err
}

// Diagnostic takes a record that is dropped first. One that cannot be taken
// becomes part of a gap, besides the error.
func (w *Writer) Diagnostic(body []byte) error {
	_, err := w.admit(ClassDiagnostic, body, Written, false)
	return err
}

// Missed says that a record of that class was not written although what it is
// about went on: a call let through unrecorded. It is counted, and becomes part
// of a gap record as soon as there is room. why is a word or two. It is for
// records that were refused, not for those that are late: these still arrive,
// or are counted as lost by Close.
func (w *Writer) Missed(class Class, why string) {
	w.mu.Lock()
	w.stats.Unrecorded++
	w.gap(class, time.Now(), why)
	w.mu.Unlock()
	signal(w.wake)
}

// gap counts a record that is missing. mu is held.
func (w *Writer) gap(class Class, now time.Time, why string) {
	g := &w.gaps[class]
	if g.Count == 0 {
		*g = Gap{Class: class, First: now, Why: tidy(why)}
	}
	g.Count++
	g.Last = now
}

// tidy keeps a reason within the room that is kept for a gap record.
func tidy(why string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f || strings.ContainsRune(`"\<>&`, r) {
			return '-'
		}
		return r
	}, why[:min(len(why), 64)])
}

// admit queues a record, or says why not.
func (w *Writer) admit(class Class, body []byte, level Level, slot bool) (*item, error) {
	if err := checkBody(body); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(body, ownPrefix) {
		return nil, fmt.Errorf("%w: it starts as the log's own records do", ErrBody)
	}
	now := time.Now()
	it := &item{class: class, level: level, cost: recordCost(len(body)), at: now}
	if class == ClassIntent {
		it.done = make(chan struct{})
		it.right = true
	}
	it.hold(w, body)
	w.mu.Lock()
	err := w.refusal(level, now)
	waits := class == ClassTerminal && err != nil && !w.closing
	if waits {
		err = nil // kept in memory until the disk is back
	}
	disk, memory, records := it.cost, int64(len(body)), 1
	if it.right {
		disk += abandonCost
	}
	if slot {
		disk += w.slotCost()
		memory += int64(w.cfg.SlotBytes)
		records++
	}
	if err == nil {
		switch {
		case slot && w.open >= w.cfg.MaxOpen:
			err = fmt.Errorf("%w: %d intents are open", ErrFull, w.open)
		case w.pending()+w.open+records > w.cfg.MaxRecords || w.bytes+memory > w.cfg.MaxBytes:
			err = fmt.Errorf("%w: the disk is behind by %d records", ErrFull, w.pending())
		case w.room-w.cost-w.kept < disk && !waits:
			if err = fmt.Errorf("%w: it is not written fast enough", ErrFull); w.roomErr != nil {
				err = fmt.Errorf("%w: %w", ErrFull, w.roomErr)
			}
		}
	}
	if err != nil {
		if class == ClassIntent {
			w.stats.Refused++
		} else {
			w.stats.Dropped++
			w.gap(class, now, "refused")
		}
		w.mu.Unlock()
		it.letGo(w)
		return nil, err
	}
	if it.right {
		w.kept += abandonCost
	}
	if slot {
		w.open++
		w.kept += w.slotCost()
		w.bytes += int64(w.cfg.SlotBytes)
	}
	w.enqueue(it)
	w.mu.Unlock()
	// A lone diagnostic waits for company, or for its time.
	signal(w.wake)
	return it, nil
}

// hold copies the body into a buffer that may have been used before.
func (it *item) hold(w *Writer, body []byte) {
	it.buf, _ = w.bodies.Get().(*[]byte)
	if it.buf == nil {
		it.buf = new([]byte)
	}
	*it.buf = append((*it.buf)[:0], body...)
	it.body = *it.buf
}

// letGo gives the buffer back: nothing reads the body any more.
func (it *item) letGo(w *Writer) {
	it.body = nil
	if it.buf != nil {
		w.bodies.Put(it.buf)
		it.buf = nil
	}
}

func (w *Writer) slotCost() int64 { return recordCost(w.cfg.SlotBytes) }

// enqueue puts an item at the end of the queue. mu is held.
func (w *Writer) enqueue(it *item) {
	w.queue = append(w.queue, it)
	w.tally(it, 1)
	if it.class == ClassDiagnostic && w.lazySince.IsZero() {
		w.lazySince = it.at
	}
}

// tally counts an item of the queue in (1) or out (-1). mu is held.
func (w *Writer) tally(it *item, sign int) {
	w.cost += int64(sign) * it.cost
	w.bytes += int64(sign * len(it.body))
	if it.class != ClassDiagnostic {
		w.prompt += sign
	}
	if it.done != nil && it.level == Written && !it.reached() {
		w.urgent += sign
	}
}

// reached reports whether the waiter was told. mu is held.
func (it *item) reached() bool {
	if it.done == nil {
		return true
	}
	select {
	case <-it.done:
		return true
	default:
		return false
	}
}

// tell ends the wait for an item. mu is held.
func (w *Writer) tell(it *item, err error) {
	if it.reached() {
		return
	}
	it.err = err
	close(it.done)
	w.dropRight(it)
}

func (w *Writer) dropRight(it *item) {
	if it.right {
		it.right = false
		w.kept -= abandonCost
	}
}

// refusal returns why nothing is taken now. mu is held.
func (w *Writer) refusal(level Level, now time.Time) error {
	stuck := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) > w.cfg.Deadline }
	switch {
	case w.closing:
		return ErrClosed
	case w.broken != nil:
		return fmt.Errorf("%w: %w", ErrBroken, w.broken)
	case stuck(w.opStart), level == Durable && stuck(w.syncStart):
		return fmt.Errorf("%w: the disk does not answer", ErrBroken)
	case w.timeouts >= breakAfter:
		return fmt.Errorf("%w: the disk is too slow", ErrBroken)
	}
	return nil
}

// Wait returns once the record is where its level says, or with [ErrDeadline]
// when ctx ends or the deadline, counted from when it was taken, has passed.
// The caller then decides: Abandon it, or go on.
func (r *Receipt) Wait(ctx context.Context) (Position, error) {
	w, it := r.w, r.it
	late := time.NewTimer(time.Until(it.at.Add(w.cfg.Deadline)))
	defer late.Stop()
	var err error
	select {
	case <-it.done:
	case <-ctx.Done():
		err = ErrDeadline
	case <-late.C:
		err = ErrDeadline
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.reached() {
		return it.where, it.err
	}
	w.stats.Timeouts++
	if ctx.Err() == nil {
		w.timeouts++
	}
	return Position{}, err
}

// Abandon says that nothing will be done for the record since it did not arrive
// in time. If it is not on its way yet it is taken back; else a record behind it
// says so.
func (r *Receipt) Abandon() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.abandon()
}

func (r *Receipt) abandon() {
	w, it := r.w, r.it
	if it.stage == stageQueued {
		for i, q := range w.queue {
			if q == it {
				w.queue = append(w.queue[:i:i], w.queue[i+1:]...)
				w.tally(it, -1)
				break
			}
		}
		it.stage = stageGone
		w.tell(it, ErrDeadline)
		return
	}
	// Whether or not its own right is still held, the record is small, and the
	// only one that says that nothing was done.
	w.dropRight(it)
	w.enqueue(&item{class: ClassTerminal, of: it, cost: abandonCost, at: time.Now()})
	signal(w.wake)
}

// Terminal takes the record of how it ended. It never fails for lack of room
// while the Writer is open; errors are [ErrBody], also for more than the slot
// holds, and [ErrClosed].
func (i *Intent) Terminal(body []byte) error {
	w := i.w
	if err := checkBody(body); err != nil {
		return err
	}
	if len(body) > w.cfg.SlotBytes {
		return fmt.Errorf("%w: %d bytes, the slot holds %d", ErrBody, len(body), w.cfg.SlotBytes)
	}
	if bytes.HasPrefix(body, ownPrefix) {
		return fmt.Errorf("%w: it starts as the log's own records do", ErrBody)
	}
	it := &item{class: ClassTerminal, cost: recordCost(len(body)), at: time.Now()}
	it.hold(w, body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !i.end() {
		return nil
	}
	if w.closing {
		return ErrClosed
	}
	w.enqueue(it)
	signal(w.wake)
	return nil
}

// Abandon is Abandon of the receipt and gives the slot back.
func (i *Intent) Abandon() {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	if i.end() {
		i.abandon()
	}
}

// Release gives the slot back without a record: the end will be recorded
// elsewhere, or by nobody.
func (i *Intent) Release() {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	i.end()
}

// end gives the slot back, the first time. mu is held.
func (i *Intent) end() bool {
	if i.ended {
		return false
	}
	i.ended = true
	w := i.w
	w.open--
	w.kept -= w.slotCost()
	w.bytes -= int64(w.cfg.SlotBytes)
	return true
}
