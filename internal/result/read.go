package result

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// DefaultPage is how long a page is if the query does not say.
const DefaultPage = 64 << 10

// Query is what to read of a stored response. At most one of Cursor, Bytes,
// Lines and Grep may be set; Pointer goes with all but Cursor.
type Query struct {
	// Part is the index of a content block, "structured", "error" or "raw". ""
	// is the first text that is longer than Max, else the first there is.
	Part string
	// Cursor is the Next of an earlier page. It holds the query of that page, of
	// this one only Max counts.
	Cursor string
	Bytes  *[2]int64 // from, to (not included), in bytes of the view
	Lines  *[2]int64 // first, last (included); the first line is 1
	// Pointer is a JSON pointer (RFC 6901) into structured content, or into a
	// text that is JSON. The view is then that of the value: the text of a
	// string, the JSON of anything else.
	Pointer *string
	Grep    string // regular expression (RE2), matched line by line
	Context int    // lines to show around a match, 20 at most
	Max     int    // most bytes of Page.Text; 0 is DefaultPage
}

// Page is the answer to a Query.
type Page struct {
	// Text is a piece of the view, or what grep found in it, one match a line:
	// line:offset:text, with - instead of : for lines of context.
	Text string
	// Bytes is the range of the view that Text is, or that was searched.
	Bytes [2]int64
	// TotalBytes is the length of the view, -1 where its end was not reached.
	TotalBytes int64
	// Next is the cursor that goes on, "" if End is set: there is no more.
	Next string
	End  bool
}

// QueryError says what is wrong with a query, and how to mend it.
type QueryError struct{ Reason string }

func (e *QueryError) Error() string { return e.Reason }

func badQuery(format string, args ...any) error {
	return &QueryError{fmt.Sprintf(format, args...)}
}

// errStored is what a broken store looks like to a query.
func storedError(err error) error {
	if errors.Is(err, errJSON) || errors.Is(err, errDepth) || errors.Is(err, errCut) {
		return badQuery(`the stored result is damaged or incomplete at this place; "part":"raw" shows what there is`)
	}
	return err
}

// Read answers q over the size bytes of the response in src. What is held in
// memory depends on q.Max only. Pages that follow one another by Next are, put
// together, the view of the first one; each ends after a line if it can.
//
// A search that reaches the deadline of ctx returns what it has found, and a
// cursor, if it got anywhere.
//
// key makes cursors: it must be secret, and another one for each result. The
// error is a [*QueryError] if the query is at fault, that of ctx, or that of src.
func Read(ctx context.Context, src io.ReaderAt, size int64, key []byte, q Query) (Page, error) {
	p, err := read(ctx, src, size, key, q)
	if err != nil {
		return Page{}, storedError(err)
	}
	return p, nil
}

func read(ctx context.Context, src io.ReaderAt, size int64, key []byte, q Query) (Page, error) {
	if err := q.check(); err != nil {
		return Page{}, err
	}
	if q.Max == 0 {
		q.Max = DefaultPage
	}
	var s stream
	c := cursor{End: math.MaxInt64}
	if q.Cursor != "" {
		var err error
		if c, err = openCursor(q.Cursor, key); err != nil {
			return Page{}, err
		}
		s = c.stream(ctx, src, size)
	} else {
		var err error
		if s, c.Part, err = find(ctx, src, size, q.Part, int64(q.Max)); err != nil {
			return Page{}, err
		}
		if q.Pointer != nil {
			if s, err = findPointer(ctx, s, c.Part, *q.Pointer); err != nil {
				return Page{}, err
			}
		}
		c.Grep, c.Context = q.Grep, q.Context
		switch {
		case q.Bytes != nil:
			if err := s.skip(ctx, q.Bytes[0]); err != nil {
				return Page{}, err
			}
			c.End = q.Bytes[1]
		case q.Lines != nil:
			if err := s.skipLines(ctx, q.Lines[0]-1); err != nil {
				return Page{}, err
			}
			if n := q.Lines[1] - q.Lines[0]; n < math.MaxInt64 {
				c.Lines = n + 1
			}
		}
	}
	if c.Grep != "" {
		return grep(ctx, s, key, c, q.Max)
	}
	return s.page(ctx, key, c, q.Max)
}

func (q *Query) check() error {
	n := 0
	for _, set := range []bool{q.Cursor != "", q.Bytes != nil, q.Lines != nil, q.Grep != ""} {
		if set {
			n++
		}
	}
	switch {
	case n > 1:
		return badQuery("use only one of cursor, bytes, lines and grep")
	case q.Cursor != "" && (q.Pointer != nil || q.Part != ""):
		return badQuery("a cursor holds its part and pointer: use it without them")
	case q.Max < 0:
		return badQuery("max must be positive")
	case q.Max > 0 && q.Max < 16:
		return badQuery("max must be 16 at least")
	case q.Context < 0 || q.Context > maxContext:
		return badQuery("context must be 0 to %d lines", maxContext)
	}
	if r := q.Bytes; r != nil {
		if r[0] < 0 {
			return badQuery("bytes must not begin before 0")
		}
		if r[1] < r[0] {
			return badQuery("bytes are [from, to] with to not included; %d is before %d", r[1], r[0])
		}
	}
	if r := q.Lines; r != nil {
		if r[0] < 1 {
			return badQuery("the first line is 1")
		}
		if r[1] < r[0] {
			return badQuery("lines are [first, last]; %d is before %d", r[1], r[0])
		}
	}
	return nil
}

// page reads the next page of s.
func (s *stream) page(ctx context.Context, key []byte, c cursor, most int) (Page, error) {
	from := s.view
	page := Page{Bytes: [2]int64{from, from}, TotalBytes: -1}
	if s.mode == modeAll {
		page.TotalBytes = s.size
	}
	start := *s
	room := int(min(int64(most), max(0, c.End-from)))
	b, eof, err := s.fill(ctx, make([]byte, 0, min(room, 1<<20)+4), room)
	if err != nil {
		return Page{}, err
	}
	if !eof {
		// Is there more?
		probe := *s
		_, eof, err = probe.fill(ctx, nil, 4)
		if err != nil {
			return Page{}, err
		}
		eof = eof && probe.view == s.view
	}
	if eof {
		page.TotalBytes = s.view
	}
	n := len(b)
	last := eof || s.view >= c.End || room > 0 && room < most && c.End < math.MaxInt64
	if c.Lines > 0 {
		lines := int64(0)
		for i := 0; i < n; {
			k := bytes.IndexByte(b[i:n], '\n')
			if k < 0 {
				break
			}
			i += k + 1
			if lines++; lines == c.Lines {
				n, last = i, true
			}
		}
		if !last {
			if k := bytes.LastIndexByte(b[:n], '\n'); k >= 0 {
				n = k + 1
			}
			c.Lines -= int64(bytes.Count(b[:n], []byte{'\n'}))
		}
	} else if !last {
		if k := bytes.LastIndexByte(b, '\n'); k >= 0 {
			n = k + 1
		}
	}
	if n < len(b) {
		*s = start
		if b, _, err = s.fill(ctx, b[:0], n); err != nil {
			return Page{}, err
		}
	}
	page.Text = string(b)
	page.Bytes[1] = s.view
	if page.End = last; !last {
		page.Next = c.seal(s, key)
	}
	return page, nil
}

// skipLines moves on behind n lines.
func (s *stream) skipLines(ctx context.Context, n int64) error {
	b := make([]byte, 0, chunkSize)
	for n > 0 {
		start := *s
		var err error
		if b, err = s.read(ctx, b[:0], chunkSize); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if k := int64(bytes.Count(b, []byte{'\n'})); k < n {
			n -= k
			continue
		}
		i := 0
		for ; n > 0; n-- {
			i += bytes.IndexByte(b[i:], '\n') + 1
		}
		*s = start
		_, _, err = s.fill(ctx, b[:0], i)
		return err
	}
	return nil
}

// View writes the whole view of a part to w and returns how many bytes that
// was. What is held in memory is constant.
func View(ctx context.Context, w io.Writer, src io.ReaderAt, size int64, part string) (int64, error) {
	s, _, err := find(ctx, src, size, part, DefaultPage)
	if err != nil {
		return 0, storedError(err)
	}
	b := make([]byte, 0, chunkSize)
	for {
		if b, err = s.read(ctx, b[:0], chunkSize); err == io.EOF {
			return s.view, nil
		} else if err != nil {
			return s.view, storedError(err)
		}
		if _, err := w.Write(b); err != nil {
			return s.view, err
		}
	}
}
