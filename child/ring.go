package child

import "io"

// ring is a queue of bytes in a buffer of a size that is changed from outside.
type ring struct {
	buf   []byte
	start int
	n     int
}

func (r *ring) cap() int { return len(r.buf) }

// parts returns the contents in order; b follows a.
func (r *ring) parts() (a, b []byte) {
	end := r.start + r.n
	if end <= len(r.buf) {
		return r.buf[r.start:end], nil
	}
	return r.buf[r.start:], r.buf[:end-len(r.buf)]
}

// push appends p, for which there must be room.
func (r *ring) push(p []byte) {
	if len(p) == 0 {
		return
	}
	at := (r.start + r.n) % len(r.buf)
	k := copy(r.buf[at:], p)
	copy(r.buf, p[k:])
	r.n += len(p)
}

// drop takes the oldest k bytes out, writing them to w.
func (r *ring) drop(k int, w io.Writer) {
	if k == 0 {
		return
	}
	a, b := r.parts()
	first := min(k, len(a))
	w.Write(a[:first])
	w.Write(b[:k-first])
	r.start = (r.start + k) % len(r.buf)
	r.n -= k
}

// resize changes the buffer's size, which must hold the contents.
func (r *ring) resize(size int) {
	if size == 0 {
		*r = ring{}
		return
	}
	a, b := r.parts()
	buf := make([]byte, size)
	copy(buf[copy(buf, a):], b)
	r.buf, r.start = buf, 0
}
