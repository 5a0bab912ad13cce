package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestShred(t *testing.T) {
	l := newTestLog(t)
	w := l.open(func(c *Config) { c.SegmentBytes = 1300 })
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		call(t, w, name)
	}
	s := l.spine()
	ctx := context.Background()
	last := int(w.Stats().Segments) - 1
	for _, bad := range []int{last, -1, last + 1} {
		if err := s.Shred(ctx, w.id, []int{bad}, "x"); err == nil {
			t.Errorf("segment %d of a live strand was shredded", bad)
		}
	}
	if err := s.Shred(ctx, w.id, []int{0}, "Not a word"); err == nil {
		t.Error("a reason that is no word was taken")
	}
	must(t, s.Shred(ctx, w.id, []int{0}, "test"))
	must(t, s.Shred(ctx, w.id, []int{0}, "test")) // does nothing
	l.close(w)
	wantVerdict(t, l.verify(nil), Incomplete, "the contents of 1 segments were shredded, as recorded")
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.AcceptDisposed = true }), Unanchored, "")
	r, err := OpenReader(l.dir, "", l.ids)
	must(t, err)
	defer r.Close()
	n := 0
	var unread *UnreadError
	for rec, err := range r.Records(Query{}) {
		if rec != nil {
			n++
		} else if !errors.As(err, &unread) || !errors.Is(err, ErrShredded) {
			t.Error(err)
		}
	}
	if unread == nil || len(unread.Segments) != 1 || n == 0 || n >= 10 {
		t.Errorf("%d records, %v", n, unread)
	}
}

func TestSweepAndPrune(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "a")
	settle(t, w)
	dead := copyLog(t, l.dir)
	if swept, err := l.spine().Sweep(context.Background()); err != nil || len(swept) != 0 {
		t.Errorf("a live strand was swept: %v, %v", swept, err)
	}
	l.close(w)
	l.dir = dead
	s := l.spine()
	ctx := context.Background()
	if err := s.Prune(ctx, w.id); err == nil {
		t.Error("a strand was pruned that had not ended")
	}
	swept, err := s.Sweep(ctx)
	must(t, err)
	if len(swept) != 1 || swept[0].Strand != w.id || swept[0].Err != nil {
		t.Errorf("swept %+v", swept)
	}
	wantVerdict(t, l.verify(nil), Unanchored, "1 orphaned")
	must(t, s.Prune(ctx, w.id))
	must(t, s.Prune(ctx, w.id)) // does nothing
	wantVerdict(t, l.verify(nil), Incomplete, "1 strands were pruned, as recorded")
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.AcceptDisposed = true }), Unanchored, "1 pruned")
	if len(l.bodies()) != 0 {
		t.Error("records of a pruned strand")
	}
	// Cut short: recorded, but still there.
	must(t, os.Mkdir(filepath.Join(l.dir, strandDir(w.id)), 0o700))
	wantVerdict(t, l.verify(nil), Incomplete, "its folder is still there")
	_, err = s.Retain(ctx, Retention{})
	must(t, err)
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.AcceptDisposed = true }), Unanchored, "0 strands")
}

// A strand that was cut is not swept: that would cover the cut.
func TestSweepRefusesACutStrand(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "a")
	settle(t, w)
	dead := copyLog(t, l.dir)
	l.close(w)
	l.dir = dead
	must(t, os.Truncate(filepath.Join(dead, segmentName(w.id, 0)), 100))
	swept, err := l.spine().Sweep(context.Background())
	must(t, err)
	if len(swept) != 1 || swept[0].Err == nil {
		t.Errorf("swept %+v", swept)
	}
	wantVerdict(t, l.verify(nil), Failed, "was cut")
}

func TestRetain(t *testing.T) {
	l := newTestLog(t)
	for range 3 {
		w := l.open(func(c *Config) { c.SegmentBytes = 1300 })
		call(t, w, "a")
		call(t, w, "b")
		call(t, w, "c")
		l.close(w)
	}
	live := l.open(nil)
	s := l.spine()
	ctx := context.Background()
	d, err := s.Retain(ctx, Retention{Keep: time.Hour})
	must(t, err)
	if d.Shredded != 0 || d.Pruned != 0 || d.Bytes == 0 {
		t.Errorf("disposed %+v of a young log", d)
	}
	later := time.Now().Add(2 * time.Hour)
	d, err = s.Retain(ctx, Retention{Keep: time.Hour, Now: later})
	must(t, err)
	if d.Shredded < 6 {
		t.Errorf("disposed %+v", d)
	}
	again, err := s.Retain(ctx, Retention{Keep: time.Hour, Now: later})
	must(t, err)
	if again.Shredded != 0 {
		t.Errorf("disposed twice: %+v", again)
	}
	keys, err := filepath.Glob(filepath.Join(l.dir, nameStrands, "*", "*.key.age"))
	must(t, err)
	if len(keys) != 1 {
		t.Errorf("%d key files are left, want that of the live strand", len(keys))
	}
	quota := again.Bytes/2 + 1
	d, err = s.Retain(ctx, Retention{Quota: quota})
	must(t, err)
	if d.Pruned == 0 || d.Bytes > quota {
		t.Errorf("disposed %+v for %d bytes", d, quota)
	}
	d, err = s.Retain(ctx, Retention{Quota: 1})
	must(t, err)
	call(t, live, "z")
	l.close(live)
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.AcceptDisposed = true }), Unanchored, "3 pruned")
}

func TestQuerySince(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "a")
	l.close(w)
	w2 := l.open(nil)
	call(t, w2, "b")
	r, err := OpenReader(l.dir, l.vkey(), l.ids)
	must(t, err)
	defer r.Close()
	count := func(q Query) (n int) {
		for _, err := range r.Records(q) {
			must(t, err)
			n++
		}
		return n
	}
	if n := count(Query{Strand: &w.id}); n != 2 {
		t.Errorf("%d records of the first strand", n)
	}
	if n := count(Query{Since: time.Now().Add(time.Hour)}); n < 1 || n > 2 {
		t.Errorf("%d records: only the strand that has not ended may have newer ones", n)
	}
	for range r.Records(Query{}) {
		break
	}
	l.close(w2)
	_, err = OpenReader(l.dir, newTestLogKey(t), l.ids)
	if err == nil {
		t.Error("a log under another key was opened")
	}
}

func newTestLogKey(t *testing.T) string {
	k, err := newNodeKey("")
	must(t, err)
	return k.vkey
}
