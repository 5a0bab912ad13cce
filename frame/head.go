package frame

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

var known = [6]string{"jsonrpc", "id", "method", "params", "result", "error"}

const (
	mVersion = iota
	mID
	mMethod
	mParams
	mResult
	mError
)

// Head returns what has been found so far, also before an error.
func (s *Scanner) Head() Head {
	return Head{
		Kind:    s.kind,
		Version: s.members[mVersion], ID: s.members[mID], Method: s.members[mMethod],
		Params: s.members[mParams], Result: s.members[mResult], Error: s.members[mError],
		Replaced: s.replaced, Duplicate: s.dup,
	}
}

// ID returns the id of the top level as it was written, nil if it is not
// complete, no string or number, or longer than [MaxName]. It is valid until s
// is fed again after a Reset.
func (s *Scanner) ID() []byte {
	if len(s.id) == 0 {
		return nil
	}
	return s.id
}

// Method returns the decoded method of the top level, cut after 256 bytes at
// most; "" if it is not complete or longer than [MaxName].
func (s *Scanner) Method() string {
	if len(s.method) == 0 {
		return ""
	}
	m := Unquote(s.method)
	if len(m) > 256 {
		cut := 256
		for m[cut]&0xC0 == 0x80 {
			cut--
		}
		m = m[:cut]
	}
	return m
}

// begin notes a value of the top level that starts at p[i].
func (s *Scanner) begin(k Kind, i int) {
	if s.depth == 0 {
		s.kind = k
		return
	}
	if s.member == 0 {
		return
	}
	m := s.member - 1
	s.members[m] = Value{Kind: k, Span: Span{Start: int(s.off) + i}}
	if !s.whole && (m == mID && (k == String || k == Number) || m == mMethod && k == String) {
		s.keeping, s.from, s.held = true, i, s.held[:0]
	}
}

// end notes that a value ends before p[i], and returns the state after it.
func (s *Scanner) end(p []byte, i int) state {
	if s.depth > 1 {
		return inAfter
	}
	if s.depth == 0 {
		return inEnd
	}
	if s.member != 0 {
		m := s.member - 1
		s.members[m].End = int(s.off) + i
		s.member = 0
		if s.keeping {
			if raw := s.keep(p, i); len(raw) <= MaxName {
				if m == mID {
					s.id = append(s.id[:0], raw...)
				} else {
					s.method = append(s.method[:0], raw...)
				}
			}
		}
	}
	return inAfter
}

// pop leaves a container whose last byte is before p[i].
func (s *Scanner) pop(p []byte, i int) state {
	s.depth--
	s.obj = s.stack[s.depth>>6]>>(s.depth&63)&1 != 0
	return s.end(p, i)
}

// hold keeps b for the piece to come; one byte more than MaxName tells that
// there was more.
func (s *Scanner) hold(b []byte) {
	s.held = append(s.held, b[:min(len(b), MaxName+1-len(s.held))]...)
}

// keep ends the keeping before p[i] and returns what was kept.
func (s *Scanner) keep(p []byte, i int) []byte {
	s.keeping = false
	if len(s.held) == 0 {
		return p[s.from:i]
	}
	s.hold(p[s.from:i])
	return s.held
}

var seed = maphash.MakeSeed()

// name notes a name of the top level. What it returns is the reason for which
// the text is refused.
func (s *Scanner) name(raw []byte) string {
	if s.count++; s.count > MaxNames {
		return "too many members at the top level"
	}
	if len(raw) > MaxName {
		return "name too long at the top level"
	}
	s.member = 0
	bare := raw[1 : len(raw)-1]
	if k := slices.Index(known[:], string(bare)); k >= 0 {
		s.knownName(k)
		return ""
	}
	if !isPlain(bare) {
		// An escaped name is the same name, and so is one whose invalid bytes
		// will be replaced.
		bare = []byte(Unquote(raw))
		if k := slices.Index(known[:], string(bare)); k >= 0 {
			s.knownName(k)
			return ""
		}
	}
	for _, k := range known {
		// Decoders that ignore case fold as Unicode does: "re\u017fult".
		if len(bare) <= 2*len(k) && s.dup == "" && bytes.EqualFold(bare, []byte(k)) {
			s.dup = string(bare)
		}
	}
	h := maphash.Bytes(seed, bare)
	others := s.count - 1 - bits.OnesCount8(s.seen)
	if slices.Contains(s.few[:min(others, len(s.few))], h) || slices.Contains(s.more, h) {
		if s.dup == "" {
			s.dup = cmp.Or(string(bare), `""`)
		}
	}
	if others < len(s.few) {
		s.few[others] = h
	} else {
		s.more = append(s.more, h)
	}
	return ""
}

func (s *Scanner) knownName(k int) {
	if s.seen&(1<<k) != 0 {
		// The first one stays: the message is refused, and its answer needs
		// one id, whichever.
		if s.dup == "" {
			s.dup = known[k]
		}
		s.count--
		return
	}
	s.seen |= 1 << k
	s.member = k + 1
}
