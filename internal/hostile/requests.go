package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// questions are the requests that a server can put to its host.
var questions = []struct{ kind, method, params string }{
	{"roots", "roots/list", ``},
	{"sampling", "sampling/createMessage", `,"params":{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}],"maxTokens":10}`},
	{"elicitation", "elicitation/create", `,"params":{"message":"May I?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}`},
	{"ping", "ping", ``},
	{"unknown", "vendor/question", `,"params":{"a":1}`},
}

func requestFixtures() []Fixture {
	var kinds []string
	for _, q := range questions {
		kinds = append(kinds, q.kind)
	}
	return []Fixture{
		fixture(Server, "requests", "sends requests to its host; the tool \"ask\" answers when all of its requests were answered",
			[]Key{
				{Name: "kind", Kind: List, Default: "roots", Choices: kinds, Meaning: "which requests, in turn"},
				{Name: "id", Kind: Choice, Default: "same", Choices: []string{"same", "string", "count", "restart"}, Meaning: "their ids: that of the call; a string; 1000, 1001, …; 0, 1, … anew for each call"},
				{Name: "count", Kind: Number, Default: "1", Meaning: "requests of one call; id=same allows one"},
				{Name: "at", Kind: List, Default: "", Choices: []string{"start", "initialize"}, Meaning: "also without a call: before anything is read, or just after the answer to initialize"},
				{Name: "withdraw", Kind: Flag, Default: "true", Meaning: "a cancelled call cancels its requests"},
			}, requests),
	}
}

// asking is a call that waits for answers of the host.
type asking struct {
	m             message
	open          []string // raw ids of requests without an answer
	good, refused int
}

func requests(s *stage) int {
	if s.text("id") == "same" && s.number("count") != 1 {
		s.complain(fmt.Errorf("id=same allows count=1 only"))
		return 2
	}
	var calls []*asking
	next := 1000
	var srv *server
	ask := func(a *asking) {
		if s.text("id") == "restart" {
			next = 0
		}
		for i := range int(s.number("count")) {
			q := questions[slices.IndexFunc(questions, func(q struct{ kind, method, params string }) bool {
				return q.kind == s.list("kind")[i%len(s.list("kind"))]
			})]
			id := fmt.Sprint(next)
			switch s.text("id") {
			case "same":
				if a.m.ID != nil {
					id = string(a.m.ID)
				}
			case "string":
				id = fmt.Sprintf(`"ask-%d"`, next)
			}
			next++
			a.open = append(a.open, id)
			if srv.write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + q.method + `"` + q.params + "}\n")) {
				s.record(Event{What: "wrote", Text: "request", Method: q.method, ID: json.RawMessage(id)})
			}
		}
	}
	srv = newServer(s, tool{name: "ask", description: "Asks the host and answers when the host did.",
		run: func(_ context.Context, srv *server, m message, _ call) {
			a := &asking{m: m}
			calls = append(calls, a)
			ask(a)
		}})
	srv.first = func(m message) bool {
		if m.Method == "initialize" && slices.Contains(s.list("at"), "initialize") {
			srv.initialize(m)
			ask(&asking{})
			return true
		}
		if m.Method != "" || m.ID == nil {
			return false
		}
		for i, a := range calls {
			j := slices.Index(a.open, string(m.ID))
			if j < 0 {
				continue
			}
			a.open = slices.Delete(a.open, j, j+1)
			if m.Error != nil {
				a.refused++
			} else {
				a.good++
			}
			if len(a.open) == 0 {
				calls = slices.Delete(calls, i, i+1)
				srv.content(a.m, fmt.Sprintf("%d answered, %d refused", a.good, a.refused))
			}
			return true
		}
		s.record(Event{What: "note", Text: "answer to no question", ID: m.ID})
		return true
	}
	srv.whenCancelled = func(id json.RawMessage) {
		i := slices.IndexFunc(calls, func(a *asking) bool { return string(a.m.ID) == string(id) })
		if i < 0 {
			return
		}
		for _, open := range calls[i].open {
			if s.flag("withdraw") {
				srv.notify("notifications/cancelled", `{"requestId":`+open+`,"reason":"the call was cancelled"}`)
			}
		}
		calls = slices.Delete(calls, i, i+1)
		s.record(Event{What: "cancelled", ID: id})
	}
	if slices.Contains(s.list("at"), "start") {
		ask(&asking{})
	}
	return srv.serve()
}
