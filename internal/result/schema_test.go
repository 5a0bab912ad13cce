package result

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func parseSchema(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := ParseSchema([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const filesSchema = `{"type":"object","properties":{"content":{"type":"string"}},"required":["content"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`

// R55
func TestSchemaValid(t *testing.T) {
	rows := func(n int, row string) string {
		return strings.Repeat(row+",", n-1) + row
	}
	big := filler("lines", 300_000)
	tests := []struct {
		name, schema, value string
		fails               bool // cannot be shortened
	}{
		{"one string", filesSchema, `{"content":` + quote(big) + `}`, false},
		{"rows", `{"type":"object","additionalProperties":false,"required":["rows","total"],"properties":{"total":{"type":"integer"},"rows":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","name","kind","tags"],"properties":{"id":{"type":"integer"},"name":{"type":"string","pattern":"^[a-z]+$"},"kind":{"enum":["a","b"]},"tags":{"type":"array","minItems":2,"items":{"type":"string"}}}}}}}`,
			`{"rows":[` + rows(5000, `{"id":1,"name":"abc","kind":"a","tags":["x","y"]}`) + `],"total":5000}`, false},
		{"pattern", `{"type":"object","required":["s"],"properties":{"s":{"type":"string","pattern":"^x*$"}}}`, `{"s":"` + strings.Repeat("x", 300_000) + `"}`, false},
		{"array at the top", `{"type":"array","items":{"type":"integer"}}`, `[` + rows(90_000, "1234") + `]`, false},
		{"long strings in few rows", `{"type":"object","required":["a","z"],"properties":{"a":{"type":"array","minItems":2,"items":{"type":"string"}},"z":{"const":true}}}`,
			`{"a":[` + quote(big) + `,` + quote(big) + `],"z":true}`, false},
		{"minItems", `{"type":"object","required":["a"],"properties":{"a":{"type":"array","minItems":50000,"items":{"type":"integer"}}}}`, `{"a":[` + rows(60_000, "1234") + `]}`, true},
		{"minLength", `{"type":"object","required":["s"],"properties":{"s":{"type":"string","minLength":250000}}}`, `{"s":` + quote(big) + `}`, true},
		{"end pattern", `{"type":"object","required":["s"],"properties":{"s":{"type":"string","pattern":"END$"}}}`, `{"s":` + quote(big+"END") + `}`, true},
		{"huge object", `{"type":"object","additionalProperties":{"type":"integer"}}`, func() string {
			var b strings.Builder
			for i := range 40_000 {
				fmt.Fprintf(&b, `"key%d":%d,`, i, i)
			}
			return `{` + b.String() + `"z":1}`
		}(), true},
		{"huge name", `{"type":"object"}`, `{"` + big[:5000] + `":1,"x":` + quote(big) + `}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parseSchema(t, tt.schema)
			value := strings.ReplaceAll(tt.value, "\n", `\n`)
			if !s.Valid([]byte(value)) && len(value) < maxChecked {
				t.Fatal("the whole value is not valid")
			}
			for _, dup := range []bool{true, false} {
				content := `[]`
				if dup {
					content = `[{"type":"text","text":` + quote(value) + `}]`
				}
				for _, first := range []bool{true, false} {
					parts := []string{`"content":` + content, `"structuredContent":` + value}
					if first {
						parts[0], parts[1] = parts[1], parts[0]
					}
					f := []byte(`{"jsonrpc":"2.0","id":1,"result":{` + strings.Join(parts, ",") + `}}`)
					r, info := mustCut(t, f, Limits{Content: 32 << 10, Schema: s})
					if info.Failed != tt.fails || r.Result.IsError != tt.fails {
						t.Fatalf("failed %v, isError %v", info.Failed, r.Result.IsError)
					}
					text := r.blocks(t)[0].Text
					if tt.fails {
						if r.Result.Structured != nil {
							t.Error("the structured content is still there")
						}
						if !strings.HasPrefix(text, "[penstock: the call SUCCEEDED and must not be repeated") {
							t.Errorf("%.200q", text)
						}
						continue
					}
					if !s.Valid(r.Result.Structured) {
						t.Errorf("not valid: %.300s", r.Result.Structured)
					}
					if len(r.Result.Structured) < 8<<10 {
						t.Errorf("only %d bytes of structured content: %.200s", len(r.Result.Structured), r.Result.Structured)
					}
					if dup && len(text) < 8<<10 {
						t.Errorf("only %d bytes of text", len(text))
					}
				}
			}
		})
	}
}

// A structured result that fits stays whole, whatever happens to the texts.
func TestStructuredWhole(t *testing.T) {
	value := `{"a": [1, 2.50,  {"b":"caf\u00e9"}]}`
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":%s}],"structuredContent":%s}}`, quote(filler("lines", 200_000)), value)
	r, info := mustCut(t, f, Limits{Content: 16 << 10, Schema: parseSchema(t, `{"type":"object","additionalProperties":false,"properties":{"a":{}}}`)})
	if got, want := string(r.Result.Structured), `{"a":[1,2.50,{"b":"caf\u00e9"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, p := range info.Parts {
		if p.Cut != (p.Name == "0") {
			t.Errorf("%+v", p)
		}
	}
}

// Without a schema a structured result that cannot be shortened is left out,
// and the call stays what it was.
func TestStructuredUnknownSchema(t *testing.T) {
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&b, `"key%d":%d,`, i, i)
	}
	f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{` + b.String() + `"z":1}}}`)
	r, info := mustCut(t, f, Limits{Content: 16 << 10})
	if r.Result.IsError || r.Result.Structured != nil || !strings.Contains(r.blocks(t)[0].Text, "structured content is left out") {
		t.Errorf("isError %v, %+v: %s", r.Result.IsError, info, r.blocks(t)[0].Text)
	}
}

func TestToolErrorIsNoSuccess(t *testing.T) {
	s := parseSchema(t, `{"type":"object","required":["s"],"properties":{"s":{"type":"string","minLength":250000}}}`)
	f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"s":` + quote(filler("words", 300_000)) + `},"isError":true}}`)
	r, _ := mustCut(t, f, Limits{Content: 16 << 10, Schema: s})
	if text := r.blocks(t)[0].Text; strings.Contains(text, "SUCCEEDED") || !r.Result.IsError {
		t.Errorf("%.200q", text)
	}
}

func TestParseSchema(t *testing.T) {
	for _, bad := range []string{``, `{`, `{"type":"nonsense"}`, `{"$ref":"https://example.com/x.json"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"#/nowhere"}`, `{"pattern":"("}`} {
		if s, err := ParseSchema([]byte(bad)); err == nil || s != nil {
			t.Errorf("%s compiled", bad)
		}
	}
	s := parseSchema(t, `{"type":"object","properties":{"n":{"type":"integer"},"d":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"string","format":"date"}}}`)
	for v, want := range map[string]bool{
		`{"n":12345678901234567890123}`: true, `{"n":1.5}`: false, `{"d":"2024-01-02"}`: true, `{"d":"x"}`: false, `{`: false, `null`: false,
	} {
		if got := s.Valid([]byte(v)); got != want {
			t.Errorf("%s: %v", v, got)
		}
	}
	if !(*Schema)(nil).Valid([]byte(`1`)) {
		t.Error("no schema refuses")
	}
	var _ json.RawMessage
}
