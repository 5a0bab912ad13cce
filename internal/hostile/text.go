package hostile

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
)

// A stain is a text that is hard to carry, as the bytes between the quotes of
// a JSON string.
type stain struct{ kind, text string }

// stains lists them. "straddle" and "outside" are made by the fixture itself.
func stains() []stain {
	return []stain{
		{"lone-high", `a \ud83d b`},
		{"lone-low", `a \ude00 b`},
		{"reversed", `\ude00\ud83d`},
		{"pair", `\ud83d\ude00`},
		{"bytes", "caf\xe9 \xff\xfe"},
		{"overlong", "\xc0\xaf"},
		{"surrogate-bytes", "\xed\xa0\x80"},
		{"cut", "\xe2\x82"},
		{"separators", "a\u2028b\u2029c"},
		{"nul", `a\u0000b`},
		{"bom", "\ufeffa\ufeff"},
		{"bidi", "a\u202eb"},
		{"escapes", `\"\\\/\b\f\n\r\t`},
		{"raw-control", "a\x01b"}, // not JSON
		{"bad-escape", `a\xb`},    // not JSON
	}
}

func textFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "dirty-text", "its tool \"dirty\" answers with text that is hard to carry; the kind is its argument", nil, dirty),
		fixture(Server, "numbers", "its tool \"numbers\" answers with numbers that do not fit a float, \"same\" with its arguments byte for byte", nil, numbers),
		fixture(Server, "env-dump", "notes its environment and arguments; the tool \"env\" answers with the environment", nil, envDump),
	}
}

func dirty(s *stage) int {
	return newServer(s, tool{name: "dirty", description: "Answers with odd text.", schema: `"kind":{"type":"string"}`,
		run: func(_ context.Context, srv *server, m message, c call) {
			var a struct {
				Kind string `json:"kind"`
			}
			_ = json.Unmarshal(c.Arguments, &a)
			head := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[{"type":"text","text":"`
			const tail = `"}]}}` + "\n"
			i := slices.IndexFunc(stains(), func(st stain) bool { return st.kind == a.Kind })
			frame := ""
			switch {
			case a.Kind == "straddle":
				// Byte 65,536 of the line is the second of a character of four.
				frame = head + strings.Repeat("x", 65534-len(head)) + "🎉" + tail
			case a.Kind == "outside":
				frame = strings.Replace(head, `,"result"`, "\xff,\"result\"", 1) + tail
			case i >= 0:
				frame = head + stains()[i].text + tail
			default:
				srv.failed(m, "kind is not known")
				return
			}
			if srv.write([]byte(frame)) {
				s.record(Event{What: "wrote", ID: m.ID, N: int64(len(frame))})
			}
		}}).serve()
}

// odd are numbers whose digits a decoder into floats would change.
const odd = `{"id":9007199254740993,"big":12345678901234567890123,"one":1.0,"exp":1e400,"small":1E-7,"zero":-0,"long":0.10000000000000000000001}`

func numbers(s *stage) int {
	return newServer(s,
		tool{name: "numbers", description: "Answers with odd numbers.",
			run: func(_ context.Context, srv *server, m message, _ call) {
				srv.result(m, `"content":[{"type":"text","text":"see structuredContent"}],"structuredContent":`+odd)
			}},
		tool{name: "same", description: "Answers with its arguments as they came.",
			run: func(_ context.Context, srv *server, m message, c call) {
				s.record(Event{What: "note", Text: string(c.Arguments), ID: m.ID})
				srv.result(m, `"content":[],"structuredContent":`+string(c.Arguments))
			}},
	).serve()
}

func envDump(s *stage) int {
	env := os.Environ()
	slices.Sort(env)
	for _, e := range env {
		s.record(Event{What: "env", Text: e})
	}
	if dir, err := os.Getwd(); err == nil {
		s.record(Event{What: "note", Text: "directory " + dir})
	}
	for _, arg := range os.Args {
		s.record(Event{What: "note", Text: "argument " + arg})
	}
	return newServer(s, tool{name: "env", description: "Answers with the environment.",
		run: func(_ context.Context, srv *server, m message, _ call) { srv.content(m, strings.Join(env, "\n")) }}).serve()
}
