package audit

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"
)

// A hookDisk is a real disk that asks a hook before each operation.
type hookDisk struct {
	osDisk
	// hook may block, and fails the operation with what it returns. ops are
	// create, remove, syncdir, write, sync, reserve and linked.
	hook func(op, name string, p []byte) error
}

// errShortly makes a write fail after half of it.
var errShortly = errors.New("half of it")

func newHookDisk(t testing.TB, dir string, hook func(op, name string, p []byte) error) *hookDisk {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	must(t, ignoreExist(root.Mkdir(nameStrands, 0o700)))
	return &hookDisk{osDisk{root}, hook}
}

func ignoreExist(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (d *hookDisk) Create(name string) (File, error) {
	if err := d.hook("create", name, nil); err != nil {
		return nil, err
	}
	f, err := d.osDisk.Create(name)
	return &hookFile{f, d, name}, err
}

func (d *hookDisk) Remove(name string) error {
	if err := d.hook("remove", name, nil); err != nil {
		return err
	}
	return d.osDisk.Remove(name)
}

func (d *hookDisk) SyncDir(name string) error {
	if err := d.hook("syncdir", name, nil); err != nil {
		return err
	}
	return d.osDisk.SyncDir(name)
}

type hookFile struct {
	File
	d    *hookDisk
	name string
}

func (f *hookFile) Write(p []byte) (int, error) {
	if err := f.d.hook("write", f.name, p); err != nil {
		if errors.Is(err, errShortly) {
			n, _ := f.File.Write(p[:len(p)/2])
			return n, err
		}
		return 0, err
	}
	return f.File.Write(p)
}

func (f *hookFile) Sync() error {
	if err := f.d.hook("sync", f.name, nil); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) Reserve(n int64) error {
	if err := f.d.hook("reserve", f.name, make([]byte, 0, 1)); err != nil {
		return err
	}
	return f.File.Reserve(n)
}

func (f *hookFile) Linked() (bool, error) {
	if err := f.d.hook("linked", f.name, nil); err != nil {
		return false, err
	}
	return f.File.Linked()
}

// A switchboard is a hook that a test changes while a writer runs.
type switchboard struct {
	mu    sync.Mutex
	fail  map[string]error // by operation
	block map[string]chan struct{}
	count map[string]int
}

func newSwitchboard() *switchboard {
	return &switchboard{fail: map[string]error{}, block: map[string]chan struct{}{}, count: map[string]int{}}
}

func (s *switchboard) hook(op, _ string, _ []byte) error {
	s.mu.Lock()
	s.count[op]++
	c, err := s.block[op], s.fail[op]
	s.mu.Unlock()
	if c != nil {
		<-c
	}
	return err
}

func (s *switchboard) set(op string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[op] = err
}

// freeze makes an operation block until the returned function is called.
func (s *switchboard) freeze(op string) (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.block[op] = c
	return func() {
		s.mu.Lock()
		delete(s.block, op)
		s.mu.Unlock()
		close(c)
	}
}

func (s *switchboard) seen(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[op]
}

// A nullDisk keeps nothing.
type nullDisk struct{}

func (nullDisk) Create(string) (File, error) { return nullFile{}, nil }
func (nullDisk) Remove(string) error         { return nil }
func (nullDisk) SyncDir(string) error        { return nil }

type nullFile struct{}

func (nullFile) Write(p []byte) (int, error) { return len(p), nil }
func (nullFile) Sync() error                 { return nil }
func (nullFile) Reserve(int64) error         { return nil }
func (nullFile) Linked() (bool, error)       { return true, nil }
func (nullFile) Close() error                { return nil }

func ignoreUnsupported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
