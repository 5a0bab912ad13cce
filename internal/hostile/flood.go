package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
)

func floodFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "stderr-flood", "writes far too many diagnostics to stderr",
			[]Key{
				{Name: "bytes", Kind: Size, Default: "256KiB", Meaning: "size of one flood"},
				{Name: "shape", Kind: Choice, Default: "lines", Choices: []string{"lines", "unbroken", "invalid", "control"}, Meaning: "short lines, one giant line, bytes that are not UTF-8, terminal escapes"},
				{Name: "at", Kind: List, Default: "call", Choices: []string{"start", "initialize", "call", "effect", "ping", "eof"}, Meaning: "when: before anything is read; before the answer to initialize, a tool call or ping; after the side effect of a tool call; after the end of stdin"},
				{Name: "forever", Kind: Flag, Default: "false", Meaning: "a flood never ends"},
				{Name: "exit", Kind: Number, Default: "0", Meaning: "exit status"},
				{Name: "serve", Kind: Flag, Default: "true", Meaning: "false: exits after the flood at start, as a command that is no server"},
			}, stderrFlood),
		fixture(Server, "notification-flood", "its tool \"flood\" sends many notifications before the answer",
			[]Key{
				{Name: "count", Kind: Number, Default: "101", Meaning: "notifications of one flood"},
				{Name: "bytes", Kind: Size, Default: "0", Meaning: "size of the text in each"},
				{Name: "kind", Kind: List, Default: "message", Choices: []string{"message", "progress", "list_changed", "updated", "vendor"}, Meaning: "which notifications, in turn"},
				{Name: "at", Kind: Choice, Default: "call", Choices: []string{"call", "start"}, Meaning: "start: before anything is read"},
			}, notificationFlood),
	}
}

func stderrFlood(s *stage) int {
	srv := newServer(s)
	out := &meter{s: s, stream: "stderr", w: s.err}
	flood := func(when string, id []byte) {
		for _, at := range s.list("at") {
			if at == when {
				n := diagnostics(out, s.text("shape"), s.number("bytes"), s.flag("forever"))
				s.record(Event{What: "wrote", Text: "stderr", N: n, ID: id})
			}
		}
	}
	flood("start", nil)
	if !s.flag("serve") {
		return int(s.number("exit"))
	}
	srv.first = func(m message) bool {
		switch m.Method {
		case "initialize":
			flood("initialize", m.ID)
		case "ping":
			flood("ping", m.ID)
		case "tools/call":
			flood("call", m.ID)
			if s.text("effect") != "" {
				if err := s.effect(m.ID); err != nil {
					srv.failed(m, err.Error())
					return true
				}
				flood("effect", m.ID)
			}
		}
		return false
	}
	srv.serve()
	flood("eof", nil)
	return int(s.number("exit"))
}

// diagnostics writes n bytes to w and returns how many went out.
func diagnostics(w io.Writer, shape string, n int64, forever bool) int64 {
	unit := "helper-diagnostic\n"
	switch shape {
	case "unbroken":
		unit = "helper-diagnostic "
	case "invalid":
		unit = "caf\xe9 \xff\xfe \xc3\x28 \xed\xa0\x80\n"
	case "control":
		unit = "\x1b[31mred\x1b[0m\x07\x1b]0;title\x07\r\n"
	}
	out := &counter{w: w}
	for out.err == nil {
		if out.repeat(unit, n/int64(len(unit)), nil) {
			out.text(unit[:n%int64(len(unit))])
		}
		if !forever {
			break
		}
	}
	return out.n
}

func notificationFlood(s *stage) int {
	srv := newServer(s, tool{name: "flood", description: "Answers after many notifications.",
		run: func(_ context.Context, srv *server, m message, c call) {
			n := srv.burst(c.Meta.Token)
			s.record(Event{What: "wrote", Text: "notifications", N: n})
			srv.content(m, fmt.Sprintf("%d notifications sent", s.number("count")))
		}})
	if s.text("at") == "start" {
		s.record(Event{What: "wrote", Text: "notifications", N: srv.burst(nil)})
	}
	return srv.serve()
}

// burst writes the notifications of a flood, each with one write, and returns
// the bytes. Progress carries the token of the call, or one nobody gave.
func (s *server) burst(token []byte) (n int64) {
	if len(token) == 0 {
		token = []byte(`"nobody"`)
	}
	text := quote(strings.Repeat("x", int(s.number("bytes"))))
	kinds := s.list("kind")
	for i := range s.number("count") {
		var b bytes.Buffer
		b.WriteString(`{"jsonrpc":"2.0","method":"notifications/`)
		switch kinds[int(i)%len(kinds)] {
		case "message":
			fmt.Fprintf(&b, `message","params":{"level":"info","logger":"flood","data":{"i":%d,"text":%s}}}`, i, text)
		case "progress":
			fmt.Fprintf(&b, `progress","params":{"progressToken":%s,"progress":%d,"message":%s}}`, token, i+1, text)
		case "list_changed":
			b.WriteString(`tools/list_changed"}`)
		case "updated":
			b.WriteString(`resources/updated","params":{"uri":"hostile://note"}}`)
		case "vendor":
			fmt.Fprintf(&b, `vendor/event","params":{"i":%d,"text":%s}}`, i, text)
		}
		b.WriteByte('\n')
		if !s.write(b.Bytes()) {
			return n
		}
		n += int64(b.Len())
	}
	return n
}
