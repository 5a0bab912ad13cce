package bridge

import (
	"strconv"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/result"
	"github.com/penstock-dev/penstock/internal/rpc"
)

const (
	maxTools   = 4096    // tools of which something is remembered
	maxSchemas = 4 << 20 // bytes of all their output schemas
	// largeList is from where on a tools/list counts as unusually large: it is
	// never cut, and it fills the context of every conversation.
	largeList = 64 << 10
)

// toolset is what a session learnt from tools/list.
type toolset struct {
	own     string // name of the continuation tool; "" if there is none
	known   map[string]*tool
	schemas int // bytes
}

// tool is what is remembered of one tool of the server.
type tool struct {
	content  int    // bytes that its results may have; 0: the session's limit
	raw      []byte // output schema; nil if it has none
	schema   *result.Schema
	compiled bool
}

// unknown is a tool of which nothing is remembered.
var unknown = &tool{}

// of returns what is known of the tool that r calls.
func (ts *toolset) of(r *request) *tool {
	if r != nil && r.Method == "tools/call" {
		if t := ts.known[r.Tool]; t != nil {
			return t
		}
	}
	return unknown
}

// outputSchema returns the compiled schema, nil if there is none that can be
// used.
func (t *tool) outputSchema() *result.Schema {
	if !t.compiled && t.raw != nil {
		t.compiled = true
		t.schema, _ = result.ParseSchema(t.raw) // a schema that is none holds for nothing
	}
	return t.schema
}

// listed learns from an answer to tools/list, and returns the bytes for the
// host: the first page has the continuation tool as its last one.
func (s *Session) listed(r *request, e *rpc.Envelope) []byte {
	if len(e.Data) > largeList {
		s.stats.LargeToolLists++
	}
	if e.Head.Result.Kind != frame.Object || s.c.ContentLimit == 0 && s.c.Rule == nil {
		return e.Data
	}
	s.desk() // a large result may come next
	at := e.Head.Result.Span
	for name, v := range frame.Members(at.In(e.Data)) {
		if !frame.Is(name.In(at.In(e.Data)), "tools") || v.Kind != frame.Array {
			continue
		}
		list := v.Span.In(at.In(e.Data))
		n := 0
		for el := range frame.Elements(list) {
			n++
			if el.Kind == frame.Object {
				s.learn(el.Span.In(list))
			}
		}
		if !r.firstPage {
			return e.Data
		}
		s.nameOwnTool()
		own := result.ToolJSON(s.tools.own)
		if n > 0 {
			own = append([]byte{','}, own...)
		}
		end := at.Start + v.Span.End - 1
		if len(e.Data)+len(own) > s.c.WireLimit {
			return e.Data
		}
		return rpc.Splice(e.Data, frame.Span{Start: end, End: end}, own)
	}
	return e.Data
}

// learn remembers one tool.
func (s *Session) learn(def []byte) {
	var name string
	t := &tool{}
	for span, v := range frame.Members(def) {
		switch raw := span.In(def); {
		case frame.Is(raw, "name") && v.Kind == frame.String && v.Len() <= rpc.MaxID:
			name = frame.Unquote(v.Span.In(def))
		case frame.Is(raw, "outputSchema") && v.Kind == frame.Object:
			t.raw = v.Span.In(def)
		case frame.Is(raw, "_meta") && v.Kind == frame.Object:
			meta := v.Span.In(def)
			for span, v := range frame.Members(meta) {
				if frame.Is(span.In(meta), "anthropic/maxResultSizeChars") && v.Kind == frame.Number {
					if n, err := strconv.Atoi(string(v.Span.In(meta))); err == nil && n > s.c.ContentLimit {
						t.content = min(n, s.c.ContentMost)
					}
				}
			}
		}
	}
	if name == "" {
		return
	}
	if s.tools.known == nil {
		s.tools.known = map[string]*tool{}
	}
	if old := s.tools.known[name]; old != nil {
		s.tools.schemas -= len(old.raw)
	} else if len(s.tools.known) >= maxTools {
		return
	}
	if s.tools.schemas+len(t.raw) > maxSchemas {
		t.raw = nil
	}
	t.raw = append([]byte(nil), t.raw...)
	if len(t.raw) == 0 {
		t.raw = nil
	}
	s.tools.schemas += len(t.raw)
	s.tools.known[name] = t
}

// nameOwnTool gives the continuation tool a name that no tool of the server has:
// ours gives way, never theirs.
func (s *Session) nameOwnTool() {
	name := result.ToolName
	for i := 2; s.tools.known[name] != nil; i++ {
		name = result.ToolName + "_" + strconv.Itoa(i)
	}
	s.tools.own = name
}

// ownTool reports whether r calls the continuation tool.
func (s *Session) ownTool(r *request) bool {
	return s.tools.own != "" && r.Method == "tools/call" && r.Tool == s.tools.own && s.tools.known[r.Tool] == nil
}
