package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of the file. The parser takes time that grows with the square of the
// keys in one mapping and stack that grows with nesting, so it is given no
// more parts than it handles in a moment; a file with a thousand settings has
// about 4,000.
const (
	maxFile   = mib
	maxTokens = 16384
	maxDepth  = 32
)

// readFile puts the settings of the file into values. If mine is true, the
// file is refused where others could have written it.
func readFile(name string, mine bool, values map[string]setting) Problems {
	whole := func(err error, msg string) Problems {
		return Problems{{Origin: Origin{Kind: FromFile, Name: name}, Msg: msg, err: err}}
	}
	// Looked at before it is opened, since opening a named pipe waits.
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return whole(err, reason(err))
	case !info.Mode().IsRegular():
		return whole(nil, "not a regular file")
	case mine:
		if why := foreign(info); why != "" {
			return whole(nil, why)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return whole(err, reason(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return whole(err, reason(err))
	}
	return parseFile(name, data, values)
}

// reason drops the path that fs errors repeat.
func reason(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Op + ": " + e.Err.Error()
	}
	return err.Error()
}

// parseFile puts the settings in data into values. It is a pure function of
// its arguments.
func parseFile(name string, data []byte, values map[string]setting) Problems {
	r := &reader{file: name, values: values}
	if text, ok := r.text(data); ok {
		if root, ok := r.parse(text); ok && root != nil {
			r.section("", root)
		}
	}
	return r.problems
}

// reader collects what one file says.
type reader struct {
	file     string
	values   map[string]setting
	problems Problems
}

func (r *reader) at(pos *token.Position) Origin {
	return Origin{Kind: FromFile, Name: r.file, Line: pos.Line, Column: pos.Column}
}

func (r *reader) problem(o Origin, key, format string, args ...any) {
	r.problems = append(r.problems, Problem{Origin: o, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// text checks the encoding and returns the file with plain line ends.
func (r *reader) text(data []byte) (string, bool) {
	file := Origin{Kind: FromFile, Name: r.file}
	line := func(offset int) Origin {
		return Origin{Kind: FromFile, Name: r.file, Line: 1 + bytes.Count(data[:offset], []byte("\n")), Column: 1}
	}
	if len(data) > maxFile {
		r.problem(file, "", "larger than %s, the most that is read", Size(maxFile))
		return "", false
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		r.problem(file, "", "is UTF-16; save it as UTF-8")
		return "", false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			r.problem(line(i), "", "byte 0x%02x is not UTF-8; save the file as UTF-8", data[i])
			return "", false
		case c < ' ' && c != '\n' && c != '\t' && c != '\r', c == 0x7f, c == '\ufeff':
			r.problem(line(i), "", "holds the control character U+%04X", c)
			return "", false
		}
		i += n
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n"), true
}

// parse returns the root of the only document, nil for an empty one.
func (r *reader) parse(text string) (ast.Node, bool) {
	tokens := lexer.Tokenize(text)
	if !r.bounded(tokens) {
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err, text)
		return nil, false
	}
	var root ast.Node
	for i, doc := range file.Docs {
		if i > 0 {
			o := Origin{Kind: FromFile, Name: r.file}
			if doc.Start != nil {
				o = r.at(doc.Start.Position)
			} else if doc.Body != nil {
				o = r.at(doc.Body.GetToken().Position)
			}
			r.problem(o, "", "a second document begins; only one is read")
			return nil, false
		}
		root = doc.Body
	}
	return root, true
}

// bounded refuses what the settings do not need and what would cost the
// parser too much, before it runs.
func (r *reader) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.problem(r.at(tokens[maxTokens].Position), "", "the file has too many parts: more than %d", maxTokens)
		return false
	}
	depth, entries, entriesLine := 0, 0, 0
	for _, t := range tokens {
		what := ""
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			what = "anchors and aliases are not read; write the value itself"
		case token.TagType:
			what = "tags are not read; write the value without one"
		case token.MappingKeyType:
			what = "keys written with ? are not read"
		case token.DirectiveType:
			what = "directives are not read"
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			if t.Position.Line != entriesLine {
				entries, entriesLine = 0, t.Position.Line
			}
			entries++
		}
		if depth > maxDepth || entries > maxDepth {
			what = fmt.Sprintf("nested more than %d deep", maxDepth)
		}
		if what != "" {
			r.problem(r.at(t.Position), "", "%s", what)
			return false
		}
	}
	return true
}

// syntax reports an error of the parser, in its words unless the cause is one
// that its words do not name.
func (r *reader) syntax(err error, text string) {
	o, msg := Origin{Kind: FromFile, Name: r.file}, err.Error()
	if e := yaml.Error(nil); errors.As(err, &e) {
		msg = e.GetMessage()
		if t := e.GetToken(); t != nil {
			o = r.at(t.Position)
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if o.Line > 0 && i+1 > o.Line {
			break
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(line) {
			o.Line, o.Column = i+1, tab+1
			msg = "indented with a tab; YAML wants spaces"
			break
		}
	}
	r.problem(o, "", "not YAML: %s", msg)
}

// section reads the mapping at the path, "" for the whole file.
func (r *reader) section(path string, node ast.Node) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		if node.Type() == ast.NullType {
			return // all keys of the section are commented out
		}
		r.problem(r.at(node.GetToken().Position), path, "is %s; allowed: keys with values (%s)", describe(node), strings.Join(children(path), ", "))
		return
	}
	seen := make(map[string]int) // line by name
	for it := mapping.MapRange(); it.Next(); {
		pos := it.Key().GetToken().Position
		name := it.Key().GetToken().Value
		full := strings.TrimPrefix(path+"."+name, ".")
		if line, ok := seen[name]; ok {
			r.problem(r.at(pos), clip(full), "written twice; first on line %d", line)
			continue
		}
		seen[name] = pos.Line
		switch k, isKey := Lookup(full); {
		case isKey && strings.Contains(name, "."):
			section, leaf := splitPath(full)
			r.problem(r.at(pos), full, "write it as %s: {%s: …}", section, leaf)
		case isKey:
			if v, ok := r.scalar(k, full, pos, it.Value()); ok {
				r.values[k.Path] = setting{value: v, origin: r.at(pos)}
			}
		case full == toolList:
			r.toolRules(it.Key(), it.Value())
		case len(children(full)) > 0:
			r.section(full, it.Value())
		default:
			r.problem(r.at(pos), clip(full), "%s", unknownMsg(full))
		}
	}
}

// scalar reads the value of a key that stands at full, and reports whether it
// is one. A problem is placed at the key, which is where an empty value would
// be.
func (r *reader) scalar(k Key, full string, pos *token.Position, node ast.Node) (value, bool) {
	o := r.at(pos)
	var text string
	switch n := node.(type) {
	case *ast.StringNode:
		text = n.Value
		if n.Token.Type != token.StringType && (k.Kind == Count || k.Kind == Seconds) {
			r.problem(o, full, "is the text %s; write the number without quotes; allowed: %s", quote(text), k.Allowed())
			return value{}, false
		}
	case *ast.IntegerNode, *ast.FloatNode:
		// As it is written: what the parser made of 1_000 or 0x10 is not asked.
		text = n.GetToken().Value
	default:
		r.problem(o, full, "is %s; allowed: %s", describe(node), k.Allowed())
		return value{}, false
	}
	v, err := k.parse(text)
	if err != nil {
		r.problem(o, full, "%s", err)
	}
	return v, err == nil
}

// describe says what kind of value a node is.
func describe(node ast.Node) string {
	switch node.Type() {
	case ast.NullType:
		return "empty"
	case ast.BoolType:
		return "true or false"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	}
	return "a " + strings.ToLower(node.Type().String())
}

// clip bounds a name that came from the file.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
