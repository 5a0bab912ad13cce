package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnlinked says that the segment's file was removed or replaced under its
// name.
var errUnlinked = errors.New("the segment's file was removed")

// scribe is the goroutine that writes. It owns the segment. The only thing that
// runs beside it is a sync, whose result it receives.
func (w *Writer) scribe() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, quit := w.step(time.Now())
		if quit {
			break
		}
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case r := <-w.synced:
			w.onSynced(r)
		}
	}
	w.finish()
}

// step does the next thing there is to do, and returns 0, or returns how long
// to wait for something.
func (w *Writer) step(now time.Time) (wait time.Duration, quit bool) {
	select {
	case r := <-w.synced:
		w.onSynced(r)
	default:
	}
	if w.seg == nil {
		if now.Before(w.probeAt) && !w.isClosing() {
			return w.probeAt.Sub(now), false
		}
		if err := w.newSegment(); err != nil {
			w.breakNow(err)
			return w.probeAt.Sub(now), w.isClosing()
		}
	}
	w.mu.Lock()
	write := w.urgent > 0
	if !w.syncing {
		// While a sync runs, what nobody waits to see written gathers.
		write = write || w.prompt > 0 || w.gapDue(now) || w.closing && len(w.queue) > 0
	}
	lazy := w.lazySince
	write = write || !lazy.IsZero() && now.Sub(lazy) >= w.cfg.LazyAfter
	rotate := w.rotate
	closing := w.closing
	held, heldBytes, waiting := len(w.held), w.bytes, w.waiting
	idle := len(w.queue) == 0
	gaps := w.gapCount()
	w.mu.Unlock()

	age := time.Unix(w.seg.opened, 0).Add(rotateAfter)
	due := w.seg.size >= w.cfg.SegmentBytes || w.seg.leaves >= rotateLeaves || !now.Before(age)
	mayRotate := !w.syncing && !closing && !now.Before(w.probeAt)
	syncAt := w.unsynced.Add(w.cfg.SyncAfter)
	if w.lazy {
		syncAt = w.unsynced.Add(w.cfg.LazyAfter)
	}
	crowded := held > w.cfg.MaxRecords/4 || heldBytes > w.cfg.MaxBytes/2
	switch {
	// Before a write: under load there is always something to write, and a
	// change of recipients holds for what is written from now on.
	case (rotate || due) && mayRotate:
		w.rotateSegment(now)
		return 0, false
	case held > 0 && !w.syncing && (waiting > 0 || closing || crowded || !now.Before(syncAt)):
		w.startSync(now)
		return 0, false
	case write && !(rotate && w.syncing):
		w.writeBatch(now)
		return 0, false
	}
	if closing && idle && held == 0 && gaps == 0 && !w.syncing {
		return 0, true
	}
	wait = age.Sub(now)
	sooner := func(t time.Time) {
		if d := max(t.Sub(now), time.Millisecond); d < wait {
			wait = d
		}
	}
	if held > 0 && !w.syncing {
		sooner(syncAt)
	}
	if !lazy.IsZero() {
		sooner(lazy.Add(w.cfg.LazyAfter))
	}
	if gaps > 0 && !w.syncing {
		sooner(w.lastGap.Add(gapEvery))
	}
	return max(wait, time.Millisecond), false
}

func (w *Writer) isClosing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

func (w *Writer) gapCount() (n int) {
	for _, g := range w.gaps {
		n += g.Count
	}
	return n
}

// gapDue reports whether a gap record should be written now: at once for
// intents, else once a second at most. mu is held.
func (w *Writer) gapDue(now time.Time) bool {
	return w.gaps[ClassIntent].Count > 0 || w.gapCount() > 0 && (w.closing || now.Sub(w.lastGap) >= gapEvery)
}

// atDisk says that the goroutine goes to the disk, and returns what says that
// it came back.
func (w *Writer) atDisk() (back func()) {
	w.mu.Lock()
	w.opStart = time.Now()
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.opStart = time.Time{}
		w.mu.Unlock()
	}
}

// writeBatch writes what is queued with one COMMIT behind it.
func (w *Writer) writeBatch(now time.Time) {
	w.mu.Lock()
	var cost int64
	n := 0
	for n < len(w.queue) && cost < maxBatch {
		cost += w.queue[n].cost
		n++
	}
	batch := append([]*item(nil), w.queue[:n]...)
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil
	}
	lazy := true
	for _, it := range batch {
		w.tally(it, -1)
		w.bytes += int64(len(it.body)) // still held
		it.stage = stageWriting
		lazy = lazy && it.class == ClassDiagnostic
	}
	w.lazySince = time.Time{}
	for _, it := range w.queue {
		if it.class == ClassDiagnostic {
			w.lazySince = it.at
			break
		}
	}
	if w.gapDue(now) {
		for c := range w.gaps {
			if g := &w.gaps[c]; g.Count > 0 {
				body := g.body()
				batch = append(batch, &item{class: ClassTerminal, body: body, cost: recordCost(len(body)), at: now, stage: stageWriting})
				w.bytes += int64(len(body))
				*g = Gap{}
			}
		}
		w.lastGap, lazy = now, false
	}
	sg := w.seg
	for i, it := range batch {
		it.where = Position{w.id, w.next - 1, sg.state.n + uint64(i)}
	}
	w.writing = len(batch)
	if len(batch) > 0 {
		w.opStart = now
	}
	w.mu.Unlock()
	if len(batch) == 0 {
		return // taken back meanwhile
	}

	w.buf = w.buf[:0]
	for _, it := range batch {
		body := it.body
		if it.of != nil {
			body = abandonedBody(it.of.where.Leaf)
		}
		at := len(w.buf)
		w.buf = appendRecord(w.buf, sg.keys.next(), sg.state.c, body)
		sg.state = sg.state.link(w.buf[at:])
	}
	w.buf = sg.state.appendCommit(w.buf, w.id, w.key)
	err := writeAll(sg.file, w.buf)
	if err == nil {
		sg.size += int64(len(w.buf))
		sg.leaves += len(batch)
		var linked bool
		if linked, err = sg.file.Linked(); err == nil && !linked {
			err = errUnlinked
		}
	}

	w.mu.Lock()
	w.opStart = time.Time{}
	w.held, w.writing = append(w.held, batch...), 0
	for _, it := range batch {
		it.stage = stageHeld
		if it.done != nil && it.level == Durable && !it.reached() {
			w.waiting++
		}
	}
	if err == nil {
		w.room -= int64(len(w.buf))
		w.stats.Records += int64(len(batch))
		w.stats.Commits++
		w.stats.Bytes += int64(len(w.buf))
		w.timeouts = 0
		for _, it := range batch {
			if it.level == Written {
				w.tell(it, nil)
			}
		}
	}
	more := w.room-w.cost-w.kept < w.cfg.Reserve
	want := w.cost + w.kept + w.cfg.Reserve + roomStep
	w.mu.Unlock()
	if cap(w.buf) > 4*maxBatch {
		w.buf = nil
	}
	if err != nil {
		w.condemn(err)
		return
	}
	if w.unsynced.IsZero() {
		w.unsynced, w.lazy = now, lazy
	}
	w.lazy = w.lazy && lazy
	if more && !sg.roomless && !now.Before(w.roomAt) {
		w.moreRoom(want)
	}
}

// moreRoom asks the disk to keep room for so many bytes. If it cannot, what it
// keeps already is for the slots, and intents are refused.
func (w *Writer) moreRoom(want int64) {
	back := w.atDisk()
	err := w.seg.file.Reserve(want)
	back()
	w.mu.Lock()
	w.roomErr = err
	if err == nil {
		w.room = want
	}
	w.mu.Unlock()
	if err != nil {
		w.roomAt = time.Now().Add(probeEvery)
		w.cfg.Log.Warn("audit log: no more room on the disk", "err", err)
	}
}

// startSync begins to sync what was written.
func (w *Writer) startSync(now time.Time) {
	file := w.seg.file
	w.mu.Lock()
	r := syncResult{upTo: len(w.held), state: w.seg.state}
	w.syncStart = now
	w.mu.Unlock()
	w.syncing = true
	go func() {
		r.err = file.Sync()
		w.synced <- r // received by step, or by settle
	}()
}

func (w *Writer) onSynced(r syncResult) {
	w.syncing = false
	w.mu.Lock()
	w.syncStart = time.Time{}
	w.mu.Unlock()
	if r.err != nil {
		w.condemn(r.err)
		return
	}
	w.settled(r)
}

// settled takes note of a sync that went well.
func (w *Writer) settled(r syncResult) {
	w.mu.Lock()
	w.stats.Syncs++
	w.timeouts = 0
	w.durable = r.state
	for _, it := range w.held[:r.upTo] {
		if it.done != nil && it.level == Durable && !it.reached() {
			w.waiting--
			w.tell(it, nil)
		}
		it.stage = stageGone
		w.bytes -= int64(len(it.body))
		it.letGo(w)
	}
	w.held = append([]*item(nil), w.held[r.upTo:]...)
	w.unsynced = time.Time{}
	if len(w.held) > 0 {
		w.unsynced = time.Now()
	}
	herald := w.durable.n-w.headed >= headLeaves
	w.mu.Unlock()
	if herald {
		signal(w.headNow)
	}
}

// condemn gives the segment's file up: after a failed write nobody knows what
// is in it, and after a failed sync the next one may report success with the
// data lost. What was not synced is written again, into a new segment that goes
// on from the last COMMIT that was.
func (w *Writer) condemn(err error) {
	if w.syncing {
		back := w.atDisk()
		r := <-w.synced
		back()
		w.syncing = false
		if r.err == nil && !errors.Is(err, errUnlinked) {
			w.settled(r)
		}
	}
	w.seg.file.Close()
	w.seg = nil
	w.cfg.Log.Error("audit log: segment given up", "segment", w.next-1, "err", err)
	w.mu.Lock()
	w.syncStart = time.Time{}
	list := append(w.held, w.queue...)
	w.queue, w.held, w.waiting = nil, nil, 0
	w.cost, w.prompt, w.urgent = 0, 0, 0
	for _, it := range list {
		it.stage = stageQueued
		w.cost += it.cost
		if it.class != ClassDiagnostic {
			w.prompt++
		}
		if it.done != nil && it.level == Written && !it.reached() {
			w.urgent++
		}
	}
	w.queue = list
	if errors.Is(err, errUnlinked) {
		w.losses = append(w.losses, &entry{kind: kindLoss, strand: w.id, word: "file-removed", since: time.Now().Unix()})
	}
	w.room = 0
	w.mu.Unlock()
	w.unsynced = time.Time{}
	w.breakNow(err)
	w.probeAt = time.Time{} // a new file may well do
}

// breakNow opens the breaker.
func (w *Writer) breakNow(err error) {
	w.mu.Lock()
	w.broken = err
	w.mu.Unlock()
	w.probeAt = time.Now().Add(probeEvery)
}

// prepare makes the files of the next segment.
func (w *Writer) prepare() (sg *segment, h *header, secret [32]byte, room int64, err error) {
	w.mu.Lock()
	r := w.recipients
	room = w.cost + w.kept + w.cfg.Reserve + roomStep
	w.mu.Unlock()
	h = &header{strand: w.id, segment: w.next, signer: [32]byte(w.key[32:]), origin: w.origin, created: time.Now().Unix()}
	sg, secret, err = createSegment(w.disk, h, r, room+4<<10)
	return sg, h, secret, room, err
}

// newSegment goes on in a new segment from the last COMMIT that was synced.
func (w *Writer) newSegment() error {
	back := w.atDisk()
	defer back()
	if err := w.lockLive(); err != nil {
		return err
	}
	sg, h, secret, room, err := w.prepare()
	if err != nil {
		return err
	}
	return w.begin(sg, h, secret, room)
}

func (w *Writer) begin(sg *segment, h *header, secret [32]byte, room int64) error {
	w.mu.Lock()
	from := w.durable
	w.mu.Unlock()
	if err := sg.start(h, secret, from, w.key); err != nil {
		sg.file.Close()
		removeSegment(w.disk, h)
		return err
	}
	w.seg = sg
	w.next++
	w.unsynced = time.Time{}
	w.probeAt = time.Time{}
	w.mu.Lock()
	w.durable = sg.state
	w.broken = nil
	w.rotate = w.recipients.Hash() != h.recipients
	w.room, w.roomErr = room, nil
	if sg.roomless {
		w.room = 1 << 50
	}
	w.stats.Segments++
	w.stats.Syncs++
	w.stats.Commits++
	w.stats.Bytes += sg.size
	w.mu.Unlock()
	return nil
}

// rotateSegment ends the segment and goes on in the next, whose files are made
// first, so that a full disk does not end a segment that still has room.
func (w *Writer) rotateSegment(now time.Time) {
	back := w.atDisk()
	sg, h, secret, room, err := w.prepare()
	back()
	if err != nil {
		w.cfg.Log.Warn("audit log: cannot begin the next segment", "err", err)
		w.probeAt = now.Add(probeEvery)
		if w.seg.size >= maxSegment-4*maxBatch {
			w.condemn(fmt.Errorf("segment is at its limit and no other could be made: %w", err))
		}
		return
	}
	if err := w.endSegment(endRotate); err != nil {
		sg.file.Close()
		w.condemn(err)
		return
	}
	back = w.atDisk()
	err = w.begin(sg, h, secret, room)
	back()
	if err != nil {
		w.seg = nil
		w.breakNow(err)
	}
}

// endSegment writes END, syncs, and closes the file.
func (w *Writer) endSegment(why string) error {
	back := w.atDisk()
	defer back()
	out := w.seg.end(why, w.id, w.key)
	if err := writeAll(w.seg.file, out); err != nil {
		return err
	}
	if err := w.seg.file.Sync(); err != nil {
		return err
	}
	w.mu.Lock()
	n := len(w.held)
	w.stats.Bytes += int64(len(out))
	w.stats.Commits++
	w.mu.Unlock()
	w.settled(syncResult{upTo: n, state: w.seg.state})
	w.seg.file.Close() // all of it is synced
	return nil
}

// finish ends the strand. It is the last act of the writing goroutine.
func (w *Writer) finish() {
	var end error
	closed := false
	if w.seg != nil {
		if end = w.endSegment(endClose); end == nil {
			closed = true
		} else {
			w.seg.file.Close()
		}
	} else {
		w.mu.Lock()
		end = w.broken
		w.mu.Unlock()
	}
	w.mu.Lock()
	left := len(w.queue) + len(w.held) + w.gapCount()
	for _, it := range append(w.held, w.queue...) {
		w.tell(it, ErrClosed)
	}
	at := w.durable
	list := w.losses
	w.mu.Unlock()
	close(w.stop)
	<-w.spineOK
	if left > 0 {
		list = append(list, &entry{kind: kindLoss, strand: w.id, word: "unwritten", since: time.Now().Unix()})
	}
	e := &entry{kind: kindHead, strand: w.id, at: at}
	if closed {
		e.kind = kindClose
	}
	if err := w.spine.update(context.Background(), func(*view) ([]*entry, error) { return append(list, e), nil }); end == nil && err != nil {
		end = fmt.Errorf("audit log: tell the spine: %w", err)
	}
	w.live.Close()
	w.spine.Close()
	w.mu.Lock()
	w.closeErr = end
	if left > 0 {
		w.closeErr = &LossError{left, end}
	}
	w.mu.Unlock()
	close(w.done)
}

// herald is the goroutine that makes heads known to the spine. A spine that is
// slow or locked delays heads, not records.
func (w *Writer) herald() {
	defer close(w.spineOK)
	tick := time.NewTicker(w.cfg.HeadEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.headNow:
		case <-tick.C:
		}
		w.mu.Lock()
		at, headed, losses := w.durable, w.headed, w.losses
		w.mu.Unlock()
		if at.n == headed && len(losses) == 0 {
			continue
		}
		list := append([]*entry(nil), losses...)
		if at.n != headed {
			list = append(list, &entry{kind: kindHead, strand: w.id, at: at})
		}
		err := w.spine.update(context.Background(), func(*view) ([]*entry, error) { return list, nil })
		w.mu.Lock()
		w.stats.SpineErr = err
		if err == nil {
			w.headed = at.n
			w.losses = w.losses[len(losses):]
		}
		w.mu.Unlock()
		if err != nil {
			w.cfg.Log.Warn("audit log: the spine did not take a head", "err", err)
		}
	}
}
