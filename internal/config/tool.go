package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// ToolRule is one entry of the list tools: limits for the results of the tools
// that it matches. What it does not set is that of the session.
type ToolRule struct {
	Server string // glob; "*" if it was not set
	Tool   string // glob; "*" if it was not set

	Content Size   // 0: not set; Off: never cut
	Media   Size   // 0: not set
	Keep    string // "": not set

	// Origin is the line of the entry.
	Origin Origin
}

// toolList is the path of the list.
const toolList = "tools"

const toolListDoc = "Limits for the results of single tools. The first rule whose server and tool both match decides alone; what it does not set is that of limits and results. A rule wins over what a tool asks for by anthropic/maxResultSizeChars."

// toolKeys describes what an entry of the list holds, as keys does for the
// rest. A key without a default is not set.
var toolKeys = []Key{
	{
		Path: "server", Kind: Glob, Default: "*",
		Doc:  "Which servers: a pattern for the name that --name gives, or else for the base name of the command.",
		rule: func(r *ToolRule) any { return &r.Server },
	},
	{
		Path: "tool", Kind: Glob, Default: "*",
		Doc:  "Which tools: a pattern for the name that the server gives them.",
		rule: func(r *ToolRule) any { return &r.Tool },
	},
	{
		Path: "content", Kind: Bytes, Min: kib, Max: 4 * mib, Off: "to pass the results of these tools on whole, up to limits.wire",
		Doc:  "Instead of limits.content.",
		rule: func(r *ToolRule) any { return &r.Content },
	},
	{
		Path: "media", Kind: Bytes, Min: kib, Max: 256 * mib,
		Doc:  "Instead of limits.media.",
		rule: func(r *ToolRule) any { return &r.Media },
	},
	{
		Path: "keep", Kind: Word, Words: []string{KeepHead, KeepTail, KeepHeadAndTail},
		Doc:  "Instead of results.keep.",
		rule: func(r *ToolRule) any { return &r.Keep },
	},
}

// ToolRule returns the rule for a tool of a server, and the zero rule, which
// sets nothing, if there is none.
func (c *Config) ToolRule(server, tool string) ToolRule {
	i := slices.IndexFunc(c.Tools, func(r ToolRule) bool { return matches(r.Server, server) && matches(r.Tool, tool) })
	if i < 0 {
		return ToolRule{}
	}
	return c.Tools[i]
}

// matches reports whether the glob matches all of name. A slash is a character
// as any other: names are no paths, though some have one.
func matches(glob, name string) bool {
	plain := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(plain.Replace(glob), plain.Replace(name)) // checked when it was read
	return ok
}

// checkGlob reports why text is no pattern.
func checkGlob(text string) error {
	if text == "" {
		return fmt.Errorf("the pattern is empty")
	}
	if _, err := path.Match(text, ""); err != nil {
		return fmt.Errorf("%s is not a pattern", quote(text))
	}
	return nil
}

// Text returns what the rule sets as a person writes it, in the order of the
// table: server=* tool=read_* content=off.
func (r ToolRule) Text() string {
	var parts []string
	for _, k := range toolKeys {
		if v := load(k, k.rule(&r)); v != (value{}) {
			parts = append(parts, k.Path+"="+k.format(v))
		}
	}
	return strings.Join(parts, " ")
}

// toolRules reads the list. Each problem is placed in the entry that has it.
func (r *reader) toolRules(key ast.Node, node ast.Node) {
	o := r.at(key.GetToken().Position)
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		if node.Type() != ast.NullType {
			r.problem(o, toolList, "is %s; allowed: a list of rules such as {tool: \"read_*\", content: 256KiB}", describe(node))
		}
		return
	}
	rules := make([]ToolRule, 0, len(list.Values))
	for i, item := range list.Values {
		rules = append(rules, r.toolRule(fmt.Sprintf("%s[%d]", toolList, i), item))
	}
	r.values[toolList] = setting{tools: rules, origin: o}
}

func (r *reader) toolRule(where string, node ast.Node) ToolRule {
	rule := ToolRule{Server: "*", Tool: "*", Origin: r.at(node.GetToken().Position)}
	mapping, ok := node.(ast.MapNode)
	var names []string
	for _, k := range toolKeys {
		names = append(names, k.Path)
	}
	if !ok {
		r.problem(rule.Origin, where, "is %s; allowed: keys with values (%s)", describe(node), strings.Join(names, ", "))
		return rule
	}
	seen := make(map[string]int) // line by name
	for it := mapping.MapRange(); it.Next(); {
		pos := it.Key().GetToken().Position
		name := it.Key().GetToken().Value
		full := where + "." + clip(name)
		if len(seen) == 0 {
			rule.Origin = r.at(pos) // the token of a block mapping is its first colon
		}
		line, twice := seen[name]
		seen[name] = pos.Line
		i := slices.IndexFunc(toolKeys, func(k Key) bool { return k.Path == name })
		switch {
		case twice:
			r.problem(r.at(pos), full, "written twice; first on line %d", line)
		case i < 0 && nearest(name, names) == "":
			r.problem(r.at(pos), full, "unknown key; known here: %s", strings.Join(names, ", "))
		case i < 0:
			r.problem(r.at(pos), full, "unknown key%s", suggest(name, names))
		default:
			k := toolKeys[i]
			if v, ok := r.scalar(k, full, pos, it.Value()); ok {
				store(k, k.rule(&rule), v)
			}
		}
	}
	return rule
}

// toolSchema is the part of the schema for the list.
func toolSchema() map[string]any {
	props := make(map[string]any)
	for _, k := range toolKeys {
		props[k.Path] = k.schema()
	}
	return map[string]any{
		"type":        []string{"array", "null"},
		"description": toolListDoc,
		"items":       map[string]any{"type": "object", "properties": props, "additionalProperties": false},
	}
}

// toolReference is the part of docs/config.md for the list.
func toolReference() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### `%s`\n\n%s It is set in the file only.\n\n```yaml\n%s```\n\n", toolList, toolListDoc, toolExample)
	for _, k := range toolKeys {
		fmt.Fprintf(&b, "- `%s`: %s", k.Path, k.Doc)
		if k.Default != "" {
			fmt.Fprintf(&b, " Default: `%s`.", k.Default)
		}
		fmt.Fprintf(&b, " Allowed: %s.\n", k.Allowed())
	}
	b.WriteString(toolNotes)
	return b.String()
}

const toolExample = `tools: # first match wins
  - {server: "files*", tool: "read_*", content: 256KiB, media: 1MiB, keep: tail}
  - {tool: "screenshot", content: off}
`

const toolNotes = `
A result above ` + "`limits.wire`" + ` whose ` + "`id`" + ` comes last is cut while it is not known
which call it answers. If one call is open, its rule holds; if several are, the
limits of the session do.
`
