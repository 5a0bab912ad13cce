package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestToolRules(t *testing.T) {
	src := write(t, `tools:
  - {server: "files*", tool: "read_*", content: 256KiB, media: 1MiB, keep: tail}
  - tool: secret?
    content: off
  - {tool: "[ab]/x"}
  - {content: 2048}
`)
	c, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		server, tool string
		content      Size
		line         int
	}{
		{"files-home", "read_file", 256 << 10, 2},
		{"files", "read_", 256 << 10, 2},
		{"git", "read_file", 2048, 6},
		{"files", "secrets", Off, 3},
		{"files", "secret", 2048, 6},
		{"x", "a/x", 0, 5},
		{"x", "a/b/c", 2048, 6},     // a slash is a character as any other
		{"", "", 2048, 6},           // no name at all
		{"x", "read_\x00", 2048, 6}, // nor is NUL one that matters
	} {
		if r := c.ToolRule(tt.server, tt.tool); r.Content != tt.content || r.Origin.Line != tt.line {
			t.Errorf("%s of %s: got %v of line %d, want %v of line %d", tt.tool, tt.server, r.Content, r.Origin.Line, tt.content, tt.line)
		}
	}
	if r := Default().ToolRule("files", "read_file"); !reflect.DeepEqual(r, ToolRule{}) {
		t.Errorf("without rules: got %+v", r)
	}
	var texts []string
	for _, r := range c.Tools {
		texts = append(texts, r.Text())
	}
	want := "server=files* tool=read_* content=256KiB media=1MiB keep=tail; server=* tool=secret? content=off; server=* tool=[ab]/x; server=* tool=* content=2KiB"
	if got := strings.Join(texts, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if o := c.Origin("tools"); o.Line != 1 {
		t.Errorf("the list is said to be at %v", o)
	}
}

// ruleFiles are lists with one problem each; "" is none.
var ruleFiles = []struct{ text, want string }{
	{"tools:", ""},
	{"tools: []", ""},
	{"tools: [{}]", ""},
	{"tools: [{tool: 7, server: 1.5}]", ""},
	{"tools: [{content: off, keep: head_and_tail}]", ""},
	{`[{"tools": 1}]`, "FILE:1: is a list; allowed: keys with values (limits, helper_output, timeouts, wedge, descendants, results, tools)"},
	{"tools: {tool: x}", `FILE:1: tools: is a mapping; allowed: a list of rules such as {tool: "read_*", content: 256KiB}`},
	{"tools: off", `FILE:1: tools: is text; allowed: a list of rules such as {tool: "read_*", content: 256KiB}`},
	{"tools: [read]", "FILE:1: tools[0]: is text; allowed: keys with values (server, tool, content, media, keep)"},
	{"tools:\n  - {tool: x}\n  -\n", "FILE:3: tools[1]: is empty; allowed: keys with values (server, tool, content, media, keep)"},
	{"tools:\n  - tool: x\n    contents: 1MiB\n", "FILE:3: tools[0].contents: unknown key; did you mean content?"},
	{"tools:\n  - {tool: x,\n     colour: red}\n", "FILE:3: tools[0].colour: unknown key; known here: server, tool, content, media, keep"},
	{"tools: [{tool: x, tool: y}]", "FILE:1: tools[0].tool: written twice; first on line 1"},
	{"tools: [{tool: 'a['}]", `FILE:1: tools[0].tool: "a[" is not a pattern; allowed: a pattern with * for any characters, ? for one, [a-z] for one of these`},
	{"tools: [{tool: ''}]", `FILE:1: tools[0].tool: the pattern is empty; allowed: a pattern with * for any characters, ? for one, [a-z] for one of these`},
	{"tools: [{server: }]", `FILE:1: tools[0].server: is empty; allowed: a pattern with * for any characters, ? for one, [a-z] for one of these`},
	{"tools: [{content: 0}]", `FILE:1: tools[0].content: "0" is out of range; allowed: off to pass the results of these tools on whole, up to limits.wire, or 1KiB to 4MiB`},
	{"tools: [{media: off}]", `FILE:1: tools[0].media: cannot be off; allowed: 1KiB to 256MiB`},
	{"tools: [{keep: tial}]", `FILE:1: tools[0].keep: "tial" is not one of its words; did you mean tail?; allowed: head or tail or head_and_tail`},
	{"tools: []\ntools: []", "FILE:2: tools: written twice; first on line 1"},
	{"tool: []", "FILE:1: tool: unknown key; did you mean tools?"},
	{"limits: {tools: []}", "FILE:1: limits.tools: unknown key; known here: wire, queues, calls, content, content_most, media"},
}

func TestRefusesToolRules(t *testing.T) {
	for _, tt := range ruleFiles {
		if _, got := read(tt.text); got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// A variable cannot hold the list, and somebody who tries learns so.
func TestToolRulesInEnv(t *testing.T) {
	if got := UnknownEnv([]string{"PENSTOCK_TOOLS=x"}).Error(); got != "PENSTOCK_TOOLS: a list, which is set in the file only" {
		t.Errorf("got %s", got)
	}
}

// Each key of a rule has a field of its own that comes back as it was stored.
func TestToolKeys(t *testing.T) {
	for _, k := range toolKeys {
		var r ToolRule
		want := value{num: k.Max}
		if !k.number() {
			want = value{word: "x"}
		}
		store(k, k.rule(&r), want)
		for _, other := range toolKeys {
			if got := load(other, other.rule(&r)); (other.Path == k.Path) != (got == want) {
				t.Errorf("%s: after a store %s is %v", k.Path, other.Path, got)
			}
		}
	}
	if n := reflect.TypeFor[ToolRule]().NumField(); n != len(toolKeys)+1 { // and Origin
		t.Errorf("ToolRule has %d fields for %d keys", n, len(toolKeys))
	}
	values, problems := read(toolExample)
	if problems != "" || len(values[toolList].tools) != 2 {
		t.Errorf("the example of the reference: %s", problems)
	}
}
