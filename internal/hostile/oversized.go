package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

func oversizedFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "oversized", "its tool \"large\" answers with one huge frame, and nothing is read while it is written",
			[]Key{
				{Name: "bytes", Kind: Size, Default: "8MiB", Meaning: "size of the frame with its line feed; arguments of the call go first"},
				{Name: "shape", Kind: Choice, Default: "unbroken", Choices: shapes, Meaning: "what the frame is full of"},
				{Name: "id", Kind: Choice, Default: "first", Choices: idPlaces, Meaning: "where the id stands: before or behind the result; escaped: behind it, its name written with an escape"},
				{Name: "endless", Kind: Flag, Default: "false", Meaning: "the frame never ends"},
				{Name: "piece", Kind: Size, Default: "16KiB", Meaning: "most bytes of one write"},
				{Name: "reader", Kind: Choice, Default: "busy", Choices: []string{"busy", "own"}, Meaning: "own: stdin is read while the frame is written, and a cancellation ends the frame early"},
			}, oversized),
	}
}

func oversized(s *stage) int {
	var srv *server
	large := func(ctx context.Context, m message, c call) {
		a := struct {
			Bytes int64  `json:"bytes"`
			Shape string `json:"shape"`
		}{s.number("bytes"), s.text("shape")}
		if len(c.Arguments) > 0 && (json.Unmarshal(c.Arguments, &a) != nil || a.Bytes < 0 || !slices.Contains(shapes, a.Shape)) {
			srv.failed(m, "bytes or shape are not as they should be")
			return
		}
		if s.flag("endless") {
			a.Bytes = -1
		}
		var cut atomic.Bool
		p := payload{id: m.ID, size: a.Bytes, shape: a.Shape, idAt: s.text("id"), modern: m.modern(),
			stopped: func() bool {
				if ctx.Err() != nil {
					cut.Store(true)
				}
				return cut.Load()
			}}
		srv.wmu.Lock()
		n, err := p.frame(srv.out)
		srv.wmu.Unlock()
		switch {
		case err != nil:
			s.record(Event{What: "note", Text: "write: " + err.Error()})
		case cut.Load():
			s.record(Event{What: "cancelled", ID: m.ID, N: n})
		default:
			s.record(Event{What: "wrote", ID: m.ID, N: n})
		}
	}
	srv = newServer(s, tool{name: "large", description: "Answers with far more than any sensible tool should.",
		schema: `"bytes":{"type":"integer","minimum":0},"shape":{"type":"string"}`,
		slow:   s.text("reader") == "own",
		run:    func(ctx context.Context, _ *server, m message, c call) { large(ctx, m, c) },
	})
	srv.out.piece = int(s.number("piece"))
	srv.out.notice = func(n int64) {
		fmt.Fprintf(s.err, "stdout backpressure observed after %d bytes\n", n)
	}
	return srv.serve()
}

// shapes are the contents that a sized frame can have.
var shapes = []string{"unbroken", "lines", "quotes", "multibyte", "blocks", "base64", "nested", "deep"}

// idPlaces are where the id of a sized frame can stand.
var idPlaces = []string{"first", "last", "escaped"}

// A payload is one tool result as a frame of an exact size, written piece by
// piece in constant memory.
type payload struct {
	id      []byte
	size    int64  // of the whole frame with its line feed; endless if negative
	shape   string // one of shapes
	idAt    string // one of idPlaces; empty is "first"
	modern  bool
	stopped func() bool // asked between pieces: ends the frame early and well formed; may be nil
}

// filling says how a shape is written: head and tail enclose units.
type filling struct{ head, unit, pad, tail string }

func (p *payload) filling() filling {
	text := filling{head: `"content":[{"type":"text","text":"`, unit: "x", pad: "x", tail: `"}]`}
	switch p.shape {
	case "lines":
		text.unit = `src/auth.ts:18: reads the token from the environment\n`
	case "quotes":
		text.unit = `\"}],{[\"\\`
	case "multibyte":
		text.unit = "é读🎉"
	case "base64":
		text.unit = "iVBORw0KGgoAAAANSUhEUgAAAAUA"
		text.pad = "A"
	case "blocks":
		text.unit = `row"},{"type":"text","text":"`
	case "nested":
		// Members that look like those of the frame itself.
		text = filling{head: `"content":[],"structuredContent":{"items":[`, unit: `{"id":999,"method":"x","error":{"id":998}},`, pad: " ", tail: `0]}`}
	case "deep":
		// The nesting is as deep as half of the size; unit and pad are not used.
		text = filling{head: `"content":[],"structuredContent":{"deep":`, tail: `}`}
	}
	return text
}

// frame writes the payload to w and returns the bytes that it wrote. A frame
// cannot be smaller than its parts around the content.
func (p *payload) frame(w io.Writer) (int64, error) {
	f := p.filling()
	front, back := `{"jsonrpc":"2.0","id":`+string(p.id)+`,"result":{`, "}}\n"
	switch p.idAt {
	case "last":
		front, back = `{"jsonrpc":"2.0","result":{`, `},"id":`+string(p.id)+"}\n"
	case "escaped":
		front, back = `{"jsonrpc":"2.0","result":{`, `},"\u0069d":`+string(p.id)+"}\n"
	}
	if p.modern {
		front += `"resultType":"complete",`
	}
	out := &counter{w: w}
	room := max(0, p.size-int64(len(front)+len(f.head)+len(f.tail)+len(back)))
	out.text(front + f.head)
	switch {
	case p.shape == "deep":
		out.repeat("[", room/2, nil)
		out.text(strings.Repeat(" ", int(room%2)))
		out.repeat("]", room/2, nil)
	case p.size < 0:
		for out.err == nil {
			out.repeat(f.unit, 1<<20, p.stopped)
			if p.stopped != nil && p.stopped() {
				break
			}
		}
	default:
		n := int64(len(f.unit))
		if out.repeat(f.unit, room/n, p.stopped) {
			out.text(strings.Repeat(f.pad, int(room%n)))
		}
	}
	out.text(f.tail + back)
	return out.n, out.err
}

// A counter is a writer that remembers what went wrong.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counter) text(s string) { c.bytes([]byte(s)) }

func (c *counter) bytes(b []byte) {
	if c.err != nil || len(b) == 0 {
		return
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
}

// repeat writes unit n times and reports whether it was not stopped before.
func (c *counter) repeat(unit string, n int64, stopped func() bool) bool {
	const batch = 64 << 10
	per := max(1, int64(batch/len(unit)))
	block := bytes.Repeat([]byte(unit), int(min(n, per)))
	for n > 0 && c.err == nil {
		if stopped != nil && stopped() {
			return false
		}
		k := min(n, per)
		c.bytes(block[:k*int64(len(unit))])
		n -= k
	}
	return true
}
