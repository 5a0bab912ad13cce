package desk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/penstock-dev/penstock/internal/link"
)

// shelf is where the bytes of results are. Its methods wait for the disk, and
// for one that is frozen they wait for ever.
type shelf interface {
	place() string // for people
	recover() []*entry
	create(handle string) (writer, error)
	open(handle string) (reader, error)
	remove(handle string) error
	close()
}

// writer takes one result. It ends with Commit, or with Abort, which removes
// what was written.
type writer interface {
	io.Writer
	Commit(meta []byte) error
	Abort()
}

// reader reads one kept result.
type reader interface {
	io.ReaderAt
	io.Closer
}

// folder keeps each result in two files: HANDLE.data holds the bytes as they
// came, HANDLE.json describes them. While a result is written, its bytes are
// in HANDLE.part. The description comes last, so that a result without one is
// a remainder. Nothing is synced: results are for the hours after a call, and
// one that a power failure has shortened is recognised by its size.
type folder struct {
	root *os.Root
	path string
	log  func(msg string, args ...any)
	gone func() // on close
}

const (
	dataExt = ".data"
	partExt = ".part"
	metaExt = ".json"
	tempExt = ".tmp"
)

func openFolder(path string, log func(string, ...any)) (*folder, error) {
	if err := link.SecureFolder(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &folder{root: root, path: path, log: log}, nil
}

func (f *folder) place() string { return f.path }

func (f *folder) close() {
	f.root.Close()
	if f.gone != nil {
		f.gone()
	}
}

// recover returns what is kept and removes what a desk that died has left.
// Files with names that are not ours are left alone.
func (f *folder) recover() []*entry {
	d, err := f.root.Open(".")
	if err != nil {
		f.log("results cannot be listed", "err", err)
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		f.log("results cannot be listed", "err", err)
	}
	var kept []*entry
	described := make(map[string]bool)
	for _, name := range names {
		handle, ok := strings.CutSuffix(name, metaExt)
		if !ok || !link.ValidHandle(handle) {
			continue
		}
		e, err := f.describe(handle)
		if err != nil {
			f.log("a result is not whole and is removed", "handle", handle, "err", err)
			continue
		}
		described[handle] = true
		kept = append(kept, e)
	}
	for _, name := range names {
		handle, ext, _ := strings.Cut(name, ".")
		if !link.ValidHandle(handle) {
			continue
		}
		switch "." + ext {
		case dataExt, metaExt:
			if described[handle] {
				continue
			}
		case partExt, metaExt + tempExt:
		default:
			continue
		}
		if err := f.root.Remove(name); err != nil {
			f.log("a remainder cannot be removed", "name", name, "err", err)
		}
	}
	return kept
}

func (f *folder) describe(handle string) (*entry, error) {
	if err := f.regular(handle+metaExt, -1); err != nil {
		return nil, err
	}
	m, err := f.root.Open(handle + metaExt)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	b, err := io.ReadAll(io.LimitReader(m, maxDescription))
	if err != nil {
		return nil, err
	}
	e, err := parseDescription(handle, b)
	if err != nil {
		return nil, err
	}
	return e, f.regular(handle+dataExt, e.Bytes)
}

// regular checks a file before it is opened, since opening a pipe waits.
func (f *folder) regular(name string, size int64) error {
	info, err := f.root.Lstat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case size >= 0 && info.Size() != size:
		return fmt.Errorf("%s has %d bytes, not %d", name, info.Size(), size)
	}
	return nil
}

func (f *folder) create(handle string) (writer, error) {
	file, err := f.root.OpenFile(handle+partExt, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileWriter{f, file, handle}, nil
}

func (f *folder) open(handle string) (reader, error) {
	if err := f.regular(handle+dataExt, -1); err != nil {
		return nil, err
	}
	return f.root.Open(handle + dataExt)
}

func (f *folder) remove(handle string) error {
	// The description first: bytes without one are a remainder.
	err := f.root.Remove(handle + metaExt)
	if err2 := f.root.Remove(handle + dataExt); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = err2
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type fileWriter struct {
	f      *folder
	file   *os.File
	handle string
}

func (w *fileWriter) Write(b []byte) (int, error) { return w.file.Write(b) }

func (w *fileWriter) Commit(meta []byte) error {
	// Close reports what a file system with quotas or a network wrote late.
	if err := w.file.Close(); err != nil {
		w.removeAll()
		return err
	}
	temp := w.handle + metaExt + tempExt
	err := w.f.root.WriteFile(temp, meta, 0o600)
	if err == nil {
		err = w.f.root.Rename(w.handle+partExt, w.handle+dataExt)
	}
	if err == nil {
		err = w.f.root.Rename(temp, w.handle+metaExt)
	}
	if err != nil {
		w.removeAll()
	}
	return err
}

func (w *fileWriter) Abort() {
	w.file.Close()
	w.removeAll()
}

func (w *fileWriter) removeAll() {
	for _, ext := range []string{metaExt, metaExt + tempExt, partExt, dataExt} {
		if err := w.f.root.Remove(w.handle + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.f.log("a remainder cannot be removed", "name", w.handle+ext, "err", err)
		}
	}
}

// memory keeps results where there is no disk. It is bounded by the quota that
// its desk has then.
type memory struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (m *memory) place() string     { return "memory" }
func (m *memory) recover() []*entry { return nil }
func (m *memory) close()            {}

func (m *memory) create(handle string) (writer, error) {
	return &memoryWriter{m: m, handle: handle}, nil
}

func (m *memory) open(handle string) (reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.kept[handle]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return struct {
		io.ReaderAt
		io.Closer
	}{bytes.NewReader(b), io.NopCloser(nil)}, nil
}

func (m *memory) remove(handle string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, handle)
	return nil
}

type memoryWriter struct {
	m      *memory
	handle string
	b      []byte
}

func (w *memoryWriter) Write(b []byte) (int, error) {
	w.b = append(w.b, b...)
	return len(b), nil
}

func (w *memoryWriter) Commit([]byte) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.m.kept == nil {
		w.m.kept = make(map[string][]byte)
	}
	w.m.kept[w.handle] = w.b
	return nil
}

func (w *memoryWriter) Abort() {}

// diskReason words an error of a disk for people, without a path.
func diskReason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full"
	case errors.Is(err, syscall.EDQUOT):
		return "the user's disk quota is used up"
	case errors.Is(err, syscall.EROFS):
		return "the disk is read-only"
	case errors.Is(err, fs.ErrPermission):
		return "the folder of results may not be written"
	case errors.Is(err, syscall.EIO):
		return "the disk reports an error"
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Op + ": " + e.Err.Error()
	}
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		return e.Op + ": " + e.Err.Error()
	}
	return err.Error()
}

func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
