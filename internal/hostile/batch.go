package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

func batchFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "batch", "takes arrays of messages, as revision 2025-03-26 has them, and answers with one; its tool \"hold\" stops reading, \"together\" answers in an array with more",
			[]Key{{Name: "until", Meaning: "file whose being there ends a hold"}}, batches),
	}
}

func batches(s *stage) int {
	var together [][]byte // answers of the batch in hand; nil outside of one
	inBatch := false
	srv := newServer(s,
		tool{name: "hold", description: "Reads nothing until a file is there, then does not answer.",
			run: func(_ context.Context, _ *server, m message, _ call) {
				s.record(Event{What: "note", Text: "holds", ID: m.ID})
				for {
					if _, err := os.Stat(s.text("until")); err == nil || s.ctx.Err() != nil {
						return
					}
					s.sleep(2 * time.Millisecond)
				}
			}},
		tool{name: "together", description: "Answers in an array: a notification, a request, stray progress, an answer to id 999, and the answer.",
			run: func(_ context.Context, srv *server, m message, _ call) {
				srv.write([]byte(`[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"batched"}},` +
					`{"jsonrpc":"2.0","id":"q","method":"roots/list"},` +
					`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody","progress":1}},` +
					`{"jsonrpc":"2.0","id":999,"result":{}},` +
					`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[{"type":"text","text":"together"}]}}]` + "\n"))
			}})
	srv.answer = func(_ message, frame []byte) []byte {
		if !inBatch {
			return frame
		}
		together = append(together, bytes.TrimSuffix(frame, []byte("\n")))
		return nil
	}
	for {
		line, err := srv.lines.ReadBytes('\n')
		switch {
		case err != nil && len(line) == 0:
			s.record(Event{What: "eof"})
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		case bytes.HasPrefix(line, []byte("[")):
			s.record(Event{What: "note", Text: "batch " + string(bytes.TrimSpace(line)), N: int64(len(line))})
			var elements []json.RawMessage
			_ = json.Unmarshal(line, &elements)
			inBatch = true
			for _, e := range elements {
				if m, ok := srv.message(e); ok {
					srv.take(m)
				}
			}
			inBatch = false
			if together != nil {
				srv.write(append(append([]byte("["), bytes.Join(together, []byte(","))...), "]\n"...))
			}
			together = nil
		default:
			if m, ok := srv.message(line); ok {
				if m.Method == "" && m.ID != nil {
					s.record(Event{What: "note", Text: "answered", ID: m.ID})
				}
				srv.take(m)
			}
		}
	}
}
