package rpc

import "github.com/penstock-dev/penstock/frame"

// Splice returns a copy of data in which the range at is replaced by with. Every rewrite
// that Penstock makes is one: the rest keeps its bytes.
func Splice(data []byte, at frame.Span, with []byte) []byte {
	out := make([]byte, 0, len(data)-at.Len()+len(with))
	out = append(out, data[:at.Start]...)
	out = append(out, with...)
	return append(out, data[at.End:]...)
}

// Join returns a batch of those elements of data that keep reports true for, or
// nil if that is none.
func Join(data []byte, elements []frame.Span, keep func(i int) bool) []byte {
	var out []byte
	for i, s := range elements {
		if !keep(i) {
			continue
		}
		if out == nil {
			out = append(out, '[')
		} else {
			out = append(out, ',')
		}
		out = append(out, s.In(data)...)
	}
	if out == nil {
		return nil
	}
	return append(out, ']')
}
