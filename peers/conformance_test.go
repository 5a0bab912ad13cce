//go:build peers

package peers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// unsteady are checks whose outcome differs from run to run without a bridge,
// with the reason.
var unsteady = map[string]string{
	// The Go SDK's server stops sending list_changed on the whole connection
	// when any one subscription of it ends, so that it depends on timing
	// whether another one still gets it.
	"sep-2575-server-sends-prompts-list-changed-on-subscription": "go-sdk v1.8.0 drops list_changed",
	"sep-2575-server-sends-tools-list-changed-on-subscription":   "go-sdk v1.8.0 drops list_changed",
}

// TestConformance runs the official suite against the Go SDK's server on stdio
// behind a front, with and without a bridge between the two, at each revision.
// Every check must end the same way, and all that are required must pass.
func TestConformance(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			direct := conformance(t, revision, goServer(t))
			behind := conformance(t, revision, through(t, goServer(t)...))
			if err := sameChecks(direct, behind); err != nil {
				t.Error(err)
			}
			t.Logf("%d checks", len(direct))
		})
	}
}

// conformance returns how each check of the suite ended, by scenario and id.
func conformance(t *testing.T, revision string, command []string) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	dir := t.TempDir()
	cmd := start(ctx, t, node(t, "@modelcontextprotocol/conformance/dist/index.js",
		"server", "--url", newFront(t, command), "--requirements", revision, "-o", filepath.Join(dir, "results")))
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil { // its exit code is about the required scenarios
		t.Errorf("%.100q at %s: %v\n%s", command, revision, err, tail(out, 8192))
	}
	checks, err := readChecks(filepath.Join(dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	return checks
}

// runTime is what the suite appends to the name of a scenario's folder.
var runTime = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[^/]*$`)

func readChecks(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	checks := map[string][]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var list []struct{ ID, Status string }
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		scenario := runTime.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		for _, c := range list {
			if slices.Contains([]string{"SUCCESS", "FAILURE", "WARNING", "SKIPPED"}, c.Status) && unsteady[c.ID] == "" {
				key := scenario + " " + c.ID
				checks[key] = append(checks[key], c.Status)
			}
		}
	}
	for _, statuses := range checks {
		slices.Sort(statuses)
	}
	if len(checks) == 0 {
		return nil, fmt.Errorf("%s holds no checks", dir)
	}
	return checks, nil
}

// sameChecks names every check that ended another way.
func sameChecks(direct, through map[string][]string) error {
	all := maps.Clone(direct)
	maps.Copy(all, through)
	var differ []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Equal(direct[key], through[key]) {
			differ = append(differ, fmt.Sprintf("%s: %v direct, %v through", key, direct[key], through[key]))
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("%d of %d checks differ:\n%s", len(differ), len(all), strings.Join(differ, "\n"))
	}
	return nil
}
