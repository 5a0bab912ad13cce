// Package penstock_test holds the repository's policy tests.
package penstock_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/penstock-dev/penstock"

// packages is the layer table: what each package may import besides the
// standard library. It is policy. A change of it is a commit of its own that
// says why, never an edit to make a build pass. Test files are exempt.
//
// A package imports only packages of lower layers, never one of its own.
var packages = map[string]struct {
	layer   int
	modules []string
}{
	"frame":            {0, nil},
	"child":            {0, []string{"golang.org/x/sys"}},
	"audit":            {0, []string{"filippo.io/age", "golang.org/x/crypto", "golang.org/x/mod/sumdb", "golang.org/x/sys"}},
	"internal/call":    {0, nil},
	"internal/config":  {0, []string{"github.com/goccy/go-yaml"}},
	"internal/hostile": {0, nil},
	"internal/result":  {1, []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	"internal/rpc":     {1, nil},
	"internal/link":    {1, []string{"golang.org/x/sys"}},
	"internal/desk":    {2, []string{"golang.org/x/sys"}},
	"internal/bridge":  {2, []string{"golang.org/x/sys"}},
	"bench":            {4, nil},
	"cmd/penstock":     {4, []string{"github.com/spf13/cobra", "golang.org/x/sys"}},
}

// TestDependencies reports imports that the table does not allow.
func TestDependencies(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if len(p.GoFiles) == 0 {
			continue
		}
		rule, ok := packages[name]
		if !ok {
			t.Errorf("package %q is not in the layer table of deps_test.go", name)
			continue
		}
		for _, imp := range p.Imports {
			if rest, ours := strings.CutPrefix(imp, module+"/"); ours {
				if below, ok := packages[rest]; !ok || below.layer >= rule.layer {
					t.Errorf("%s (layer %d) imports %s (layer %d): arrows point down only", name, rule.layer, rest, below.layer)
				}
				continue
			}
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if !slices.ContainsFunc(rule.modules, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") }) {
				t.Errorf("%s imports %s, which the layer table does not allow it", name, imp)
			}
		}
	}
}

type pkg struct {
	ImportPath, Dir, Doc string
	GoFiles, Imports     []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
