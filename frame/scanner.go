package frame

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// Limits of a [Scanner]. They keep its memory constant whatever it is fed.
const (
	// MaxDepth is how deep objects and arrays may be nested. Some peers close
	// the connection at 1000.
	MaxDepth = 512
	// MaxNames is how many members the object at the top level may have. A
	// JSON-RPC message has four.
	MaxNames = 256
	// MaxName is how many bytes the name of a member at the top level may have
	// as it is written, quotes included. It also bounds the ids and methods that
	// a Scanner keeps.
	MaxName = 1024
)

// SyntaxError says why a text is not JSON. Offset counts bytes from the first
// one fed since the last Reset, and is the same however the text was cut into
// pieces.
type SyntaxError struct {
	Offset int64
	Reason string // a short constant phrase
}

func (e *SyntaxError) Error() string {
	return "frame: " + e.Reason + " at byte " + strconv.FormatInt(e.Offset, 10)
}

// Scanner checks one JSON text that arrives in pieces, in constant memory, and
// notes where the members of its top level stand. The zero value is ready; it
// must not be copied once used, nor be used by several goroutines at once.
//
// It accepts what RFC 8259 and [encoding/json.Valid] accept, except for texts
// beyond [MaxDepth], [MaxNames] and [MaxName]. Invalid UTF-8 inside strings is
// counted and accepted.
type Scanner struct {
	off   int64 // bytes of the pieces before the current one
	err   *SyntaxError
	state state
	key   bool   // the current string is a name
	obj   bool   // the current container is an object
	hex   uint8  // hex digits still to come of a \u escape
	lit   string // rest of true, false or null
	depth int
	stack [MaxDepth/64 + 1]uint64 // bit n: the container at depth n is an object

	kind    Kind
	members [6]Value // in the order of known
	member  int      // 1 + index of the current member, 0 for any other
	seen    uint8    // bit n: known[n] has occurred
	dup     string
	count   int       // members at the top level
	few     [8]uint64 // hashes of the names that are not known
	more    []uint64

	// keeping is set while the bytes from p[from] on belong to a name, id or
	// method; held is what earlier pieces had of it, MaxName+1 bytes at most.
	keeping bool
	from    int
	held    []byte
	id      []byte
	method  []byte
	whole   bool // the text stays with the caller, id and method need no copy

	pending  [3]byte // an unfinished UTF-8 sequence at the end of a piece
	npending int
	replaced int // invalid sequences
	growth   int // bytes by which replacing them makes the text longer
	seps     int // raw U+2028 and U+2029
}

type state uint8

const (
	inValue state = iota // zero: the text begins
	inFirst              // after [
	inName               // after , in an object
	inFirstName
	inColon
	inAfter // after a value inside a container
	inEnd   // after the value at the top
	inString
	inEscape
	inHex
	inLiteral
	inMinus
	inZero
	inInt
	inDot
	inFraction
	inE
	inESign
	inExponent
)

// Reset makes s ready for another text. It keeps its memory, at most 4 KiB.
func (s *Scanner) Reset() {
	*s = Scanner{held: s.held[:0], id: s.id[:0], method: s.method[:0], more: s.more[:0], whole: s.whole}
}

// Parse checks b, one whole JSON text. What was found before an error is
// returned with it. It does not allocate if b is correct and has few members.
func Parse(b []byte) (Head, error) {
	var s Scanner
	s.whole = true
	err := s.Feed(b)
	if err == nil {
		err = s.Finish()
	}
	return s.Head(), err
}

// Finish reports whether the text that was fed is complete.
func (s *Scanner) Finish() error {
	if s.err != nil {
		return s.err
	}
	if s.depth == 0 {
		switch s.state {
		case inZero, inInt, inFraction, inExponent:
			s.state = inEnd
		}
	}
	if s.state != inEnd {
		return s.fail(0, unexpectedEnd)
	}
	return nil
}

const unexpectedEnd = "unexpected end"

func (s *Scanner) fail(i int, reason string) error {
	s.err = &SyntaxError{Offset: s.off + int64(i), Reason: reason}
	return s.err
}

// Feed scans the next piece of the text; p is not kept. Its error is a
// [*SyntaxError] and sticky.
func (s *Scanner) Feed(p []byte) error {
	if s.err != nil {
		return s.err
	}
	i := 0
	if s.npending > 0 {
		i = s.resume(p)
	}
	st := s.state
	for i < len(p) {
		c := p[i]
		switch st {
		case inValue, inFirst:
			switch c {
			case '"':
				if s.depth <= 1 {
					s.begin(String, i)
				}
				s.key = false
				st = inString
				i++
			case '{', '[':
				k := Array
				if c == '{' {
					k = Object
				}
				if s.depth <= 1 {
					s.begin(k, i)
				}
				if s.depth == MaxDepth {
					return s.fail(i, "nested too deep")
				}
				s.depth++
				w, b := s.depth>>6, uint64(1)<<(s.depth&63)
				if c == '{' {
					s.stack[w] |= b
					s.obj = true
					st = inFirstName
				} else {
					s.stack[w] &^= b
					s.obj = false
					st = inFirst
				}
				i++
			case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '-':
				if s.depth <= 1 {
					s.begin(Number, i)
				}
				switch c {
				case '-':
					st = inMinus
				case '0':
					st = inZero
				default:
					st = inInt
				}
				i++
			case 't', 'f', 'n':
				k, lit := True, "true"
				switch c {
				case 'f':
					k, lit = False, "false"
				case 'n':
					k, lit = Null, "null"
				}
				if s.depth <= 1 {
					s.begin(k, i)
				}
				if len(p)-i >= len(lit) && string(p[i:i+len(lit)]) == lit {
					i += len(lit)
					st = s.end(p, i)
					continue
				}
				s.lit = lit[1:]
				st = inLiteral
				i++
			case ' ', '\t', '\r', '\n':
				i++
			case ']':
				if st != inFirst {
					return s.fail(i, "value expected")
				}
				i++
				st = s.pop(p, i)
			default:
				return s.fail(i, "value expected")
			}

		case inString:
			i = plain(p, i)
			if i == len(p) {
				continue
			}
			switch c := p[i]; {
			case c == '"':
				i++
				if !s.key {
					st = s.end(p, i)
					continue
				}
				if s.depth == 1 {
					if reason := s.name(s.keep(p, i)); reason != "" {
						return s.fail(i, reason)
					}
				}
				st = inColon
				if i < len(p) && p[i] == ':' {
					i++
					st = inValue
				}
			case c == '\\':
				i++
				st = inEscape
			case c < 0x20:
				return s.fail(i, "control character in a string")
			default:
				i = s.utf8(p, i)
			}

		case inEscape:
			switch c {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				st = inString
			case 'u':
				s.hex = 4
				st = inHex
			default:
				return s.fail(i, "invalid escape in a string")
			}
			i++

		case inHex:
			if hexDigit(c) < 0 {
				return s.fail(i, "invalid escape in a string")
			}
			i++
			if s.hex--; s.hex == 0 {
				st = inString
			}

		case inAfter:
			switch c {
			case ',':
				i++
				if s.obj {
					st = inName
				} else {
					st = inValue
				}
			case '}':
				if !s.obj {
					return s.fail(i, "comma or ] expected")
				}
				i++
				st = s.pop(p, i)
			case ']':
				if s.obj {
					return s.fail(i, "comma or } expected")
				}
				i++
				st = s.pop(p, i)
			case ' ', '\t', '\r', '\n':
				i++
			default:
				return s.fail(i, "comma or end expected")
			}

		case inName, inFirstName:
			switch c {
			case '"':
				if s.depth == 1 {
					s.keeping, s.from, s.held = true, i, s.held[:0]
				}
				s.key = true
				st = inString
				i++
			case ' ', '\t', '\r', '\n':
				i++
			case '}':
				if st != inFirstName {
					return s.fail(i, "name expected")
				}
				i++
				st = s.pop(p, i)
			default:
				return s.fail(i, "name expected")
			}

		case inColon:
			switch c {
			case ':':
				st = inValue
			case ' ', '\t', '\r', '\n':
			default:
				return s.fail(i, "colon expected")
			}
			i++

		case inMinus:
			switch {
			case c == '0':
				st = inZero
			case isDigit(c):
				st = inInt
			default:
				return s.fail(i, "digit expected")
			}
			i++
		case inInt:
			for isDigit(c) {
				if i++; i == len(p) {
					break
				}
				c = p[i]
			}
			if i == len(p) {
				continue
			}
			fallthrough
		case inZero:
			switch c {
			case '.':
				st = inDot
				i++
			case 'e', 'E':
				st = inE
				i++
			default:
				st = s.end(p, i)
			}
		case inDot:
			if !isDigit(c) {
				return s.fail(i, "digit expected")
			}
			st = inFraction
			i++
		case inFraction:
			for i < len(p) && isDigit(p[i]) {
				i++
			}
			if i == len(p) {
				continue
			}
			if c := p[i]; c == 'e' || c == 'E' {
				st = inE
				i++
			} else {
				st = s.end(p, i)
			}
		case inE:
			if c == '+' || c == '-' {
				st = inESign
				i++
				continue
			}
			fallthrough
		case inESign:
			if !isDigit(c) {
				return s.fail(i, "digit expected")
			}
			st = inExponent
			i++
		case inExponent:
			for i < len(p) && isDigit(p[i]) {
				i++
			}
			if i < len(p) {
				st = s.end(p, i)
			}

		case inLiteral:
			if c != s.lit[0] {
				return s.fail(i, "value expected")
			}
			i++
			if s.lit = s.lit[1:]; s.lit == "" {
				st = s.end(p, i)
			}

		case inEnd:
			switch c {
			case ' ', '\t', '\r', '\n':
				i++
			default:
				s.state = inEnd
				return s.fail(i, "text after the value")
			}
		}
	}
	s.state = st
	if s.keeping {
		s.hold(p[s.from:])
		s.from = 0
	}
	s.off += int64(len(p))
	return nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns the index of the first byte of p[i:] that ends a run of plain
// string text: a quote, a backslash, a control character or a byte that is not
// ASCII; len(p) if there is none.
func plain(p []byte, i int) int {
	for ; len(p)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		// Each term sets the high bit of the bytes that it looks for. A borrow
		// goes only to bytes above a hit, and the lowest hit is what counts.
		hit := (x | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones) | (x - 0x20*ones)) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c == '"' || c == '\\' || c < 0x20 || c >= 0x80 {
			break
		}
	}
	return i
}

func isPlain(b []byte) bool { return plain(b, 0) == len(b) }

func isDigit(c byte) bool { return c-'0' <= 9 }

func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
