//go:build unix

package child

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := write("plain", "text\n", 0o644)
	garbage := write("garbage", "neither a script nor a program\n", 0o755)
	orphan := write("orphan", "#!/nowhere/interpreter\n", 0o755)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(cwd, dir)
	if err != nil {
		t.Fatal(err)
	}
	path := func(p string) []string { return []string{"PATH=" + p} }

	for _, tt := range []struct {
		name string
		c    Config
		code int
		is   error
		says []string
	}{
		{"not in PATH", Config{Args: []string{"npx"}, Env: path("/usr/nowhere:/nowhere")}, 127, fs.ErrNotExist, []string{`"npx"`, "/usr/nowhere:/nowhere"}},
		{"no PATH", Config{Args: []string{"npx"}, Env: []string{"A=1"}}, 127, fs.ErrNotExist, []string{`"npx"`, "PATH is empty"}},
		{"relative PATH entry", Config{Args: []string{"garbage"}, Env: path(relative)}, 127, fs.ErrNotExist, []string{`"garbage"`, relative}},
		{"no such file", Config{Args: []string{dir + "/none"}}, 127, fs.ErrNotExist, []string{dir + "/none", "no such file"}},
		{"no such file in Dir", Config{Args: []string{"./none"}, Dir: dir}, 127, fs.ErrNotExist, []string{"./none", dir}},
		{"below a file", Config{Args: []string{plain + "/x"}}, 127, fs.ErrNotExist, []string{plain + "/x"}},
		{"not executable", Config{Args: []string{plain}}, 126, fs.ErrPermission, []string{plain, "permission denied"}},
		{"not executable in PATH", Config{Args: []string{"plain"}, Env: path(dir)}, 126, fs.ErrPermission, []string{`"plain"`, plain, dir}},
		{"directory", Config{Args: []string{sub}}, 126, nil, []string{sub, "is a directory"}},
		{"directory in PATH", Config{Args: []string{"sub"}, Env: path(dir)}, 126, nil, []string{sub, "is a directory"}},
		{"not a program", Config{Args: []string{garbage}}, 126, nil, []string{garbage, "exec format error"}},
		{"no interpreter", Config{Args: []string{orphan}}, 126, fs.ErrNotExist, []string{orphan, "interpreter"}},
		{"Dir missing", Config{Args: []string{"sh"}, Dir: dir + "/none"}, 126, fs.ErrNotExist, []string{`"sh"`, "working directory", dir + "/none"}},
		{"Dir is a file", Config{Args: []string{"sh"}, Dir: plain}, 126, nil, []string{"working directory", plain, "not a directory"}},
		{"empty name", Config{Args: []string{""}}, 127, fs.ErrNotExist, []string{"no command"}},
		{"no arguments", Config{}, 126, os.ErrInvalid, []string{"no command"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ch, err := Start(tt.c)
			if err == nil {
				ch.Stop(Ladder{Grace: 1, TermNow: true})
				ch.Wait()
				t.Fatal("started")
			}
			se, ok := errors.AsType[*StartError](err)
			if !ok {
				t.Fatalf("%T: %v", err, err)
			}
			if se.ExitCode() != tt.code {
				t.Errorf("exit code %d, want %d (%v)", se.ExitCode(), tt.code, err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
		})
	}
}

// The command is looked up in the PATH of Env, and after what cannot be run
// there the search goes on.
func TestLookupUsesEnv(t *testing.T) {
	bad, good := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "tool"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(good, "tool"), []byte("#!/bin/sh\necho \"$A $M\"; exit 5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := NewCapture(CaptureConfig{Name: "stdout", Tail: 100})
	ch, err := Start(Config{
		Args:   []string{"tool"},
		Env:    []string{"A=first", "PATH=" + bad + ":" + good, "A=last", "M=stale"},
		Marker: "M=fresh", StdoutCapture: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, wait(t, ch), 5, "")
	if got := out.Since(0).Text(-1); got != "last fresh\n" {
		t.Errorf("environment of the child: %q", got)
	}
}

// A name with a slash is relative to Dir.
func TestRelativeToDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\npwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := NewCapture(CaptureConfig{Name: "stdout", Tail: 4096})
	ch, err := Start(Config{Args: []string{"./tool"}, Dir: dir, StdoutCapture: out})
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, wait(t, ch), 0, "")
	if got := out.Since(0).Text(-1); got != dir+"\n" {
		t.Errorf("ran in %q, want %q", got, dir)
	}
}
