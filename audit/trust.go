package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// spineState is a spine whose checkpoint was verified.
type spineState struct {
	view   *view
	cp     *checkpoint
	signer string
	keys   []string // all verifier keys of its epochs
	extra  int64    // bytes past the checkpoint
	roots  map[uint64][32]byte
	times  map[uint64]int64
}

// spineError says what is wrong with a spine, as opposed to the medium.
type spineError struct{ text string }

func (e *spineError) Error() string { return e.text }

// readSpine reads and verifies the spine. want are the sizes whose root is
// needed.
func readSpine(root *os.Root, pinned string, want map[uint64]bool) (*spineState, error) {
	bad := func(format string, args ...any) (*spineState, error) {
		return nil, &spineError{fmt.Sprintf(format, args...)}
	}
	msg, err := readRegular(root, nameCheckpoint, maxCheckpoint)
	if err != nil {
		if ir, ok := errors.AsType[*irregularError](err); ok || errors.Is(err, fs.ErrNotExist) {
			if ok {
				return bad("%v", ir)
			}
			return bad("the spine has no checkpoint")
		}
		return nil, err
	}
	// The text is believed only once the keys are known; its size says how far
	// to read.
	_, text, ok := strings.Cut(string(msg), "\n")
	l := &lines{rest: "size " + text}
	size := l.number("size")
	if !ok || l.err != nil {
		return bad("the spine's checkpoint is malformed")
	}
	f, n, err := openRegular(root, nameEntries, 1<<40)
	if err != nil {
		if ir, ok := errors.AsType[*irregularError](err); ok {
			return bad("%v", ir)
		} else if errors.Is(err, fs.ErrNotExist) {
			return bad("the spine has no entries")
		}
		return nil, err
	}
	defer f.Close()
	st := &spineState{view: newView(true), roots: map[uint64][32]byte{}, times: map[uint64]int64{}}
	in := bufio.NewReaderSize(f, 64<<10)
	buf := make([]byte, maxEntry)
	for st.view.tree.size < size {
		raw, err := readEntry(in, buf)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return bad("the spine was cut: %d of %d entries are there", st.view.tree.size, size)
		}
		if err == nil {
			err = st.view.add(raw)
		}
		if err != nil {
			return bad("spine entry %d: %v", st.view.tree.size, err)
		}
		epochs := len(st.view.epochs)
		if at := st.view.tree.size; want[at] || epochs > 0 && st.view.epochs[epochs-1].size == at {
			st.roots[at], st.times[at] = st.view.tree.root(), st.view.last
		}
	}
	st.extra = n - st.view.bytes
	signer, keys, err := trust(root, st, pinned)
	if err != nil {
		return nil, err
	}
	st.signer, st.keys = signer, keys
	by, err := parseVKey(signer)
	if err != nil {
		return nil, err
	}
	if st.cp, _, err = openCheckpoint(msg, by); err != nil {
		return bad("the spine's %v", err)
	}
	if st.cp.size != size || st.cp.root != st.view.tree.root() {
		return bad("the spine's entries do not match its checkpoint")
	}
	return st, nil
}

// trust walks the epochs from the pinned key to the one that must have signed
// the checkpoint.
func trust(root *os.Root, st *spineState, pinned string) (signer string, keys []string, err error) {
	epochs := st.view.epochs
	if len(epochs) > 0 {
		keys = append(keys, epochs[0].old)
		for _, e := range epochs {
			keys = append(keys, e.new)
		}
	}
	if pinned == "" {
		b, err := readRegular(root, nameNodeVKey, 4<<10)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, &spineError{"no verifier key was given and the log names none"}
		} else if err != nil {
			return "", nil, err
		}
		pinned = strings.TrimSpace(string(b))
		if _, err := parseVKey(pinned); err != nil {
			return "", nil, &spineError{"the log's own verifier key is malformed"}
		}
	}
	if len(epochs) == 0 {
		return pinned, []string{pinned}, nil
	}
	at := slices.Index(keys, pinned)
	if at < 0 {
		return "", nil, &spineError{"the spine was never signed by the pinned key"}
	}
	for _, e := range epochs[at:] {
		var by []note.Verifier
		for _, k := range []string{e.old, e.new} {
			v, err := parseVKey(k)
			if err != nil {
				return "", nil, &spineError{err.Error()}
			}
			by = append(by, v)
		}
		msg, err := readRegular(root, epochName(e.size), maxCheckpoint)
		if err != nil {
			return "", nil, &spineError{fmt.Sprintf("the change of the node key at entry %d has no checkpoint of its own", e.size-1)}
		}
		cp, sigs, err := openCheckpoint(msg, by...)
		if err != nil || len(sigs) != 2 || cp.size != e.size || cp.root != st.roots[e.size] {
			return "", nil, &spineError{fmt.Sprintf("the change of the node key at entry %d is not signed by both keys", e.size-1)}
		}
	}
	return epochs[len(epochs)-1].new, keys, nil
}
