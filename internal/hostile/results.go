package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

func resultFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "results", "answers with results that are hard to cut: with strict output schemas, as errors, as prompts and resources; their sizes are arguments",
			[]Key{
				{Name: "bytes", Kind: Size, Default: "200KiB", Meaning: "about the size of prompts and resources"},
				{Name: "collide", Kind: Flag, Default: "false", Meaning: "it has a tool named penstock_result too"},
				{Name: "spread", Kind: Flag, Default: "false", Meaning: "its list of tools has white space and members of its own"},
				{Name: "none", Kind: Flag, Default: "false", Meaning: "its list of tools is empty"},
				{Name: "most", Kind: Number, Default: "0", Meaning: "anthropic/maxResultSizeChars of the tool text; 0 for none"},
			}, results),
	}
}

// strict is the start of an object schema that lets nothing else in.
const strict = `{"type":"object","additionalProperties":false,`

// resultSchemas are those of the tools of the fixture results, by name.
var resultSchemas = map[string]string{
	"rows": strict + `"required":["rows","total"],"properties":{"total":{"type":"integer"},"rows":{"type":"array","minItems":1,"items":` +
		strict + `"required":["id","state","tags"],"properties":{"id":{"type":"integer"},"state":{"enum":["open","closed"]},"tags":{"type":"array","minItems":2,"items":{"type":"string","pattern":"^[a-z]+$"}}}}}}}`,
	"card": strict + `"required":["id","state","body"],"properties":{"id":{"type":"string","pattern":"^[A-Z]{3}-[0-9]+$"},"state":{"enum":["open","closed"]},"body":{"type":"string"}}}`,
	"nested": strict + `"required":["groups"],"properties":{"groups":{"type":"array","minItems":2,"items":` +
		strict + `"required":["members"],"properties":{"members":{"type":"array","minItems":3,"items":` +
		strict + `"required":["names"],"properties":{"names":{"type":"array","minItems":1,"items":{"type":"string"}}}}}}}}}}`,
	"rigid": strict + `"required":["seal"],"properties":{"seal":{"type":"string","pattern":"^x+END$"}}}`,
}

// ResultSchema returns the JSON of the output schema of a tool of the fixture
// "results", "" if it has none.
func ResultSchema(tool string) string { return resultSchemas[tool] }

// structuredResult makes a value of about n bytes that is valid for the schema
// of the tool.
func structuredResult(tool string, n int) string {
	row := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"state":"%s","tags":["some","words"]}`, i, [...]string{"open", "closed"}[i%2])
	}
	member := `{"names":["Anna","Bertha"]}`
	switch tool {
	case "rows":
		count := max(1, n/len(row(1000)))
		var rows []string
		for i := range count {
			rows = append(rows, row(i))
		}
		return fmt.Sprintf(`{"rows":[%s],"total":%d}`, strings.Join(rows, ","), count)
	case "card":
		return `{"id":"ABC-17","state":"closed","body":"` + strings.Repeat(`a line\n`, n/8) + `"}`
	case "nested":
		group := `{"members":[` + strings.TrimSuffix(strings.Repeat(member+",", max(3, n/4/len(member))), ",") + `]}`
		return `{"groups":[` + strings.TrimSuffix(strings.Repeat(group+",", 4), ",") + `]}`
	}
	return `{"seal":"` + strings.Repeat("x", n) + `END"}`
}

func results(s *stage) int {
	sized := func(c call) int {
		var a struct {
			Bytes int `json:"bytes"`
		}
		_ = json.Unmarshal(c.Arguments, &a)
		return min(max(a.Bytes, 0), 1<<30)
	}
	const schema = `"bytes":{"type":"integer","minimum":0}`
	line := func(n int) string { return strings.Repeat(`a line\n`, n/8) }
	meta := ""
	if most := s.number("most"); most > 0 {
		meta = fmt.Sprintf(`{"anthropic/maxResultSizeChars":%d}`, most)
	}
	tools := []tool{
		{name: "text", description: "Answers with a text.", schema: schema, meta: meta, run: func(_ context.Context, srv *server, m message, c call) {
			srv.result(m, `"content":[{"type":"text","text":"`+line(sized(c))+`"}]`)
		}},
		{name: "image", description: "Answers with an image.", schema: schema, run: func(_ context.Context, srv *server, m message, c call) {
			srv.result(m, `"content":[{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("iVBO", sized(c)/4)+`"}]`)
		}},
		{name: "failure", description: "Answers that it failed, at length.", schema: schema, run: func(_ context.Context, srv *server, m message, c call) {
			srv.result(m, `"content":[{"type":"text","text":"`+line(sized(c))+`"}],"isError":true`)
		}},
		{name: "refusal", description: "Answers with a JSON-RPC error that has much data.", schema: schema, run: func(_ context.Context, srv *server, m message, c call) {
			srv.reply(m, `"error":{"code":7001,"message":"deliberate","data":{"trace":"`+line(sized(c))+`","code":"E7"}}`)
		}},
	}
	for _, name := range []string{"rows", "card", "nested", "rigid"} {
		tools = append(tools, tool{name: name, description: "Answers with a structured result.", schema: schema, output: resultSchemas[name],
			run: func(_ context.Context, srv *server, m message, c call) {
				value := structuredResult(name, sized(c))
				srv.result(m, `"content":[{"type":"text","text":`+quote(value)+`}],"structuredContent":`+value)
			}})
	}
	if s.flag("collide") {
		tools = append(tools, tool{name: "penstock_result", description: "Is of the server, not of the bridge.",
			run: func(_ context.Context, srv *server, m message, _ call) { srv.content(m, "theirs") }})
	}
	srv := newServer(s, tools...)
	srv.first = func(m message) bool {
		if m.ID == nil {
			return false
		}
		n := int(s.number("bytes"))
		switch m.Method {
		case "prompts/get":
			srv.result(m, `"messages":[{"role":"user","content":{"type":"text","text":"`+line(n)+`"}}]`)
		case "resources/read":
			srv.result(m, `"contents":[{"uri":"hostile://note","mimeType":"text/plain","text":"`+line(n)+`"}]`+srv.fresh(m))
		case "tools/list":
			switch {
			case s.flag("none"):
				srv.page(m, "tools", " ")
			case s.flag("spread"):
				srv.result(m, `"vendor/before":{"tools":[1]},"tools" : [ `+srv.describe(srv.tools)+"\t],\"vendor/after\":1.50"+srv.fresh(m))
			default:
				return false
			}
		default:
			return false
		}
		return true
	}
	return srv.serve()
}
