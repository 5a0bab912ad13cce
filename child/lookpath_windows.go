package child

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// executable returns file, or file with the first extension of PATHEXT that
// makes it a file that exists.
func executable(file string, env []string) (string, error) {
	exts := strings.Split(getenv(env, "PATHEXT"), ";")
	if len(exts) == 1 && exts[0] == "" {
		exts = []string{".com", ".exe", ".bat", ".cmd"}
	}
	for _, ext := range append([]string{""}, exts...) {
		if ext == "" && filepath.Ext(file) == "" {
			continue
		}
		if fi, err := os.Stat(file + ext); err == nil && !fi.IsDir() {
			return file + ext, nil
		}
	}
	return "", syscall.ENOENT
}

func checkSearch(string) error { return nil }
