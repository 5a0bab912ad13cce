package rpc

import (
	"bytes"
	"strconv"

	"github.com/penstock-dev/penstock/frame"
)

// names finds a name that occurs twice in one object. The zero value is empty.
// Small objects, nearly all of them, cost no map.
type names struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

// add reports whether the raw name was there before. Two spellings of one name
// are the same name.
func (s *names) add(raw []byte) bool {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = frame.Quote(nil, frame.Unquote(raw))
	}
	if s.many == nil {
		for _, f := range s.few[:s.n] {
			if bytes.Equal(f, raw) {
				return true
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = raw
			s.n++
			return false
		}
		s.many = make(map[string]struct{}, 4*len(s.few))
		for _, f := range s.few {
			s.many[string(f)] = struct{}{}
		}
	}
	if _, ok := s.many[string(raw)]; ok {
		return true
	}
	s.many[string(raw)] = struct{}{}
	return false
}

// quoteName quotes a name for a message to people, shortened.
func quoteName(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}
