package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Swept is a strand whose writer had died.
type Swept struct {
	Strand ID
	Leaves uint64 // that it ends with
	Err    error  // why its end could not be recorded; nil if it was
}

// Sweep records the ends of strands whose writers died, so that cutting them
// later is seen. It writes to the spine only. Live strands are left alone.
func (s *Spine) Sweep(ctx context.Context) ([]Swept, error) {
	type open struct {
		id     ID
		signer [32]byte
	}
	var list []open
	err := s.locked(ctx, func() error {
		if err := s.refresh(); err != nil {
			return err
		}
		for _, id := range s.view.order {
			if st := s.view.strands[id]; st.end == "" && !st.pruned {
				list = append(list, open{id, st.signer})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var swept []Swept
	for _, o := range list {
		if err := ctx.Err(); err != nil {
			return swept, err
		}
		st, dead, err := s.sweep(ctx, o.id, o.signer)
		if dead {
			swept = append(swept, Swept{o.id, st.n, err})
		}
	}
	return swept, nil
}

func (s *Spine) sweep(ctx context.Context, id ID, signer [32]byte) (at state, dead bool, err error) {
	f, err := s.root.OpenFile(liveName(id), os.O_RDONLY|openNonblock, 0)
	if err == nil {
		defer f.Close()
		// Held until the end is in the spine, so that two sweepers do not meet.
		if ok, err := tryLock(f, false); err != nil || !ok {
			return at, false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return at, false, err
	}
	w := &walk{root: s.root, id: id, signer: signer[:], origin: s.origin()}
	if err := w.seekLast(); err != nil {
		return at, true, err
	}
	if err := w.run(); err != nil {
		return at, true, err
	}
	for k := max(0, w.segments-2); k < w.segments; k++ { // it may have died between two
		s.trim(segmentName(id, k))
	}
	e := &entry{kind: kindOrphan, strand: id, at: w.state}
	if w.end == endClose {
		e.kind = kindClose
	}
	return w.state, true, s.update(ctx, func(v *view) ([]*entry, error) {
		if v.strands[id].end != "" {
			return nil, nil
		}
		return []*entry{e}, nil
	})
}

// trim gives back the room that a dead writer had kept behind a file. It
// sets the size that the file has, so nothing of it changes; where that fails
// the room stays taken until the strand is pruned.
func (s *Spine) trim(name string) {
	st, err := s.root.Lstat(name)
	if err != nil || !st.Mode().IsRegular() {
		return
	}
	f, err := s.root.OpenFile(name, os.O_WRONLY|openNonblock, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if now, err := f.Stat(); err == nil && os.SameFile(st, now) {
		f.Truncate(now.Size())
	}
}

// seekLast sets from to the last segment that has a start: where a strand ends
// can be told from there.
func (w *walk) seekLast() error {
	n, _, err := w.list()
	if err != nil {
		return err
	}
	w.strange = nil
	for k := n - 1; k > 0; k-- {
		_, err := w.peek(k)
		if err == nil {
			w.from = k
			return nil
		}
		if _, ok := errors.AsType[*damageError](err); !ok {
			return err
		}
	}
	return nil
}

// Shred removes the key files of segments, so that nobody can read them any
// more; the chain still verifies. It is recorded first. The last segment of a
// strand that has not ended is refused. reason is a word of a-z, 0-9 and -.
func (s *Spine) Shred(ctx context.Context, id ID, segments []int, reason string) error {
	if err := word(reason); err != nil {
		return err
	}
	err := s.update(ctx, func(v *view) (list []*entry, err error) {
		st := v.strands[id]
		if st == nil || st.pruned {
			return nil, fmt.Errorf("strand %s is not in the log", id)
		}
		w := &walk{root: s.root, id: id}
		n, _, err := w.list()
		if err != nil {
			return nil, err
		}
		for _, k := range segments {
			if k < 0 || k >= n || k == n-1 && st.end == "" {
				return nil, fmt.Errorf("segment %d of strand %s cannot be shredded: there is no such one, or it is being written", k, id)
			}
			if _, done := st.shreds[k]; !done {
				list = append(list, &entry{kind: kindShred, strand: id, segment: k, word: reason})
			}
		}
		return list, nil
	})
	if err != nil {
		return err
	}
	for _, k := range segments {
		if err := s.root.Remove(keyFileName(id, k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(s.root, strandDir(id))
}

// Prune removes whole strands that have ended. It is recorded first; their last
// heads stay in the spine.
func (s *Spine) Prune(ctx context.Context, ids ...ID) error {
	err := s.update(ctx, func(v *view) (list []*entry, err error) {
		for _, id := range ids {
			st := v.strands[id]
			switch {
			case st == nil:
				return nil, fmt.Errorf("strand %s is not in the log", id)
			case st.pruned:
			case st.end == "":
				return nil, fmt.Errorf("strand %s has not ended", id)
			default:
				list = append(list, &entry{kind: kindPrune, strand: id, at: st.last})
			}
		}
		return list, nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.root.RemoveAll(strandDir(id)); err != nil {
			return err
		}
	}
	return syncDir(s.root, nameStrands)
}

// Retention says what is kept. Zero values keep everything.
type Retention struct {
	// Keep is how long contents can be read. Segments that ended longer ago are
	// shredded.
	Keep time.Duration
	// Quota is how many bytes the strands may take. Beyond it the oldest strands
	// that have ended are pruned.
	Quota int64
	// Now is the time that Keep counts from. Zero means now.
	Now time.Time
}

// Disposed is what [Spine.Retain] did.
type Disposed struct {
	Shredded int   // segments
	Pruned   int   // strands
	Bytes    int64 // that the strands take now
}

// Retain disposes of what is too old or too much, and ends disposals that were
// cut short.
func (s *Spine) Retain(ctx context.Context, r Retention) (Disposed, error) {
	var d Disposed
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	type known struct {
		id ID
		strandView
	}
	var list []known
	err := s.locked(ctx, func() error {
		if err := s.refresh(); err != nil {
			return err
		}
		for _, id := range s.view.order {
			st := *s.view.strands[id]
			shreds := make(map[int]string)
			for k, v := range st.shreds {
				shreds[k] = v
			}
			st.shreds = shreds
			list = append(list, known{id, st})
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	sizes := map[ID]int64{}
	for i := range list {
		if err := ctx.Err(); err != nil {
			return d, err
		}
		k := &list[i]
		if k.pruned {
			if _, err := s.root.Lstat(strandDir(k.id)); err == nil {
				if err := s.root.RemoveAll(strandDir(k.id)); err != nil {
					return d, err
				}
			}
			continue
		}
		old, size, err := s.old(k.id, &k.strandView, r.Keep, now)
		if err != nil {
			return d, err
		}
		sizes[k.id] = size
		d.Bytes += size
		if len(old) > 0 {
			if err := s.Shred(ctx, k.id, old, "retention"); err != nil {
				return d, err
			}
			for _, seg := range old {
				if _, again := k.shreds[seg]; !again {
					d.Shredded++
				}
			}
		}
	}
	if r.Quota <= 0 || d.Bytes <= r.Quota {
		return d, nil
	}
	slices.SortStableFunc(list, func(a, b known) int { return cmp.Compare(a.ended, b.ended) })
	for _, k := range list {
		if d.Bytes <= r.Quota {
			break
		}
		if k.pruned || k.end == "" {
			continue
		}
		if err := s.Prune(ctx, k.id); err != nil {
			return d, err
		}
		d.Pruned++
		d.Bytes -= sizes[k.id]
	}
	return d, nil
}

// old returns the segments of a strand whose key files should be gone and are
// not, and the bytes of the strand.
func (s *Spine) old(id ID, st *strandView, keep time.Duration, now time.Time) (old []int, size int64, err error) {
	d, err := s.root.Open(strandDir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil // a verifier says so; here there is nothing to keep
	} else if err != nil {
		return nil, 0, err
	}
	files, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return nil, 0, err
	}
	for _, f := range files {
		if i, err := f.Info(); err == nil {
			size += i.Size()
		}
	}
	w := &walk{root: s.root, id: id, signer: st.signer[:]}
	n, keyFiles, err := w.list()
	if _, ok := errors.AsType[*damageError](err); ok {
		return nil, size, nil
	} else if err != nil {
		return nil, size, err
	}
	ended := st.ended
	for k := n - 1; k >= 0; k-- {
		_, shredded := st.shreds[k]
		tooOld := keep > 0 && (k < n-1 || st.end != "") && now.Sub(time.Unix(ended, 0)) > keep
		if keyFiles[k] && (tooOld || shredded) {
			old = append(old, k)
		}
		h, err := w.peek(k)
		if _, ok := errors.AsType[*damageError](err); ok {
			ended = now.Unix() // its age is not known
			continue
		} else if err != nil {
			return nil, size, err
		}
		ended = h.created
	}
	slices.Reverse(old)
	return old, size, nil
}
