package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStray(t *testing.T) {
	const good = `"result":{"content":[{"type":"text","text":"answer"}]}}`
	p := start(t, "stray")
	for _, tc := range []struct {
		kind, id string
		want     []string
	}{
		{"duplicate", `1`, []string{`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"first answer"}]}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"second answer"}]}}`}},
		{"unknown", `2`, []string{`{"jsonrpc":"2.0","id":999,"result":{"content":[{"type":"text","text":"an answer nobody asked for"}]}}`, `{"jsonrpc":"2.0","id":2,` + good}},
		{"other-type", `3`, []string{`{"jsonrpc":"2.0","id":"3",` + good}},
		{"other-type", `"4"`, []string{`{"jsonrpc":"2.0","id":4,` + good}},
		{"respelled", `5`, []string{`{"jsonrpc":"2.0","id":5.0,` + good}},
		{"respelled", `"ab"`, []string{`{"jsonrpc":"2.0","id":"\u0061\u0062",` + good}},
		{"null", `6`, []string{`{"jsonrpc":"2.0","id":null,` + good}},
		{"object", `7`, []string{`{"jsonrpc":"2.0","id":{"id":7},` + good}},
		{"missing", `8`, []string{`{"jsonrpc":"2.0","result":{"content":[]}}`}},
		{"twin", `9`, []string{`{"jsonrpc":"2.0","id":9,"result":{"content":[]},"id":999}`}},
	} {
		p.call(tc.id, "stray", fmt.Sprintf(`{"kind":%q}`, tc.kind))
		for _, want := range tc.want {
			if got := p.line(); got != want+"\n" {
				t.Errorf("%s: got  %swant %s", tc.kind, got, want)
			}
		}
	}
	p.call("10", "stray", `{"kind":"hold"}`)
	p.call("11", "echo", `{"text":"x"}`)
	for _, want := range []string{"10", "11"} {
		if a := p.answer(); string(a.ID) != want {
			t.Errorf("got id %s, want %s", a.ID, want)
		}
	}
}

func TestProgress(t *testing.T) {
	p := start(t, "progress")
	for _, tc := range []struct {
		kind, token string
		want        []string // progress tokens and numbers; "answer"
	}{
		{"normal", `7`, []string{"7 1", "7 2", "answer"}},
		{"normal", ``, []string{"answer"}},
		{"always", ``, []string{`"nobody" 1`, `"nobody" 2`, "answer"}},
		{"token", `7`, []string{`"nobody" 1`, `"nobody" 2`, "answer"}},
		{"type", `7`, []string{`"7" 1`, `"7" 2`, "answer"}},
		{"backwards", `"t"`, []string{`"t" 3`, `"t" 2`, "answer"}},
		{"after", `"t"`, []string{`"t" 1`, `"t" 2`, "answer", `"t" 3`}},
	} {
		meta := ""
		if tc.token != "" {
			meta = `,"_meta":{"progressToken":` + tc.token + `}`
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{"steps":2,"kind":%q}%s}}`, tc.kind, meta)
		for _, want := range tc.want {
			a := p.answer()
			got := "answer"
			if a.Method == "notifications/progress" {
				var pr struct {
					ProgressToken json.RawMessage
					Progress      int
				}
				if err := json.Unmarshal(a.Params, &pr); err != nil {
					t.Fatal(err)
				}
				got = fmt.Sprintf("%s %d", pr.ProgressToken, pr.Progress)
			}
			if got != want {
				t.Errorf("%s with token %s: got %s, want %s", tc.kind, tc.token, got, want)
			}
		}
	}
	p.call("2", "work", `{"every_ms":3600000}`)
	p.cancel("2")
	p.await("cancelled", "")
}

func TestPages(t *testing.T) {
	for _, tc := range []struct {
		kind    string
		cursors []string // sent after the first page
		tools   int
		last    string // what the last page says of the next
	}{
		{"offset", []string{`"8"`}, 14, ""},
		{"empty", []string{`""`}, 14, ""},
		{"loop", []string{`"again"`, `"again"`}, 24, `"nextCursor":"again"`},
	} {
		p := start(t, "pages", "cursor="+tc.kind)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		line := p.line()
		tools := strings.Count(line, `"name"`)
		for _, c := range tc.cursors {
			if !strings.Contains(line, `"nextCursor":`+c) {
				t.Errorf("%s: no cursor %s in %s", tc.kind, c, line)
			}
			p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":%s}}`, c)
			line = p.line()
			tools += strings.Count(line, `"name"`)
		}
		if tools != tc.tools || strings.Contains(line, "nextCursor") != (tc.last != "") {
			t.Errorf("%s: %d tools, last page %s", tc.kind, tools, line)
		}
		p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"x"}}`)
		if a := p.answer(); (a.Error == nil) != (tc.kind == "loop") {
			t.Errorf("%s: cursor x got %+v", tc.kind, a)
		}
		p.call("4", "tool_13", "")
		if a := p.answer(); a.text() != "tool_13" {
			t.Errorf("got %+v", a)
		}
	}
}

func TestRequests(t *testing.T) {
	p := start(t, "requests", "at=initialize")
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	if a := p.answer(); a.Result.ProtocolVersion == "" {
		t.Errorf("got %+v", a)
	}
	if a := p.answer(); a.Method != "roots/list" || string(a.ID) != "1000" {
		t.Errorf("got %+v", a)
	}
	p.send(`{"jsonrpc":"2.0","id":1000,"result":{"roots":[]}}`)
	p.await("note", "answer to no question")
	p.call("3", "ask", "")
	if a := p.answer(); a.Method != "roots/list" || string(a.ID) != "3" {
		t.Errorf("got %+v", a)
	}
	p.send(`{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}`)
	if a := p.answer(); string(a.ID) != "3" || a.text() != "1 answered, 0 refused" {
		t.Errorf("got %+v", a)
	}
}

func TestRequestsOfAllKinds(t *testing.T) {
	p := start(t, "requests", "at=start", "kind=roots,sampling,elicitation,ping,unknown", "count=5", "id=string")
	var methods []string
	for range 5 {
		methods = append(methods, p.answer().Method)
	}
	if got, want := strings.Join(methods, " "), "roots/list sampling/createMessage elicitation/create ping vendor/question"; got != want {
		t.Errorf("got %s", got)
	}
	p.call("1", "ask", "")
	for i := range 5 {
		a := p.answer()
		if !bytes.HasPrefix(a.ID, []byte(`"ask-`)) {
			t.Errorf("id %s", a.ID)
		}
		if i == 0 {
			p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, a.ID)
		} else {
			p.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, a.ID)
		}
	}
	if a := p.answer(); a.text() != "4 answered, 1 refused" {
		t.Errorf("got %+v", a)
	}
	// A cancelled call withdraws what it asked.
	p.call("2", "ask", "")
	for range 5 {
		p.answer()
	}
	p.cancel("2")
	for range 5 {
		if a := p.answer(); a.Method != "notifications/cancelled" {
			t.Errorf("got %+v", a)
		}
	}
	p.await("cancelled", "")

	q := start(t, "requests", "id=restart", "count=2")
	for range 2 {
		q.call("1", "ask", "")
		for _, id := range []string{"0", "1"} {
			if a := q.answer(); string(a.ID) != id {
				t.Errorf("id %s, want %s", a.ID, id)
			}
			q.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		}
		q.answer()
	}
	r := spawn(t, "requests", "count=2")
	if got := r.wait(); got != "exit status 2" {
		t.Errorf("id=same with two: %s", got)
	}
}

func TestDirtyText(t *testing.T) {
	p := start(t, "dirty-text")
	invalid := map[string]bool{"bytes": true, "overlong": true, "surrogate-bytes": true, "cut": true, "outside": true}
	broken := map[string]bool{"raw-control": true, "bad-escape": true, "outside": true}
	kinds := []string{"straddle", "outside"}
	for _, st := range stains() {
		kinds = append(kinds, st.kind)
	}
	for _, kind := range kinds {
		p.call("1", "dirty", fmt.Sprintf(`{"kind":%q}`, kind))
		line := p.line()
		if utf8.ValidString(line) == invalid[kind] {
			t.Errorf("%s: UTF-8 is %v", kind, !invalid[kind])
		}
		if json.Valid([]byte(line)) == broken[kind] {
			t.Errorf("%s: JSON is %v", kind, !broken[kind])
		}
		if kind == "straddle" && (line[65534] != 0xf0 || line[65535] != 0x9f) {
			t.Errorf("straddle: % x", line[65530:65540])
		}
		for _, st := range stains() {
			if st.kind == kind && !strings.Contains(line, st.text) {
				t.Errorf("%s: got %q", kind, line)
			}
		}
	}
	p.call("2", "dirty", `{"kind":"none"}`)
	if a := p.answer(); !a.Result.IsError {
		t.Errorf("got %+v", a)
	}
}

func TestNumbers(t *testing.T) {
	p := start(t, "numbers")
	p.call("1", "numbers", "")
	if line := p.line(); !strings.Contains(line, odd) {
		t.Errorf("got %s", line)
	}
	const args = `{"id":9223372036854775807 ,"f":1.0,"e":1e400}`
	p.call("2", "same", args)
	if line := p.line(); !strings.Contains(line, args) {
		t.Errorf("got %s", line)
	}
	p.await("note", args)
}

func TestEnvDump(t *testing.T) {
	t.Setenv("PENSTOCK_TEST_CANARY", "bird")
	p := start(t, "env-dump")
	p.call("1", "env", "")
	if a := p.answer(); !strings.Contains(a.text()+"\n", "PENSTOCK_TEST_CANARY=bird\n") {
		t.Errorf("got %q", a.text())
	}
	p.await("env", "PENSTOCK_TEST_CANARY=bird")
	p.await("note", "argument env-dump")
}
