package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxBody is the most bytes of a record's body.
const MaxBody = 64 << 10

const maxDepth = 64

// ErrBody says that a body is not one that the log takes. Its scope is that
// record.
var ErrBody = errors.New("body is not a JSON object that the log takes")

// ownPrefix begins the bodies that the log writes itself.
var ownPrefix = []byte(`{"v":1,"k":"log.`)

// checkBody reports whether body is one JSON object within the limits and
// without a name that stands twice in one object: readers differ in which of
// the two they take.
func checkBody(body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrBody, len(body), MaxBody)
	}
	s := bodyScanner{b: body}
	if len(body) == 0 || body[0] != '{' || !s.value(0) || s.i != len(body) {
		if s.why == "" {
			s.why = "not valid JSON"
		}
		return fmt.Errorf("%w: %s at byte %d", ErrBody, s.why, s.i)
	}
	return nil
}

// bodyScanner checks JSON without building anything.
type bodyScanner struct {
	b   []byte
	i   int
	why string
}

func (s *bodyScanner) fail(why string) bool {
	if s.why == "" {
		s.why = why
	}
	return false
}

// space skips white space. LF and CR are no part of a body: a raw LF ends it.
func (s *bodyScanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t') {
		s.i++
	}
}

func (s *bodyScanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *bodyScanner) value(depth int) bool {
	if depth > maxDepth {
		return s.fail("nested too deep")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, ok := s.str()
		return ok
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

func (s *bodyScanner) literal(w string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.fail("not a value")
	}
	s.i += len(w)
	return true
}

func (s *bodyScanner) digits() bool {
	at := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > at
}

func (s *bodyScanner) number() bool {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("not a value")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.fail("not a number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.fail("not a number")
		}
	}
	return true
}

// str returns the string between its quotes, as written.
func (s *bodyScanner) str() (raw []byte, ok bool) {
	if s.peek() != '"' {
		return nil, s.fail("not a string")
	}
	s.i++
	at := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[at : s.i-1], true
		case c == '\\':
			if !s.escape() {
				return nil, false
			}
		case c < 0x20:
			return nil, s.fail("control character in a string")
		case c < utf8.RuneSelf:
			s.i++
		default:
			r, n := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && n == 1 {
				return nil, s.fail("not UTF-8")
			}
			s.i += n
		}
	}
	return nil, s.fail("a string does not end")
}

func (s *bodyScanner) escape() bool {
	if s.i+1 >= len(s.b) {
		return s.fail("a string does not end")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return true
	case 'u':
		if s.i+6 <= len(s.b) {
			if _, err := strconv.ParseUint(string(s.b[s.i+2:s.i+6]), 16, 16); err == nil {
				s.i += 6
				return true
			}
		}
	}
	return s.fail("not an escape")
}

func (s *bodyScanner) array(depth int) bool {
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return true
	}
	for {
		s.space()
		if !s.value(depth + 1) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return true
		default:
			return s.fail("an array does not go on")
		}
	}
}

func (s *bodyScanner) object(depth int) bool {
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return true
	}
	var few [16][]byte
	names := few[:0]
	var many map[string]bool // for objects of more names than are worth comparing
	for {
		s.space()
		raw, ok := s.str()
		if !ok {
			return false
		}
		name := raw
		if bytes.IndexByte(raw, '\\') >= 0 {
			var text string
			if json.Unmarshal(s.b[s.i-len(raw)-2:s.i], &text) != nil {
				return s.fail("not a name")
			}
			name = []byte(text)
		}
		if many != nil {
			if many[string(name)] {
				return s.fail("a name stands twice")
			}
			many[string(name)] = true
		} else {
			for _, n := range names {
				if bytes.Equal(n, name) {
					return s.fail("a name stands twice")
				}
			}
			if names = append(names, name); len(names) > len(few) {
				many = make(map[string]bool)
				for _, n := range names {
					many[string(n)] = true
				}
			}
		}
		s.space()
		if s.peek() != ':' {
			return s.fail("a name has no value")
		}
		s.i++
		s.space()
		if !s.value(depth + 1) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return true
		default:
			return s.fail("an object does not go on")
		}
	}
}

// Gap says that records are missing: the log's own account of what it could
// not keep.
type Gap struct {
	Class       Class     `json:"class"`
	Count       int       `json:"count"`
	First, Last time.Time // when the first and the last of them should have been written
	Why         string    `json:"why"`
}

// own is the body of a record that the log writes itself.
type own struct {
	V     int     `json:"v"`
	Kind  string  `json:"k"`
	Class string  `json:"class,omitempty"`
	Count int     `json:"count,omitempty"`
	First string  `json:"first,omitempty"`
	Last  string  `json:"last,omitempty"`
	Why   string  `json:"why,omitempty"`
	Leaf  *uint64 `json:"leaf,omitempty"`
}

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

func (g Gap) body() []byte {
	return mustJSON(own{V: 1, Kind: "log.gap", Class: g.Class.String(), Count: g.Count,
		First: g.First.UTC().Format(timeLayout), Last: g.Last.UTC().Format(timeLayout), Why: g.Why})
}

func abandonedBody(leaf uint64) []byte {
	return mustJSON(own{V: 1, Kind: "log.abandoned", Leaf: &leaf})
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("audit: " + err.Error())
	}
	return b
}

// parseOwn reads a body of the log's own. Both results are nil for others.
func parseOwn(body []byte) (gap *Gap, abandoned *uint64, err error) {
	if !bytes.HasPrefix(body, ownPrefix) {
		return nil, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var o own
	if err := d.Decode(&o); err != nil {
		return nil, nil, errors.New("malformed record of the log's own")
	}
	switch o.Kind {
	case "log.gap":
		g := &Gap{Count: o.Count, Why: o.Why}
		if g.Class, err = parseClass(o.Class); err == nil {
			if g.First, err = time.Parse(timeLayout, o.First); err == nil {
				g.Last, err = time.Parse(timeLayout, o.Last)
			}
		}
		if err != nil || g.Count <= 0 {
			return nil, nil, errors.New("malformed gap record")
		}
		return g, nil, nil
	case "log.abandoned":
		if o.Leaf == nil {
			return nil, nil, errors.New("malformed abandoned record")
		}
		return nil, o.Leaf, nil
	}
	return nil, nil, fmt.Errorf("unknown record of the log's own: %.40q", o.Kind)
}
