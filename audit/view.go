package audit

import (
	"errors"
	"fmt"
)

// view is what the entries of a spine say, folded.
type view struct {
	tree     tree
	bytes    int64 // length of the encoding of the entries
	last     int64 // time of the last entry
	strands  map[ID]*strandView
	order    []ID // by their open entries
	sets     map[[32]byte]int64
	set      [32]byte // the newest recipients; zeros if none
	epochs   []epochView
	clocks   int
	losses   []lossView
	allHeads bool // keep every head, for a verifier; else only the last
}

type epochView struct {
	size     uint64 // of the spine with this entry
	old, new string
}

type lossView struct {
	strand      ID
	what        string
	since, time int64
}

// strandView is what the spine says about a strand.
type strandView struct {
	signer [32]byte
	opened int64
	ended  int64   // time of close or orphan
	heads  []state // ascending; a close or orphan is the last
	last   state
	end    string // kindClose, kindOrphan or ""
	pruned bool
	shreds map[int]string
}

func newView(allHeads bool) *view {
	return &view{strands: make(map[ID]*strandView), sets: make(map[[32]byte]int64), allHeads: allHeads}
}

// add folds an entry in. On error the view is unchanged.
func (v *view) add(raw []byte) error {
	e, err := parseEntry(raw)
	if err != nil {
		return err
	}
	if err := v.check(e); err != nil {
		return fmt.Errorf("%s entry: %w", e.kind, err)
	}
	v.tree.add(raw)
	v.bytes += int64(2 + len(raw))
	v.last = e.time
	v.fold(e)
	return nil
}

// check reports whether e may follow.
func (v *view) check(e *entry) error {
	if e.kind == kindClock {
		if e.old != v.last || e.new != e.time || e.new >= e.old {
			return errors.New("does not say how the clock went back")
		}
	} else if e.time < v.last {
		return errors.New("the clock went back without an entry that says so")
	}
	switch e.kind {
	case kindRecipients, kindClock, kindLoss:
		return nil
	case kindEpoch:
		if e.strand != (ID{}) {
			return errors.New("concerns no strand")
		}
		for _, k := range []string{e.oldVKey, e.vkey} {
			if _, err := parseVKey(k); err != nil {
				return err
			}
		}
		if n := len(v.epochs); n > 0 && v.epochs[n-1].new != e.oldVKey {
			return errors.New("does not follow the epoch before")
		}
		return nil
	}
	s := v.strands[e.strand]
	if e.kind == kindOpen {
		if s != nil {
			return errors.New("the strand was opened before")
		}
		return nil
	}
	if s == nil {
		return errors.New("the strand was never opened")
	}
	if s.pruned {
		return errors.New("the strand was pruned before")
	}
	switch e.kind {
	case kindHead, kindClose, kindOrphan:
		if s.end != "" {
			return errors.New("the strand had ended")
		}
		if e.at.n < s.last.n || e.at.n == s.last.n && s.last.n > 0 && e.at.c != s.last.c {
			return errors.New("does not continue the head before")
		}
	case kindPrune:
		if s.end == "" {
			return errors.New("the strand had not ended")
		}
		if e.at != s.last {
			return errors.New("is not the head that the strand ended with")
		}
	}
	return nil
}

func (v *view) fold(e *entry) {
	s := v.strands[e.strand]
	switch e.kind {
	case kindOpen:
		v.strands[e.strand] = &strandView{signer: e.hash, opened: e.time}
		v.order = append(v.order, e.strand)
	case kindHead, kindClose, kindOrphan:
		s.last = e.at
		if v.allHeads {
			s.heads = append(s.heads, e.at)
		}
		if e.kind != kindHead {
			s.end, s.ended = e.kind, e.time
		}
	case kindPrune:
		s.pruned = true
	case kindShred:
		if s.shreds == nil {
			s.shreds = make(map[int]string)
		}
		s.shreds[e.segment] = e.word
	case kindRecipients:
		if _, ok := v.sets[e.hash]; !ok {
			v.sets[e.hash] = e.time
		}
		v.set = e.hash
	case kindClock:
		v.clocks++
	case kindEpoch:
		v.epochs = append(v.epochs, epochView{v.tree.size, e.oldVKey, e.vkey})
	case kindLoss:
		v.losses = append(v.losses, lossView{e.strand, e.word, e.since, e.time})
	}
}
