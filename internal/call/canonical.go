package call

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxCanonical is the most bytes that are put into canonical form. Longer
// arguments are digested as they are: sorting them would take many times their
// size in memory, and time that grows with their depth.
const maxCanonical = 256 << 10

// Digest returns the digest of a JSON value, which must be valid: "sha256:" and
// the SHA-256 in hex of its canonical form. There the members of objects are
// sorted by name, white space is gone, strings are decoded and minimally
// escaped, and number tokens stand as they were written. A value over
// 256 KiB gives "sha256-raw:" and the SHA-256 of its bytes.
func Digest(value []byte) string {
	h := sha256.New()
	if len(value) > maxCanonical {
		h.Write(value)
		return "sha256-raw:" + hex.EncodeToString(h.Sum(nil))
	}
	c := canonical{h: h}
	c.value(value, 0)
	c.flush()
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Canonical returns the canonical form of a JSON value, which must be valid.
func Canonical(value []byte) []byte {
	var c canonical
	c.value(value, 0)
	return c.out
}

// canonical writes the canonical form of values.
type canonical struct {
	out  []byte
	h    hash.Hash // nil: keep all in out
	mask *mask     // nil: show all
	most int       // stop after so many bytes of out; zero: never
}

func (c *canonical) flush() {
	if c.h != nil {
		c.h.Write(c.out)
		c.out = c.out[:0]
	}
}

// full reports whether what was wanted is there.
func (c *canonical) full() bool {
	if c.h != nil && len(c.out) > 4<<10 {
		c.flush()
	}
	return c.most > 0 && len(c.out) > c.most
}

type member struct {
	name       []byte // in canonical form, quotes included
	start, end int    // of the value
}

// value writes the value that begins at b[i] and returns where it ends. It
// accepts anything without panic, but only valid JSON has a meaning.
func (c *canonical) value(b []byte, i int) int {
	i = blank(b, i)
	if i >= len(b) || c.full() {
		return len(b)
	}
	switch b[i] {
	case '"':
		end := stringEnd(b, i)
		if c.mask != nil {
			c.out = c.mask.text(c.out, b[i:end], c.most)
		} else {
			c.out = minimal(c.out, b[i:end])
		}
		return end
	case '[':
		c.out = append(c.out, '[')
		for i = blank(b, i+1); i < len(b) && b[i] != ']' && !c.full(); {
			i = blank(b, c.value(b, i))
			if i < len(b) && b[i] == ',' {
				c.out = append(c.out, ',')
				i++
			}
		}
		c.out = append(c.out, ']')
		return i + 1
	case '{':
		return c.object(b, i)
	}
	end := i + 1
	for end < len(b) && !delimiter(b[end]) {
		end++
	}
	c.out = append(c.out, b[i:end]...)
	return end
}

func (c *canonical) object(b []byte, i int) int {
	var list []member
	for i = blank(b, i+1); i < len(b) && b[i] == '"'; {
		end := stringEnd(b, i)
		m := member{name: minimal(nil, b[i:end])}
		i = blank(b, end)
		if i < len(b) && b[i] == ':' {
			i++
		}
		m.start = blank(b, i)
		m.end = valueEnd(b, m.start)
		list = append(list, m)
		i = blank(b, m.end)
		if i < len(b) && b[i] == ',' {
			i = blank(b, i+1)
		}
	}
	slices.SortStableFunc(list, func(x, y member) int { return compareNames(x.name, y.name) })
	c.out = append(c.out, '{')
	for n, m := range list {
		if c.full() {
			break
		}
		if n > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(append(c.out, m.name...), ':')
		if c.mask != nil && c.mask.hides(m.name) {
			c.out = append(c.out, maskedValue...)
			c.mask.n++
			continue
		}
		c.value(b[:m.end], m.start)
	}
	c.out = append(c.out, '}')
	return i + 1
}

// compareNames orders names by their bytes, without the closing quote, so that
// a name sorts before those that it begins.
func compareNames(x, y []byte) int { return slices.Compare(x[:len(x)-1], y[:len(y)-1]) }

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

func delimiter(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\t', '\r', '\n', '"', '{', '[':
		return true
	}
	return false
}

// stringEnd returns the index after the string that begins at b[i].
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueEnd returns the index after the value that begins at b[i], without
// recursion.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			i = stringEnd(b, i)
		case c == '{' || c == '[':
			depth++
			i++
			continue
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case delimiter(c):
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(b) && !delimiter(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

// minimal appends a raw JSON string with only those escapes that it needs.
// Halves of surrogate pairs stay escapes, so that different strings stay
// different.
func minimal(dst, raw []byte) []byte {
	bare := raw
	if len(bare) > 0 {
		bare = bare[1:]
	}
	if len(bare) > 0 && bare[len(bare)-1] == '"' {
		bare = bare[:len(bare)-1]
	}
	dst = append(dst, '"')
	for i := 0; i < len(bare); {
		if bare[i] != '\\' {
			dst = append(dst, bare[i])
			i++
			continue
		}
		r, n := escape(bare[i:])
		i += n
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r < 0x20, utf16.IsSurrogate(r):
			dst = append(dst, `\u`...)
			for shift := 12; shift >= 0; shift -= 4 {
				dst = append(dst, "0123456789abcdef"[r>>shift&15])
			}
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// escape decodes the escape that b begins with, and returns its length.
func escape(b []byte) (rune, int) {
	if len(b) < 2 {
		return utf8.RuneError, len(b)
	}
	switch b[1] {
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r, ok := hex4(b)
		if !ok {
			return utf8.RuneError, 2
		}
		if utf16.IsSurrogate(r) && len(b) >= 8 && b[6] == '\\' && b[7] == 'u' {
			if low, ok := hex4(b[6:]); ok {
				if p := utf16.DecodeRune(r, low); p != utf8.RuneError {
					return p, 12
				}
			}
		}
		return r, 6
	}
	return rune(b[1]), 2
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
