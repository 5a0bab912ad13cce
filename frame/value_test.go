package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{`{}`, nil}, {` { } `, nil},
		{`{"a":1}`, []string{`"a" 4 1`}},
		{"\t{ \"a\" : \"x\\\"},\" , \"b\\\\\" :[ 1 , {\"]\":2} ],\"\":{},\"c\":true ,\"d\":false,\"e\":null\r\n}", []string{
			`"a" 3 "x\"},"`, `"b\\" 2 [ 1 , {"]":2} ]`, `"" 1 {}`, `"c" 5 true`, `"d" 6 false`, `"e" 7 null`}},
		{`{"n":-1.5e+3,"long name of a member":"long value of a member"}`, []string{`"n" 4 -1.5e+3`, `"long name of a member" 3 "long value of a member"`}},
	}
	for _, tt := range tests {
		var got []string
		for name, v := range Members([]byte(tt.in)) {
			got = append(got, fmt.Sprintf("%s %d %s", name.In([]byte(tt.in)), v.Kind, v.In([]byte(tt.in))))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Members(%q):\n got %q\nwant %q", tt.in, got, tt.want)
		}
	}
}

func TestElements(t *testing.T) {
	for in, want := range map[string][]string{
		`[]`: nil, ` [ ] `: nil, `[1]`: {"1"}, `[ {"a":[1,2]} , "],[" ,[[]], null,0 ]`: {`{"a":[1,2]}`, `"],["`, `[[]]`, "null", "0"},
		`{"a":1}`: nil, `7`: nil,
	} {
		var got []string
		for v := range Elements([]byte(in)) {
			got = append(got, string(v.In([]byte(in))))
		}
		if !slices.Equal(got, want) {
			t.Errorf("Elements(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMembersStops(t *testing.T) {
	n := 0
	for range Members([]byte(`{"a":1,"b":2}`)) {
		n++
		break
	}
	for range Elements([]byte(`[1,2]`)) {
		n++
		break
	}
	if n != 2 {
		t.Error(n)
	}
}

func TestIsAndUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`"id"`: "id", `"\u0069d"`: "id", `""`: "", `"a\"b"`: `a"b`, `"\\\/\b\f\n\r\t"`: "\\/\b\f\n\r\t",
		`"\ud83c\udf89"`: "\U0001F389", `"\ud83c"`: "\ufffd", `"\udf89\ud83c"`: "\ufffd\ufffd", `"\ud83cx"`: "\ufffdx",
		`"\ud83c\u0041"`: "\ufffdA", `"\ud83c\ud83c\udf89"`: "\ufffd\U0001F389", `"\u00E9"`: "\u00e9", `"a \ud83d b"`: "a \ufffd b",
	} {
		if got := Unquote([]byte(raw)); got != want {
			t.Errorf("Unquote(%s) = %q, want %q", raw, got, want)
		}
		if !Is([]byte(raw), want) {
			t.Errorf("Is(%s, %q) is false", raw, want)
		}
		for _, other := range []string{want + "x", "x" + want, strings.ToUpper(want) + "\x00", "\xff"} {
			if Is([]byte(raw), other) {
				t.Errorf("Is(%s, %q) is true", raw, other)
			}
		}
	}
	if Is(nil, "") || Unquote(nil) != "" {
		t.Error("no string is taken for one")
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a\"b\\": `"a\"b\\"`, "\x00\x1f\n\r\t\x7f": "\"\\u0000\\u001f\\n\\r\\t\x7f\"", "\u2028\u2029\u2027": "\"\\u2028\\u2029\u2027\"",
		"\xff": "\"\ufffd\"", "é€\U0001F389": "\"é€\U0001F389\"",
	} {
		if got := string(Quote([]byte("x"), in)); got != "x"+want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"\u006eame":"read","list":[1,2,3]},"a":1,"b":2}`)
	h, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var s Scanner
	params := h.Params.In(text)
	var found int
	for name, f := range map[string]func(){
		"Parse": func() {
			if h, err := Parse(text); err != nil || h.ID.Kind != String {
				panic(err)
			}
		},
		"Scanner": func() {
			s.Reset()
			if s.Feed(text) != nil || s.Finish() != nil || len(s.ID()) != 3 {
				panic("scan")
			}
		},
		"Members": func() {
			for name, v := range Members(params) {
				if Is(name.In(params), "name") && v.Kind == String {
					found++
				}
				for range Elements(v.In(params)) {
					found++
				}
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if found == 0 {
		t.Error("nothing found")
	}
}

// FuzzValue: members, elements and strings are what encoding/json says.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[{}]}`, ` [1, "x\"]", {"k":[ ]} ,null] `, `{"\u0069d":"\ud83d\ude00","":-0.5e1}`, `{"a":"\\","b":"\\\""}`, `"x"`, `{"a":{"b":"}"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		head, err := Parse(b)
		var names, values []string
		for name, v := range Members(b) { // also of what is no JSON: it must end
			names, values = append(names, string(name.In(b))), append(values, string(v.In(b)))
		}
		for v := range Elements(b) {
			values = append(values, string(v.In(b)))
		}
		if err != nil {
			return
		}
		switch head.Kind {
		case Object:
			// Rebuild the object from what was yielded, and compare the tokens.
			var re bytes.Buffer
			re.WriteByte('{')
			for i := range names {
				if i > 0 {
					re.WriteByte(',')
				}
				re.WriteString(names[i] + ":" + values[i])
			}
			re.WriteByte('}')
			same(t, b, re.Bytes())
		case Array:
			same(t, b, []byte("["+strings.Join(values, ",")+"]"))
		case String:
			raw := bytes.TrimSpace(b)
			got := Unquote(raw)
			if head.Replaced == 0 {
				var want string
				if err := json.Unmarshal(raw, &want); err != nil || got != want {
					t.Errorf("Unquote(%q) = %q, want %q (%v)", raw, got, want, err)
				}
			}
			if !Is(raw, got) || Is(raw, got+"x") {
				t.Errorf("Is(%q, %q) is wrong", raw, got)
			}
		}
	})
}

func same(t *testing.T, a, b []byte) {
	t.Helper()
	var x, y bytes.Buffer
	if err := json.Compact(&x, a); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&y, b); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	if !bytes.Equal(x.Bytes(), y.Bytes()) {
		t.Errorf("got %q, want %q", y.Bytes(), x.Bytes())
	}
}

// FuzzQuote: every string becomes JSON, and what is valid comes back.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"\\\n\x00\x1f", "\u2028\u2029", "\xff\xe2\x80", "\xf0\x9f\x8e\x89"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := Quote(nil, s)
		h, err := Parse(q)
		if err != nil || h.Kind != String || h.Replaced != 0 || !json.Valid(q) {
			t.Fatalf("Quote(%q) = %q: %v", s, q, err)
		}
		got := Unquote(q)
		if want := string(bytes.ToValidUTF8([]byte(s), nil)); want == s && got != s {
			t.Errorf("%q comes back as %q", s, got)
		}
		if again := Quote(nil, got); !bytes.Equal(again, q) {
			t.Errorf("Quote(%q) = %q, once more %q", s, q, again)
		}
		if bytes.Contains(q, []byte("\u2028")) || bytes.Contains(q, []byte("\u2029")) || bytes.IndexByte(q, '\n') >= 0 {
			t.Errorf("Quote(%q) = %q ends a line", s, q)
		}
	})
}
