package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestHome(t *testing.T) {
	dir := t.TempDir()
	got, err := Home([]string{"PENSTOCK_HOME=/elsewhere", "PENSTOCK_HOME=" + dir + "/", "HOME=/x"})
	if err != nil || got != dir {
		t.Errorf("got %q, %v, want %q", got, err, dir)
	}
	got, err = Home([]string{"HOME=" + dir, "USERPROFILE=" + dir})
	if want := filepath.Join(dir, ".penstock"); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	_, err = Load(Source{Environ: []string{"PENSTOCK_HOME=here"}})
	if want := `PENSTOCK_HOME: "here" is not an absolute path`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPath(t *testing.T) {
	src := write(t, "wedge: restart")
	file := filepath.Join(lookupEnv(src.Environ, "PENSTOCK_HOME"), FileName)
	if got, found, err := Path(src); got != file || !found || err != nil {
		t.Errorf("got %q, %v, %v", got, found, err)
	}
	src.File = filepath.Join(t.TempDir(), "mine.yaml")
	if got, found, err := Path(src); got != src.File || found || err != nil {
		t.Errorf("got %q, %v, %v", got, found, err)
	}
	// A file that somebody names must be there; the one in the home need not.
	if _, err := Load(src); err == nil || err.Error() != src.File+": no such file" {
		t.Errorf("got %v", err)
	}
	src.File = file + "/x"
	if _, err := Load(src); err == nil || !strings.HasPrefix(err.Error(), src.File+": ") {
		t.Errorf("a file in place of a folder: got %v", err)
	}
	src.File = filepath.Dir(file)
	if _, err := Load(src); err == nil || err.Error() != src.File+": not a regular file" {
		t.Errorf("a folder: got %v", err)
	}
}
