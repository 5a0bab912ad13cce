package result

import (
	"slices"
	"unicode/utf8"
)

// blobMin is how long a run of base64 in a text must be to be taken for one.
const blobMin = 16 << 10

// leaf keeps of one text, as its string arrives in pieces, what a cut may show:
// its head as it is written and its tail decoded, without long runs of base64.
type leaf struct {
	headCap, tailCap int    // most decoded bytes
	head             []byte // as written, twice headCap bytes at most
	headLen          int    // of head, decoded
	tail             []byte // decoded; follows head, after a gap if gap is set
	full             bool   // head has not taken everything
	gap              bool   // something between head and tail is lost
	marks            []mark // what was left out of head and tail, in order

	total    int64 // bytes decoded
	raw      int64 // bytes as written
	replaced int64 // characters that decode to U+FFFD because they are broken
	carry    [2 * maxUnit]byte
	ncarry   int

	// The current run of base64.
	run      int64
	seen     uint64 // which of the 64 digits it has, until it is blobMin long
	blob     bool   // it is left out
	dull     bool   // it is long, but no blob
	runHead  int    // len(head) where it began
	runLen   int    // and headLen
	runFull  bool
	runTail  int64  // bytes that it has offered to tail
	runEmpty bool   // tail was empty and nothing lost
	runFirst []byte // its first characters, once it is a blob

	list items
}

// mark is a place where size bytes of base64 were left out.
type mark struct {
	inTail bool
	at     int // offset in head, or in tail
	size   int64
	kind   string // media type, "" if unknown
}

// write takes the next piece of the inside of the string.
func (l *leaf) write(p []byte) {
	l.raw += int64(len(p))
	if l.ncarry > 0 {
		n := copy(l.carry[l.ncarry:], p)
		all := l.carry[:l.ncarry+n]
		had := l.ncarry
		used := l.units(all, had)
		if used < had {
			l.ncarry = copy(l.carry[:], all[used:])
			return
		}
		l.ncarry = 0
		p = p[used-had:]
	}
	if used := l.units(p, len(p)); used < len(p) {
		l.ncarry = copy(l.carry[:], p[used:])
	}
}

// units takes the characters of p that begin before stop and returns how many
// bytes they had.
func (l *leaf) units(p []byte, stop int) int {
	i := 0
	for i < stop {
		j := min(plain(p, i), stop)
		if j > i {
			l.ascii(p[i:j])
			i = j
			continue
		}
		if p[i] == '\\' {
			if i+1 < len(p) && simple[p[i+1]] != 0 {
				l.other(p[i:i+2], rune(simple[p[i+1]]), false)
				i += 2
				continue
			}
			r, n, bad := unit(p[i:], false)
			if n == 0 {
				return i
			}
			l.other(p[i:i+n], r, bad)
			i += n
			continue
		}
		// A stretch of valid UTF-8 at once.
		j = i
		for j < stop && p[j] >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(p[j:])
			if r == utf8.RuneError && n <= 1 {
				break
			}
			j += n
		}
		if j > i {
			l.endRun()
			l.list.plain(p[i:j])
			l.total += int64(j - i)
			l.keep(p[i:j], p[i:j])
			i = j
			continue
		}
		r, n, bad := unit(p[i:], false)
		if n == 0 {
			return i
		}
		l.other(p[i:i+n], r, bad)
		i += n
	}
	return i
}

// end ends the string.
func (l *leaf) end() {
	for p := l.carry[:l.ncarry]; len(p) > 0; {
		r, n, bad := unit(p, true)
		l.other(p[:n], r, bad)
		p = p[n:]
	}
	l.ncarry = 0
	l.endRun()
	l.trimTail(l.tailCap)
}

// other takes one character that is written as raw.
func (l *leaf) other(raw []byte, r rune, bad bool) {
	if r == '/' && len(raw) == 2 {
		// Some encoders escape it; it is a digit of base64.
		full := l.full
		l.ascii(raw[1:])
		if !full && !l.full && !l.blob {
			l.head = append(l.head[:len(l.head)-1], raw...) // headLen stays
		}
		return
	}
	l.endRun()
	if bad {
		l.replaced++
	}
	if r < utf8.RuneSelf && l.list.st < 0 && l.full && l.tailCap == 0 {
		l.total++ // the usual case, quickly
		l.gap = true
		return
	}
	var u [utf8.UTFMax]byte
	n := utf8.EncodeRune(u[:], r)
	l.list.char(r)
	l.total += int64(n)
	l.keep(raw, u[:n])
}

// ascii takes plain characters.
func (l *leaf) ascii(p []byte) {
	l.total += int64(len(p))
	l.list.plain(p)
	for len(p) > 0 {
		k := l.runOn(p)
		if p = p[k:]; len(p) == 0 {
			return
		}
		// p[0] ends the run, if there was one. Pass on to where the next run
		// begins that can be long enough, or that p leaves open.
		l.endRun()
		k = nextRun(p)
		l.keep(p[:k], p[:k])
		p = p[k:]
	}
}

// runOn takes the digits of base64 at the start of p and returns how many.
func (l *leaf) runOn(p []byte) int {
	if l.run == 0 {
		l.runHead, l.runLen, l.runFull, l.runTail, l.seen = len(l.head), l.headLen, l.full, 0, 0
		l.runEmpty = len(l.tail) == 0 && !l.gap
	}
	k := 0
	if l.run < blobMin {
		most := min(len(p), blobMin-int(l.run))
		for k < most && digit[p[k]] != 0 {
			l.seen |= 1 << (digit[p[k]] & 63)
			k++
		}
		if k > 0 {
			l.run += int64(k)
			l.keep(p[:k], p[:k])
		}
		if l.run < blobMin {
			return k
		}
		l.decide()
	}
	from := k
	for k < len(p) && digit[p[k]] != 0 {
		k++
	}
	l.run += int64(k - from)
	if !l.blob {
		l.keep(p[from:k], p[from:k])
	}
	return k
}

// decide tells a blob from a long word: what encodes binary data uses many
// digits. It then takes back what was kept of it.
func (l *leaf) decide() {
	n := 0
	for s := l.seen; s != 0; s &= s - 1 {
		n++
	}
	if n < 24 {
		l.dull = true
		return
	}
	l.blob = true
	l.runFirst = l.runFirst[:0]
	if l.runHead < len(l.head) {
		l.runFirst = append(l.runFirst, l.head[l.runHead:min(len(l.head), l.runHead+16)]...)
	}
	l.head, l.headLen, l.full = l.head[:l.runHead], l.runLen, l.runFull
	l.tail = l.tail[:len(l.tail)-int(min(l.runTail, int64(len(l.tail))))]
	if l.runEmpty {
		l.gap = false
		return
	}
	// What is left before it depends on when tail was last moved, so on how the
	// text was cut into pieces; what this leaves does not.
	l.trimTail(l.tailCap - blobMin)
}

func (l *leaf) endRun() {
	if l.blob && (!l.full || l.tailCap > 0) {
		m := mark{size: l.run, kind: sniff(l.runFirst)}
		if l.full {
			m.inTail, m.at = true, len(l.tail)
		} else {
			m.at = len(l.head)
		}
		l.marks = append(l.marks, m)
	}
	l.run, l.blob, l.dull = 0, false, false
}

// keep adds whole characters, written as raw, to what is kept.
func (l *leaf) keep(raw, decoded []byte) {
	if !l.full {
		room, rawRoom := max(l.headCap-l.headLen, 0), max(2*l.headCap-len(l.head), 0)
		if len(decoded) <= room && len(raw) <= rawRoom {
			l.head = append(l.head, raw...)
			l.headLen += len(decoded)
			return
		}
		l.full = true
		if len(raw) == len(decoded) {
			// Written as they are, they can be divided between characters.
			room = min(room, rawRoom)
			for room > 0 && !utf8.RuneStart(raw[room]) {
				room--
			}
			l.head = append(l.head, raw[:room]...)
			l.headLen += room
			decoded = decoded[room:]
		}
	}
	l.runTail += int64(len(decoded))
	if l.tailCap == 0 {
		l.gap = true
		return
	}
	if len(decoded) > l.tailCap {
		l.gap = true
		l.dropMarks(len(l.tail))
		l.tail = l.tail[:0]
		decoded = decoded[len(decoded)-l.tailCap:]
	}
	if len(l.tail)+len(decoded) > l.tailCap+l.slack() {
		l.trimTail(l.tailCap - len(decoded))
	}
	l.tail = append(slices.Grow(l.tail, min(len(decoded), l.tailCap+l.slack())), decoded...)
}

// slack is how much longer than it need be tail may grow before it is moved.
func (l *leaf) slack() int { return l.tailCap/2 + 512 }

func (l *leaf) trimTail(n int) {
	from := len(l.tail) - max(n, 0)
	if from <= 0 {
		return
	}
	l.gap = true
	l.dropMarks(from)
	l.tail = l.tail[:copy(l.tail, l.tail[from:])]
}

// dropMarks forgets the marks of the first n bytes of tail and moves the rest.
func (l *leaf) dropMarks(n int) {
	l.marks = slices.DeleteFunc(l.marks, func(m mark) bool { return m.inTail && m.at < n })
	for i := range l.marks {
		if l.marks[i].inTail {
			l.marks[i].at -= n
		}
	}
}

// relimit lowers the caps.
func (l *leaf) relimit(headCap, tailCap int) {
	l.headCap, l.tailCap = headCap, tailCap
	if l.headLen > headCap || len(l.head) > 2*headCap {
		fit, at, _ := decode(nil, l.head[:min(len(l.head), 2*headCap)], headCap, false)
		l.headLen = len(fit)
		if tailCap > 0 && !l.gap {
			// What the head loses, the tail gains.
			lost, _, _ := decode(nil, l.head[at:], 3*len(l.head), true)
			for i := range l.marks {
				m := &l.marks[i]
				switch {
				case m.inTail:
					m.at += len(lost)
				case m.at > at:
					d, _, _ := decode(nil, l.head[at:m.at], 3*m.at, true)
					m.inTail, m.at = true, len(d)
				}
			}
			l.tail = append(lost, l.tail...)
			l.head = l.head[:at]
		} else {
			l.head = l.head[:at]
			l.gap = true
			l.marks = slices.DeleteFunc(l.marks, func(m mark) bool { return !m.inTail && m.at > len(l.head) })
		}
		l.head = slices.Clone(l.head)
		l.full = true
		if l.runHead > len(l.head) {
			l.runHead, l.runLen, l.runFull = len(l.head), l.headLen, true
		}
	}
	if len(l.tail) > tailCap {
		l.trimTail(tailCap)
		l.tail = slices.Clone(l.tail)
	}
}

// intact reports whether head is the whole text.
func (l *leaf) intact() bool {
	return !l.full && len(l.marks) == 0
}

// nextRun returns where the first run of digits begins in p, whose first byte
// is none, that is blobMin long or reaches the end of p. Shorter ones need no
// looking at: of blobMin bytes in a row it looks at the last first.
func nextRun(p []byte) int {
	i := 1
	for i+blobMin <= len(p) {
		j := i + blobMin - 1
		if digit[p[j]] == 0 {
			i = j + 1
			continue
		}
		s := j
		for s > i && digit[p[s-1]] != 0 {
			s--
		}
		if s == i {
			return s
		}
		// The run begins at s; it goes on to j at least.
		e := j + 1
		for e < len(p) && e-s < blobMin && digit[p[e]] != 0 {
			e++
		}
		if e == len(p) || e-s >= blobMin {
			return s
		}
		i = e + 1
	}
	s := len(p)
	for s > i && digit[p[s-1]] != 0 {
		s--
	}
	return min(s, len(p))
}

// digit maps the characters of base64, of both alphabets, to 64 + their value.
var digit = func() (t [256]byte) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for i := range len(alphabet) {
		t[alphabet[i]] = byte(64 + i)
	}
	t['-'], t['_'], t['='] = t['+'], t['/'], t['A']
	return t
}()

// sniff names the type of what begins with these characters of base64.
func sniff(b []byte) string {
	for _, k := range []struct{ begins, kind string }{
		{"iVBORw0KGg", "image/png"}, {"/9j/", "image/jpeg"}, {"R0lGOD", "image/gif"}, {"JVBERi0", "application/pdf"},
		{"UEsDB", "application/zip"}, {"H4sI", "application/gzip"}, {"T2dnUw", "audio/ogg"}, {"SUQz", "audio/mpeg"},
	} {
		if len(b) >= len(k.begins) && string(b[:len(k.begins)]) == k.begins {
			return k.kind
		}
	}
	return ""
}

// items counts the items of a text that is a JSON array, or follows another
// JSON container to its end. The zero value is ready.
type items struct {
	st    int8 // 0: white space so far, 1: inside, 2: ended, -1: no container
	array bool
	str   bool // inside a string
	esc   bool
	some  bool // the array has an item
	depth int
	count int64 // commas of the array
}

// whole reports whether the text was an array and how many items it has.
func (t *items) whole() (int64, bool) {
	if t.st != 2 || !t.array {
		return 0, false
	}
	if !t.some {
		return 0, true
	}
	return t.count + 1, true
}

func (t *items) char(r rune) {
	if t.st >= 0 {
		if r >= utf8.RuneSelf {
			r = 'x'
		}
		t.byte(byte(r))
	}
}

// plain takes characters none of which is a quote or a backslash.
func (t *items) plain(p []byte) {
	if t.st < 0 || len(p) == 0 {
		return
	}
	if t.str {
		t.esc = false
		return
	}
	for _, c := range p {
		if t.byte(c); t.st < 0 {
			return
		}
	}
}

func (t *items) byte(c byte) {
	switch {
	case t.st == 1 && t.str:
		switch {
		case t.esc:
			t.esc = false
		case c == '\\':
			t.esc = true
		case c == '"':
			t.str = false
		}
		return
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		return
	case t.st == 2:
		t.st = -1
		return
	case t.st == 0:
		if c != '[' && c != '{' {
			t.st = -1
			return
		}
		t.st, t.depth, t.array = 1, 1, c == '['
		return
	}
	if t.depth == 1 && c != ']' {
		t.some = true
	}
	switch c {
	case '"':
		t.str = true
	case '[', '{':
		t.depth++
	case ']', '}':
		if t.depth--; t.depth == 0 {
			t.st = 2
		}
	case ',':
		if t.depth == 1 {
			t.count++
		}
	}
}
