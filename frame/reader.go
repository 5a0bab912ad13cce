package frame

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"weak"
)

// Errors that end a stream. They concern the connection, not a message.
var (
	// ErrRunaway: one line went on beyond Options.Discard.
	ErrRunaway = errors.New("frame: line without end")
	// ErrNoise: more than Options.Noise bytes held no message.
	ErrNoise = errors.New("frame: no message in the noise")
)

// Options are the limits of a [Reader]. The zero value of each is its default.
type Options struct {
	// Limit is the most bytes that one frame may have without its line ending,
	// as it arrives and after what the Reader rewrites. Default 8 MiB.
	Limit int
	// Discard is the most bytes of one line that are read and thrown away
	// before the Reader gives up with [ErrRunaway]. Default 4 GiB.
	Discard int64
	// Noise is the most bytes that may pass without one message before the
	// Reader gives up with [ErrNoise]. An oversize line is noise only from where
	// it stops being JSON. Default 64 MiB.
	Noise int64
	// EscapeSeparators makes the Reader write raw U+2028 and U+2029 as
	// escapes, since some readers of lines end a line at them.
	EscapeSeparators bool
	// Oversized, if not nil, is called by Next with the bytes of a line over the
	// limit as they arrived, from its first, in pieces and before the events
	// that tell of it. It must not keep the slice. Next waits for it: a sink
	// that cannot take a piece must drop it.
	Oversized func(piece []byte)
}

// Type is what a [Frame] tells.
type Type uint8

const (
	// Message: a whole JSON-RPC message, or a batch.
	Message Type = iota + 1
	// Violation: a line that is no message.
	Violation
	// Oversize: the line now being read is over the limit. It comes once, as
	// soon as it is known which message this is, else when that can no longer
	// be learnt.
	Oversize
	// OversizeEnd: the end of such a line, always after its Oversize.
	OversizeEnd
)

// Frame is one event of a [Reader]. Its slices are valid until the next call of
// Next.
//
// A Message is an object with "jsonrpc" exactly "2.0" and either a method, which
// is a string, with an id that is absent, a string or a number; or an id, which
// is a string or a number, with exactly one of result and error. An error is an
// object whose code, if any, is a 64-bit integer and whose message, if any, is a
// string. Decoders of hosts end the connection over anything else. An array is
// a Message too; only its JSON has been checked. A duplicate name is the
// caller's to refuse, who needs the id for it.
type Frame struct {
	Type Type

	// Data is the frame of a Message without its line ending, its invalid
	// UTF-8 replaced. Of a Violation it is the beginning, 512 bytes at most, as
	// it came.
	Data []byte
	// Head is what stands at the top level of a Message; its spans are relative
	// to Data.
	Head Head

	// ID is the raw id of an oversize message as soon as it is known. Of a
	// Violation it is that of the first part of the line which looks like a
	// message, one with a result or error before all others. Nil if unknown.
	ID []byte
	// More are the ids of further parts of a Violation that have a result or an
	// error: two answers on one line, or one behind another that was cut short.
	More [][]byte
	// Method is that of an oversize message, "" if it is unknown.
	Method string
	// Reply is whether what ID belongs to has a result or an error.
	Reply bool
	// Size is the number of bytes of the line seen so far, without its ending.
	Size int64
	// Reason says in a few words what is wrong with a Violation, or with an
	// oversize line that is also not JSON.
	Reason string
}

const (
	chunk   = 64 << 10 // most bytes of one Read, and what an idle Reader holds
	minRead = 4 << 10  // less room than this is not worth a Read
	excerpt = 512
)

// block is a buffer for a line that does not fit in a chunk.
type block struct{ b []byte }

// Reader cuts a stream into frames. It reads only inside Next, calls Read once
// for as long as it needs more bytes, and returns a frame as soon as its last
// byte has arrived. It holds Options.Limit and one chunk of 64 KiB at most, and
// one chunk when it waits for a line to begin.
//
// One goroutine at a time may call Next; Stats is free of that. A Reader closes
// nothing; close what it reads from to end a Next that waits.
type Reader struct {
	r io.Reader
	o Options

	// The line starts at buf[start], has been scanned up to buf[seen], and
	// bytes have been read up to buf[end].
	buf              []byte
	start, seen, end int
	small            []byte // buf, unless a large line needs more
	big              *block // backs buf then
	// spare is the last large buffer: taken again if the collector has not
	// been by, so that a run of large frames does not make each its garbage,
	// and an idle Reader keeps none.
	spare weak.Pointer[block]

	scan  Scanner
	bom   int64 // bytes of the mark before start
	begun bool  // the mark has been looked for
	last  Frame // what the glued message told, of an oversize line

	over  bool  // the line is over the limit and being thrown away
	told  bool  // its Oversize was returned
	due   bool  // its OversizeEnd is next
	size  int64 // bytes of it
	noise int64

	readErr error // from r; what is buffered comes first
	failure error // ends the stream at once

	stats counters
}

// NewReader returns a Reader of r. It allocates a chunk of 64 KiB.
func NewReader(r io.Reader, o Options) *Reader {
	o.Limit = cmp.Or(max(o.Limit, 0), 8<<20)
	o.Discard = cmp.Or(max(o.Discard, 0), 4<<30)
	o.Noise = cmp.Or(max(o.Noise, 0), 64<<20)
	small := make([]byte, min(chunk, o.Limit+minRead))
	return &Reader{r: r, o: o, buf: small, small: small}
}

// Next returns the next event. Its errors are [io.EOF] after the last line,
// [ErrRunaway], [ErrNoise], or that of the underlying reader; each comes after
// everything that arrived before it and stays. A last line without LF is a line.
func (r *Reader) Next() (Frame, error) {
	for {
		if r.due {
			return r.oversizeEnd(), nil
		}
		if r.failure != nil {
			return Frame{}, r.failure
		}
		stop, lf := r.end, false
		if n := bytes.IndexByte(r.buf[r.seen:r.end], '\n'); n >= 0 {
			stop, lf = r.seen+n, true
		}
		ended := lf || r.readErr != nil
		if ended && !lf && stop == r.start && !r.over && r.bom == 0 {
			r.failure = r.readErr
			continue
		}
		if f, ok := r.advance(stop, ended, lf); ok {
			return f, nil
		}
		if !ended {
			r.fill()
		}
	}
}

// advance scans the line up to buf[stop]. If the line ends there it also passes
// over its ending, lf telling whether there is one.
func (r *Reader) advance(stop int, ended, lf bool) (Frame, bool) {
	if !r.begun && !r.mark(stop, ended) {
		return Frame{}, false
	}
	piece := r.buf[r.seen:stop]
	failed := r.scan.err != nil
	if !failed {
		_ = r.scan.Feed(piece) // kept in scan.err
	}
	r.seen = stop

	if r.over {
		r.size += int64(len(piece))
		r.stats.oversizeBytes.Add(int64(len(piece)))
		r.sink(piece)
		return r.discard(len(piece), failed, ended, lf)
	}

	line := r.buf[r.start:stop]
	n := len(line)
	cr := n > 0 && line[n-1] == '\r'
	if cr {
		n-- // perhaps of the line ending
	}
	if n > r.o.Limit {
		r.exceed(len(line))
		return r.discard(len(line), false, ended, lf)
	}
	if !ended {
		return Frame{}, false
	}
	if cr && lf {
		r.stats.cr.Add(1)
	}
	return r.finish(line[:n], lf)
}

// mark passes over a byte order mark at the start of a line. It reports false
// if more bytes must come first.
func (r *Reader) mark(stop int, ended bool) bool {
	const bom = "\xEF\xBB\xBF"
	b := r.buf[r.start:stop]
	if len(b) < len(bom) && !ended && string(b) == bom[:len(b)] {
		return false
	}
	r.begun = true
	if bytes.HasPrefix(b, []byte(bom)) {
		r.stats.bom.Add(1)
		r.bom = int64(len(bom))
		r.start += len(bom)
		r.seen = r.start
	}
	return true
}

// finish ends a line within the limit. line is without its ending.
func (r *Reader) finish(line []byte, lf bool) (Frame, bool) {
	if r.scan.err == nil && r.scan.kind == Absent {
		r.stats.blank.Add(1)
		r.makeNoise(int64(len(line)) + 1)
		r.endLine(lf)
		return Frame{}, false
	}
	err := r.scan.Finish()
	h := r.scan.Head()
	reason := "not JSON"
	if err == nil {
		reason = judge(line, &h)
	}
	size := r.bom + int64(len(line))
	if reason != "" {
		f := Frame{Type: Violation, Data: line[:min(len(line), excerpt)], Size: size, Reason: reason}
		if err != nil {
			f.Reason += ": " + r.scan.err.Reason
		}
		f.ID, f.Reply, f.More = r.salvage(line)
		r.stats.violations.Add(1)
		r.stats.violationBytes.Add(size)
		r.makeNoise(size + 1)
		r.endLine(lf)
		return f, true
	}

	longer, seps := r.scan.growth, r.scan.seps
	if r.o.EscapeSeparators {
		longer += 3 * seps
	}
	if len(line)+longer > r.o.Limit {
		r.exceed(len(line))
		return r.discard(0, true, true, lf)
	}
	if h.Replaced > 0 || longer > 0 {
		line = r.rewrite(line, longer)
		replaced := h.Replaced
		h, _ = Parse(line)
		h.Replaced = replaced
	}
	r.noise = 0
	r.stats.replaced.Add(int64(h.Replaced))
	if r.o.EscapeSeparators {
		r.stats.escaped.Add(int64(seps))
	}
	r.stats.frames.Add(1)
	if s := int64(len(line)); s > r.stats.largest.Load() {
		r.stats.largest.Store(s) // only Next stores
	}
	r.endLine(lf)
	return Frame{Type: Message, Data: line, Head: h, Size: size}, true
}

// endLine makes the next line begin.
func (r *Reader) endLine(lf bool) {
	if lf {
		r.seen++
	}
	r.start = r.seen
	r.begun, r.over, r.told, r.bom, r.size = false, false, false, 0, 0
	r.scan.Reset()
}

func (r *Reader) makeNoise(n int64) {
	if r.noise += n; r.noise > r.o.Noise && r.failure == nil {
		r.failure = ErrNoise
	}
}

// rewrite replaces in place, moving what is in the buffer up to make room, and
// returns the line that is longer bytes longer.
func (r *Reader) rewrite(line []byte, longer int) []byte {
	if r.end+longer > len(r.buf) {
		r.room(r.end - r.start + longer)
	}
	b := r.buf[r.start:]
	copy(b[longer:], b[:r.end-r.start])
	n := rewrite(b, b[longer:longer+len(line)], r.o.EscapeSeparators)
	r.seen += longer
	r.end += longer
	return b[:n]
}

// exceed makes the line one that is thrown away.
func (r *Reader) exceed(n int) {
	r.over = true
	r.size = r.bom + int64(n)
	r.last = Frame{}
	r.stats.oversize.Add(1)
	r.stats.oversizeBytes.Add(r.size)
	r.sink(r.buf[r.start : r.start+n])
	if r.scan.err != nil {
		id, reply, _ := r.salvage(r.buf[r.start:r.seen])
		r.last = Frame{ID: bytes.Clone(id), Reply: reply}
	}
}

func (r *Reader) sink(piece []byte) {
	if r.o.Oversized != nil {
		r.o.Oversized(piece)
	}
}

// discard goes on with a line over the limit of which n more bytes have come;
// failed tells whether it was broken before them.
func (r *Reader) discard(n int, failed, ended, lf bool) (Frame, bool) {
	switch {
	case failed:
		r.makeNoise(int64(n))
	case r.scan.err != nil:
		r.makeNoise(r.size - r.bom - r.scan.err.Offset)
	}
	if r.size > r.o.Discard && r.failure == nil {
		r.failure = ErrRunaway
	}
	if r.failure != nil {
		ended = true
	}
	if ended {
		switch err := r.scan.Finish(); {
		case err == nil:
			r.noise = 0
		case r.scan.kind == Absent && r.scan.err.Reason == unexpectedEnd: // white space
			r.makeNoise(r.size)
		}
		if lf {
			r.seen++
		}
		r.due = true
	}
	r.start = r.seen
	if !r.told && (ended || r.scan.err != nil || r.identified()) {
		r.told = true
		return r.oversize(Oversize), true
	}
	return Frame{}, false
}

// identified reports whether the scan knows which message this is: the id alone
// does not tell a request from an answer.
func (r *Reader) identified() bool {
	return r.scan.ID() != nil && (len(r.scan.method) > 0 || r.scan.isReply())
}

func (r *Reader) oversize(t Type) Frame {
	f := Frame{Type: t, ID: r.scan.ID(), Method: r.scan.Method(), Reply: r.scan.isReply(), Size: r.size}
	if r.scan.err != nil {
		f.Reason = "not JSON: " + r.scan.err.Reason
		if r.last.ID != nil {
			f.ID, f.Reply = r.last.ID, r.last.Reply
		}
	}
	return f
}

func (r *Reader) oversizeEnd() Frame {
	f := r.oversize(OversizeEnd)
	r.due = false
	r.endLine(false)
	return f
}

// fill reads once, having made room.
func (r *Reader) fill() {
	held := r.end - r.start
	switch {
	case r.big != nil && held <= len(r.small)-minRead:
		copy(r.small, r.buf[r.start:r.end])
		r.start, r.seen, r.end = 0, r.seen-r.start, held
		r.spare = weak.Make(r.big)
		r.buf, r.big = r.small, nil
	case held == 0:
		r.start, r.seen, r.end = 0, 0, 0
	case len(r.buf)-r.end < minRead:
		r.room(held + minRead)
	}
	room := r.buf[r.end:]
	for range 100 {
		n, err := r.r.Read(room[:min(len(room), chunk)])
		r.end += n
		r.stats.bytes.Add(int64(n))
		if n > 0 || err != nil {
			r.readErr = err
			return
		}
	}
	r.readErr = io.ErrNoProgress
}

// room moves what is held to the start of a buffer of at least n bytes.
func (r *Reader) room(n int) {
	old := r.buf[r.start:r.end]
	if n > len(r.buf) {
		b := r.spare.Value()
		if b == nil || len(b.b) < n {
			b = &block{make([]byte, max(n, r.larger()))}
		}
		r.buf, r.big = b.b, b
	}
	copy(r.buf, old)
	r.start, r.seen, r.end = 0, r.seen-r.start, len(old)
}

// larger returns the size of the next larger buffer: four times as large, and
// soon as large as any line can need. The last step from half of that would
// hold half as much again while it copies, and leave more to the collector.
func (r *Reader) larger() int {
	if n := 4 * len(r.buf); n <= r.o.Limit/4 {
		return n
	}
	return r.o.Limit + chunk
}
