package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"time"
)

// Reader reads the records of a log with the key. It takes no lock and follows
// nothing: what is written after Records began may be missing. Its methods are
// safe for concurrent use. The owner closes it.
type Reader struct {
	root  *os.Root
	spine *spineState
	ids   *Identities
}

// OpenReader opens the log in dir, whose node's verifier key is vkey; "" means
// the one that the log names. It checks the spine; a strand is checked while
// it is read.
func OpenReader(dir, vkey string, ids *Identities) (*Reader, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	spine, err := readSpine(root, vkey, nil)
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return &Reader{root, spine, ids}, nil
}

// Close releases the folder.
func (r *Reader) Close() error { return r.root.Close() }

// Query says which records are read. The zero value means all.
type Query struct {
	Strand *ID // nil means all
	// Since leaves out segments that ended before. Records themselves have no
	// time that the log knows of, so some older ones may come along.
	Since time.Time
}

// An UnreadError says that a strand, or some of its segments, could not be read.
type UnreadError struct {
	Strand   ID
	Segments []int // nil: from some point on
	Err      error // [ErrShredded], [ErrNoIdentity], or what is wrong
}

func (e *UnreadError) Error() string {
	if e.Segments == nil {
		return fmt.Sprintf("strand %s: %v", e.Strand, e.Err)
	}
	return fmt.Sprintf("strand %s, segments %s: %v", e.Strand, some(e.Segments), e.Err)
}

func (e *UnreadError) Unwrap() error { return e.Err }

// ErrShredded says that the key of a segment is gone.
var ErrShredded = errors.New("the key file is gone")

var errStop = errors.New("stop")

// Records returns the records, strand by strand as they were opened, in the
// order in which they were written. An error is a *[UnreadError] and concerns
// that strand only; the next ones still come.
func (r *Reader) Records(q Query) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for _, id := range r.spine.view.order {
			if q.Strand != nil && *q.Strand != id || r.spine.view.strands[id].pruned {
				continue
			}
			if !r.strand(id, q.Since, yield) {
				return
			}
		}
	}
}

// strand reads one strand and reports whether to go on.
func (r *Reader) strand(id ID, since time.Time, yield func(*Record, error) bool) bool {
	s := r.spine.view.strands[id]
	if s.end != "" && !since.IsZero() && s.ended < since.Unix() {
		return true
	}
	w := &walk{root: r.root, id: id, signer: s.signer[:], origin: r.spine.cp.origin, keys: r.ids}
	w.onRecord = func(rec *Record) error {
		if !yield(rec, nil) {
			return errStop
		}
		return nil
	}
	err := w.seek(since)
	if err == nil {
		w.heads = s.heads
		err = w.run()
	}
	switch {
	case errors.Is(err, errStop):
		return false
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("its folder is missing")
	case err == nil && w.state.n < s.last.n:
		err = fmt.Errorf("was cut: the spine saw %d leaves, %d are there", s.last.n, w.state.n)
	}
	if err != nil && !yield(nil, &UnreadError{Strand: id, Err: err}) {
		return false
	}
	if len(w.keyless) > 0 && !yield(nil, &UnreadError{id, w.keyless, ErrShredded}) {
		return false
	}
	return len(w.locked) == 0 || yield(nil, &UnreadError{id, w.locked, ErrNoIdentity})
}

// seek sets from to the last segment that began before since.
func (w *walk) seek(since time.Time) error {
	if since.IsZero() {
		return nil
	}
	n, _, err := w.list()
	if err != nil {
		return err
	}
	w.strange = nil
	for k := n - 1; k > 0; k-- {
		h, err := w.peek(k)
		if _, ok := errors.AsType[*damageError](err); ok {
			continue // judged when it is read
		} else if err != nil {
			return err
		}
		if h.created <= since.Unix() {
			w.from = k
			return nil
		}
	}
	return nil
}
