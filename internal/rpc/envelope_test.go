package rpc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/frame"
)

func parse(t testing.TB, text string) Envelope {
	t.Helper()
	h, err := frame.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return Parse([]byte(text), h)
}

func TestParseFindsWhatRoutingNeeds(t *testing.T) {
	e := parse(t, ` { "jsonrpc":"2.0", "params" : {"arguments":{"name":"not me","a":[1,{"_meta":0}]}, "_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":{"progressToken":8}},
		"name":"e\u0063ho","uri":"u","cursor":"" } , "method":"tools\/call", "id" : "i" } `)
	if e.Kind != Request || e.Method != "tools/call" || e.ID != `"i"` || e.Refusal != "" {
		t.Errorf("got %+v", e)
	}
	for name, c := range map[string]struct {
		v    frame.Value
		want string
	}{
		"name": {e.Name, `"e\u0063ho"`}, "arguments": {e.Arguments, `{"name":"not me","a":[1,{"_meta":0}]}`},
		"token": {e.Token, `7`}, "version": {e.Version, `"2026-07-28"`}, "uri": {e.URI, `"u"`}, "cursor": {e.Cursor, `""`},
	} {
		if got := string(e.In(c.v)); got != c.want {
			t.Errorf("%s is %s, want %s", name, got, c.want)
		}
	}
	if e.In(e.Task) != nil {
		t.Error("an absent member has bytes")
	}
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]Kind{
		`{"jsonrpc":"2.0","method":"m"}`:                    Notification,
		`{"jsonrpc":"2.0","method":"m","id":0}`:             Request,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"m"}}`:  Response,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`:       Response,
		`[{"jsonrpc":"2.0","method":"m"}]`:                  Batch,
		`{"jsonrpc":"2.0","method":"m","params":[1,2]}`:     Notification,
		`{"jsonrpc":"2.0","method":"m","params":null}`:      Notification,
		`{"jsonrpc":"2.0","method":"m","params":"{\"a\":"}`: Notification,
	} {
		if e := parse(t, text); e.Kind != want || e.Refusal != "" {
			t.Errorf("%s: kind %d, refusal %q", text, e.Kind, e.Refusal)
		}
	}
}

// Rule 8: what two readers could understand differently is refused.
func TestRefusal(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	wide := strings.Join(many, ",")
	for params, refused := range map[string]bool{
		`{"name":"a","arguments":{"x":1,"X":2}}`:    false, // only the policy's names are read without case
		`{"name":"a","name":"b"}`:                   true,
		`{"name":"a","n\u0061me":"b"}`:              true,
		`{"name":"a","Name":"b"}`:                   true,
		`{"NAME":"b"}`:                              true,
		`{"arguments":{"a":1,"a":1}}`:               true,
		`{"arguments":{"a":1,"\u0061":1}}`:          true,
		`{"arguments":{"a":{"b":1,"b":2}}}`:         false,
		`{"x":1,"x":2}`:                             true,
		`{"arguments":{` + wide + `}}`:              false,
		`{"arguments":{` + wide + `,"k7":0}}`:       true,
		`{"arguments":{` + wide + `,"\u006b99":0}}`: true,
		`{"_meta":{"a":1},"_META":{"a":1}}`:         true,
		`{"requestId":1,"requestID":2}`:             true,
		`{"arguments":{"":1,"":2}}`:                 true,
		`{"arguments":"{\"a\":1,\"a\":2}"}`:         false,
		`{"arguments":{"name":"x","Name":"y"}}`:     false,
	} {
		if e := parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`); (e.Refusal != "") != refused {
			t.Errorf("%.80s: refusal %q", params, e.Refusal)
		}
	}
}

func TestSplitAndJoin(t *testing.T) {
	batch := []byte(` [ {"jsonrpc":"2.0","id":1,"method":"a"} , {"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"result":[1, 2]} ] `)
	spans, heads, ok := Split(batch)
	if !ok || len(spans) != 3 || heads[2].ID.Kind != frame.Number {
		t.Fatalf("spans %v, %v", spans, ok)
	}
	if got, want := string(Join(batch, spans, func(i int) bool { return i != 1 })), `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"result":[1, 2]}]`; got != want {
		t.Errorf("joined %s", got)
	}
	if Join(batch, spans, func(int) bool { return false }) != nil {
		t.Error("nothing joined is something")
	}
	for _, bad := range []string{`[]`, `[1]`, `[[{"jsonrpc":"2.0","method":"b"}]]`} {
		if _, _, ok := Split([]byte(bad)); ok {
			t.Errorf("%s is a batch", bad)
		}
	}
}

func TestSplice(t *testing.T) {
	d := []byte("abcdef")
	for _, c := range []struct {
		at   frame.Span
		with string
		want string
	}{{frame.Span{Start: 2, End: 4}, "XYZ", "abXYZef"}, {frame.Span{Start: 0, End: 0}, "-", "-abcdef"}, {frame.Span{Start: 0, End: 6}, "", ""}} {
		if got := string(Splice(d, c.at, []byte(c.with))); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if string(d) != "abcdef" {
		t.Error("the source changed")
	}
}

func TestTable(t *testing.T) {
	var tab Table[*int]
	one, two := new(int), new(int)
	if !tab.Open("1", one) || tab.Open("1", two) || !tab.Open(`"1"`, two) {
		t.Fatal("ids of different types are mixed up")
	}
	if tab.Alike("2") != "" || tab.Alike("1.0") != "" { // two are alike
		t.Error("an ambiguous id was repaired")
	}
	tab.Bury("1")
	if tab.Get("1") != nil || tab.Open("1", one) || tab.Alike("1.0") != `"1"` {
		t.Error("the id of a buried request may be used again")
	}
	if tab.Exhume("1") != one || tab.Exhume("1") != nil || !tab.Open("1", one) {
		t.Error("a late answer was not found exactly once")
	}
	for i := range 2 * maxBuried {
		id := ID(fmt.Sprint(i + 100))
		tab.Open(id, one)
		tab.Bury(id)
	}
	if len(tab.buried) > maxBuried || tab.Exhume("100") != nil {
		t.Error("memory of ended requests has no bound")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1},"_meta":{"progressToken":1}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\u2028","result":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := frame.Parse(b)
		if err != nil {
			return
		}
		e := Parse(b, h)
		for _, v := range []frame.Value{e.Name, e.Arguments, e.Meta, e.URI, e.Token, e.Version, e.RequestID, e.ProgressToken, e.Subscription} {
			if raw := e.In(v); raw != nil {
				if _, err := frame.Parse(raw); err != nil {
					t.Errorf("a member's bytes are not JSON: %q in %q", raw, b)
				}
			}
		}
		if e.Kind == Batch {
			Split(b)
		}
	})
}
