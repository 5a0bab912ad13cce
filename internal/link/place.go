package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// maxSocketPath is the longest path that every system takes for a socket, with
// room to spare for the name under which it is made (macOS has 104).
const maxSocketPath = 100

// ErrNotPrivate says that a folder that must be ours alone is not.
var ErrNotPrivate = errors.New("not private to this user")

// SocketPath returns where the desk of the home folder listens: run/desk.sock
// in it, or, where that is too long for a socket, a file in /tmp/penstock-UID
// whose name stands for the home. It touches no disk.
func SocketPath(home string) string {
	path := filepath.Join(home, "run", "desk.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	return filepath.Join(shortFolder(), fmt.Sprintf("desk-%016x.sock", hash64(filepath.Clean(home))))
}

// shortFolder is where sockets go whose proper path is too long. Not the
// temporary folder of the environment: everybody must meet at one place, and
// macOS's is long itself.
func shortFolder() string {
	return filepath.Join("/tmp", "penstock-"+strconv.Itoa(os.Geteuid()))
}

// hash64 is FNV-1a: it only keeps apart the few homes of one user.
func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// SecureFolder makes dir and its missing parents with mode 0700, and reports
// [ErrNotPrivate] if dir is not a folder of this user that nobody else can
// enter. A mode that lets others in is narrowed where that is possible. It
// waits for the disk.
func SecureFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Not Stat: a link that somebody else put there must not be followed.
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: not a folder: %w", dir, ErrNotPrivate)
	}
	if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user number %d: %w", dir, uid, ErrNotPrivate)
	}
	return narrow(dir, info)
}

// CheckSocket reports why the socket must not be trusted: its folder is not
// private to this user. A folder that is not there is fs.ErrNotExist.
func CheckSocket(path string) error {
	info, err := os.Lstat(filepath.Dir(path))
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: not a folder: %w", filepath.Dir(path), ErrNotPrivate)
	}
	if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user number %d: %w", filepath.Dir(path), uid, ErrNotPrivate)
	}
	return nil
}

func sameUser(theirs, ours int) error {
	if theirs == ours {
		return nil
	}
	return fmt.Errorf("the process at the other end runs as user number %d, this one as %d: %w", theirs, ours, fs.ErrPermission)
}
