package bridge

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// What is remembered for a restart is bounded: initialize, each smaller frame,
// and all subscriptions together.
const (
	maxSaved      = 1 << 20
	maxKept       = 16 << 10
	maxSubscribed = 1 << 20
)

// era is what a session learnt, by watching, about the revision of MCP that is
// spoken, and what a restarted server must be told. A process of both eras may
// see server/discover and then initialize.
type era struct {
	asked       bool   // the host sent initialize
	initialize  []byte // that request, to be sent again; nil before it succeeded, or if it is too large to keep
	result      []byte // the server's answer to it; nil until it succeeded
	initialized []byte
	setLevel    []byte
	subscribed  map[string][]byte // resources/subscribe frames by URI, while they hold
	bytes       int               // of these
	modern      bool              // a request of the 2026 era was seen
	version     string            // negotiated by initialize
}

// modernOnly reports whether the host speaks only the revision in which servers
// send no requests.
func (e *era) modernOnly() bool { return e.modern && !e.asked }

// batches reports whether arrays are messages in this session.
func (e *era) batches() bool { return e.version == "2025-03-26" }

// request notes what r asks that outlives the answer.
func (e *era) request(env *rpc.Envelope, r *request) {
	if r.modern {
		e.modern = true
	}
	switch r.Method {
	case "initialize":
		e.asked = true
	case "tools/list":
		r.firstPage = env.Cursor.Kind == frame.Absent
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		if env.URI.Len() <= maxKept {
			r.key = frame.Unquote(env.In(env.URI))
		}
	case "tasks/get", "tasks/result", "tasks/cancel":
		r.key = string(rpc.MakeID(env.In(env.TaskID)))
	case "tools/call":
		if env.Task.Kind != frame.Absent {
			r.key = "task"
		}
	}
	switch r.Method {
	case "initialize":
		r.replay = saved(env.Data, maxSaved)
	case "logging/setLevel", "resources/subscribe":
		r.replay = saved(env.Data, maxKept)
	}
}

func saved(data []byte, most int) []byte {
	if len(data) > most {
		return nil
	}
	return line(data)
}

// subscribe remembers the frame of a subscription, or forgets it if frame is
// nil.
func (e *era) subscribe(uri string, frame []byte) {
	e.bytes -= len(e.subscribed[uri])
	delete(e.subscribed, uri)
	if frame == nil || e.bytes+len(frame) > maxSubscribed {
		return
	}
	if e.subscribed == nil {
		e.subscribed = map[string][]byte{}
	}
	e.subscribed[uri] = frame
	e.bytes += len(frame)
}

// response notes what the answer to r establishes, and returns the bytes for
// the host.
func (e *era) response(s *Session, r *request, env *rpc.Envelope) []byte {
	if env.Head.Result.Kind == frame.Absent {
		return env.Data
	}
	switch r.Method {
	case "initialize":
		e.initialize = r.replay
		e.result = append([]byte(nil), env.In(env.Head.Result)...)
		e.version = handshakeOf(e.result).ProtocolVersion
	case "logging/setLevel":
		e.setLevel = r.replay
	case "resources/subscribe":
		e.subscribe(r.key, r.replay)
	case "resources/unsubscribe":
		e.subscribe(r.key, nil)
	}
	return env.Data
}

// handshake is what a restart compares of two answers to initialize.
type handshake struct {
	ProtocolVersion string `json:"protocolVersion"`
	Capabilities    map[string]json.RawMessage
	ServerInfo      json.RawMessage
}

func handshakeOf(result []byte) handshake {
	var h handshake
	json.Unmarshal(result, &h) // a member of another type than MCP says reads as absent
	return h
}

// listChanged returns the kinds of list whose changes the server announces.
func (h handshake) listChanged() (kinds []string) {
	for _, k := range []string{"tools", "prompts", "resources"} {
		var c struct {
			ListChanged bool `json:"listChanged"`
		}
		if json.Unmarshal(h.Capabilities[k], &c) == nil && c.ListChanged {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// capabilityOf returns the capability that a method needs.
func capabilityOf(method string) string {
	switch area, _, _ := strings.Cut(method, "/"); area {
	case "tools", "prompts", "resources", "logging":
		return area
	case "completion":
		return "completions"
	}
	return ""
}

// noteRestart returns the result with a first text that says that the server
// was restarted, or nil if it has no content to put it before.
func noteRestart(e *rpc.Envelope) []byte {
	at := e.Head.Result.Span
	for name, v := range frame.Members(at.In(e.Data)) {
		if !frame.Is(name.In(at.In(e.Data)), "content") || v.Kind != frame.Array {
			continue
		}
		open := at.Start + v.Start + 1
		note := frame.Quote([]byte(`{"type":"text","text":`), "[penstock: the server died and was restarted before this call; state that it held is lost]")
		note = append(note, '}')
		for range frame.Elements(v.Span.In(at.In(e.Data))) {
			note = append(note, ',')
			break
		}
		return rpc.Splice(e.Data, frame.Span{Start: open, End: open}, note)
	}
	return nil
}

// tasks remembers which progress tokens live on after their call: those of the
// tasks that it made, until they end.
type tasks struct {
	tokens map[string]rpc.ID // by task id
}

// maxTasks bounds the tasks whose progress is passed on after their call.
const maxTasks = 1024

// response keeps the token of a call whose answer is a task: in 2025-11-25 one
// that the host asked for, in 2026-07-28 any.
func (t *tasks) response(s *Session, r *request, e *rpc.Envelope) {
	if r.token == "" || r.Method != "tools/call" || !r.modern && r.key != "task" || len(t.tokens) >= maxTasks {
		return
	}
	var id string
	result := e.In(e.Head.Result)
	if e.Head.Result.Kind != frame.Object {
		return
	}
	for name, v := range frame.Members(result) {
		switch raw := name.In(result); {
		case frame.Is(raw, "taskId") && v.Kind == frame.String:
			id = frame.Unquote(v.Span.In(result))
		case frame.Is(raw, "task") && v.Kind == frame.Object:
			task := v.Span.In(result)
			for name, v := range frame.Members(task) {
				if frame.Is(name.In(task), "taskId") && v.Kind == frame.String {
					id = frame.Unquote(v.Span.In(task))
				}
			}
		}
	}
	if id == "" || len(id) > rpc.MaxID {
		return
	}
	if t.tokens == nil {
		t.tokens = map[string]rpc.ID{}
	}
	t.tokens[id] = r.token
	s.tokens[r.token] = r
}

// status ends the token of a task that has ended.
func (t *tasks) status(s *Session, e *rpc.Envelope) {
	var n struct {
		TaskID string `json:"taskId"`
		Status string `json:"status"`
	}
	if json.Unmarshal(e.In(e.Head.Params), &n) != nil {
		return
	}
	switch n.Status {
	case "completed", "failed", "cancelled":
		if token, ok := t.tokens[n.TaskID]; ok {
			delete(t.tokens, n.TaskID)
			delete(s.tokens, token)
		}
	}
}

// forget drops all tokens: tasks end with the process that ran them.
func (t *tasks) forget(s *Session) {
	for _, token := range t.tokens {
		delete(s.tokens, token)
	}
	t.tokens = nil
}

// prefixed returns the id that the host sees for a request of this generation.
func (g *generation) prefixed(id rpc.ID) rpc.ID {
	return rpc.ID(frame.Quote(nil, strconv.Itoa(g.n)+":"+string(id)))
}
