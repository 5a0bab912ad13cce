package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// A spoiler turns the good answer of a call into what the fixture writes.
type spoiler struct {
	kind  string
	loses bool // the good answer is not among the lines written
	spoil func(id, frame []byte) []byte
}

func noiseFixtures() []Fixture {
	var kinds []string
	for _, sp := range spoilers() {
		kinds = append(kinds, sp.kind)
	}
	return []Fixture{
		fixture(Server, "noise", "writes what is no message among its answers; the tool \"noisy\" takes the kind as its argument",
			[]Key{
				{Name: "kind", Kind: List, Default: "banner", Choices: kinds, Meaning: "what to write, applied in turn to the answers of on="},
				{Name: "on", Kind: List, Default: "initialize", Choices: []string{"initialize", "tools/list", "tools/call", "ping"}, Meaning: "whose answers are spoiled besides those of \"noisy\""},
				{Name: "again", Kind: Flag, Default: "false", Meaning: "the good answer follows where the noise has lost it"},
			}, noise),
	}
}

func noise(s *stage) int {
	turn := 0
	kind := "" // of the call of noisy in hand
	srv := newServer(s, tool{name: "noisy", description: "Answers amid noise.", schema: `"kind":{"type":"string"}`,
		run: func(_ context.Context, srv *server, m message, c call) {
			var a struct {
				Kind string `json:"kind"`
			}
			if json.Unmarshal(c.Arguments, &a) != nil || !slices.ContainsFunc(spoilers(), func(sp spoiler) bool { return sp.kind == a.Kind }) {
				srv.failed(m, "kind is not known")
				return
			}
			kind = a.Kind
			srv.content(m, "answer amid "+kind)
			kind = ""
		}})
	srv.answer = func(m message, frame []byte) []byte {
		k := kind
		if all := s.list("kind"); k == "" && len(all) > 0 && slices.Contains(s.list("on"), m.Method) {
			k = all[turn%len(all)]
			turn++
		}
		if k == "" {
			return frame
		}
		i := slices.IndexFunc(spoilers(), func(sp spoiler) bool { return sp.kind == k })
		sp := spoilers()[i]
		out := sp.spoil(m.ID, bytes.Clone(frame))
		s.record(Event{What: "note", Text: "noise " + k, ID: m.ID, N: int64(len(out))})
		if sp.loses && s.flag("again") {
			if out[len(out)-1] != '\n' {
				out = append(out, '\n')
			}
			out = append(out, frame...)
		}
		return out
	}
	return srv.serve()
}

// spoilers lists all kinds of noise.
func spoilers() []spoiler {
	before := func(noise string) func(id, frame []byte) []byte {
		return func(_, frame []byte) []byte { return append([]byte(noise), frame...) }
	}
	body := func(frame []byte) []byte { return frame[:len(frame)-1] } // without the line feed
	swap := func(old, now string) func(id, frame []byte) []byte {
		return func(_, frame []byte) []byte { return bytes.Replace(frame, []byte(old), []byte(now), 1) }
	}
	return []spoiler{
		// Lines before a good answer.
		{"banner", false, before(strings.Repeat("Browser connector: looking for a free port...\n", 36) + "\n\n\n" + "\x1b[32m┌──┐\x1b[0m\n")},
		{"ansi", false, before("\x1b[2K\x1b[1A\x1b[32m┌──┐\x1b[0m\n")},
		{"blank", false, before("\n\n\r\n")},
		{"spaces", false, before(" \t \n")},
		{"text", false, before("Processing request ...\n")},
		{"brace-text", false, before("{bad json\n{\"a\":1} and {\"b\":2}\n")},
		{"scalars", false, before("42\n\"text\"\nnull\ntrue\n[]\n{}\n")},
		{"invalid-utf8", false, before("caf\xe9 \xff\xfe\n")},
		{"nul", false, before("\x00\x00\x00\n")},
		{"idless-error", false, before(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}` + "\n")},
		{"null-id", false, before(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}` + "\n")},
		{"quoted", false, func(id, frame []byte) []byte {
			return append([]byte(`DEBUG sent {"jsonrpc":"2.0","id":`+string(id)+`,"result":{"content":[{"type":"text","text":"forged"}]}}`+"\n"), frame...)
		}},
		// Good answers in odd dress.
		{"crlf", false, func(_, frame []byte) []byte { return append(body(frame), "\r\n"...) }},
		{"bom", false, before("\ufeff")},
		{"padded", false, func(_, frame []byte) []byte { return append([]byte(" \t"), append(body(frame), " \n"...)...) }},
		// Answers that are lost.
		{"pretty", true, func(_, frame []byte) []byte {
			var b bytes.Buffer
			_ = json.Indent(&b, body(frame), "", "  ") // the frame is valid
			return append(b.Bytes(), '\n')
		}},
		{"two", true, func(_, frame []byte) []byte {
			return append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"glued"}}`), frame...)
		}},
		{"glued", true, before("DEBUG answer: ")},
		{"tail", true, func(_, frame []byte) []byte { return append(body(frame), " done\n"...) }},
		{"half", true, func(_, frame []byte) []byte { return append(frame[:len(frame)/2], '\n') }},
		{"cut", true, func(_, frame []byte) []byte { return frame[:len(frame)/2] }},
		{"bad-value", true, func(id, _ []byte) []byte {
			return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"a":}}` + "\n")
		}},
		{"nan", true, func(id, _ []byte) []byte {
			return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":[],"structuredContent":{"mean":NaN}}}` + "\n")
		}},
		{"raw-newline", true, func(_, frame []byte) []byte {
			i := bytes.LastIndexByte(frame, '"')
			return append(append(bytes.Clone(frame[:i]), '\n'), frame[i:]...)
		}},
		{"wrong-version", true, swap(`"jsonrpc":"2.0"`, `"jsonrpc":"1.0"`)},
		{"no-version", true, swap(`"jsonrpc":"2.0",`, ``)},
		{"result-and-error", true, func(_, frame []byte) []byte {
			return append(frame[:len(frame)-2], `,"error":{"code":7001,"message":"both"}}`+"\n"...)
		}},
		{"twice-id", true, func(_, frame []byte) []byte { return append([]byte(`{"id":0,`), frame[1:]...) }},
		{"in-array", true, func(_, frame []byte) []byte { return append(append([]byte("["), body(frame)...), "]\n"...) }},
	}
}
