//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestChooseHome(t *testing.T) {
	owners := map[string]int{"/root": 0, "/home/ann": 1000, "/home/bob": 1001}
	owner := func(path string) (int, error) {
		if uid, ok := owners[path]; ok {
			return uid, nil
		}
		return 0, os.ErrNotExist
	}
	database := map[int]string{0: "/root", 1000: "/home/ann", 1002: ""}
	for _, tt := range []struct {
		name string
		euid int
		env  string
		want string
		err  error
	}{
		{"own HOME", 1000, "/home/ann", "/home/ann", nil},
		{"own HOME that the database does not name", 1001, "/home/bob", "/home/bob", nil},
		{"no HOME", 1000, "", "/home/ann", nil},
		{"relative HOME", 1000, "home/ann", "/home/ann", nil},
		{"HOME of another", 1000, "/home/bob", "/home/ann", nil},
		{"HOME that does not exist", 1000, "/nonexistent", "/home/ann", nil},
		{"root", 0, "/root", "/root", nil},
		{"root without HOME", 0, "", "/root", nil},
		{"root in another's home", 0, "/home/ann", "", ErrForeignHome},
		{"bare number", 1003, "/nonexistent", "", ErrNoHome},
		{"empty in the database", 1002, "", "", ErrNoHome},
	} {
		got, err := chooseHome(tt.euid, tt.env, owner, func() (string, error) {
			if h, ok := database[tt.euid]; ok {
				return h, nil
			}
			return "", errors.New("unknown user")
		})
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestModes(t *testing.T) {
	src := write(t, "wedge: restart")
	dir := lookupEnv(src.Environ, "PENSTOCK_HOME")
	file := filepath.Join(dir, FileName)
	for _, tt := range []struct {
		file, dir     os.FileMode
		errFile, what string
	}{
		{0o600, 0o700, "", ""},
		{0o664, 0o755, "", "others can look into it (mode 0755, should be 0700)"},
		{0o646, 0o750, "everybody can write to it (mode 0646)", "others can look into it (mode 0750, should be 0700)"},
	} {
		if err := os.Chmod(file, tt.file); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, tt.dir); err != nil {
			t.Fatal(err)
		}
		_, err := Load(src)
		if got := strings.TrimPrefix(message(err), file+": "); got != tt.errFile {
			t.Errorf("file mode %o: got %q, want %q", tt.file, got, tt.errFile)
		}
		// Whoever names a file answers for it.
		if _, err := Load(Source{File: file}); err != nil {
			t.Errorf("file mode %o, named: got %v", tt.file, err)
		}
		got := ""
		if ps := CheckPlace(dir); len(ps) > 0 {
			got = ps[0].Msg
		}
		if got != tt.what {
			t.Errorf("folder mode %o: got %q, want %q", tt.dir, got, tt.what)
		}
	}
	if ps := CheckPlace(filepath.Join(dir, "missing")); ps != nil {
		t.Errorf("a folder that is not there yet: got %v", ps)
	}
	if ps := CheckPlace(file); len(ps) != 1 || ps[0].Msg != "not a folder" {
		t.Errorf("a file: got %v", ps)
	}
}

// TestPipe checks that a named pipe does not make Load wait for a writer.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Source{File: pipe}); message(err) != pipe+": not a regular file" {
		t.Errorf("got %v", err)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
