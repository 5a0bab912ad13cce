package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

func plainFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "echo", "behaves well and is fast: what every other fixture departs from",
			nil, func(s *stage) int { return newServer(s).serve() }),
		fixture(Server, "silent", "never answers the requests whose methods are listed",
			[]Key{{Name: "methods", Kind: List, Default: "ping", Meaning: "requests that get no answer",
				Choices: []string{"ping", "initialize", "server/discover", "tools/list", "tools/call"}}},
			func(s *stage) int {
				srv := newServer(s)
				srv.first = func(m message) bool { return slices.Contains(s.list("methods"), m.Method) }
				return srv.serve()
			}),
	}
}

// effect does a side effect: it appends a line to the file of effect=, which
// stands for the world that tools act on.
func (s *stage) effect(id json.RawMessage) error {
	f, err := os.OpenFile(s.text("effect"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", id)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		s.record(Event{What: "effect", ID: id})
	}
	return err
}

// baseTools are what every server offers.
func baseTools() []tool {
	return []tool{
		{name: "echo", description: "Answers with its text.", schema: `"text":{"type":"string"}`,
			hints: `{"readOnlyHint":true,"idempotentHint":true}`, run: echo},
		{name: "sleep", description: "Answers after some milliseconds, or stops when it is cancelled.",
			schema: `"ms":{"type":"integer","minimum":0}`, hints: `{"readOnlyHint":true}`, slow: true, run: sleep},
		{name: "big", description: "Answers with a frame of so many bytes.",
			schema: `"bytes":{"type":"integer","minimum":0},"shape":{"type":"string"}`, hints: `{"readOnlyHint":true}`, run: big()},
		{name: "fail", description: "Answers that it failed.", run: func(_ context.Context, s *server, m message, _ call) {
			s.failed(m, "deliberate failure")
		}},
		{name: "error", description: "Answers with a JSON-RPC error.", run: func(_ context.Context, s *server, m message, _ call) {
			s.refuse(m, 7001, "deliberate error")
		}},
		{name: "counter", description: "Appends a line to the file of effect=.",
			hints: `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false}`, run: count},
	}
}

// echo splices the text of the arguments into the answer as it was written.
func echo(_ context.Context, s *server, m message, c call) {
	var a struct {
		Text json.RawMessage `json:"text"`
	}
	if json.Unmarshal(c.Arguments, &a) != nil || len(a.Text) == 0 || a.Text[0] != '"' {
		s.failed(m, "text is not a string")
		return
	}
	s.result(m, `"content":[{"type":"text","text":`+string(a.Text)+`}]`)
}

func sleep(ctx context.Context, s *server, m message, c call) {
	var a struct {
		MS int64 `json:"ms"`
	}
	if json.Unmarshal(c.Arguments, &a) != nil || a.MS < 0 {
		s.failed(m, "ms is not a number of milliseconds")
		return
	}
	select {
	case <-time.After(time.Duration(a.MS) * time.Millisecond):
		s.content(m, fmt.Sprintf("slept %d ms", a.MS))
	case <-ctx.Done():
		s.record(Event{What: "cancelled", ID: m.ID})
	}
}

// big answers with a frame made for the last size and shape asked for, so that
// it costs a copy only: measurements use it.
func big() func(context.Context, *server, message, call) {
	type key struct {
		bytes int64
		shape string
		id    string
	}
	var last key
	var frame bytes.Buffer
	return func(_ context.Context, s *server, m message, c call) {
		a := struct {
			Bytes int64  `json:"bytes"`
			Shape string `json:"shape"`
		}{Shape: "unbroken"}
		if json.Unmarshal(c.Arguments, &a) != nil || a.Bytes < 0 || !slices.Contains(shapes, a.Shape) {
			s.failed(m, "bytes or shape are not as they should be")
			return
		}
		now := key{a.Bytes, a.Shape, fmt.Sprint(len(m.ID), m.modern())}
		p := payload{id: m.ID, size: a.Bytes, shape: a.Shape, modern: m.modern()}
		if now != last {
			frame.Reset()
			_, _ = p.frame(&frame) // a bytes.Buffer takes all
			last = now
		} else {
			copy(frame.Bytes()[len(`{"jsonrpc":"2.0","id":`):], m.ID)
		}
		if s.write(frame.Bytes()) {
			s.record(Event{What: "wrote", ID: m.ID, N: int64(frame.Len())})
		}
	}
}

func count(_ context.Context, s *server, m message, _ call) {
	if s.text("effect") == "" {
		s.failed(m, "no effect= file was given")
		return
	}
	if err := s.effect(m.ID); err != nil {
		s.failed(m, err.Error())
		return
	}
	s.content(m, "one more")
}
