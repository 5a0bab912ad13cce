package frame

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Span is a half-open range of bytes. The zero Span means absent.
type Span struct{ Start, End int }

// Len returns the number of bytes in s.
func (s Span) Len() int { return s.End - s.Start }

// In returns b[s.Start:s.End].
func (s Span) In(b []byte) []byte { return b[s.Start:s.End] }

// Kind is what a JSON value is.
type Kind uint8

const (
	Absent Kind = iota // there is no value
	Object
	Array
	String
	Number
	True
	False
	Null
)

// Value is where a value stands and what it is. It is partial, with a Span.End
// of 0, only if a scan ended inside it: after a syntax error or in a frame over
// the limit.
type Value struct {
	Span
	Kind Kind
}

// Head is what one scan found at the top level of a text.
type Head struct {
	Kind Kind // Object, or Array for a batch

	// The members of those names, escaped or not, of an Object. The first one
	// counts if a name occurs twice.
	Version, ID, Method, Params, Result, Error Value

	// Replaced is the number of invalid UTF-8 sequences in strings.
	Replaced int

	// Duplicate is the first name that occurs twice, or that differs only in
	// case from one of the six above; "" if there is none, two quotes if it is
	// the empty name. Readers disagree on the meaning of such a text.
	Duplicate string
}

// Members yields the name, as it is written with its quotes, and the value of
// each member of the JSON object b, which must have passed a [Scanner]; of
// anything else it yields what it can. It does not allocate. The spans are
// relative to b.
func Members(b []byte) iter.Seq2[Span, Value] {
	return func(yield func(Span, Value) bool) { members(b, yield) }
}

func members(b []byte, yield func(Span, Value) bool) {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return
	}
	for {
		i = space(b, i+1)
		if i == len(b) || b[i] != '"' {
			return
		}
		name := Span{i, skipString(b, i)}
		i = space(b, name.End)
		if i == len(b) || b[i] != ':' {
			return
		}
		v := valueAt(b, space(b, i+1))
		if v.Kind == Absent || !yield(name, v) {
			return
		}
		i = space(b, v.End)
		if i == len(b) || b[i] != ',' {
			return
		}
	}
}

// Elements yields the elements of the JSON array b, on the same terms as
// [Members].
func Elements(b []byte) iter.Seq[Value] {
	return func(yield func(Value) bool) { elements(b, yield) }
}

func elements(b []byte, yield func(Value) bool) {
	i := space(b, 0)
	if i == len(b) || b[i] != '[' {
		return
	}
	for {
		v := valueAt(b, space(b, i+1))
		if v.Kind == Absent || !yield(v) {
			return
		}
		i = space(b, v.End)
		if i == len(b) || b[i] != ',' {
			return
		}
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// valueAt returns the value that starts at b[i], Absent if none does.
func valueAt(b []byte, i int) Value {
	if i >= len(b) {
		return Value{}
	}
	var k Kind
	switch c := b[i]; {
	case c == '"':
		return Value{Span{i, skipString(b, i)}, String}
	case c == '{':
		return Value{Span{i, skipContainer(b, i)}, Object}
	case c == '[':
		return Value{Span{i, skipContainer(b, i)}, Array}
	case c == 't':
		k = True
	case c == 'f':
		k = False
	case c == 'n':
		k = Null
	case c == '-' || isDigit(c):
		k = Number
	default:
		return Value{}
	}
	end := i + 1
	for end < len(b) {
		switch b[end] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return Value{Span{i, end}, k}
		}
		end++
	}
	return Value{Span{i, end}, k}
}

func skipContainer(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

// skipString returns the index after the string that starts at b[i].
func skipString(b []byte, i int) int {
	i++
	for i < len(b) {
		for len(b)-i >= 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			q, s := x^'"'*ones, x^'\\'*ones
			if hit := ((q-ones)&^q | (s-ones)&^s) & highs; hit != 0 {
				i += bits.TrailingZeros64(hit) >> 3
				break
			}
			i += 8
		}
		if i == len(b) {
			break
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(b)
}

// Is reports whether the raw JSON string, quotes included, decodes to name. It
// does not allocate.
func Is(raw []byte, name string) bool {
	if len(raw) < 2 {
		return false
	}
	bare := raw[1 : len(raw)-1]
	if isPlain(bare) {
		return string(bare) == name
	}
	for i := 0; i < len(bare); {
		r, n := decode(bare[i:])
		i += n
		var u [utf8.UTFMax]byte
		w := utf8.EncodeRune(u[:], r)
		if len(name) < w || name[:w] != string(u[:w]) {
			return false
		}
		name = name[w:]
	}
	return name == ""
}

// Unquote decodes the raw JSON string, quotes included. Lone surrogates and
// invalid UTF-8 become U+FFFD.
func Unquote(raw []byte) string {
	if len(raw) < 2 {
		return ""
	}
	bare := raw[1 : len(raw)-1]
	if isPlain(bare) {
		return string(bare)
	}
	out := make([]byte, 0, len(bare))
	for i := 0; i < len(bare); {
		if j := plain(bare, i); j > i {
			out = append(out, bare[i:j]...)
			i = j
			continue
		}
		r, n := decode(bare[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}

// decode returns the first character of the inside of a JSON string, which is
// not empty, and how many bytes it takes.
func decode(b []byte) (rune, int) {
	switch c := b[0]; {
	case c >= 0x80:
		n, ok := sequence(b)
		if n == 0 {
			n = len(b)
		}
		if !ok {
			return utf8.RuneError, n
		}
		r, _ := utf8.DecodeRune(b)
		return r, n
	case c != '\\' || len(b) == 1:
		return rune(c), 1
	}
	switch c := b[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(b)
		if r < 0 {
			return utf8.RuneError, 2
		}
		if utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, hex4(b[6:])); pair != utf8.RuneError {
				return pair, 12
			}
			return utf8.RuneError, 6
		}
		return r, 6
	default:
		return rune(c), 2
	}
}

// hex4 returns the value of the \uXXXX at the start of b, -1 if there is none.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

// Quote appends s to dst as a JSON string with its quotes and returns the
// result. It is valid for every s: invalid UTF-8 becomes U+FFFD. U+2028 and
// U+2029 are escaped.
func Quote(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x80 {
			var u [utf8.UTFMax]byte
			have := copy(u[:], s[i:])
			n, ok := sequence(u[:have])
			switch {
			case !ok:
				dst = append(dst, replacement...)
			case s[i:i+n] == "\u2028", s[i:i+n] == "\u2029":
				dst = append(dst, `\u202`...)
				dst = append(dst, s[i+2]-0xA8+'8')
			default:
				dst = append(dst, s[i:i+n]...)
			}
			if n == 0 {
				n = have
			}
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
