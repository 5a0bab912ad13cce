package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// scan feeds text in pieces of n bytes, whole if n is 0.
func scan(text []byte, n int) (*Scanner, error) {
	var s Scanner
	if n == 0 {
		n = len(text)
	}
	for len(text) > n {
		if err := s.Feed(text[:n]); err != nil {
			return &s, err
		}
		text = text[n:]
	}
	if err := s.Feed(text); err != nil {
		return &s, err
	}
	return &s, s.Finish()
}

var pieces = []int{0, 1, 2, 3, 7, 8, 9, 64}

func TestScannerSyntax(t *testing.T) {
	tests := []struct {
		in     string
		offset int64
		reason string // "" if it is JSON
	}{
		{`{}`, 0, ""}, {`[]`, 0, ""}, {`""`, 0, ""}, {`0`, 0, ""}, {` true `, 0, ""}, {"\t\r\n null", 0, ""},
		{`-0.5e+10`, 0, ""}, {`1E400`, 0, ""}, {`1.0`, 0, ""}, {`9223372036854775808`, 0, ""},
		{`[1,[2,[3,{"a":[]}]],{}]`, 0, ""}, {`{"a":{"b":{"c":null}},"d":[false]}`, 0, ""},
		{`"\"\\\/\b\f\n\r\t\u00e9\ud83d"`, 0, ""}, {"\"\x7f\u2028\"", 0, ""},
		{``, 0, "unexpected end"}, {` `, 1, "unexpected end"}, {`{`, 1, "unexpected end"}, {`"abc`, 4, "unexpected end"},
		{`tru`, 3, "unexpected end"}, {`-`, 1, "unexpected end"}, {`1.`, 2, "unexpected end"}, {`1e`, 2, "unexpected end"},
		{`[1`, 2, "unexpected end"}, {`"\u12`, 5, "unexpected end"}, {`[1e5`, 4, "unexpected end"},
		{`NaN`, 0, "value expected"}, {`nul!`, 3, "value expected"}, {`truth`, 3, "value expected"}, {`-Infinity`, 1, "digit expected"},
		{`01`, 1, "text after the value"}, {`{} {}`, 3, "text after the value"}, {`1 2`, 2, "text after the value"},
		{`[1,]`, 3, "value expected"}, {`{"a":1,}`, 7, "name expected"}, {`{,}`, 1, "name expected"}, {`{"a"}`, 4, "colon expected"},
		{`{"a":}`, 5, "value expected"}, {`{"a" 1}`, 5, "colon expected"}, {`[1 2]`, 3, "comma or end expected"},
		{`[1}`, 2, "comma or ] expected"}, {`{"a":1]`, 6, "comma or } expected"}, {`]`, 0, "value expected"},
		{"\"a\nb\"", 2, "control character in a string"}, {"\"\x00\"", 1, "control character in a string"},
		{`"\x"`, 2, "invalid escape in a string"}, {`"\u12g4"`, 5, "invalid escape in a string"},
		{"\xEF\xBB\xBF{}", 0, "value expected"}, {"[\x80]", 1, "value expected"}, {"{}\u00a0", 2, "text after the value"},
		{`1.x`, 2, "digit expected"}, {`1ex`, 2, "digit expected"}, {`+1`, 0, "value expected"}, {`.5`, 0, "value expected"},
		{`'a'`, 0, "value expected"}, {`{a:1}`, 1, "name expected"}, {`[1] // c`, 4, "text after the value"},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), 0, ""},
		{strings.Repeat("[", MaxDepth+1), MaxDepth, "nested too deep"},
		{strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth), 0, ""},
		{strings.Repeat(`{"a":`, MaxDepth-1) + "[" + strings.Repeat(`[`, 1), 5*(MaxDepth-1) + 1, "nested too deep"},
		{object(MaxNames - 1), 0, ""}, {object(MaxNames), 0, ""},
		{object(MaxNames + 1), int64(len(object(MaxNames))) - 1 + 7, "too many members at the top level"},
		{`{"` + strings.Repeat("n", MaxName-2) + `":1}`, 0, ""},
		{`{"` + strings.Repeat("n", MaxName-1) + `":1}`, MaxName + 2, "name too long at the top level"},
		{`[{"` + strings.Repeat("n", MaxName) + `":1}]`, 0, ""},
	}
	for _, tt := range tests {
		for _, n := range pieces {
			_, err := scan([]byte(tt.in), n)
			var got SyntaxError
			if e := (*SyntaxError)(nil); errors.As(err, &e) {
				got = *e
			}
			if want := (SyntaxError{tt.offset, tt.reason}); got != want {
				t.Errorf("%.60q in pieces of %d: got %v, want %v", tt.in, n, got, want)
			}
		}
		if wide := strings.Contains(tt.reason, "top level") || tt.reason == "nested too deep"; !wide && json.Valid([]byte(tt.in)) != (tt.reason == "") {
			t.Errorf("%.60q: encoding/json does not agree", tt.in)
		}
	}
}

// TestScannerEveryByte puts each byte at each place of a string, since eight are
// looked at at once.
func TestScannerEveryByte(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := []byte(`["` + strings.Repeat("n", 20) + `"]`)
			text[2+at] = byte(c)
			if _, err := Parse(text); (err == nil) != json.Valid(text) {
				t.Errorf("%q: %v, but json.Valid is %t", text, err, json.Valid(text))
			}
		}
	}
}

// object returns an object of n members with names of four characters.
func object(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%04d":1`, i)
	}
	b.WriteByte('}')
	return b.String()
}

func TestScannerErrorIsSticky(t *testing.T) {
	var s Scanner
	first := s.Feed([]byte("x"))
	if err := s.Feed([]byte("{}")); err != first || first == nil {
		t.Errorf("second Feed: %v, want %v", err, first)
	}
	if err := s.Finish(); err != first {
		t.Errorf("Finish: %v, want %v", err, first)
	}
	s.Reset()
	if err := s.Feed([]byte("{}")); err != nil {
		t.Error(err)
	}
}

func TestHead(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	tests := []struct {
		in                string
		id, method, other string // other: the raw result, or params
		dup               string
	}{
		{in: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,"method":"no"}}`, id: `7`, method: "tools/call", other: `{"id":8,"method":"no"}`},
		{in: `{"result":{"id":1,"x":[{"id":2}]},"jsonrpc":"2.0","id":"a\"b"}`, id: `"a\"b"`, other: `{"id":1,"x":[{"id":2}]}`},
		{in: `{"\u0069d":9223372036854775807,"meth\u006fd":"\u0070ing"}`, id: `9223372036854775807`, method: "ping"},
		{in: `{ "id" : -1.5e3 , "result" : "}{][\"," }`, id: `-1.5e3`, other: `"}{][\","`},
		{in: `{"result":["]","}","\\\"",{"\"id":1}],"id":"x"}`, id: `"x"`, other: `["]","}","\\\"",{"\"id":1}]`},
		{in: `{"id":null,"method":null}`}, {in: `{"id":{"id":1},"method":["x"]}`}, {in: `[{"id":1,"method":"m"}]`}, {in: `"id"`},
		{in: `{"id":"` + long[2:] + `"}`, id: `"` + long[2:] + `"`}, {in: `{"id":"` + long[1:] + `"}`},
		{in: `{"method":"` + long[:256] + `"}`, method: long[:256]}, {in: `{"method":"` + long[:257] + `"}`, method: long[:256]},
		{in: `{"method":"` + long[:255] + `é"}`, method: long[:255]},
		{in: `{"id":1,"id":2}`, id: `1`, dup: "id"}, {in: `{"id":1,"\u0069d":2}`, id: `1`, dup: "id"},
		{in: `{"id":1,"ID":2}`, id: `1`, dup: "ID"}, {in: `{"re` + "\u017f" + `ult":1}`, dup: "re\u017fult"},
		{in: `{"Method":"x"}`, dup: "Method"}, {in: `{"a":1,"b":2,"a":3}`, dup: "a"}, {in: `{"a":1,"\u0061":3}`, dup: "a"},
		{in: `{"a":1,"A":2}`}, {in: `{"":1,"b":2,"":3}`, dup: `""`},
		{in: "{\"\xff\":1,\"\ufffd\":2}", dup: "\ufffd"}, {in: `{"x":{"a":1,"a":2}}`},
		{in: strings.Replace(object(MaxNames), `"0200"`, `"0001"`, 1), dup: "0001"},
		{in: strings.Replace(object(MaxNames), `"0200"`, `"0099"`, 1), dup: "0099"},
	}
	for _, tt := range tests {
		for _, n := range pieces {
			s, err := scan([]byte(tt.in), n)
			if err != nil {
				t.Errorf("%.60q: %v", tt.in, err)
				continue
			}
			h := s.Head()
			if got := string(s.ID()); got != tt.id {
				t.Errorf("%.60q in pieces of %d: id %q, want %q", tt.in, n, got, tt.id)
			}
			if tt.id != "" && string(h.ID.In([]byte(tt.in))) != tt.id {
				t.Errorf("%.60q in pieces of %d: span of the id is %v", tt.in, n, h.ID)
			}
			if got := s.Method(); got != tt.method {
				t.Errorf("%.60q in pieces of %d: method %q, want %q", tt.in, n, got, tt.method)
			}
			if h.Duplicate != tt.dup {
				t.Errorf("%.60q in pieces of %d: duplicate %q, want %q", tt.in, n, h.Duplicate, tt.dup)
			}
			if tt.other != "" {
				v := h.Result
				if v.Kind == Absent {
					v = h.Params
				}
				if got := string(v.In([]byte(tt.in))); got != tt.other {
					t.Errorf("%.60q in pieces of %d: got %q, want %q", tt.in, n, got, tt.other)
				}
			}
			whole, err := Parse([]byte(tt.in))
			if err != nil || whole != h {
				t.Errorf("%.60q: Parse gives %+v (%v), the pieces %+v", tt.in, whole, err, h)
			}
		}
	}
}

// TestHeadBeforeError: what stands before an error is still told.
func TestHeadBeforeError(t *testing.T) {
	s, err := scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"a":}}`), 5)
	if err == nil {
		t.Fatal("no error")
	}
	want := Head{Kind: Object, Version: Value{Span{11, 16}, String}, ID: Value{Span{22, 23}, Number}, Result: Value{Span{33, 0}, Object}}
	if got := s.Head(); got != want || string(s.ID()) != "7" {
		t.Errorf("got %+v, id %q, want %+v", got, s.ID(), want)
	}
}

func TestReplaced(t *testing.T) {
	tests := []struct {
		in   string
		n    int
		want string
	}{
		{"plain \u00e9\u20ac\U0001F389", 0, "plain \u00e9\u20ac\U0001F389"},
		{"\xff", 1, "\ufffd"}, {"a\xc3", 1, "a\ufffd"}, {"\xc3a", 1, "\ufffda"},
		{"\xe2\x82", 1, "\ufffd"}, {"\xf0\x9f\x8e", 1, "\ufffd"}, {"\xf0\x9f\x8ex", 1, "\ufffdx"},
		{"\xed\xa0\x80", 3, "\ufffd\ufffd\ufffd"}, {"\xc0\x80", 2, "\ufffd\ufffd"}, {"\xf4\x90\x80\x80", 4, strings.Repeat("\ufffd", 4)},
		{"\xf0\x8f\xbf\xbf", 4, strings.Repeat("\ufffd", 4)}, {"\xe0\x80\x80", 3, strings.Repeat("\ufffd", 3)},
		{"\xf0\x9f\xf0\x9f\x8e\x89", 1, "\ufffd\U0001F389"}, {"\xe2\x80\xe2\x80\xa8", 1, "\ufffd\u2028"},
		{"\x80\u20ac\xff\u20ac", 2, "\ufffd\u20ac\ufffd\u20ac"},
	}
	for _, tt := range tests {
		text := []byte(`"` + tt.in + `"`)
		want := `"` + tt.want + `"`
		for _, n := range pieces {
			s, err := scan(text, n)
			if err != nil || s.Head().Replaced != tt.n || s.growth != len(want)-len(text) {
				t.Errorf("%q in pieces of %d: %v, replaced %d, grows %d, want %d, %d", tt.in, n, err, s.Head().Replaced, s.growth, tt.n, len(want)-len(text))
			}
		}
		dst := make([]byte, 100)
		if got := dst[:rewrite(dst, text, false)]; string(got) != want {
			t.Errorf("rewrite(%q) = %q, want %q", tt.in, got, want)
		}
		if got := Unquote(text); got != tt.want {
			t.Errorf("Unquote(%q) = %q, want %q", tt.in, got, tt.want)
		}
		if got := Quote(nil, tt.in); !bytes.Equal(got, []byte(strings.ReplaceAll(want, "\u2028", `\u2028`))) {
			t.Errorf("Quote(%q) = %q, want %q", tt.in, got, want)
		}
		if !Is(text, tt.want) {
			t.Errorf("Is(%q, %q) is false", text, tt.want)
		}
	}
}

// FuzzScanner: a Scanner accepts what encoding/json accepts, but for its own
// limits, and pieces make no difference.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":[1,-0.5e+3,true,false,null,"x\u00e9\ud83d\ude00"]}}`,
		`{"id":1,"ID":2,"\u0069d":3}`, "[\"\xe2\x80\xa8\",\"\xff\",\"\xf0\x9f\x8e\x89\"]", ` [ ] `, `01`, `"\ud83d"`, `{"a":{"id":[{}]},"method":"m"}`,
	} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		whole, err := scan(b, 0)
		if limits := err != nil && (strings.Contains(err.Error(), "top level") || strings.Contains(err.Error(), "too deep")); !limits {
			if want := json.Valid(b); want != (err == nil) {
				t.Fatalf("%q: %v, but json.Valid is %t", b, err, want)
			}
		}
		cut, cutErr := scan(b, int(n%16)+1)
		if fmt.Sprint(err) != fmt.Sprint(cutErr) || whole.Head() != cut.Head() || !bytes.Equal(whole.ID(), cut.ID()) || whole.Method() != cut.Method() ||
			err == nil && (whole.growth != cut.growth || whole.seps != cut.seps) {
			t.Fatalf("%q whole: %v %+v, in pieces: %v %+v", b, err, whole.Head(), cutErr, cut.Head())
		}
		if err == nil {
			clean := make([]byte, len(b)+whole.growth)
			if n := rewrite(clean, b, false); n != len(clean) || !bytes.Equal(clean, bytes.ToValidUTF8(clean, nil)) {
				t.Fatalf("rewrite(%q) = %q, %d bytes", b, clean, n)
			}
			if h, err := Parse(clean); err != nil || h.Replaced != 0 {
				t.Fatalf("%q, cleaned %q: %v, %d", b, clean, err, h.Replaced)
			}
		}
	})
}
