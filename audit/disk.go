package audit

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A Disk is what a [Writer] does to its strand's files. The default works on the
// log's folder; tests put in disks that are full, frozen or failing.
type Disk interface {
	// Create makes a file that must not exist yet. The name is relative to the
	// log's folder, with slashes.
	Create(name string) (File, error)
	// Remove removes a file that was created and not begun.
	Remove(name string) error
	// SyncDir makes the names in a folder last.
	SyncDir(name string) error
}

// A File is a file that a [Disk] created. Sync may run at the same time as the
// other methods.
type File interface {
	io.Writer
	// Sync makes what was written last.
	Sync() error
	// Reserve keeps n bytes of room past what was written, so that so much can
	// be written although the disk is full; errors.ErrUnsupported where the
	// system cannot.
	Reserve(n int64) error
	// Linked reports whether the file still is what its name stands for.
	Linked() (bool, error)
	// Close gives back the room that was not used.
	Close() error
}

// osDisk is the Disk of the system.
type osDisk struct{ root *os.Root }

func (d osDisk) Create(name string) (File, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, root: d.root, name: name}, nil
}

func (d osDisk) Remove(name string) error { return d.root.Remove(name) }

func (d osDisk) SyncDir(name string) error { return syncDir(d.root, name) }

type osFile struct {
	f        *os.File
	root     *os.Root
	name     string
	off      int64
	reserved bool
}

func (f *osFile) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	f.off += int64(n)
	return n, err
}

func (f *osFile) Sync() error { return syncData(f.f) }

func (f *osFile) Reserve(n int64) error {
	err := reserve(f.f, f.off, n)
	f.reserved = f.reserved || err == nil
	return err
}

func (f *osFile) Linked() (bool, error) {
	have, err := f.f.Stat()
	if err != nil {
		return false, err
	}
	named, err := f.root.Lstat(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return os.SameFile(have, named), nil
}

func (f *osFile) Close() error {
	var err error
	if f.reserved {
		// Setting the size that the file has gives back the blocks behind it.
		// The size is asked for, since what is on disk must not be cut.
		var st os.FileInfo
		if st, err = f.f.Stat(); err == nil {
			err = f.f.Truncate(st.Size())
		}
	}
	if err2 := f.f.Close(); err == nil {
		err = err2
	}
	return err
}

// segment is the file that a writer appends to, and where its chain is.
type segment struct {
	file     File
	keys     ratchet
	state    state // after the last frame built
	size     int64
	leaves   int   // of this segment
	opened   int64 // unix seconds
	roomless bool  // the disk cannot reserve
}

// createSegment makes the files of segment h.segment with that much room, and
// the segment's secret, but does not write the header yet: it names the state
// that the segment before ends with. After an error the files are gone, or
// will be made anew.
func createSegment(d Disk, h *header, r *Recipients, room int64) (sg *segment, secret [32]byte, err error) {
	var sealed []byte
	if secret, sealed, err = r.sealKey(h.strand, h.segment); err != nil {
		return nil, secret, err
	}
	h.keyCommit, h.keyFile, h.recipients = keyCommit(secret), sha(sealed), r.Hash()
	key, err := createNew(d, keyFileName(h.strand, h.segment))
	if err != nil {
		return nil, secret, err
	}
	err = writeAll(key, sealed)
	if err == nil {
		err = key.Sync()
	}
	if err2 := key.Close(); err == nil {
		err = err2
	}
	if err == nil {
		if sg, err = reserveSegment(d, segmentName(h.strand, h.segment), room); err == nil {
			if err = d.SyncDir(strandDir(h.strand)); err != nil {
				sg.file.Close()
			}
		}
	}
	if err != nil {
		removeSegment(d, h)
		return nil, secret, err
	}
	return sg, secret, nil
}

// createNew creates a file. One that is there already was left by an attempt
// that could not even remove it; nothing was begun in it.
func createNew(d Disk, name string) (File, error) {
	f, err := d.Create(name)
	if errors.Is(err, fs.ErrExist) {
		if err := d.Remove(name); err != nil {
			return nil, err
		}
		return d.Create(name)
	}
	return f, err
}

func reserveSegment(d Disk, name string, room int64) (*segment, error) {
	f, err := createNew(d, name)
	if err != nil {
		return nil, err
	}
	sg := &segment{file: f}
	switch err := f.Reserve(room); {
	case errors.Is(err, errors.ErrUnsupported):
		sg.roomless = true
	case err != nil:
		f.Close()
		return nil, err
	}
	return sg, nil
}

func removeSegment(d Disk, h *header) {
	d.Remove(segmentName(h.strand, h.segment))
	d.Remove(keyFileName(h.strand, h.segment))
}

// start writes the header and the COMMIT behind it, and syncs them.
func (sg *segment) start(h *header, secret [32]byte, from state, key ed25519.PrivateKey) error {
	h.first, h.prev = from.n, from.c
	frame := appendFrame(nil, frameHeader, h.marshal())
	sg.state = from.link(frame)
	sg.keys = newRatchet(secret, sg.state.c)
	out := sg.state.appendCommit(frame, h.strand, key)
	if err := writeAll(sg.file, out); err != nil {
		return err
	}
	sg.size, sg.leaves, sg.opened = int64(len(out)), 1, h.created
	return sg.file.Sync()
}

// end builds END and its COMMIT.
func (sg *segment) end(why string, id ID, key ed25519.PrivateKey) []byte {
	frame := appendFrame(nil, frameEnd, []byte(why))
	sg.state = sg.state.link(frame)
	return sg.state.appendCommit(frame, id, key)
}

// endLen is the length of what end builds, at most.
const endLen = frameHead + len(endRotate) + frameHead + commitLen

// writeAll writes p, for which a short write is a failure too.
func writeAll(f File, p []byte) error {
	n, err := f.Write(p)
	if err == nil && n < len(p) {
		err = fmt.Errorf("%d of %d bytes: %w", n, len(p), io.ErrShortWrite)
	}
	return err
}
