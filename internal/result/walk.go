package result

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// sink takes the tokens of a JSON text from a walker. The slices are valid
// during the call only; at is where the token, or its string or atom, begins.
type sink interface {
	open(c byte, at int64)  // '{' or '['
	close(c byte, at int64) // '}' or ']'
	// name has the name with its quotes, whole unless it is longer than
	// maxName; then long is how many bytes it has and raw is nil.
	name(raw []byte, long int, at int64)
	// text has pieces of the inside of a string, as it is written.
	text(p []byte, at int64, start, end bool)
	// atom has pieces of a number, true, false or null.
	atom(p []byte, at int64, start, end bool)
}

// maxName is the most bytes of a member's name that a walker holds.
const maxName = 4096

// maxDepth is deeper than any frame that passed package frame is.
const maxDepth = 1024

var (
	errJSON  = errors.New("result: not JSON")
	errDepth = errors.New("result: nested too deep")
)

type walkState uint8

const (
	wValue walkState = iota // zero: the text begins
	wFirst                  // after [
	wName                   // after , in an object
	wFirstName
	wColon
	wAfter
	wEnd
	wString
	wNameString
	wAtom
)

// walker cuts a JSON text that arrives in pieces into tokens. It is for texts
// that have been checked: it refuses what it cannot follow, not all that is no
// JSON. Memory is constant.
type walker struct {
	to    sink
	off   int64 // of the current piece
	begin int64 // of the current string or atom
	st    walkState
	esc   bool // the last byte of the piece was a backslash
	first bool // the current string has not been reported yet
	stop  bool // set by a sink: feed returns after the current token
	depth int
	stack [maxDepth / 64]uint64 // bit n: the container at depth n+1 is an object
	nm    []byte
	nmLen int
	err   error
}

func (w *walker) obj() bool {
	d := w.depth - 1
	return w.stack[d>>6]>>(d&63)&1 != 0
}

func (w *walker) after() {
	if w.depth == 0 {
		w.st = wEnd
	} else {
		w.st = wAfter
	}
}

// feed takes the next piece and returns how much of it was used: all, unless
// the sink stopped it or it failed.
func (w *walker) feed(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	i := 0
	for i < len(p) && !w.stop {
		c := p[i]
		switch w.st {
		case wString, wNameString:
			j, end := w.inside(p, i)
			if w.st == wNameString {
				w.hold(p[i:j])
				if end {
					w.hold(p[j : j+1])
					w.nameDone()
				}
			} else {
				w.to.text(p[i:j], w.begin, w.first, end)
				w.first = false
				if end {
					w.after()
				}
			}
			i = j
			if end {
				i++
			}

		case wAtom:
			j := i
			for j < len(p) && !delimiter[p[j]] {
				j++
			}
			end := j < len(p)
			w.to.atom(p[i:j], w.begin, w.first, end)
			w.first = false
			if end {
				w.after()
			}
			i = j

		case wValue, wFirst:
			switch c {
			case ' ', '\t', '\r', '\n':
				i++
			case '"':
				w.begin, w.first, w.st = w.off+int64(i), true, wString
				i++
			case '{', '[':
				if w.depth == maxDepth {
					return i, w.fail(errDepth)
				}
				bit := uint64(1) << (w.depth & 63)
				if c == '{' {
					w.stack[w.depth>>6] |= bit
					w.st = wFirstName
				} else {
					w.stack[w.depth>>6] &^= bit
					w.st = wFirst
				}
				w.depth++
				w.to.open(c, w.off+int64(i))
				i++
			case ']':
				if w.st != wFirst {
					return i, w.fail(errJSON)
				}
				i = w.pop(c, i)
			case ',', ':', '}':
				return i, w.fail(errJSON)
			default:
				w.begin, w.first, w.st = w.off+int64(i), true, wAtom
			}

		case wName, wFirstName:
			switch c {
			case ' ', '\t', '\r', '\n':
				i++
			case '"':
				w.begin, w.st = w.off+int64(i), wNameString
				w.nm, w.nmLen = w.nm[:0], 0
				w.hold(p[i : i+1])
				i++
			case '}':
				if w.st != wFirstName {
					return i, w.fail(errJSON)
				}
				i = w.pop(c, i)
			default:
				return i, w.fail(errJSON)
			}

		case wColon:
			switch c {
			case ' ', '\t', '\r', '\n':
			case ':':
				w.st = wValue
			default:
				return i, w.fail(errJSON)
			}
			i++

		case wAfter:
			switch c {
			case ' ', '\t', '\r', '\n':
				i++
			case ',':
				if w.obj() {
					w.st = wName
				} else {
					w.st = wValue
				}
				i++
			case '}', ']':
				if w.obj() != (c == '}') {
					return i, w.fail(errJSON)
				}
				i = w.pop(c, i)
			default:
				return i, w.fail(errJSON)
			}

		case wEnd:
			switch c {
			case ' ', '\t', '\r', '\n':
				i++
			default:
				return i, w.fail(errJSON)
			}
		}
	}
	w.off += int64(i)
	return i, nil
}

// finish ends the text and reports whether it was complete.
func (w *walker) finish() error {
	if w.err == nil && w.st == wAtom && w.depth == 0 {
		w.to.atom(nil, w.begin, w.first, true)
		w.after()
	}
	if w.err == nil && w.st != wEnd {
		w.fail(errJSON)
	}
	return w.err
}

func (w *walker) fail(err error) error {
	w.err = err
	return err
}

func (w *walker) pop(c byte, i int) int {
	w.depth--
	w.after()
	w.to.close(c, w.off+int64(i))
	return i + 1
}

func (w *walker) hold(b []byte) {
	w.nmLen += len(b)
	if len(w.nm) <= maxName {
		w.nm = append(w.nm, b[:min(len(b), maxName+1-len(w.nm))]...)
	}
}

func (w *walker) nameDone() {
	w.st = wColon
	if w.nmLen > maxName {
		w.to.name(nil, w.nmLen, w.begin)
		return
	}
	w.to.name(w.nm, 0, w.begin)
}

// inside returns where the inside of a string that goes on at p[i] ends, in p
// or with a quote.
func (w *walker) inside(p []byte, i int) (j int, end bool) {
	j = i
	if w.esc {
		w.esc = false
		j++
	}
	for {
		j = special(p, j)
		if j == len(p) || p[j] == '"' {
			return j, j < len(p)
		}
		if j+1 == len(p) {
			w.esc = true
			return len(p), false
		}
		j += 2
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns the index of the first quote or backslash of p[i:], len(p)
// if there is none.
func special(p []byte, i int) int {
	for ; len(p)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		q, b := x^'"'*ones, x^'\\'*ones
		// A borrow goes only to bytes above a hit, and the lowest one counts.
		if hit := ((q-ones)&^q | (b-ones)&^b) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(p); i++ {
		if p[i] == '"' || p[i] == '\\' {
			break
		}
	}
	return i
}

// plain returns the index of the first backslash or byte that is not ASCII of
// p[i:], len(p) if there is none.
func plain(p []byte, i int) int {
	for ; len(p)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		b := x ^ '\\'*ones
		if hit := (x | (b-ones)&^b) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(p); i++ {
		if p[i] >= 0x80 || p[i] == '\\' {
			break
		}
	}
	return i
}

var delimiter = [256]bool{',': true, ']': true, '}': true, ' ': true, '\t': true, '\r': true, '\n': true}
