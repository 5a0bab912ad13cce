package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/config.md")

// write makes a settings file in a new home and returns the source that finds
// it.
func write(t *testing.T, text string) Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{Environ: []string{"PENSTOCK_HOME=" + dir}}
}

// TestDefaults pins the defaults that the design names, so that a change of
// the table is noticed.
func TestDefaults(t *testing.T) {
	want := &Config{
		Limits: Limits{Wire: 8 << 20, Queues: 16 << 20, Calls: 256, Content: 64 << 10, ContentMost: 256 << 10, Media: 8 << 20},
		HelperOutput: HelperOutput{
			StderrRetainedPerCall: 16384, StderrRetainedProcess: 262144, StderrAgentExcerpt: 4096,
			ShutdownGrace: 5 * time.Second, Retain: "tail", StderrForwardPerMinute: 1 << 20,
		},
		Timeouts:    Timeouts{Idle: 0, Total: time.Hour, CancelGrace: 5 * time.Second, WedgeAfter: 30 * time.Second},
		Results:     Results{Oversize: "spill", Keep: "head", Quota: 4 << 30, SessionQuota: 0, Expire: 24 * time.Hour, PromptsAndResources: "pass"},
		Wedge:       "report",
		Descendants: "report",
	}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got, err := Load(Source{Environ: []string{"PENSTOCK_HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	got.origin = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("without a file: got %+v, want %+v", got, want)
	}
	if got.disagreements(nil) != nil {
		t.Error("the defaults disagree")
	}
}

// TestKeys checks what the table must hold for the derivations to be right.
func TestKeys(t *testing.T) {
	var fields, envs, flags []string
	for _, k := range Keys() {
		envs = append(envs, k.Env())
		if k.Flag != "" {
			flags = append(flags, k.Flag)
		}
		if !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: the documentation is not a sentence", k.Path)
		}
		// A field of its own that comes back as it was stored.
		c := &Config{}
		want := value{num: max(k.Max, 1)}
		if k.Kind == Word {
			want = value{word: k.Words[1]}
		}
		k.store(c, want)
		if got := k.load(c); got != want {
			t.Errorf("%s: stored %v, loaded %v", k.Path, want, got)
		}
		for _, other := range Keys() {
			if got := other.load(c); other.Path != k.Path && got != (value{}) {
				t.Errorf("%s and %s share a field", k.Path, other.Path)
			}
		}
		fields = append(fields, k.Path)
		for _, p := range planned {
			if k.Path == p || strings.HasPrefix(k.Path, p+".") {
				t.Errorf("%s is a key and planned", k.Path)
			}
		}
	}
	for _, names := range [][]string{fields, envs, flags} {
		seen := make(map[string]bool)
		for _, n := range names {
			if seen[n] {
				t.Errorf("%s is there twice", n)
			}
			seen[n] = true
		}
	}
	if got := leaves(reflect.TypeFor[Config]()); got != len(Keys())+1 { // and the list tools
		t.Errorf("Config has %d fields for %d keys", got, len(Keys()))
	}
}

// leaves counts the exported fields that are not structs.
func leaves(typ reflect.Type) int {
	n := 0
	for f := range fieldsOf(typ) {
		if f.Type.Kind() == reflect.Struct {
			n += leaves(f.Type)
		} else {
			n++
		}
	}
	return n
}

func fieldsOf(typ reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range typ.NumField() {
			if f := typ.Field(i); f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	src := write(t, "# mine\nlimits:\n  wire: 1MiB\n  calls: 7\ntimeouts: {idle: 10s, total: 2h}\n")
	file := filepath.Join(lookupEnv(src.Environ, "PENSTOCK_HOME"), FileName)
	src.Environ = append(src.Environ, "PENSTOCK_LIMITS_CALLS=8", "PENSTOCK_TIMEOUTS_TOTAL=3h", "PENSTOCK_WEDGE=",
		"PENSTOCK_HELPER_OUTPUT_STDERR_RETAINED_PER_CALL_BYTES=8KiB")
	src.Flags = &Flags{}
	total, _ := Lookup("timeouts.total")
	for _, text := range []string{"5h", "4h"} {
		if err := src.Flags.Value(total).Set(text); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, text, origin string }{
		{"limits.wire", "1MiB", file + ":3"},
		{"limits.queues", "16MiB", "default"},
		{"limits.calls", "8", "PENSTOCK_LIMITS_CALLS"},
		{"timeouts.idle", "10s", file + ":5"},
		{"timeouts.total", "4h", "--total-timeout"},
		{"helper_output.stderr_retained_per_call_bytes", "8KiB", "PENSTOCK_HELPER_OUTPUT_STDERR_RETAINED_PER_CALL_BYTES"},
		{"wedge", "report", "default"},
	} {
		if got := c.Text(tt.key); got != tt.text {
			t.Errorf("%s = %s, want %s", tt.key, got, tt.text)
		}
		if got := c.Origin(tt.key).String(); got != tt.origin {
			t.Errorf("%s comes from %s, want %s", tt.key, got, tt.origin)
		}
	}
	if c.Timeouts.Total != 4*time.Hour || c.Limits.Wire != 1<<20 || c.Limits.Calls != 8 {
		t.Errorf("fields do not follow: %+v", c)
	}
}

// TestAllProblems checks that every source is reported in one go, in order,
// even where another source wins.
func TestAllProblems(t *testing.T) {
	src := write(t, "wedge: never\nlimits: {wire: 8MB, wrie: 1MiB}\ntimeouts:\n  total: 3\n")
	file := filepath.Join(lookupEnv(src.Environ, "PENSTOCK_HOME"), FileName)
	src.Environ = append(src.Environ, "PENSTOCK_LIMITS_CALLS=0", "PENSTOCK_LIMITS_WIRE=1MiB")
	_, err := Load(src)
	want := strings.Join([]string{
		file + `:1: wedge: "never" is not one of its words; allowed: report or restart`,
		file + `:2: limits.wire: "8MB" is not a size, write 8MiB; allowed: 4KiB to 256MiB`,
		file + `:2: limits.wrie: unknown key; did you mean limits.wire?`,
		file + `:4: timeouts.total: "3" is not a duration, write 3s; allowed: 0s for none, or 100ms to 168h`,
		`PENSTOCK_LIMITS_CALLS: limits.calls: "0" is out of range; allowed: 1 to 65536`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if ps := (Problems{}); !errors.As(err, &ps) || len(ps) != 5 || ps[2].Key != "limits.wrie" || ps[2].Origin.Column != 21 {
		t.Errorf("not Problems as expected: %#v", err)
	}
}

func TestDisagreements(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"limits: {wire: 9MiB}", ":1: limits.wire: limits.queues is 16MiB (default), and must be at least twice limits.wire, which is 9MiB (FILE:1)"},
		{"limits:\n  wire: 64MiB\n  queues: 127MiB", ":3: limits.queues: limits.queues is 127MiB (FILE:3), and must be at least twice limits.wire, which is 64MiB (FILE:2)"},
		{"limits:\n  wire: 64MiB\n  queues: 128MiB", ""},
		{"helper_output: {stderr_retained_process_bytes: 8KiB}", ":1: helper_output.stderr_retained_process_bytes: helper_output.stderr_retained_process_bytes is 8KiB (FILE:1), and must be at least helper_output.stderr_retained_per_call_bytes, which is 16KiB (default)"},
		{"helper_output: {stderr_agent_excerpt_bytes: 20000}", ":1: helper_output.stderr_agent_excerpt_bytes: helper_output.stderr_retained_per_call_bytes is 16KiB (default), and must be at least helper_output.stderr_agent_excerpt_bytes, which is 20000 (FILE:1)"},
		{"timeouts: {idle: 2h}", ":1: timeouts.idle: timeouts.total is 1h (default), and must be 0s or at least timeouts.idle, which is 2h (FILE:1)"},
		{"timeouts: {idle: 2h, total: 0s}", ""},
		{"timeouts: {wedge_after: 4s}", ":1: timeouts.wedge_after: timeouts.wedge_after is 4s (FILE:1), and must be at least timeouts.cancel_grace, which is 5s (default)"},
		// In the order of the file, whoever found it.
		{"timeouts: {wedge_after: 4s}\nwedge: 1", ":1: timeouts.wedge_after: timeouts.wedge_after is 4s (FILE:1), and must be at least timeouts.cancel_grace, which is 5s (default)\n" +
			`FILE:2: wedge: "1" is not one of its words; allowed: report or restart`},
		// One complaint is enough.
		{"limits: {wire: 9MiB, queues: 1B}", `:1: limits.queues: "1B" is not a size, write 1; allowed: 8KiB to 4GiB`},
	} {
		src := write(t, tt.text)
		file := filepath.Join(lookupEnv(src.Environ, "PENSTOCK_HOME"), FileName)
		_, err := Load(src)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(strings.TrimPrefix(err.Error(), file), file, "FILE")
		}
		if got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

func TestUnknownEnv(t *testing.T) {
	got := UnknownEnv([]string{
		"PENSTOCK_HOME=/x", "PENSTOCK_SESSION=1", "PENSTOCK_LIMITS_WIRE=1MiB", "PATH=/bin", "XPENSTOCK_Y=1",
		"PENSTOCK_LIMIT_WIRE=1", "PENSTOCK_CLEARED=", "PENSTOCK_AUDIT_KEEP=1d", "PENSTOCK_POLICY_CONTENT=off", "PENSTOCK_COLOUR_OF_THE_SKY_ABOVE=blue",
	}).Error()
	want := strings.Join([]string{
		"PENSTOCK_AUDIT_KEEP: known, but not in this version",
		"PENSTOCK_COLOUR_OF_THE_SKY_ABOVE: unknown variable",
		"PENSTOCK_LIMIT_WIRE: unknown variable; did you mean PENSTOCK_LIMITS_WIRE?",
		"PENSTOCK_POLICY_CONTENT: known, but not in this version",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFlagValue(t *testing.T) {
	var f Flags
	k, _ := Lookup("limits.wire")
	v := f.Value(k)
	if v.String() != "8MiB" || v.Type() != "size" || (*FlagValue)(nil).String() != "" {
		t.Errorf("got %q, %q before it is set", v.String(), v.Type())
	}
	err := v.Set("8 mb")
	if err == nil || err.Error() != `"8 mb" is not a size, write 8MiB; allowed: 4KiB to 256MiB` {
		t.Errorf("got error %v", err)
	}
	if len(f.texts) != 0 {
		t.Error("a refused text was recorded")
	}
	if err := v.Set("4MiB"); err != nil || v.String() != "4MiB" {
		t.Errorf("got %q, %v", v.String(), err)
	}
}

func TestWorstCase(t *testing.T) {
	c := Default()
	const rest = 10<<20 + 16<<20 + 16<<20 + 4<<20 + 5*64<<10
	for _, tt := range []struct {
		calls, sessions int
		captures, total Size
	}{
		{0, 1, 0, rest},
		{1, 1, 16384, rest + 16384},
		{15, 1, 15 * 16384, rest + 15*16384},
		{17, 2, 262144, 2 * (rest + 262144)},
		{1 << 40, 3, 262144, 3 * (rest + 262144)},
		{-1, -1, 0, 0},
	} {
		if m := c.WorstCase(tt.calls, tt.sessions); m.Captures != tt.captures || m.Total != tt.total {
			t.Errorf("%d calls, %d sessions: got %+v", tt.calls, tt.sessions, m)
		}
	}
	// More calls than are let in do not count.
	c.Limits.Calls = 2
	if got := c.WorstCase(3, 1).Captures; got != 2*16384 {
		t.Errorf("got captures of %d with two calls let in", got)
	}
	c.Limits.Content, c.Results.Oversize = Off, OversizeReject
	if got := c.WorstCase(3, 1).Results; got != 0 {
		t.Errorf("got %d for results where none are kept", got)
	}
}

// TestReference checks that docs/config.md is what the table makes.
func TestReference(t *testing.T) {
	const file = "../../docs/config.md"
	want := Reference()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A checkout may have changed the line ends.
	if !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), want) {
		t.Errorf("%s is not current: run go test ./internal/config -update", file)
	}
	// The example in it is a settings file, and says what the defaults are.
	_, rest, _ := strings.Cut(string(want), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	values := make(map[string]setting)
	if ps := parseFile("example", []byte(example), values); len(ps) > 0 || len(values) != len(keys) {
		t.Errorf("the example sets %d of %d keys, problems: %v", len(values), len(keys), ps)
	}
	for path, s := range values {
		if k, _ := Lookup(path); s.value != k.load(Default()) {
			t.Errorf("the example has another value for %s than the default", path)
		}
	}
}
