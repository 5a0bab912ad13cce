package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Names in the log's folder.
const (
	nameRecipients = "recipients.txt"
	nameNodeKey    = "node.key"
	nameNodeVKey   = "node.vkey"
	nameLock       = "spine/lock"
	nameEntries    = "spine/entries"
	nameCheckpoint = "spine/checkpoint"
	nameEpoch      = "spine/epoch-"
	nameStrands    = "strands"
	nameLive       = "live"

	maxSegments = 999999
)

func strandDir(id ID) string          { return nameStrands + "/" + id.String() }
func segmentName(id ID, k int) string { return fmt.Sprintf("%s/%06d.seg", strandDir(id), k) }
func keyFileName(id ID, k int) string { return fmt.Sprintf("%s/%06d.key.age", strandDir(id), k) }
func liveName(id ID) string           { return strandDir(id) + "/" + nameLive }
func epochName(size uint64) string    { return fmt.Sprintf("%s%d", nameEpoch, size) }

// An irregularError says that something else stands where a file of the log
// should be.
type irregularError struct{ name, what string }

func (e *irregularError) Error() string { return fmt.Sprintf("%s is %s", e.name, e.what) }

// openRegular opens a file of the log for reading, if it is a regular file that
// has this one name only. It never waits for the other end of a FIFO.
func openRegular(root *os.Root, name string, limit int64) (*os.File, int64, error) {
	want, err := root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !want.Mode().IsRegular() {
		return nil, 0, &irregularError{name, "not a regular file but " + want.Mode().Type().String()}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil {
		switch {
		case !os.SameFile(want, st):
			err = &irregularError{name, "another file than a moment ago"}
		case links(st) > 1:
			err = &irregularError{name, "reachable by a second name (hard link)"}
		case st.Size() > limit:
			err = &irregularError{name, fmt.Sprintf("%d bytes long, over the limit of %d", st.Size(), limit)}
		}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// readRegular reads a small file of the log.
func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := openRegular(root, name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &irregularError{name, fmt.Sprintf("over the limit of %d bytes", limit)}
	}
	return b, err
}

// writeNew writes a file that must not exist yet, and syncs it.
func writeNew(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = syncData(f)
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

// replace writes a file by way of a temporary one, so that readers see the old
// or the new one and a crash leaves one of them.
func replace(root *os.Root, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(root, tmp, data); err != nil {
		return err
	}
	if err := root.Rename(tmp, name); err != nil {
		return err
	}
	return syncDir(root, path.Dir(name))
}

// syncDir makes the names in a folder last.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	err = syncFolder(d)
	if err2 := d.Close(); err == nil {
		err = err2
	}
	return err
}

// listStrands returns the strand folders, sorted, and what else stands among
// them.
func listStrands(root *os.Root) (ids []ID, other []string, err error) {
	d, err := root.Open(nameStrands)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	list, err := d.ReadDir(-1)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range list {
		id, err := ParseID(e.Name())
		if err != nil || !e.IsDir() {
			other = append(other, e.Name())
			continue
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int { return strings.Compare(string(a[:]), string(b[:])) })
	slices.Sort(other)
	return ids, other, nil
}

// makeDir makes the folder of a log where it is missing and refuses one that
// others could have prepared.
func makeDir(dir string, allowNetwork bool) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}
	if err := checkOwner(st); err != nil {
		return nil, fmt.Errorf("%s %w", dir, err)
	}
	if !allowNetwork {
		if kind := networkFS(dir); kind != "" {
			return nil, fmt.Errorf("%s lies on %s, whose locks and syncs cannot be relied on", dir, kind)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"spine", nameStrands} {
		if err := root.Mkdir(sub, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			root.Close()
			return nil, err
		}
	}
	return root, nil
}
