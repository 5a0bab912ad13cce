package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

const (
	resultsFolder = "results"
	privatePrefix = "private-" // of folders in which private desks keep results
	lockName      = "lock"
	lockFile      = "desk.lock"

	// claimTimeout is how long a new desk waits for one that is leaving.
	claimTimeout = 8 * time.Second
	// probeTimeout is how long a folder may take to show that it can be written.
	probeTimeout = time.Second
)

// errRunning says that another desk has the place.
var errRunning = errors.New("a desk is running")

// claim makes the place of the shared desk, takes its lock and listens on its
// socket. The lock is held for as long as the process lives: who has it is the
// desk, however many start at once.
func claim(ctx context.Context, home string) (l net.Listener, release func(), err error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, nil, err
	}
	real, err := filepath.EvalSymlinks(home) // the home itself may be a link that its owner made
	if err != nil {
		return nil, nil, err
	}
	path := link.SocketPath(home)
	dirs := []string{real, filepath.Join(real, "run")}
	if dir := filepath.Dir(path); dir != filepath.Join(home, "run") {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		if err := link.SecureFolder(dir); err != nil {
			return nil, nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(real, "run", lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	for {
		ok, err := tryLock(lock)
		if err != nil {
			lock.Close()
			return nil, nil, fmt.Errorf("lock of the desk: %w", err)
		}
		if ok {
			break
		}
		if answers(path) {
			lock.Close()
			return nil, nil, errRunning
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			lock.Close()
			return nil, nil, fmt.Errorf("another desk holds %s and does not answer", lock.Name())
		}
	}
	lock.Truncate(0)
	lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // for people

	// Under another name first: whoever finds the socket finds it listening.
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(temp)
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err == nil {
		ul.SetUnlinkOnClose(false)
		if err = os.Chmod(temp, 0o600); err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			ul.Close()
			os.Remove(temp)
		}
	}
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	return ul, func() {
		os.Remove(path)
		lock.Close()
	}, nil
}

func answers(path string) bool {
	nc, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// openShelf returns where a desk keeps results: the folder of all, for the
// shared desk; for a private one a folder of its own in the home, else in the
// temporary folder, else memory.
func openShelf(cfg Config) shelf {
	log := cfg.Log.Warn
	if !cfg.private && cfg.Home != "" {
		path := filepath.Join(cfg.Home, resultsFolder)
		f, err := openFolder(path, log)
		if err != nil {
			log("results cannot be kept", "err", err)
			return broken{err}
		}
		sweep(path, privatePrefix)
		return f
	}
	var places []string
	if cfg.Home != "" {
		places = append(places, filepath.Join(cfg.Home, resultsFolder))
	}
	if temp := os.TempDir(); cfg.private && filepath.IsAbs(temp) {
		places = append(places, temp)
	}
	for _, place := range places {
		f, err := openPrivate(place, log)
		if err == nil {
			return f
		}
		log("results cannot be kept here", "err", err)
	}
	return new(memory)
}

// openPrivate makes a folder for one desk in place. A place that does not
// answer in time is given up; what hangs there ends with the process.
func openPrivate(place string, log func(string, ...any)) (*folder, error) {
	type made struct {
		f   *folder
		err error
	}
	ch := make(chan made, 1)
	go func() {
		f, err := makePrivate(place, log)
		ch <- made{f, err}
	}()
	select {
	case m := <-ch:
		return m.f, m.err
	case <-time.After(probeTimeout):
		return nil, fmt.Errorf("%s does not answer", place)
	}
}

func makePrivate(place string, log func(string, ...any)) (*folder, error) {
	prefix := privatePrefix
	if filepath.Base(place) == resultsFolder {
		if err := link.SecureFolder(place); err != nil {
			return nil, err
		}
	} else {
		prefix = "penstock-results-" // others use this place too
	}
	sweep(place, prefix)
	path := filepath.Join(place, prefix+strings.ToLower(rand.Text()))
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	f, err := openFolder(path, log)
	if err != nil {
		os.RemoveAll(path)
		return nil, err
	}
	// The lock says that somebody uses the folder; writing it shows that the
	// disk takes something.
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if _, err = lock.WriteString("penstock\n"); err == nil {
			_, err = tryLock(lock)
		}
	}
	if err != nil {
		lock.Close()
		f.close()
		os.RemoveAll(path)
		return nil, err
	}
	f.gone = func() {
		os.RemoveAll(path)
		lock.Close()
	}
	return f, nil
}

// sweep removes the folders of private desks that were killed.
func sweep(place, prefix string) {
	names, err := filepath.Glob(filepath.Join(place, prefix+"*"))
	if err != nil {
		return
	}
	for _, path := range names {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue // one that is being made may not have its lock yet
		}
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				os.RemoveAll(path)
			}
			continue // another user's
		}
		if ok, err := tryLock(lock); err == nil && ok {
			os.RemoveAll(path)
		}
		lock.Close()
	}
}

// broken is where there is no place for results.
type broken struct{ err error }

func (b broken) place() string                 { return "" }
func (b broken) recover() []*entry             { return nil }
func (b broken) create(string) (writer, error) { return nil, b.err }
func (b broken) open(string) (reader, error)   { return nil, b.err }
func (b broken) remove(string) error           { return nil }
func (b broken) close()                        {}
