package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/penstock-dev/penstock/frame"
)

// ToolName is what the continuation tool is called unless a tool of the server
// has that name.
const ToolName = "penstock_result"

// ToolJSON returns the definition of the continuation tool for tools/list under
// the given name: JSON on one line, the same bytes every time.
func ToolJSON(name string) []byte {
	return append(frame.Quote([]byte(`{"name":`), name), toolRest...)
}

const toolRest = `,"title":"Read a large result",` +
	`"description":"Reads on in a tool result that was too large to be shown whole. The notice in the cut result gives the handle. Without other arguments it reads from the beginning; pass nextCursor back as cursor to go on.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"handle":{"type":"string","description":"from the notice in the cut result"},` +
	`"part":{"description":"index of a content block, \"structured\", \"error\" or \"raw\"; default: the part that was cut","anyOf":[{"type":"integer","minimum":0},{"type":"string"}]},` +
	`"cursor":{"type":"string","description":"nextCursor of the page before"},` +
	`"lines":{"type":"array","items":{"type":"integer","minimum":1},"minItems":2,"maxItems":2,"description":"[first, last], from 1"},` +
	`"bytes":{"type":"array","items":{"type":"integer","minimum":0},"minItems":2,"maxItems":2,"description":"[from, to), from 0"},` +
	`"pointer":{"type":"string","description":"JSON pointer to a value, such as /items/0/name"},` +
	`"grep":{"type":"string","description":"regular expression (RE2): shows matching lines with line number and byte offset"},` +
	`"context":{"type":"integer","minimum":0,"maximum":20,"description":"lines around each match of grep"},` +
	`"max":{"type":"integer","minimum":16,"description":"most bytes of text"}},` +
	`"required":["handle"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

// ParseArguments reads the arguments of a call of the continuation tool. most
// is the most that Query.Max may become, and its default. The error is a
// [*QueryError].
func ParseArguments(raw []byte, most int) (handle string, q Query, err error) {
	if _, err := frame.Parse(raw); err != nil || len(bytes.TrimSpace(raw)) == 0 || bytes.TrimSpace(raw)[0] != '{' {
		return "", q, badQuery(`the arguments must be an object such as {"handle":"…"}`)
	}
	seen := map[string]bool{}
	for span, v := range frame.Members(raw) {
		name, val := frame.Unquote(span.In(raw)), v.In(raw)
		if seen[name] {
			return "", q, badQuery("%q is given twice", clip(name, 60))
		}
		seen[name] = true
		if v.Kind == frame.Null {
			continue // as good as absent
		}
		switch name {
		case "handle":
			handle, err = argString(name, v)(raw)
		case "part":
			if v.Kind == frame.Number {
				var n int64
				n, err = argInt(name, val)
				q.Part = strconv.FormatInt(n, 10)
				break
			}
			q.Part, err = argString(name, v)(raw)
		case "cursor":
			q.Cursor, err = argString(name, v)(raw)
		case "pointer":
			var p string
			p, err = argString(name, v)(raw)
			q.Pointer = &p
		case "grep":
			if q.Grep, err = argString(name, v)(raw); err == nil && q.Grep == "" {
				err = badQuery("grep is empty: give a regular expression")
			}
		case "bytes":
			q.Bytes, err = argRange(name, val)
		case "lines":
			q.Lines, err = argRange(name, val)
		case "context":
			var n int64
			n, err = argInt(name, val)
			q.Context = int(min(n, math.MaxInt32))
		case "max":
			var n int64
			n, err = argInt(name, val)
			q.Max = int(min(n, int64(most)))
			if err == nil && n < 16 {
				err = badQuery("max must be 16 at least")
			}
		default:
			err = badQuery("there is no argument %q; use handle, part, cursor, lines, bytes, pointer, grep, context, max", clip(name, 60))
		}
		if err != nil {
			return "", q, err
		}
	}
	if handle == "" {
		return "", q, badQuery("handle is missing: the notice in the cut result gives it")
	}
	if q.Max == 0 {
		q.Max = most
	}
	return handle, q, q.check()
}

func argString(name string, v frame.Value) func(raw []byte) (string, error) {
	return func(raw []byte) (string, error) {
		if v.Kind != frame.String {
			return "", badQuery("%s must be a string", name)
		}
		return frame.Unquote(v.In(raw)), nil
	}
}

func argInt(name string, raw []byte) (int64, error) {
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			return i, nil
		}
		if f, err := n.Float64(); err == nil && f == math.Trunc(f) {
			switch {
			case f >= math.MaxInt64:
				return math.MaxInt64, nil
			case f <= math.MinInt64:
				return math.MinInt64, nil
			}
			return int64(f), nil
		}
	}
	return 0, badQuery("%s must be a whole number, not %s", name, clip(string(raw), 40))
}

func argRange(name string, raw []byte) (*[2]int64, error) {
	var r [2]int64
	i := 0
	if strings.HasPrefix(string(raw), "[") {
		for v := range frame.Elements(raw) {
			if i == 2 {
				i++
				break
			}
			n, err := argInt(name, v.In(raw))
			if err != nil {
				return nil, err
			}
			r[i] = n
			i++
		}
	}
	if i != 2 {
		return nil, badQuery("%s must be two numbers, such as %s", name, fmt.Sprintf("[%d,%d]", 1, 200))
	}
	return &r, nil
}

// JSON returns the structuredContent of an answer to the continuation tool.
func (p *Page) JSON() []byte {
	b := frame.Quote([]byte(`{"text":`), p.Text)
	b = fmt.Appendf(b, `,"bytes":[%d,%d]`, p.Bytes[0], p.Bytes[1])
	if p.TotalBytes >= 0 {
		b = fmt.Appendf(b, `,"total_bytes":%d`, p.TotalBytes)
	}
	if p.Next != "" {
		b = frame.Quote(append(b, `,"nextCursor":`...), p.Next)
	}
	return fmt.Appendf(b, `,"end":%t}`, p.End)
}
