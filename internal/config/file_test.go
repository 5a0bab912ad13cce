package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// read parses text and returns the problems with FILE for the name.
func read(text string) (map[string]setting, string) {
	values := make(map[string]setting)
	ps := parseFile("FILE", []byte(text), values)
	if len(ps) == 0 {
		return values, ""
	}
	return values, ps.Error()
}

// readable are files that are taken.
var readable = []struct {
	name, text string
	want       string // key=value@line, in the order of the table
}{
	{"empty", "", ""},
	{"white space", " \n\n  \n", ""},
	{"comments", "# wedge: restart\n#\n", ""},
	{"empty document", "---\n...\n", ""},
	{"null", "null\n", ""},
	{"BOM", "\ufeffwedge: restart\n", "wedge=restart@1"},
	{"BOM alone", "\ufeff", ""},
	{"CRLF", "limits:\r\n  wire: 1MiB # small\r\n  calls: 3\r\nwedge: restart\r\n", "limits.wire=1MiB@2 limits.calls=3@3 wedge=restart@4"},
	{"CR", "wedge: restart\rdescendants: kill\r", "wedge=restart@1 descendants=kill@2"},
	{"no newline at the end", "limits:\n  calls: 3", "limits.calls=3@2"},
	{"marker", "---\nwedge: restart\n", "wedge=restart@2"},
	{"flow", "{limits: {wire: 1MiB, queues: 2MiB}, wedge: restart}", "limits.wire=1MiB@1 limits.queues=2MiB@1 wedge=restart@1"},
	{"JSON", `{"limits": {"wire": 1048576, "calls": 3}}`, "limits.wire=1MiB@1 limits.calls=3@1"},
	{"quotes", "'wedge': \"restart\"\nlimits: {wire: '1MiB'}", "limits.wire=1MiB@2 wedge=restart@1"},
	{"empty section", "limits:\nwedge: restart\ntimeouts: {}\nhelper_output: ~\n", "wedge=restart@2"},
	{"section of comments", "limits:\n  # wire: 1MiB\nwedge: restart\n", "wedge=restart@3"},
	{"plain bytes", "limits: {wire: 1000000}", "limits.wire=1000000@1"},
	{"seconds", "helper_output: {shutdown_grace_seconds: 1.5}", "helper_output.shutdown_grace_seconds=1.5@1"},
	{"value on the next line", "wedge:\n  restart\n", "wedge=restart@1"},
	{"wide indent", "limits:\n        wire: 1MiB\n", "limits.wire=1MiB@2"},
	{"tab before a comment", "wedge: restart\t# why\n", "wedge=restart@1"},
}

func TestReadsFile(t *testing.T) {
	for _, tt := range readable {
		values, problems := read(tt.text)
		var got []string
		for _, k := range keys {
			if s, ok := values[k.Path]; ok {
				got = append(got, fmt.Sprintf("%s=%s@%d", k.Path, k.format(s.value), s.origin.Line))
			}
		}
		if s := strings.Join(got, " "); s != tt.want || problems != "" {
			t.Errorf("%s: got %s, want %s; problems: %s", tt.name, s, tt.want, problems)
		}
	}
}

func TestRefusesFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       string
	}{
		{"unknown top", "limit: {wire: 1MiB}", "FILE:1: limit: unknown key; did you mean limits?"},
		{"unknown leaf", "limits:\n  wires: 1MiB", "FILE:2: limits.wires: unknown key; did you mean limits.wire?"},
		{"swapped letters", "wegde: restart", "FILE:1: wegde: unknown key; did you mean wedge?"},
		{"wrong case", "Limits: {wire: 1MiB}", "FILE:1: Limits: unknown key; did you mean limits?"},
		{"outside its section", "wire: 1MiB", "FILE:1: wire: unknown key; did you mean limits.wire?"},
		{"in another section", "limits: {idle: 1s}", "FILE:1: limits.idle: unknown key; did you mean timeouts.idle?"},
		{"inside a section that it is not in", "limits: {wedge: report}", "FILE:1: limits.wedge: unknown key; did you mean wedge?"},
		{"near nothing", "limits: {colour: red}", "FILE:1: limits.colour: unknown key; known here: wire, queues, calls, content, content_most, media"},
		{"near nothing at the top", "quiet: true", "FILE:1: quiet: unknown key; known here: limits, helper_output, timeouts, wedge, descendants, results, tools"},
		{"dotted", "limits.wire: 1MiB", "FILE:1: limits.wire: write it as limits: {wire: …}"},
		{"later section", "policy:\n  - {tool: x}\n", "FILE:1: policy: known, but not in this version"},
		{"later key", "audit: {keep: 90d}", "FILE:1: audit: known, but not in this version"},
		{"later key of a later section", "policy: [{do: ask}]", "FILE:1: policy: known, but not in this version"},
		{"empty key", "'': 1", `FILE:1: is a number; allowed: keys with values (limits, helper_output, timeouts, wedge, descendants, results, tools)`},
		{"number as a key", "1: 2", `FILE:1: 1: unknown key; known here: limits, helper_output, timeouts, wedge, descendants, results, tools`},
		{"long key", strings.Repeat("k", 300) + ": 1", "FILE:1: " + strings.Repeat("k", 100) + "…: unknown key; known here: limits, helper_output, timeouts, wedge, descendants, results, tools"},

		{"duplicate", "wedge: report\nlimits: {}\nwedge: restart", "FILE:3: wedge: written twice; first on line 1"},
		{"duplicate section", "limits: {wire: 1MiB}\nlimits: {wire: 2MiB}", "FILE:2: limits: written twice; first on line 1"},
		{"duplicate in another form", "wedge: report\n\"wedge\": restart", "FILE:2: wedge: written twice; first on line 1"},

		{"size with a wrong unit", "limits: {wire: 8MB}", `FILE:1: limits.wire: "8MB" is not a size, write 8MiB; allowed: 4KiB to 256MiB`},
		{"size that is off", "limits: {wire: off}", `FILE:1: limits.wire: cannot be off; allowed: 4KiB to 256MiB`},
		{"size too large", "limits: {wire: 257MiB}", `FILE:1: limits.wire: "257MiB" is out of range; allowed: 4KiB to 256MiB`},
		{"size as a fraction", "limits: {wire: 1.5}", `FILE:1: limits.wire: "1.5" is not a size; allowed: 4KiB to 256MiB`},
		{"size in hexadecimal", "limits: {wire: 0x100000}", `FILE:1: limits.wire: "0x100000" is not a size; allowed: 4KiB to 256MiB`},
		{"size with underscores", "limits: {wire: 1_000_000}", `FILE:1: limits.wire: "1_000_000" is not a size; allowed: 4KiB to 256MiB`},
		{"size negative", "limits: {wire: -1}", `FILE:1: limits.wire: "-1" is not a size; allowed: 4KiB to 256MiB`},
		{"duration without unit", "timeouts: {idle: 30}", `FILE:1: timeouts.idle: "30" is not a duration, write 30s; allowed: 0s for none, or 100ms to 168h`},
		{"duration between", "timeouts: {idle: 1ms}", `FILE:1: timeouts.idle: "1ms" is out of range; allowed: 0s for none, or 100ms to 168h`},
		{"seconds with unit", "helper_output: {shutdown_grace_seconds: 5s}", `FILE:1: helper_output.shutdown_grace_seconds: "5s" is not a number of seconds, write 5; allowed: 0 to 600`},
		{"quoted number", "limits: {calls: '3'}", `FILE:1: limits.calls: is the text "3"; write the number without quotes; allowed: 1 to 65536`},
		{"count as a fraction", "limits: {calls: 2.5}", `FILE:1: limits.calls: "2.5" is not a whole number; allowed: 1 to 65536`},
		{"count in octal", "limits: {calls: 010}", `FILE:1: limits.calls: "010" is not a whole number; allowed: 1 to 65536`},
		{"count too large", "limits: {calls: 99999999999999999999}", `FILE:1: limits.calls: "99999999999999999999" is too large; allowed: 1 to 65536`},
		{"word near", "wedge: reprot", `FILE:1: wedge: "reprot" is not one of its words; did you mean report?; allowed: report or restart`},
		{"word as a boolean", "wedge: true", `FILE:1: wedge: is true or false; allowed: report or restart`},
		{"empty value", "limits:\n  wire:\n  calls: 3", `FILE:2: limits.wire: is empty; allowed: 4KiB to 256MiB`},
		{"list for a value", "limits:\n  wire: [1]", `FILE:2: limits.wire: is a list; allowed: 4KiB to 256MiB`},
		{"mapping for a value", "wedge: {a: b}", `FILE:1: wedge: is a mapping; allowed: report or restart`},
		{"block of text", "wedge: |\n  restart\n", `FILE:1: wedge: is text; allowed: report or restart`},
		{"infinity", "limits: {calls: .inf}", `FILE:1: limits.calls: is a number; allowed: 1 to 65536`},
		{"value for a section", "limits: 8MiB", `FILE:1: limits: is text; allowed: keys with values (wire, queues, calls, content, content_most, media)`},
		{"list for a section", "limits:\n  - wire: 1MiB", `FILE:2: limits: is a list; allowed: keys with values (wire, queues, calls, content, content_most, media)`},
		{"list at the top", "- limits", `FILE:1: is a list; allowed: keys with values (limits, helper_output, timeouts, wedge, descendants, results, tools)`},
		{"text at the top", "hello", `FILE:1: is text; allowed: keys with values (limits, helper_output, timeouts, wedge, descendants, results, tools)`},

		{"two documents", "wedge: report\n---\nwedge: restart\n", "FILE:2: a second document begins; only one is read"},
		{"anchor", "limits: &a {wire: 1MiB}\ntimeouts: *a", "FILE:1: anchors and aliases are not read; write the value itself"},
		{"merge", "limits: {}\ntimeouts:\n  <<: {idle: 1s}", "FILE:3: anchors and aliases are not read; write the value itself"},
		{"tag", "wedge: !!str restart", "FILE:1: tags are not read; write the value without one"},
		{"question mark", "? wedge\n: restart", "FILE:1: keys written with ? are not read"},
		{"directive", "%YAML 1.2\n---\nwedge: restart", "FILE:1: directives are not read"},
		{"tab", "limits:\n\twire: 1MiB\n", "FILE:2: not YAML: indented with a tab; YAML wants spaces"},
		{"tab after spaces", "limits:\n  wire: 1MiB\n  \tcalls: 3\n", "FILE:3: not YAML: indented with a tab; YAML wants spaces"},
		{"Latin-1", "# \n# caf\xe9\nwedge: report", "FILE:2: byte 0xe9 is not UTF-8; save the file as UTF-8"},
		{"UTF-16", "\xff\xfew\x00e\x00", "FILE: is UTF-16; save it as UTF-8"},
		{"NUL", "wedge: re\x00port", "FILE:1: holds the control character U+0000"},
		{"escape", "# \x1b[31m\n", "FILE:1: holds the control character U+001B"},
		{"too large", strings.Repeat("# comment\n", maxFile/10+1), "FILE: larger than 1MiB, the most that is read"},
	} {
		if _, got := read(tt.text); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestSyntax checks the line of errors for which the parser has the words.
func TestSyntax(t *testing.T) {
	for _, tt := range []struct {
		text string
		line int
	}{
		{"limits: {wire: 1MiB\n", 1},
		{"wedge: report\nlimits: ]\n", 2},
		{"wedge: report\n  wire: 1MiB\n", 1},
		{"limits:\n  wire: 1MiB\n calls: 3\n", 3},
		{"wedge: \"report\n", 1},
		{"wedge: report\nthis is not a key\n", 2},
		{"wedge: @report\n", 1},
	} {
		_, got := read(tt.text)
		if want := fmt.Sprintf("FILE:%d: not YAML: ", tt.line); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q: got %s, want %s…", tt.text, got, want)
		}
	}
}

// TestHostileFile feeds the shapes that cost parsers most. The bound is on
// work, not on time: given all of these, the parser would not come back within
// minutes, or would end the process for want of stack.
func TestHostileFile(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, maxFile/4/len(s)) }
	for _, text := range []string{
		fill("["), fill("{a: "), fill("- "), fill("? "), fill("!a "), fill("&a "), fill("a: b\n"), fill(`"`), fill("'"),
		fill(": "), fill(":"), fill("- a\n"), fill("---\n"), fill("[],"), fill("*a "), fill("a: [\n"), fill("|\n"), fill("%a\n"),
	} {
		if _, got := read(text); got == "" {
			t.Errorf("%.20q…: accepted", text)
		}
	}
	for _, deep := range []string{"[", "- ", "{a: "} {
		if _, got := read(strings.Repeat(deep, maxDepth+1) + "a"); got != fmt.Sprintf("FILE:1: nested more than %d deep", maxDepth) {
			t.Errorf("%q, nested: got %s", deep, got)
		}
	}
	// At the bound of bytes, and over the bound of parts.
	values, got := read("# " + strings.Repeat("x", maxFile-2))
	if got != "" || len(values) != 0 {
		t.Errorf("a comment as long as a file may be: %s", got)
	}
	if _, got := read("[" + strings.Repeat("a,", maxTokens) + "a]"); !strings.Contains(got, "too many parts") {
		t.Errorf("too many parts: got %s", got)
	}
}

// FuzzFile checks that whatever is in the file, parsing ends, a value that is
// taken is one that the key allows, and a problem is one printable line in the
// file.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"limits: {wire: 1MiB}\nwedge: restart\n", "timeouts:\n  idle: 30s # comment\n", "a: &x [*x]\n", "\ufeff---\nwedge: |\n  x\n...\n",
		"? a\n: b\n", "\t- x", "wedge: \"\\u0072eport\"", "{\"limits\":{\"calls\":3}}", "- - - a", "limits:\n  wire:\n", "a: b: c", "'", "!!x", "wedge: >-\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values := make(map[string]setting)
		problems := parseFile("FILE", data, values)
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r")
		for path, s := range values {
			k, ok := Lookup(path)
			if !ok {
				t.Fatalf("took the unknown key %q", path)
			}
			if v, err := k.parse(k.format(s.value)); err != nil || v != s.value {
				t.Fatalf("took %+v for %s, which it refuses when it is written as %q: %v", s.value, path, k.format(s.value), err)
			}
			if s.origin.Line < 1 || s.origin.Line > lines {
				t.Fatalf("%s is on line %d of %d", path, s.origin.Line, lines)
			}
		}
		for _, p := range problems {
			if msg := p.Error(); !utf8.ValidString(msg) || len(msg) > 1000 || p.Origin.Line < 0 || p.Origin.Line > lines+1 {
				t.Fatalf("problem %q on line %d of %d", msg, p.Origin.Line, lines)
			}
		}
		again := make(map[string]setting)
		if second := parseFile("FILE", data, again); len(second) != len(problems) || len(again) != len(values) {
			t.Fatal("not the same twice")
		}
	})
}

// TestDurationsOfTheTable guards against a bound written without its unit.
func TestDurationsOfTheTable(t *testing.T) {
	for _, k := range keys {
		if (k.Kind == Duration || k.Kind == Seconds) && k.Max < int64(time.Minute) {
			t.Errorf("%s is at most %s", k.Path, time.Duration(k.Max))
		}
	}
}
