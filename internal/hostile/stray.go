package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// strays are what the tool "stray" can do with the answer.
var strays = []string{"duplicate", "unknown", "hold", "other-type", "respelled", "null", "missing", "object", "twin"}

func strayFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "stray", "its tool \"stray\" answers with the wrong id, too often, or too late; the kind is its argument",
			nil, stray),
		fixture(Server, "progress", "its tool \"work\" reports progress, well or badly; the kind is its argument", nil, func(s *stage) int {
			return newServer(s, tool{name: "work", description: "Reports progress, then answers.", slow: true,
				schema: `"steps":{"type":"integer"},"every_ms":{"type":"integer"},"kind":{"type":"string"}`, run: work}).serve()
		}),
		fixture(Server, "pages", "gives its tools in pages",
			[]Key{
				{Name: "tools", Kind: Number, Default: "14", Meaning: "tools in all"},
				{Name: "page", Kind: Number, Default: "8", Meaning: "tools of one page"},
				{Name: "cursor", Kind: Choice, Default: "offset", Choices: []string{"offset", "empty", "loop"}, Meaning: "empty: the first cursor is the empty string; loop: always the same cursor and the same page"},
			}, pages),
	}
}

func stray(s *stage) int {
	var held *message
	srv := newServer(s, tool{name: "stray", description: "Answers in an odd way.", schema: `"kind":{"type":"string"}`,
		run: func(_ context.Context, srv *server, m message, c call) {
			var a struct {
				Kind string `json:"kind"`
			}
			if json.Unmarshal(c.Arguments, &a) != nil || !slices.Contains(strays, a.Kind) {
				srv.failed(m, "kind is not known")
				return
			}
			other := m
			switch a.Kind {
			case "duplicate":
				srv.content(m, "first answer")
				srv.content(m, "second answer")
				return
			case "unknown":
				other.ID = []byte("999")
				srv.content(other, "an answer nobody asked for")
				srv.content(m, "answer")
				return
			case "hold":
				held = &m
				return
			case "other-type":
				other.ID = otherType(m.ID)
			case "respelled":
				other.ID = respell(m.ID)
			case "null":
				other.ID = []byte("null")
			case "object":
				other.ID = []byte(`{"id":` + string(m.ID) + `}`)
			case "missing":
				srv.write([]byte(`{"jsonrpc":"2.0","result":{"content":[]}}` + "\n"))
				return
			case "twin":
				// The id of this call, and another in the same object.
				srv.write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[]},"id":999}` + "\n"))
				return
			}
			srv.content(other, "answer")
		}})
	srv.first = func(m message) bool {
		// A held answer comes just before that of the next request.
		if held != nil && m.ID != nil {
			srv.content(*held, "held answer")
			held = nil
		}
		return false
	}
	return srv.serve()
}

// otherType gives a number as a string and a string as what stands in it.
func otherType(id json.RawMessage) json.RawMessage {
	if text, err := strconv.Unquote(string(id)); err == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return json.RawMessage(quote(strings.Trim(string(id), `"`)))
}

// respell writes the same id with other bytes: 7 as 7.0, "a" as "\u0061".
func respell(id json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(id, &text) != nil {
		return append(slices.Clone(id), ".0"...)
	}
	var b strings.Builder
	for _, r := range text {
		if r > 0xffff {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return json.RawMessage(`"` + b.String() + `"`)
}

// work sends steps of progress. Kinds other than normal: token (one that
// nobody gave), type (the token of the call as the other type), backwards (the
// number shrinks), after (one more behind the answer), always (even if the call
// has no token).
func work(ctx context.Context, s *server, m message, c call) {
	a := struct {
		Steps   int    `json:"steps"`
		EveryMS int    `json:"every_ms"`
		Kind    string `json:"kind"`
	}{Steps: 3, Kind: "normal"}
	if json.Unmarshal(c.Arguments, &a) != nil {
		s.failed(m, "arguments are not as they should be")
		return
	}
	token := c.Meta.Token
	switch {
	case a.Kind == "token" || a.Kind == "always" && token == nil:
		token = []byte(`"nobody"`)
	case a.Kind == "type" && token != nil:
		token = otherType(token)
	}
	step := func(n int) {
		if token != nil {
			s.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d,"message":"step"}`, token, n, a.Steps))
		}
	}
	for i := range a.Steps {
		select {
		case <-ctx.Done():
			s.record(Event{What: "cancelled", ID: m.ID})
			return
		case <-time.After(time.Duration(a.EveryMS) * time.Millisecond):
		}
		if a.Kind == "backwards" {
			i = a.Steps - i
		}
		step(i + 1)
	}
	s.content(m, "work is done")
	if a.Kind == "after" {
		step(a.Steps + 1)
	}
}

func pages(s *stage) int {
	var all []tool
	for i := range s.number("tools") {
		all = append(all, tool{name: fmt.Sprintf("tool_%02d", i), description: "One of many.",
			run: func(_ context.Context, srv *server, m message, c call) { srv.content(m, c.Name) }})
	}
	srv := newServer(s)
	srv.tools = all
	srv.first = func(m message) bool {
		if m.Method != "tools/list" {
			return false
		}
		var p struct {
			Cursor *string `json:"cursor"`
		}
		_ = json.Unmarshal(m.Params, &p)
		from, size := 0, min(int(s.number("page")), len(all))
		switch {
		case p.Cursor == nil || s.text("cursor") == "loop":
		case *p.Cursor == "" && s.text("cursor") == "empty":
			from = size
		default:
			n, err := strconv.Atoi(*p.Cursor)
			if err != nil || n < 0 || n > len(all) {
				srv.refuse(m, -32602, "invalid cursor")
				return true
			}
			from = n
		}
		to := min(from+size, len(all))
		next := ""
		switch {
		case s.text("cursor") == "loop":
			next = `,"nextCursor":"again"`
		case to < len(all) && from == 0 && s.text("cursor") == "empty":
			next = `,"nextCursor":""`
		case to < len(all):
			next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
		}
		srv.result(m, `"tools":[`+srv.describe(all[from:to])+`]`+next+srv.fresh(m))
		return true
	}
	return srv.serve()
}
