package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// DefaultLockWait is how long an append to the spine waits for another process.
const DefaultLockWait = 2 * time.Second

// Errors of the spine. Their scope is the log in that folder.
var (
	// ErrLocked says that another process held the spine's lock for too long.
	ErrLocked = errors.New("the log's spine is locked by another process")
	// ErrSpine says that the spine is damaged, rolled back or signed by
	// another key; nothing is appended to it.
	ErrSpine = errors.New("the log's spine does not verify")
)

// Spine is the small signed log of what happens to strands. Its methods are safe
// for concurrent use, by any number of processes. They wait for the disk; a
// context bounds only the wait for the lock. The owner closes it.
type Spine struct {
	root *os.Root

	mu   sync.Mutex
	key  *nodeKey // guarded by mu
	view *view    // guarded by mu; as of the last checkpoint seen
}

// OpenSpine opens the spine of the log in dir and makes both, with a fresh node
// key, where they are missing. A folder of another user or on a network file
// system is refused, the latter unless allowNetwork is set.
func OpenSpine(ctx context.Context, dir string, allowNetwork bool) (*Spine, error) {
	root, err := makeDir(dir, allowNetwork)
	if err != nil {
		return nil, fmt.Errorf("audit folder: %w", err)
	}
	s := &Spine{root: root, view: newView(false)}
	if err := s.locked(ctx, s.refresh); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// Close releases the folder. The log stays.
func (s *Spine) Close() error { return s.root.Close() }

// VKey returns the node's verifier key: what a verifier pins.
func (s *Spine) VKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key.vkey
}

// Anchor returns the newest signed checkpoint. It is an anchor once it is kept
// where this user's processes cannot change it.
func (s *Spine) Anchor() ([]byte, error) { return readRegular(s.root, nameCheckpoint, maxCheckpoint) }

// recipients reads the list of recipients of the log.
func (s *Spine) recipients() (*Recipients, error) {
	b, err := readRegular(s.root, nameRecipients, 1<<20)
	if err != nil {
		return nil, err
	}
	r, err := ParseRecipients(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameRecipients, err)
	}
	return r, nil
}

// SetRecipients writes the log's list of recipients. Writers take it up when they
// are told or opened; what is sealed already stays sealed as it was.
func (s *Spine) SetRecipients(r *Recipients) error {
	text := "# Public age recipients of the audit log, one a line.\n"
	for _, l := range r.lines {
		text += l + "\n"
	}
	return replace(s.root, nameRecipients, []byte(text))
}

// locked runs f with the spine's lock.
func (s *Spine) locked(ctx context.Context, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, DefaultLockWait)
	defer cancel()
	for {
		l, err := s.root.OpenFile(nameLock, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		ok, err := tryLock(l, false)
		if err == nil && ok {
			// Somebody may have replaced the file since it was opened.
			a, err1 := l.Stat()
			b, err2 := s.root.Lstat(nameLock)
			if err1 == nil && err2 == nil && os.SameFile(a, b) {
				err := f()
				l.Close() // drops the lock
				return err
			}
			l.Close()
			continue
		}
		l.Close()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ErrLocked
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// loadKey reads the node key, or makes it. The lock is held.
func (s *Spine) loadKey() error {
	b, err := readRegular(s.root, nameNodeKey, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := s.root.Lstat(nameCheckpoint); err == nil {
			return fmt.Errorf("%w: the node key is missing", ErrSpine)
		}
		k, err := newNodeKey("")
		if err != nil {
			return err
		}
		return s.setKey(k)
	} else if err != nil {
		return err
	}
	if s.key != nil && string(b) == s.key.skey+"\n" {
		return nil
	}
	k, err := parseNodeKey(string(trimLF(b)))
	if err != nil {
		return err
	}
	s.key = k
	return nil
}

func trimLF(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}

func (s *Spine) setKey(k *nodeKey) error {
	if err := replace(s.root, nameNodeVKey, []byte(k.vkey+"\n")); err != nil {
		return err
	}
	if err := replace(s.root, nameNodeKey, []byte(k.skey+"\n")); err != nil {
		return err
	}
	s.key = k
	return nil
}

// refresh brings key and view up to the checkpoint on disk. The lock is held.
func (s *Spine) refresh() error {
	if err := s.loadKey(); err != nil {
		return err
	}
	if err := s.finishEpoch(); err != nil {
		return err
	}
	msg, err := readRegular(s.root, nameCheckpoint, maxCheckpoint)
	cp := &checkpoint{}
	if err == nil {
		if cp, _, err = openCheckpoint(msg, s.key.verifier); err != nil {
			return fmt.Errorf("%w: %w", ErrSpine, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if cp.size < s.view.tree.size {
		return fmt.Errorf("%w: it went back from %d to %d entries", ErrSpine, s.view.tree.size, cp.size)
	}
	if cp.size == s.view.tree.size {
		if cp.size > 0 && cp.root != s.view.tree.root() {
			return fmt.Errorf("%w: it has another history", ErrSpine)
		}
		return nil
	}
	f, _, err := openRegular(s.root, nameEntries, 1<<40)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSpine, err)
	}
	defer f.Close()
	if _, err := f.Seek(s.view.bytes, io.SeekStart); err != nil {
		return err
	}
	if _, err = readView(f, s.view, cp.size); err == nil && s.view.tree.root() != cp.root {
		err = errors.New("the entries do not match the checkpoint")
	}
	if err != nil {
		s.view = newView(false) // half read
		return fmt.Errorf("%w: %w", ErrSpine, err)
	}
	return nil
}

// readView adds entries up to size to v. r stands where v ends.
func readView(r io.Reader, v *view, size uint64) (at uint64, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	buf := make([]byte, maxEntry)
	for v.tree.size < size {
		raw, err := readEntry(in, buf)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = v.add(raw)
		}
		if err != nil {
			return v.tree.size, fmt.Errorf("entry %d: %w", v.tree.size, err)
		}
	}
	return v.tree.size, nil
}

// update appends the entries that f returns for the spine as it is, and signs
// it. f runs with the lock held and may return none. Times are set here.
func (s *Spine) update(ctx context.Context, f func(v *view) ([]*entry, error)) error {
	return s.locked(ctx, func() error {
		if err := s.refresh(); err != nil {
			return err
		}
		list, err := f(s.view)
		if err != nil || len(list) == 0 {
			return err
		}
		_, err = s.append(list, s.key.signer)
		return err
	})
}

// append writes entries and the checkpoint that covers them. The lock is held
// and the view is fresh. After an error the view is read anew next time.
func (s *Spine) append(list []*entry, by ...note.Signer) (msg []byte, err error) {
	v := s.view
	s.view = newView(false)
	f, err := s.root.OpenFile(nameEntries, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// What stands past the checkpoint was being written when its process died.
	// Whole entries are covered now; the rest was never signed and goes.
	if _, err := f.Seek(v.bytes, io.SeekStart); err != nil {
		return nil, err
	}
	in := bufio.NewReader(f)
	buf := make([]byte, maxEntry)
	for {
		raw, err := readEntry(in, buf)
		if err != nil {
			break
		}
		if e, err := parseEntry(raw); err != nil || e.kind == kindEpoch || v.add(raw) != nil {
			break
		}
	}
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if st.Size() > v.bytes {
		if err := f.Truncate(v.bytes); err != nil {
			return nil, err
		}
	}
	at := v.bytes
	var out []byte
	now := time.Now().Unix()
	if now < v.last {
		list = append([]*entry{{kind: kindClock, old: v.last, new: now}}, list...)
	}
	for _, e := range list {
		e.time = now
		raw := e.marshal()
		if err := v.add(raw); err != nil {
			return nil, err
		}
		out = appendEntry(out, raw)
	}
	if _, err := f.WriteAt(out, at); err != nil {
		return nil, err
	}
	if err := syncData(f); err != nil {
		return nil, err
	}
	cp := checkpoint{origin: s.key.verifier.Name(), size: v.tree.size, root: v.tree.root()}
	if msg, err = cp.sign(by...); err != nil {
		return nil, err
	}
	if err := replace(s.root, nameCheckpoint, msg); err != nil {
		return nil, err
	}
	s.view = v
	return msg, nil
}

const nameNextKey = nameNodeKey + ".next"

// RotateKey replaces the node key and returns the new verifier key. Who pinned
// the old one reaches it through the epoch that is recorded.
func (s *Spine) RotateKey(ctx context.Context) (vkey string, err error) {
	err = s.locked(ctx, func() error {
		if err := s.refresh(); err != nil {
			return err
		}
		next, err := newNodeKey(s.key.verifier.Name())
		if err != nil {
			return err
		}
		vkey = next.vkey
		// Whatever is cut short from here on is finished or undone by
		// finishEpoch, depending on whether the checkpoint got both signatures.
		if err := replace(s.root, nameNextKey, []byte(next.skey+"\n")); err != nil {
			return err
		}
		e := &entry{kind: kindEpoch, oldVKey: s.key.vkey, vkey: next.vkey}
		if _, err := s.append([]*entry{e}, s.key.signer, next.signer); err != nil {
			return err
		}
		return s.finishEpoch()
	})
	return vkey, err
}

// finishEpoch ends a change of keys that was begun. The lock is held.
func (s *Spine) finishEpoch() error {
	b, err := readRegular(s.root, nameNextKey, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	next, err := parseNodeKey(string(trimLF(b)))
	if err != nil {
		return err
	}
	if next.vkey == s.key.vkey {
		return s.root.Remove(nameNextKey)
	}
	msg, err := readRegular(s.root, nameCheckpoint, maxCheckpoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cp, sigs, err := openCheckpoint(msg, s.key.verifier, next.verifier)
	if err != nil || len(sigs) != 2 {
		return s.root.Remove(nameNextKey) // never took effect
	}
	if err := replace(s.root, epochName(cp.size), msg); err != nil {
		return err
	}
	if err := s.setKey(next); err != nil {
		return err
	}
	return s.root.Remove(nameNextKey)
}

// origin returns the name under which checkpoints are signed. It never changes.
func (s *Spine) origin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key.verifier.Name()
}
