package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of frames. 0x04 and 0x06 are reserved.
const (
	frameHeader  = 0x01
	frameRecord  = 0x02
	frameCommit  = 0x03
	frameStub    = 0x04
	frameEnd     = 0x05
	frameCommit2 = 0x06
)

const (
	frameHead  = 8
	maxPayload = 1 << 20

	// maxSegment is the largest segment that is read. Writers rotate long
	// before; a file beyond it is an attack on whoever reads it.
	maxSegment = 64 << 20
)

const (
	endRotate = "rotate\n"
	endClose  = "close\n"
)

// appendHead appends the head of a frame.
func appendHead(dst []byte, typ byte, length int) []byte {
	dst = append(dst, typ, 0, 0, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(length))
}

func appendFrame(dst []byte, typ byte, payload []byte) []byte {
	return append(appendHead(dst, typ, len(payload)), payload...)
}

// errShort says that the bytes end inside a frame. It alone can be a torn tail
// without being damage too.
var errShort = errors.New("ends inside a frame")

// checkHead returns the length of the payload that a frame head announces.
func checkHead(head []byte) (int, error) {
	switch head[0] {
	case frameHeader, frameRecord, frameCommit, frameEnd:
	case frameStub, frameCommit2:
		return 0, fmt.Errorf("frame type %#02x is reserved for a later version", head[0])
	default:
		return 0, fmt.Errorf("unknown frame type %#02x", head[0])
	}
	if head[1] != 0 || head[2] != 0 || head[3] != 0 {
		return 0, errors.New("reserved bits are set in a frame head")
	}
	n := binary.BigEndian.Uint32(head[4:frameHead])
	if n > maxPayload {
		return 0, fmt.Errorf("frame of %d bytes is over the limit of %d", n, maxPayload)
	}
	if head[0] == frameCommit && n != commitLen {
		return 0, fmt.Errorf("COMMIT of %d bytes, want %d", n, commitLen)
	}
	return int(n), nil
}

// scanner splits a segment into frames with a buffer that grows to the largest
// frame only.
type scanner struct {
	r          io.Reader
	buf        []byte
	start, end int   // buf[start:end] is read and not yet returned
	off        int64 // offset in the segment of buf[start]
	eof        bool
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, 128<<10)}
}

// fill makes n bytes available and reports whether there are so many.
func (s *scanner) fill(n int) (bool, error) {
	for s.end-s.start < n {
		if s.eof {
			return false, nil
		}
		if len(s.buf)-s.start < n || s.start > len(s.buf)/2 {
			buf := s.buf
			if len(buf) < n {
				buf = make([]byte, n+128<<10)
			}
			s.end = copy(buf, s.buf[s.start:s.end])
			s.buf, s.start = buf, 0
		}
		k, err := s.r.Read(s.buf[s.end:])
		s.end += k
		if err == io.EOF {
			s.eof = true
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// next returns the next frame, valid until the next call. The error is io.EOF
// at the end, errShort, a readError, or what is wrong with the frame; off stays
// at the frame that failed.
func (s *scanner) next() (frame []byte, err error) {
	ok, err := s.fill(frameHead)
	if err != nil {
		return nil, readError{err}
	}
	if !ok {
		if s.start == s.end {
			return nil, io.EOF
		}
		return nil, errShort
	}
	n, err := checkHead(s.buf[s.start:])
	if err != nil {
		return nil, err
	}
	n += frameHead
	if ok, err = s.fill(n); err != nil {
		return nil, readError{err}
	} else if !ok {
		return nil, errShort
	}
	frame = s.buf[s.start : s.start+n]
	s.start += n
	s.off += int64(n)
	return frame, nil
}

// rest looks through the bytes from off on for a frame that found accepts, a
// byte at a time, and returns how many bytes there are.
func (s *scanner) rest(found func(frame []byte) bool) (n int64, hit bool, err error) {
	const size = frameHead + commitLen
	for {
		ok, err := s.fill(size)
		if err != nil {
			return n, false, readError{err}
		}
		if !ok {
			return n + int64(s.end-s.start), false, nil
		}
		if s.buf[s.start] == frameCommit {
			if l, err := checkHead(s.buf[s.start:]); err == nil && l == commitLen && found(s.buf[s.start:s.start+size]) {
				return n, true, nil
			}
		}
		s.start++
		s.off++
		n++
	}
}

// readError is a failure of the medium, as opposed to what is on it.
type readError struct{ err error }

func (e readError) Error() string { return e.err.Error() }
func (e readError) Unwrap() error { return e.err }
