package hostile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind says how the value of a key is written.
type Kind int

// The kinds.
const (
	Text     Kind = iota // any text
	Number               // a decimal integer of 0 or more
	Size                 // a count of bytes: 4096, 64KiB, 8MiB, 1GiB
	Duration             // as time.ParseDuration reads it, not negative
	Flag                 // true or false
	Choice               // one of Choices
	List                 // some of Choices, separated by commas; may be empty
)

// A Key is one argument of a fixture.
type Key struct {
	Name    string
	Kind    Kind
	Default string // as it would be written
	Choices []string
	Meaning string
}

// values are checked arguments by key name. Asking for a key that the fixture
// did not declare, or by another kind, is a bug of the fixture and panics.
type values map[string]any

// parse reads key=value arguments up to a "--", whose followers it returns.
// Unknown keys, keys given twice and values that are not of their kind are
// errors.
func parse(keys []Key, args []string) (v values, rest []string, err error) {
	v = values{}
	for _, k := range keys {
		if v[k.Name], err = k.read(k.Default); err != nil {
			panic(fmt.Sprintf("hostile: default of %s: %v", k.Name, err))
		}
	}
	seen := map[string]bool{}
	for i, arg := range args {
		if arg == "--" {
			return v, args[i+1:], nil
		}
		name, value, ok := strings.Cut(arg, "=")
		j := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })
		switch {
		case !ok:
			return nil, nil, fmt.Errorf("argument %.64q is not key=value", arg)
		case j < 0:
			return nil, nil, fmt.Errorf("unknown key %.64q, known are %s", name, names(keys))
		case seen[name]:
			return nil, nil, fmt.Errorf("key %q is given twice", name)
		}
		seen[name] = true
		if v[name], err = keys[j].read(value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return v, nil, nil
}

func names(keys []Key) string {
	var all []string
	for _, k := range keys {
		all = append(all, k.Name)
	}
	return strings.Join(all, ", ")
}

func (k Key) read(value string) (any, error) {
	switch k.Kind {
	case Text:
		return value, nil
	case Number:
		return parseSize(value, false)
	case Size:
		return parseSize(value, true)
	case Duration:
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%.64q is not a duration such as 250ms", value)
		}
		return d, nil
	case Flag:
		if value != "true" && value != "false" {
			return nil, fmt.Errorf("%.64q is neither true nor false", value)
		}
		return value == "true", nil
	case Choice:
		if !slices.Contains(k.Choices, value) {
			return nil, fmt.Errorf("%.64q is none of %s", value, strings.Join(k.Choices, ", "))
		}
		return value, nil
	case List:
		if value == "" {
			return []string(nil), nil
		}
		list := strings.Split(value, ",")
		for _, one := range list {
			if !slices.Contains(k.Choices, one) {
				return nil, fmt.Errorf("%.64q is none of %s", one, strings.Join(k.Choices, ", "))
			}
		}
		return list, nil
	}
	panic("hostile: key " + k.Name + " has no kind")
}

func parseSize(value string, units bool) (int64, error) {
	digits, shift := value, 0
	if units {
		for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
			if d, ok := strings.CutSuffix(value, unit); ok {
				digits, shift = d, by
			}
		}
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil && shift == 0 {
		n, err = strconv.ParseUint(digits, 10, 62)
	}
	if err != nil || strings.HasPrefix(digits, "+") {
		return 0, fmt.Errorf("%.64q is not a number", value)
	}
	return int64(n) << shift, nil
}

func (v values) text(name string) string            { return v[name].(string) }
func (v values) number(name string) int64           { return v[name].(int64) }
func (v values) duration(name string) time.Duration { return v[name].(time.Duration) }
func (v values) flag(name string) bool              { return v[name].(bool) }
func (v values) list(name string) []string          { return v[name].([]string) }
