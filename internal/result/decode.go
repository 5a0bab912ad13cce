package result

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxUnit is the most bytes that one character takes as it is written: a
// surrogate pair of escapes.
const maxUnit = 12

// unit returns the first character of b, the inside of a JSON string, and how
// many bytes it takes as it is written. n is 0 if b ends too early to tell; with
// final set it never is. bad tells that r is U+FFFD for a lone surrogate or for
// bytes that are not UTF-8, one for each maximal part as decoders of hosts do.
func unit(b []byte, final bool) (r rune, n int, bad bool) {
	if b[0] != '\\' {
		if b[0] < utf8.RuneSelf {
			return rune(b[0]), 1, false
		}
		if !final && !utf8.FullRune(b) {
			return 0, 0, false
		}
		if r, n = utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			return r, n, false
		}
		for n < len(b) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		if !utf8.FullRune(b[:1]) {
			return utf8.RuneError, n, true
		}
		return utf8.RuneError, 1, true
	}
	if len(b) < 2 {
		return incomplete(b, final)
	}
	switch c := b[1]; {
	case simple[c] != 0:
		return rune(simple[c]), 2, false
	case c != 'u':
		return utf8.RuneError, 1, true // no JSON
	}
	if len(b) < 6 {
		return incomplete(b, final)
	}
	r = hex4(b)
	if r < 0 {
		return utf8.RuneError, 2, true
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, false
	}
	if r < 0xDC00 && (len(b) == 6 || b[6] == '\\') && (len(b) <= 7 || b[7] == 'u') {
		if len(b) < maxUnit {
			if !final {
				return 0, 0, false
			}
		} else if pair := utf16.DecodeRune(r, hex4(b[6:])); pair != utf8.RuneError {
			return pair, maxUnit, false
		}
	}
	return utf8.RuneError, 6, true
}

// simple maps the letters of escapes of one letter to what they stand for.
var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func incomplete(b []byte, final bool) (rune, int, bool) {
	if final {
		return utf8.RuneError, len(b), true
	}
	return 0, 0, false
}

// hex4 returns the value of the \uXXXX at the start of b, -1 if there is none.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// decode appends to dst what src, the inside of a JSON string or part of it,
// stands for, at most room bytes of it and only whole characters, and returns
// how much of src that took. What is left of src when there is room is the
// beginning of a character.
func decode(dst, src []byte, room int, final bool) (out []byte, n, replaced int) {
	for n < len(src) {
		if j := min(plain(src, n), n+room); j > n {
			dst = append(dst, src[n:j]...)
			room -= j - n
			n = j
			continue
		}
		if room == 0 {
			break
		}
		if n+1 < len(src) && src[n] == '\\' {
			if c := simple[src[n+1]]; c != 0 {
				dst = append(dst, c)
				room--
				n += 2
				continue
			}
		}
		r, k, bad := unit(src[n:], final)
		size := utf8.RuneLen(r)
		if k == 0 || size > room {
			break
		}
		if bad {
			replaced++
		}
		dst = utf8.AppendRune(dst, r)
		room -= size
		n += k
	}
	return dst, n, replaced
}

// wholeUnits returns the longest beginning of raw, the inside of a JSON string
// cut anywhere, that holds only whole characters.
func wholeUnits(raw []byte) []byte {
	n := 0
	for n < len(raw) {
		if n = plain(raw, n); n == len(raw) {
			break
		}
		_, k, _ := unit(raw[n:], false)
		if k == 0 {
			break
		}
		n += k
	}
	return raw[:n]
}

// cutText returns where to end the first part of s so that it has at most n
// bytes: after a line if that keeps at least half of it, else after a character.
func cutText(s []byte, n int) int {
	if n >= len(s) {
		return len(s)
	}
	if n <= 0 {
		return 0
	}
	for i := n; i > n/2; i-- {
		if s[i-1] == '\n' {
			return i
		}
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// cutFront is cutText for the last part: it returns where to begin it.
func cutFront(s []byte, n int) int {
	if n >= len(s) {
		return 0
	}
	from := len(s) - max(n, 0)
	for i := from; i < len(s)-n/2; i++ {
		if i == 0 || s[i-1] == '\n' {
			return i
		}
	}
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return from
}
