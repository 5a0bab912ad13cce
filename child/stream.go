package child

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// StreamEnd is how an output stream of a child ended.
type StreamEnd string

// The ends of a stream.
const (
	// EOF before anything was asked of the child.
	EndEOF StreamEnd = "eof"
	// EOF after Stop, or after SIGTERM to what the child had left, and before
	// SIGKILL.
	EndAfterCancel StreamEnd = "reader_completed_after_cancel"
	// EOF after SIGKILL to the group.
	EndAfterKill StreamEnd = "eof_after_kill"
	// The group was gone and a descendant outside it held the pipe: EOF came
	// when that was killed, or it lives and we closed our end.
	EndHeldKilled StreamEnd = "held_by_descendant_killed"
	EndHeldLeft   StreamEnd = "held_by_descendant_left"
	// The pipe could not be read to its end.
	EndReadError StreamEnd = "read_error"
)

// A Stream is what was observed of an output stream.
type Stream struct {
	Bytes   int64 // read in all
	End     StreamEnd
	Capture Snapshot // zero without a Capture
}

// chunk is the size of the buffers of our own readers. Larger ones read no
// faster from a pipe of the usual 64 KiB.
const chunk = 32 << 10

// A phase is how far the owner has gone; the end of a stream is named by it.
type phase int32

const (
	phaseRunning phase = iota
	phaseCancelled
	phaseKilled
	phaseHeldKilled // group gone, descendants killed
	phaseHeldLeft   // group gone, we closed our end
)

func (p phase) end() StreamEnd {
	return [...]StreamEnd{EndEOF, EndAfterCancel, EndAfterKill, EndHeldKilled, EndHeldLeft}[p]
}

// stream reads one output pipe to its end. Its goroutine is the only reader of
// the file; the file is closed by the supervisor.
type stream struct {
	f       *os.File
	handle  func(io.Reader) // nil: capture and notify
	capture *Capture
	notify  func([]byte)

	bytes atomic.Int64
	phase atomic.Int32
	dead  atomic.Bool // the process has exited: look whether the pipe is empty

	isEmpty atomic.Bool   // owned by the reader: empty was closed
	empty   chan struct{} // closed when the pipe was found empty after the exit
	ended   chan struct{} // closed when the goroutine has ended
	end     StreamEnd     // final once ended is closed

	onEOF, onDrained func() // nil for stderr
	sawEnd           bool   // owned by the goroutine: end is set
}

func newStream(f *os.File, handle func(io.Reader), capture *Capture, notify func([]byte)) *stream {
	return &stream{
		f: f, handle: handle, capture: capture, notify: notify,
		empty: make(chan struct{}), ended: make(chan struct{}),
	}
}

// run reads to the end. onEOF is called at EOF, onDrained when what was in the
// pipe has been handled; both may be nil.
func (s *stream) run(onEOF, onDrained func()) {
	defer close(s.ended)
	s.onEOF, s.onDrained = onEOF, onDrained
	if s.handle != nil {
		s.handle(s)
	}
	if !s.sawEnd {
		s.drain()
	}
	if onDrained != nil {
		onDrained()
	}
}

// drain reads and captures what comes.
func (s *stream) drain() {
	buf := make([]byte, chunk)
	for {
		n, err := s.Read(buf)
		if n > 0 && s.handle == nil {
			if s.capture != nil {
				s.capture.Write(buf[:n])
			}
			if s.notify != nil {
				s.notify(buf[:n])
			}
		}
		if err != nil {
			return
		}
	}
}

// Read is what a Config.Stdout function reads from.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.sawEnd {
			return 0, io.EOF
		}
		// A Read after the exit means that all that was read before has been
		// handled; if there is nothing more now, the process left nothing.
		if s.dead.Load() && !s.isEmpty.Load() {
			n, err := readNow(s.f, p)
			if n > 0 {
				s.bytes.Add(int64(n))
				return n, nil
			}
			if err == errWouldBlock {
				s.foundEmpty()
			}
		}
		n, err := s.f.Read(p)
		if n > 0 {
			s.bytes.Add(int64(n))
			return n, nil
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Only exited sets a deadline, to make us look again.
			s.f.SetReadDeadline(time.Time{})
		case err == io.EOF, errors.Is(err, os.ErrClosed):
			s.finish(phase(s.phase.Load()).end())
			return 0, io.EOF
		default:
			s.finish(EndReadError)
			return 0, err
		}
	}
}

// foundEmpty notes that after the exit there was nothing in the pipe.
func (s *stream) foundEmpty() {
	s.isEmpty.Store(true)
	close(s.empty)
	if s.onDrained != nil {
		s.onDrained()
	}
}

func (s *stream) finish(e StreamEnd) {
	s.sawEnd, s.end = true, e
	if s.onEOF != nil {
		s.onEOF()
	}
}

// exited tells the reader that the process has exited, and wakes it if it is
// waiting for a pipe that somebody else holds open.
func (s *stream) exited() {
	s.dead.Store(true)
	s.f.SetReadDeadline(time.Unix(1, 0))
}

// report is called when ended is closed.
func (s *stream) report() Stream {
	r := Stream{Bytes: s.bytes.Load(), End: s.end}
	if s.capture != nil {
		r.Capture = s.capture.Snapshot()
	}
	return r
}
