//go:build unix

package penstock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/internal/hostile"
)

func TestMain(m *testing.M) {
	hostile.Main()
	os.Exit(m.Run())
}

// block is a fenced block of a Markdown file.
type block struct {
	kind, text, heading string
	line                int
}

func blocks(t *testing.T, file string) (bs []block) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var heading string
	var open *block
	for i, line := range strings.Split(string(data), "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(bare, "```"):
			open = &block{kind: strings.TrimPrefix(bare, "```"), heading: heading, line: i + 1}
		case open != nil && bare == "```":
			bs = append(bs, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", file, open.line)
	}
	return bs
}

// configured is where each host keeps its servers, as its documentation says.
var configured = map[string]string{
	"Claude Code":    "mcpServers",
	"Claude Desktop": "mcpServers",
	"Cursor":         "mcpServers",
	"VS Code":        "servers",
	"Codex":          "mcp_servers",
	"Zed":            "context_servers",
}

// TestReadme executes or parses every block of the README. Servers, hosts and
// what would take too long are stand-ins found first in PATH.
func TestReadme(t *testing.T) {
	env := readmeEnv(t)
	seen := map[string]bool{}
	for _, b := range blocks(t, "README.md") {
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			switch b.kind {
			case "sh":
				out, err := env.bash(b.text)
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				env.last = out
			case "text":
				compare(t, env.last, b.text)
			case "console":
				env.console(t, b.text)
			case "yaml":
				if err := os.WriteFile(filepath.Join(env.home, ".penstock/config.yaml"), []byte(b.text), 0o600); err != nil {
					t.Fatal(err)
				}
			case "json", "toml":
				key := configured[b.heading]
				if key == "" {
					t.Fatalf("no host is known under the heading %q", b.heading)
				}
				seen[b.heading] = true
				env.serve(t, command(t, b, key))
			default:
				t.Errorf("nothing is known about blocks of kind %q", b.kind)
			}
		})
	}
	for host := range configured {
		if !seen[host] {
			t.Errorf("no configuration for %s", host)
		}
	}
	ran, _ := os.ReadFile(filepath.Join(env.dir, "ran"))
	for _, name := range []string{"make test", "claude mcp add files", "codex mcp add files", "pkill -USR1 -x penstock", "npx -y"} {
		if !strings.Contains(string(ran), name) {
			t.Errorf("the README did not run %q; it ran\n%s", name, ran)
		}
	}
}

// TestReadmeQuotes reports messages of ours, quoted in the tables of the
// README, that the program does not print.
func TestReadmeQuotes(t *testing.T) {
	var source []byte
	for _, dir := range []string{"child", "internal/bridge", "cmd/penstock"} {
		files, _ := filepath.Glob(dir + "/*.go")
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source = append(source, b...)
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, ours, ok := strings.Cut(string(readme), "What Penstock says in place of an answer:")
	if !ok {
		t.Fatal("the README has no such table any more")
	}
	cell := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	quotes := cell.FindAllStringSubmatch(ours, -1)
	if len(quotes) < 10 {
		t.Fatalf("found only %d quotes", len(quotes))
	}
	verb := regexp.MustCompile(`%[a-z]`)
	text := verb.ReplaceAllString(string(source), "")
	for _, q := range quotes {
		for _, part := range strings.Split(q[1], "…") {
			part = strings.Trim(strings.ReplaceAll(part, "NAME", ""), " ()[],.:")
			if !strings.Contains(text, part) {
				t.Errorf("nothing prints %q", part)
			}
		}
	}
}

// TestLinks reports relative links of the documents that lead nowhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	n := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			n++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Error("no links were found")
	}
}

// readme is where the commands of the README run.
type readme struct {
	dir, home string
	environ   []string
	last      []byte // output of the last commands
}

// readmeEnv makes a home without anything in it and a PATH whose first folder
// holds the stand-ins, each of which notes that it was run.
func readmeEnv(t *testing.T) *readme {
	t.Helper()
	dir := t.TempDir()
	e := &readme{dir: dir, home: filepath.Join(dir, "home")}
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{bin, filepath.Join(e.home, ".penstock")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// What a host's own command does with ours: start it and be its client.
	host := `while [ "$1" != -- ]; do shift; done; shift
answers=$("$@" <"$ASK"); [[ $answers = *'"tools":['* ]]`
	server := hostile.Command("echo")
	for name, script := range map[string]string{
		"npx":    fmt.Sprintf("exec %q %q %q", server[0], server[1], server[2]),
		"claude": host,
		"codex":  host,
		"make":   `grep -q "^$1:" Makefile`,
		"pkill":  "",
	} {
		script = "#!/bin/bash\nset -eu\necho \"" + name + " $*\" >>\"$RAN\"\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ask := filepath.Join(dir, "ask")
	if err := os.WriteFile(ask, []byte(questions), 0o600); err != nil {
		t.Fatal(err)
	}
	e.environ = append(os.Environ(), "HOME="+e.home, "PENSTOCK_HOME="+filepath.Join(e.home, ".penstock"),
		"PATH="+bin+":"+os.Getenv("PATH"), "GOBIN="+bin, "ASK="+ask, "RAN="+filepath.Join(dir, "ran"),
		"GORACE=atexit_sleep_ms=0") // the servers are this binary: a second at their end is their end by a signal
	t.Cleanup(func() {
		if out, err := e.bash("if command -v penstock >/dev/null; then penstock desk stop; fi"); err != nil {
			t.Errorf("a desk is left: %v\n%s", err, out)
		}
	})
	// The home is empty, but the caches of the go command are where they were.
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	values := strings.Split(string(out), "\n")
	for i, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS"} {
		e.environ = append(e.environ, name+"="+values[i])
	}
	return e
}

const questions = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"readme","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`

// bash runs a script in the root of the repository and returns all it prints.
func (e *readme) bash(script string) ([]byte, error) {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Env = e.environ
	return cmd.CombinedOutput()
}

// console runs the commands of a transcript and compares what they print.
func (e *readme) console(t *testing.T, text string) {
	t.Helper()
	for _, part := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		got, _ := e.bash(command) // a transcript may show a failure
		compare(t, got, want)
	}
}

// compare reports lines of a transcript that were not printed in this order. In
// a transcript, … stands for any text, and a number for any number.
func compare(t *testing.T, got []byte, want string) {
	t.Helper()
	number := regexp.MustCompile(`[0-9]+`)
	rest := number.ReplaceAllString(string(got), "N")
	rest = regexp.MustCompile(` +`).ReplaceAllString(rest, " ")
	for line := range strings.Lines(want) {
		pattern := regexp.QuoteMeta(number.ReplaceAllString(strings.TrimRight(line, "\n"), "N"))
		pattern = regexp.MustCompile(` +`).ReplaceAllString(strings.ReplaceAll(pattern, "…", ".*"), " ")
		at := regexp.MustCompile("(?m)^" + pattern + "$").FindStringIndex(rest)
		if at == nil {
			t.Errorf("was not printed: %s\nbut:\n%s", line, got)
			return
		}
		rest = rest[at[1]:]
	}
}

// command returns the command and arguments of the server "files" of a host's
// configuration.
func command(t *testing.T, b block, key string) []string {
	t.Helper()
	var server struct {
		Type    *string
		Command string
		Args    []string
	}
	if b.kind == "toml" {
		// Only what is needed here: a table, strings, an array of strings.
		var ok bool
		for line := range strings.Lines(b.text) {
			name, value, isValue := strings.Cut(strings.TrimSpace(line), " = ")
			var err error
			switch {
			case line == "["+key+".files]\n":
				ok = true
			case isValue && ok && name == "command":
				err = json.Unmarshal([]byte(value), &server.Command)
			case isValue && ok && name == "args":
				err = json.Unmarshal([]byte(value), &server.Args)
			default:
				t.Errorf("line %q is not known", line)
			}
			if err != nil {
				t.Error(err)
			}
		}
	} else {
		var file map[string]map[string]json.RawMessage
		if err := json.Unmarshal([]byte(b.text), &file); err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(file[key]["files"]))
		d.DisallowUnknownFields()
		if err := d.Decode(&server); err != nil {
			t.Fatal(err)
		}
	}
	if server.Command != "penstock" || len(server.Args) < 3 || !slices.Equal(server.Args[:2], []string{"run", "--"}) {
		t.Fatalf("the server does not run behind penstock: %q %q", server.Command, server.Args)
	}
	return append([]string{server.Command}, server.Args...)
}

// serve starts a command as a host does, without a shell, and is its client.
func (e *readme) serve(t *testing.T, command []string) {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-c", `exec "$@"`, "host"}, command...)...) // for the PATH of e
	cmd.Env = e.environ
	cmd.Stdin = strings.NewReader(questions)
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte(`"tools":[`)) {
		t.Errorf("%v; it answered\n%s", err, out)
	}
}
