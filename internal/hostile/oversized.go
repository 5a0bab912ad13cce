package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
)

func oversizedFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "oversized", "its tool \"large\" answers with one huge frame, and nothing is read while it is written",
			[]Key{
				{Name: "bytes", Kind: Size, Default: "8MiB", Meaning: "size of the frame with its line feed; arguments of the call go first"},
				{Name: "shape", Kind: Choice, Default: "unbroken", Choices: shapes, Meaning: "what the frame is full of"},
				{Name: "id", Kind: Choice, Default: "first", Choices: []string{"first", "last"}, Meaning: "where the id stands: before or behind the result"},
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
		p := payload{id: m.ID, size: a.Bytes, shape: a.Shape, idLast: s.text("id") == "last", modern: m.modern(),
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
