package frame

// utf8 passes over the bytes at p[i] that are not ASCII and returns where they
// end. An unfinished sequence at the end of the piece becomes pending.
func (s *Scanner) utf8(p []byte, i int) int {
	for i < len(p) && p[i] >= 0x80 {
		// Most text takes one of these two ways.
		switch c := p[i]; {
		case c >= 0xE1 && c < 0xF0 && c != 0xED && len(p)-i > 2 && p[i+1]&0xC0 == 0x80 && p[i+2]&0xC0 == 0x80:
			if c == 0xE2 && p[i+1] == 0x80 && p[i+2]|1 == 0xA9 {
				s.seps++
			}
			i += 3
			continue
		case c >= 0xC2 && c < 0xE0 && len(p)-i > 1 && p[i+1]&0xC0 == 0x80:
			i += 2
			continue
		}
		n, ok := sequence(p[i:])
		if n == 0 {
			s.npending = copy(s.pending[:], p[i:])
			return len(p)
		}
		s.sequence(p[i:i+n], ok)
		i += n
	}
	return i
}

// resume goes on with the sequence that the piece before p has begun.
func (s *Scanner) resume(p []byte) int {
	var b [6]byte
	had := copy(b[:], s.pending[:s.npending])
	all := had + copy(b[had:had+3], p)
	n, ok := sequence(b[:all])
	if n == 0 {
		s.npending = copy(s.pending[:], b[:all])
		return len(p)
	}
	s.npending = 0
	s.sequence(b[:n], ok)
	return n - had
}

func (s *Scanner) sequence(b []byte, ok bool) {
	switch {
	case !ok:
		s.replaced++
		s.growth += len(replacement) - len(b)
	case b[0] == 0xE2 && b[1] == 0x80 && b[2]|1 == 0xA9:
		s.seps++
	}
}

const replacement = "\uFFFD"

// sequence returns the length of the UTF-8 sequence at the start of b, whose
// first byte is not ASCII, and whether it is valid. The length of an invalid
// one is that of its maximal subpart, which is what one U+FFFD stands for in
// the Unicode standard and in the decoders of browsers and Node. It is 0 if b
// ends before the sequence does.
func sequence(b []byte) (n int, ok bool) {
	c := b[0]
	lo, hi := byte(0x80), byte(0xBF)
	var size int
	switch {
	case c < 0xC2:
		return 1, false
	case c < 0xE0:
		size = 2
	case c < 0xF0:
		size = 3
		switch c {
		case 0xE0:
			lo = 0xA0
		case 0xED:
			hi = 0x9F
		}
	case c < 0xF5:
		size = 4
		switch c {
		case 0xF0:
			lo = 0x90
		case 0xF4:
			hi = 0x8F
		}
	default:
		return 1, false
	}
	for n = 1; n < size; n++ {
		if n == len(b) {
			return 0, false
		}
		if b[n] < lo || b[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xBF
	}
	return size, true
}

// rewrite writes src to dst with invalid UTF-8 replaced and, if seps is set,
// raw U+2028 and U+2029 as escapes, and returns how many bytes it wrote. dst may
// overlap src if it starts by at least the growth of the text earlier. Only for
// JSON texts, where such bytes stand inside strings.
func rewrite(dst, src []byte, seps bool) int {
	w := 0
	for i := 0; i < len(src); {
		j := i
		for j < len(src) && src[j] < 0x80 {
			j++
		}
		w += copy(dst[w:], src[i:j])
		if i = j; i == len(src) {
			break
		}
		n, ok := sequence(src[i:])
		if n == 0 {
			n = len(src) - i
		}
		switch {
		case !ok:
			w += copy(dst[w:], replacement)
		case seps && src[i] == 0xE2 && src[i+1] == 0x80 && src[i+2]|1 == 0xA9:
			last := src[i+2] - 0xA8 + '8'
			w += copy(dst[w:], `\u202`)
			dst[w] = last
			w++
		default:
			w += copy(dst[w:], src[i:i+n])
		}
		i += n
	}
	return w
}
