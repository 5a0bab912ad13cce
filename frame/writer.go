package frame

import (
	"bytes"
	"errors"
	"io"
)

// ErrNewline refuses one frame, which is not written.
var ErrNewline = errors.New("frame: raw newline in a frame")

// Writer writes frames, each with one bare LF in one call of Write. It is for
// one goroutine at a time, waits as long as its Write does, and closes nothing.
type Writer struct {
	w   io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// WriteFrame writes b and an LF. It copies b to put the LF behind it; who holds
// large frames holds them with their LF and calls [Writer.WriteLine].
//
// It returns [ErrNewline] if b holds an LF. An error of the underlying writer
// stays, since part of a frame may have been written: what followed it would be
// read as the rest of that frame.
func (w *Writer) WriteFrame(b []byte) error {
	if w.err != nil {
		return w.err
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		return ErrNewline
	}
	w.buf = append(append(w.buf[:0], b...), '\n')
	err := w.write(w.buf)
	if cap(w.buf) > chunk {
		w.buf = nil
	}
	return err
}

// WriteLine is WriteFrame for a frame that already ends in its LF; it does not
// copy. It returns [ErrNewline] if the only LF of line is not its last byte.
func (w *Writer) WriteLine(line []byte) error {
	if w.err != nil {
		return w.err
	}
	if i := bytes.IndexByte(line, '\n'); i < 0 || i != len(line)-1 {
		return ErrNewline
	}
	return w.write(line)
}

func (w *Writer) write(line []byte) error {
	n, err := w.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	w.err = err
	return err
}
