package child

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Excerpt is what a Capture kept of an interval of its stream.
type Excerpt struct {
	Name      string // of the stream
	From      int64  // offset in the stream where the interval begins
	Seen      int64  // bytes of the interval
	Kept      int64  // of those, how many are in Head and Tail
	Truncated bool   // Kept < Seen

	// Head holds the first bytes of the interval, where what follows them was
	// let go; Tail the last ones, or all. They belong to the caller.
	Head, Tail []byte
}

// Since describes what was written after offset from, which is a Seen of
// earlier, up to now.
func (c *Capture) Since(from int64) Excerpt {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	from = min(max(from, 0), c.seen)
	e := Excerpt{Name: c.name, From: from, Seen: c.seen - from}
	if head := c.head[:c.headLen]; from < int64(len(head)) {
		e.Head = append(e.Head, head[from:]...)
	}
	tailStart := c.seen - int64(c.tail.n)
	skip := max(0, from-tailStart)
	older, newer := c.tail.parts()
	for _, part := range [][]byte{older, newer} {
		k := min(skip, int64(len(part)))
		skip -= k
		e.Tail = append(e.Tail, part[k:]...)
	}
	e.Kept = int64(len(e.Head) + len(e.Tail))
	e.Truncated = e.Kept < e.Seen
	if !e.Truncated {
		e.Head, e.Tail = nil, append(e.Head, e.Tail...)
	}
	return e
}

// Text returns the excerpt as text of at most max bytes, without counting the
// marker lines; max < 0 means no bound. Where something is not shown, the first
// line is our marker, and it states the bytes of the stream that are shown:
//
//	[stderr truncated: kept last 16384 of 184320 bytes]
//	[stderr truncated: kept first 2048 and last 14336 of 184320 bytes]
//
// A second marker stands where the head ends. Each byte of invalid UTF-8 is
// shown as U+FFFD; a cut never splits a character.
func (e Excerpt) Text(max int) string {
	head, tail := e.Head, e.Tail
	if e.Truncated {
		head = head[:len(head)-partialEnd(head)]
		tail = tail[partialStart(tail):]
	}
	if max >= 0 {
		if total := len(head) + len(tail); len(head) > 0 {
			head = head[:fitStart(head, int(int64(max)*int64(len(head))/int64(total)))]
		}
		tail = tail[len(tail)-fitEnd(tail, max-shown(head)):]
	}
	kept := int64(len(head) + len(tail))
	var b strings.Builder
	switch {
	case kept == e.Seen:
	case len(head) > 0:
		fmt.Fprintf(&b, "[%s truncated: kept first %d and last %d of %d bytes]\n", e.Name, len(head), len(tail), e.Seen)
	default:
		fmt.Fprintf(&b, "[%s truncated: kept last %d of %d bytes]\n", e.Name, len(tail), e.Seen)
	}
	if len(head) > 0 {
		writeValid(&b, head)
		if kept < e.Seen {
			if head[len(head)-1] != '\n' {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "[%s: %d bytes not shown]\n", e.Name, e.Seen-kept)
		}
	}
	writeValid(&b, tail)
	return b.String()
}

func writeValid(b *strings.Builder, p []byte) {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		b.WriteRune(r)
		p = p[n:]
	}
}

// shown returns the length of p as text.
func shown(p []byte) int {
	total := 0
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		total += utf8.RuneLen(r)
		p = p[n:]
	}
	return total
}

// fitStart returns how many of the first bytes of p make at most n bytes of
// text, in whole characters.
func fitStart(p []byte, n int) int {
	at := 0
	for at < len(p) {
		r, k := utf8.DecodeRune(p[at:])
		if n -= utf8.RuneLen(r); n < 0 {
			break
		}
		at += k
	}
	return at
}

// fitEnd is fitStart for the last bytes of p.
func fitEnd(p []byte, n int) int {
	end := len(p)
	for end > 0 {
		r, k := utf8.DecodeLastRune(p[:end])
		if n -= utf8.RuneLen(r); n < 0 {
			break
		}
		end -= k
	}
	return len(p) - end
}

// partialStart returns how many bytes at the start of p look like the rest of
// a character whose beginning was let go.
func partialStart(p []byte) int {
	n := 0
	for n < min(len(p), utf8.UTFMax-1) && !utf8.RuneStart(p[n]) {
		n++
	}
	return n
}

// partialEnd returns how many bytes at the end of p begin a character that was
// cut off.
func partialEnd(p []byte) int {
	for n := 1; n <= min(len(p), utf8.UTFMax-1); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
