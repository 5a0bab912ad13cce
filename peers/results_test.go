//go:build peers

package peers_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// contentLimit is what penstock run shows of a result by default.
const contentLimit = 64 << 10

// A cutResult is what readOn of clients/steps.mjs returns.
type cutResult struct {
	IsError bool
	Cut     struct {
		Handle string
		Shown  int64 `json:"shown_bytes"`
		Total  int64 `json:"total_bytes"`
	}
	Bytes, Size, Largest, Pages int64
	SHA256                      string
	First, Last                 string
}

// bigFiles is a folder with a text of 20 MB and many files with long names.
func bigFiles(t *testing.T) (dir, sum string) {
	t.Helper()
	dir = t.TempDir()
	noise := make([]byte, 15<<20)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for i := 0; len(noise) > 0; i++ {
		n := min(len(noise), 60)
		fmt.Fprintf(&text, "%s é \"%d\"\n", base64.StdEncoding.EncodeToString(noise[:n]), i)
		noise = noise[n:]
	}
	if err := os.WriteFile(filepath.Join(dir, "big.txt"), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("a file with a rather long name, number %05d.txt", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := sha256.Sum256(text.Bytes())
	return dir, hex.EncodeToString(h[:])
}

// withResults is the plan of the filesystem server behind penstock run with its
// default limits and a desk of its own, which ends with the test.
func withResults(t *testing.T, dir string, calls ...toolCall) plan {
	t.Helper()
	bin, err := buildPenstock()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home")
	t.Cleanup(func() {
		cmd := exec.Command(bin, "desk", "stop")
		cmd.Env = append(os.Environ(), "PENSTOCK_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("desk stop: %v\n%s", err, out)
		}
	})
	command := append([]string{bin, "run", "--"}, node(t, "@modelcontextprotocol/server-filesystem/dist/index.js", dir)...)
	return plan{
		Server: serverProcess{Command: command[0], Args: command[1:], Env: map[string]string{marker: os.Getenv(marker), "PENSTOCK_HOME": home}},
		Calls:  calls, ReadOn: true,
	}
}

// TestCutResults has clients that validate results against output schemas read
// a file of 20 MB and a long list: the answers are bounded and valid, and the
// pages are the whole.
func TestCutResults(t *testing.T) {
	dir, sum := bigFiles(t)
	for _, name := range []string{"sdk1", "sdk2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			p := withResults(t, dir,
				toolCall{"read_text_file", map[string]any{"path": filepath.Join(dir, "big.txt")}},
				toolCall{"list_directory", map[string]any{"path": filepath.Join(dir, "many")}},
				toolCall{"read_text_file", map[string]any{"path": filepath.Join(dir, "many")}}) // fails, and is small
			var steps []struct {
				Step   string
				Result json.RawMessage
				Error  any
			}
			if err := json.Unmarshal(clients[name](ctx, t, p), &steps); err != nil || len(steps) != 4 {
				t.Fatalf("%d steps, %v", len(steps), err)
			}
			if !bytes.Contains(steps[0].Result, []byte(`"penstock_result"`)) {
				t.Error("the continuation tool is not listed")
			}
			for i, s := range steps[1:3] {
				var r cutResult
				if err := json.Unmarshal(s.Result, &r); err != nil || s.Error != nil || r.Pages == 0 {
					t.Fatalf("%s: %v, %v: %.500s", s.Step, s.Error, err, s.Result)
				}
				if r.IsError || r.Size > 2*contentLimit || r.Largest > 2*contentLimit || r.Cut.Shown >= r.Cut.Total {
					t.Errorf("%s: %+v", s.Step, r)
				}
				if !strings.Contains(r.First, " of ") || !strings.Contains(r.Last, "penstock_result") && !strings.Contains(r.First, "penstock_result") {
					t.Errorf("%s does not say what was cut: %q … %q", s.Step, r.First, r.Last)
				}
				if i == 0 && r.SHA256 != sum {
					t.Errorf("the pages of the file are %d bytes with another sum", r.Bytes)
				}
			}
		})
	}
}

// TestCutResultInspector does it with a host that makes one call a process: the
// whole result is there for people after the session has gone.
func TestCutResultInspector(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	dir, sum := bigFiles(t)
	p := withResults(t, dir, toolCall{"read_text_file", map[string]any{"path": filepath.Join(dir, "big.txt")}})
	var steps []struct {
		Step   string
		Result struct { // what the inspector prints holds the result
			Result struct {
				IsError bool
				Meta    map[string]struct{ Handle string } `json:"_meta"`
			}
		}
	}
	out := clients["inspector"](ctx, t, p)
	if err := json.Unmarshal(out, &steps); err != nil || len(steps) != 2 || steps[1].Result.Result.IsError || len(steps[1].Result.Result.Meta) == 0 {
		t.Fatalf("%v: %.600s", err, out)
	}
	handle := steps[1].Result.Result.Meta["dev.penstock/truncated"].Handle
	cmd := exec.CommandContext(ctx, p.Server.Command, "results", "export", handle, "--part", "0")
	cmd.Env = append(os.Environ(), "PENSTOCK_HOME="+p.Server.Env["PENSTOCK_HOME"])
	var errs bytes.Buffer
	cmd.Stderr = &errs
	whole, err := cmd.Output()
	if h := sha256.Sum256(whole); err != nil || hex.EncodeToString(h[:]) != sum {
		t.Errorf("exported %d bytes: %v: %s", len(whole), err, errs.String())
	}
}

// TestImagesArriveWhole: pictures are whole or replaced, never cut.
func TestImagesArriveWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noise := make([]byte, 2<<20)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	png := append([]byte("\x89PNG\r\n\x1a\n"), noise...)
	if err := os.WriteFile(filepath.Join(dir, "a.png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	p := withResults(t, dir, toolCall{"read_media_file", map[string]any{"path": filepath.Join(dir, "a.png")}})
	p.ReadOn = false
	var steps []struct {
		Result struct {
			Content []struct{ Type, Data string }
			IsError bool
		}
		Error any
	}
	out := clients["sdk1"](ctx, t, p)
	if err := json.Unmarshal(out, &steps); err != nil || len(steps) != 2 {
		t.Fatalf("%v: %.600s", err, out)
	}
	r := steps[1].Result
	if r.IsError || len(r.Content) == 0 || r.Content[0].Type != "image" || r.Content[0].Data != base64.StdEncoding.EncodeToString(png) {
		t.Errorf("the picture did not arrive whole: %v %.400s", steps[1].Error, out)
	}
}
