package bridge

import "weak"

// largeBuffer is from where on a frame's copy is worth using again. A run of
// large frames would otherwise make each its garbage, and near its memory limit
// the collector returns every one to the system, to be faulted in again.
const largeBuffer = 64 << 10

// maxSpare bounds the buffers that are kept to be used again.
const maxSpare = 4

// buffer is a large buffer that a frame has left.
type buffer struct{ b []byte }

// buffers holds large buffers that nobody uses. It holds them weakly: they are
// there for a run of frames, and the collector takes them when it comes by. The
// zero value is empty; the session's lock guards it.
type buffers struct{ spare []weak.Pointer[buffer] }

// line returns a copy of a frame with its line feed, for a queue.
func (p *buffers) line(data []byte) []byte {
	n := len(data) + 1
	if n < largeBuffer {
		return line(data)
	}
	for i, w := range p.spare {
		b := w.Value()
		if b == nil || cap(b.b) < n || cap(b.b) > n+n/8 {
			continue
		}
		p.spare = append(p.spare[:i], p.spare[i+1:]...)
		out := b.b[:n]
		copy(out, data)
		out[n-1] = '\n'
		return out
	}
	return line(data)
}

// release takes the bytes of a frame that has been written.
func (p *buffers) release(data []byte) {
	if cap(data) < largeBuffer {
		return
	}
	if len(p.spare) == maxSpare {
		p.spare = p.spare[1:]
	}
	p.spare = append(p.spare, weak.Make(&buffer{data}))
}
