package config

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// From says which source a value came from. The sources are ordered: a later
// one wins.
type From int

const (
	FromDefault From = iota
	FromFile
	FromEnv
	FromFlag
)

func (f From) String() string {
	return [...]string{"default", "file", "env", "flag"}[f]
}

// Origin is the place of a value. The zero value is the default.
type Origin struct {
	Kind   From
	Name   string // path of the file, name of the variable, or flag with its dashes
	Line   int    // in the file, from 1; 0 for the file as a whole
	Column int    // in characters, from 1; 0 where Line is
}

// String returns the place as tools write it: FILE:LINE, NAME, --flag or
// default.
func (o Origin) String() string {
	switch {
	case o.Kind == FromDefault:
		return "default"
	case o.Line > 0:
		return o.Name + ":" + strconv.Itoa(o.Line)
	}
	return o.Name
}

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Origin Origin
	Key    string // path of the key, "" if it is about the source as a whole
	Msg    string // what is wrong and what would be allowed
	err    error  // behind it, for errors.Is; may be nil
}

// Error returns place, key and message in one line.
func (p Problem) Error() string {
	s := p.Origin.String() + ": "
	if p.Key != "" {
		s += p.Key + ": "
	}
	return s + p.Msg
}

func (p Problem) Unwrap() error { return p.err }

// compare orders problems by source, and those of a file by place.
func (p Problem) compare(q Problem) int {
	return cmp.Or(
		cmp.Compare(p.Origin.Kind, q.Origin.Kind),
		cmp.Compare(p.Origin.Line, q.Origin.Line),
		cmp.Compare(p.Origin.Column, q.Origin.Column),
	)
}

func asProblem(err error) Problem {
	if p := (Problem{}); errors.As(err, &p) {
		return p
	}
	return Problem{Origin: Origin{Kind: FromFile, Name: "settings"}, Msg: err.Error(), err: err}
}

// Problems is all that is wrong, at least one. Its text has a line for each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As see each problem.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// unknownMsg explains a name that is not a key: one of a later version, a key
// of another section, or the nearest known one.
func unknownMsg(path string) string {
	for _, p := range planned {
		if path == p || strings.HasPrefix(path, p+".") {
			return "known, but not in this version"
		}
	}
	section, leaf := splitPath(path)
	for _, k := range keys {
		// What stands in the wrong section, or in none.
		if s, l := splitPath(k.Path); l == leaf && s != section {
			return "unknown key; did you mean " + k.Path + "?"
		}
	}
	known := children(section)
	if near := nearest(leaf, known); near != "" {
		return "unknown key; did you mean " + strings.TrimPrefix(section+"."+near, ".") + "?"
	}
	return "unknown key; known here: " + strings.Join(known, ", ")
}

// splitPath returns the section and the last name of a path.
func splitPath(path string) (section, leaf string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// children returns the names in a section, "" for the top.
func children(section string) []string {
	var names []string
	for _, k := range keys {
		rest := k.Path
		if section != "" {
			var ok bool
			if rest, ok = strings.CutPrefix(k.Path, section+"."); !ok {
				continue
			}
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if section == "" {
		names = append(names, toolList)
	}
	return names
}

// suggest returns "; did you mean X?" for the nearest of the candidates, "" if
// none is near.
func suggest(text string, candidates []string) string {
	if near := nearest(text, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest returns the candidate that text is a slip of, "" if there is none.
func nearest(text string, candidates []string) string {
	best, least := "", max(2, len(text)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(text), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete, replace or swap to
// make a from b. Long input is near nothing, and is not worth the work.
func distance(a, b string) int {
	const most = 100
	if len(a) > most || len(b) > most {
		return max(len(a), len(b))
	}
	var before []int // the row before prev
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(b)]
}
