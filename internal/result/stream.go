package result

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"
)

// viewMode is how a view is made from the bytes that it stands in.
type viewMode uint8

const (
	modeAll    viewMode = iota // all bytes, as they are
	modeValue                  // one JSON value, as it is written
	modeString                 // what the inside of a JSON string stands for
)

// place is where a stream stands: what it takes to go on there.
type place struct {
	Off   int64 `json:"o"`           // in what the view is made from
	Depth int   `json:"d,omitempty"` // open containers of a value
	Flags int   `json:"f,omitempty"`
}

const (
	inText  = 1 << iota // inside a string of a value
	escaped             // behind a backslash of it
	begun               // the value has begun
)

// chunkSize is how much is read at a time.
const chunkSize = 64 << 10

// errCut says that what is stored ends inside of the view.
var errCut = errors.New("result: the stored result ends too early")

// stream reads a view. A copy of it goes on from where the original stood,
// as long as only one of them is used at a time.
type stream struct {
	src   io.ReaderAt
	size  int64 // of src, -1 if unknown
	mode  viewMode
	at    place
	view  int64 // bytes of the view before at
	ended bool
	buf   *chunk
}

// chunk is the last piece that was read of a source.
type chunk struct {
	b   []byte
	off int64
	n   int
}

// bytes returns what stands at off, at least maxUnit bytes unless the source
// ends before.
func (c *chunk) bytes(src io.ReaderAt, off int64) ([]byte, error) {
	if d := off - c.off; d >= 0 && d+maxUnit <= int64(c.n) {
		return c.b[d:c.n], nil
	}
	if c.b == nil {
		c.b = make([]byte, chunkSize)
	}
	n, err := src.ReadAt(c.b, off)
	if err == io.EOF {
		err = nil
	}
	c.off, c.n = off, n
	return c.b[:n], err
}

// read appends at most room bytes of the view to dst, whole characters only.
// It returns io.EOF when the view has ended; nothing was appended then. When it
// appends nothing without an error, the next character is longer than room.
func (s *stream) read(ctx context.Context, dst []byte, room int) ([]byte, error) {
	if s.ended {
		return dst, io.EOF
	}
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	p, err := s.buf.bytes(s.src, s.at.Off)
	if err != nil {
		return dst, err
	}
	had := len(dst)
	switch s.mode {
	case modeString:
		end := 0
		for end < len(p) && end <= room*maxUnit {
			if end = special(p, end); end == len(p) || p[end] == '"' {
				break
			}
			end = min(end+2, len(p))
		}
		closed := end < len(p) && p[end] == '"'
		var n int
		dst, n, _ = decode(dst, p[:end], room, closed)
		s.at.Off += int64(n)
		if closed && n == end {
			s.ended = true
		} else if n == 0 && len(p) < maxUnit && !closed {
			return dst, errCut
		}
	case modeValue:
		n := s.value(p, room)
		dst = append(dst, p[:n]...)
		s.at.Off += int64(n)
		if n == 0 && len(p) == 0 && !s.ended {
			return dst, errCut
		}
	case modeAll:
		n := boundary(p, room)
		dst = append(dst, p[:n]...)
		s.at.Off += int64(n)
		s.ended = len(p) == 0
	}
	s.view += int64(len(dst) - had)
	if s.ended && len(dst) == had {
		return dst, io.EOF
	}
	return dst, nil
}

// boundary returns the most bytes up to room of p that end behind a character.
func boundary(p []byte, room int) int {
	if room >= len(p) {
		return len(p)
	}
	n := room
	for n > 0 && n > room-utf8.UTFMax && !utf8.RuneStart(p[n]) {
		n--
	}
	if n == room-utf8.UTFMax {
		return room // not UTF-8
	}
	return n
}

// value returns how much of p, at most room bytes, belongs to the value, and
// moves the place but for its offset.
func (s *stream) value(p []byte, room int) int {
	most := boundary(p, room)
	i := 0
	for i < most {
		if s.at.Flags&inText != 0 {
			if s.at.Flags&escaped != 0 {
				s.at.Flags &^= escaped
				i++
				continue
			}
			if i = special(p[:most], i); i == most {
				break
			}
			if p[i] == '\\' {
				s.at.Flags |= escaped
			} else {
				s.at.Flags &^= inText
				s.ended = s.at.Depth == 0
			}
			i++
		} else {
			switch p[i] {
			case '"':
				s.at.Flags |= inText | begun
			case '{', '[':
				s.at.Flags |= begun
				s.at.Depth++
			case '}', ']':
				if s.at.Depth == 0 {
					s.ended = true // behind a number at the top
					return i
				}
				s.at.Depth--
				s.ended = s.at.Depth == 0
			case ',', ' ', '\t', '\r', '\n':
				if s.at.Depth == 0 {
					s.ended = true
					return i
				}
			}
			i++
		}
		if s.ended {
			return i
		}
	}
	return i
}

// fill reads until dst has n bytes more, or the view ends; then eof is set.
func (s *stream) fill(ctx context.Context, dst []byte, n int) (out []byte, eof bool, err error) {
	want := len(dst) + n
	for len(dst) < want {
		had := len(dst)
		dst, err = s.read(ctx, dst, want-had)
		if err == io.EOF {
			return dst, true, nil
		}
		if err != nil || len(dst) == had {
			return dst, false, err
		}
	}
	return dst, s.ended, nil
}

// skip moves on by at most n bytes of the view, to the beginning of a
// character.
func (s *stream) skip(ctx context.Context, n int64) error {
	if s.mode == modeAll {
		s.at.Off += n
		if s.size >= 0 && s.at.Off > s.size {
			s.at.Off = s.size
		}
		s.view = s.at.Off
		return nil
	}
	scratch := make([]byte, 0, chunkSize)
	for n > 0 {
		b, err := s.read(ctx, scratch, int(min(n, chunkSize)))
		if err == io.EOF {
			return nil
		}
		if err != nil || len(b) == 0 {
			return err
		}
		n -= int64(len(b))
	}
	return nil
}

// layer is a view that another one is made from, as an io.ReaderAt that is
// read forwards, or from the start again. It remembers where it stood.
type layer struct {
	ctx   context.Context // of the one query that it serves
	start stream
	s     stream
	buf   []byte
	at    int64 // of buf in the view
	here  place // of buf
	prev  place // of the buffer before
	prevN int64 // where that began
}

func newLayer(ctx context.Context, s stream) *layer {
	return &layer{ctx: ctx, start: s, s: s, at: s.view, here: s.at, prev: s.at, prevN: s.view}
}

func (l *layer) ReadAt(p []byte, off int64) (int, error) {
	if off < l.prevN {
		*l = *newLayer(l.ctx, l.start)
	} else if off < l.at {
		s := l.start
		s.at, s.view, s.ended = l.prev, l.prevN, false
		start := l.start
		*l = *newLayer(l.ctx, s)
		l.start = start
	}
	n := 0
	for n < len(p) {
		if d := off + int64(n) - l.at; d < int64(len(l.buf)) {
			n += copy(p[n:], l.buf[d:])
			continue
		}
		l.prev, l.prevN = l.here, l.at
		l.at += int64(len(l.buf))
		l.here = l.s.at
		var err error
		if l.buf, err = l.s.read(l.ctx, l.buf[:0], chunkSize); err != nil {
			return n, err
		}
	}
	return n, nil
}

// before returns a place from which off can be reached soon.
func (l *layer) before(off int64) (place, int64) {
	switch {
	case off >= l.at:
		return l.here, l.at
	case off >= l.prevN:
		return l.prev, l.prevN
	}
	return l.start.at, l.start.view
}
