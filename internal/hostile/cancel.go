package hostile

import (
	"context"
	"encoding/json"
)

func cancelFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "cancel-obeying", "its tool \"slow\" works until it is cancelled, then stops and does not answer",
			[]Key{{Name: "progress", Kind: Flag, Default: "false", Meaning: "the work sends progress when it begins, if it was given a token"}},
			func(s *stage) int {
				return newServer(s, tool{name: "slow", description: "Works until it is cancelled.", slow: true,
					run: func(ctx context.Context, srv *server, m message, c call) {
						s.record(Event{What: "note", Text: "work began", ID: m.ID})
						if s.flag("progress") && c.Meta.Token != nil {
							srv.notify("notifications/progress", `{"progressToken":`+string(c.Meta.Token)+`,"progress":1}`)
						}
						<-ctx.Done()
						s.record(Event{What: "cancelled", ID: m.ID})
					}}).serve()
			}),
		fixture(Server, "cancel-ignoring", "its tool \"slow\" is not stopped by a cancellation and answers after it, as replies= says",
			[]Key{
				{Name: "replies", Kind: List, Default: "late", Choices: []string{"late", "error", "duplicate", "unknown", "progress"}, Meaning: "written in this order when the cancellation comes: the result; an error; the last one again; an answer to id 999; progress for the call. Empty: nothing, ever"},
			}, cancelIgnoring),
	}
}

func cancelIgnoring(s *stage) int {
	held := map[string]message{}
	tokens := map[string][]byte{}
	srv := newServer(s, tool{name: "slow", description: "Answers only when it is cancelled.",
		run: func(_ context.Context, _ *server, m message, c call) {
			s.record(Event{What: "note", Text: "work began", ID: m.ID})
			held[string(m.ID)] = m
			tokens[string(m.ID)] = c.Meta.Token
		}})
	srv.whenCancelled = func(id json.RawMessage) {
		m, ok := held[string(id)]
		if !ok {
			return
		}
		again := "late"
		for _, r := range s.list("replies") {
			if r == "duplicate" {
				r = again
			}
			switch r {
			case "late":
				srv.content(m, "late result")
				again = r
			case "error":
				srv.refuse(m, 0, "Request cancelled")
				again = r
			case "unknown":
				srv.content(message{ID: []byte("999"), raw: m.raw}, "an answer nobody asked for")
			case "progress":
				token := tokens[string(id)]
				if len(token) == 0 {
					token = []byte(`"nobody"`)
				}
				srv.notify("notifications/progress", `{"progressToken":`+string(token)+`,"progress":2}`)
			}
		}
		s.record(Event{What: "note", Text: "cancellation ignored", ID: id})
	}
	return srv.serve()
}
