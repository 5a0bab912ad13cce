// Package rpc is what Penstock knows of JSON-RPC: which message a frame is and
// where in its bytes the few members stand that routing needs, which ids are
// the same, how a range of a frame is replaced, and the bounded queues that
// frames wait in.
//
// Nothing is decoded into typed structs and encoded again: bytes that need no
// change pass unchanged. Most callers start with [Parse]. What a message means
// for a session is decided in package bridge.
package rpc

import (
	"bytes"

	"github.com/penstock-dev/penstock/frame"
)

// Kind is what a message is.
type Kind uint8

const (
	Request Kind = iota + 1
	Notification
	Response
	Batch
)

// Envelope is a frame and the places in it that routing needs. Data is
// borrowed from the frame's reader; spans are relative to it.
type Envelope struct {
	Kind   Kind
	Data   []byte
	ID     ID     // of a Request or a Response; "" if it is longer than MaxID
	Method string // decoded; "" for a Response or a Batch
	Head   frame.Head

	// Of the params of a request or notification; absent where there are none.
	Name, Arguments, Meta, URI, Level, Task, TaskID, Cursor frame.Value
	RequestID, ProgressToken                                frame.Value // of notifications
	Token                                                   frame.Value // _meta.progressToken of requests
	Version                                                 frame.Value // _meta["io.modelcontextprotocol/protocolVersion"]
	Subscription                                            frame.Value // _meta["io.modelcontextprotocol/subscriptionId"]

	// Refusal says why a request must not be passed on, for people; "" if it
	// may. Two readers could understand such a message differently.
	Refusal string
}

// In returns the bytes of v, nil if v is absent.
func (e *Envelope) In(v frame.Value) []byte {
	if v.Kind == frame.Absent {
		return nil
	}
	return v.Span.In(e.Data)
}

// Parse returns the envelope of a message of a [frame.Reader]: one pass over
// the members of params, none over those of a result. It does not look into a
// batch; see [Split].
func Parse(data []byte, h frame.Head) Envelope {
	e := Envelope{Data: data, Head: h}
	switch {
	case h.Kind == frame.Array:
		e.Kind = Batch
		return e
	case h.Method.Kind == frame.Absent:
		e.Kind = Response
	case h.ID.Kind == frame.Absent:
		e.Kind = Notification
	default:
		e.Kind = Request
	}
	if e.Kind != Notification {
		e.ID = MakeID(e.In(h.ID))
		if e.ID == "" {
			e.Refusal = "its id is longer than 1 KiB"
		}
	}
	if h.Duplicate != "" {
		e.Refusal = "the member " + quoteName(h.Duplicate) + " occurs twice, or in a second spelling, at its top level"
	}
	if e.Kind == Response {
		return e
	}
	e.Method = method(e.In(h.Method))
	if h.Params.Kind == frame.Object {
		e.params()
	}
	return e
}

// params finds the members of params that routing needs, and refuses names
// that two readers may understand differently.
func (e *Envelope) params() {
	at := e.Head.Params.Span
	var seen names
	for name, v := range frame.Members(at.In(e.Data)) {
		raw := name.In(at.In(e.Data))
		v.Span = shift(v.Span, at.Start)
		if dst := e.param(raw); dst != nil {
			*dst = v
		}
		if e.Refusal == "" {
			if dup := seen.add(raw); dup || foreignSpelling(raw) {
				e.Refusal = "the member " + quoteName(frame.Unquote(raw)) + " occurs twice, or in a second spelling, in its params"
			}
		}
	}
	if e.Meta.Kind == frame.Object {
		m := e.In(e.Meta)
		for name, v := range frame.Members(m) {
			raw := name.In(m)
			v.Span = shift(v.Span, e.Meta.Span.Start)
			switch {
			case frame.Is(raw, "progressToken"):
				e.Token = v
			case frame.Is(raw, "io.modelcontextprotocol/protocolVersion"):
				e.Version = v
			case frame.Is(raw, "io.modelcontextprotocol/subscriptionId"):
				e.Subscription = v
			}
		}
	}
	if e.Refusal == "" && e.Arguments.Kind == frame.Object {
		var seen names
		a := e.In(e.Arguments)
		for name := range frame.Members(a) {
			if raw := name.In(a); seen.add(raw) {
				e.Refusal = "the member " + quoteName(frame.Unquote(raw)) + " occurs twice in its arguments"
				return
			}
		}
	}
}

// read lists the members of params whose meaning Penstock or a policy reads.
var read = []string{
	"name", "arguments", "_meta", "uri", "level", "task", "taskId", "requestId", "progressToken", "cursor",
	"ref", "inputResponses", "requestState", "protocolVersion", "capabilities",
}

func (e *Envelope) param(raw []byte) *frame.Value {
	for i, dst := range []*frame.Value{
		&e.Name, &e.Arguments, &e.Meta, &e.URI, &e.Level, &e.Task, &e.TaskID, &e.RequestID, &e.ProgressToken, &e.Cursor,
	} {
		if frame.Is(raw, read[i]) {
			return dst
		}
	}
	return nil
}

// foreignSpelling reports whether raw differs only in case from a name that is
// read: a peer that ignores case would take it for that name.
func foreignSpelling(raw []byte) bool {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = frame.Quote(nil, frame.Unquote(raw))
	}
	bare := raw[1 : len(raw)-1]
	for _, r := range read {
		if bytes.EqualFold(bare, []byte(r)) {
			return string(bare) != r
		}
	}
	return false
}

func shift(s frame.Span, by int) frame.Span { return frame.Span{Start: s.Start + by, End: s.End + by} }

// MaxElements is the most messages of one batch.
const MaxElements = 1024

// Split returns the spans of the elements of a batch. It reports false if one
// of them is no message, as a nested batch is none, or if they are more than
// [MaxElements].
func Split(data []byte) (elements []frame.Span, heads []frame.Head, ok bool) {
	for v := range frame.Elements(data) {
		h, err := frame.Parse(v.Span.In(data))
		if err != nil || h.Kind != frame.Object || frame.Judge(v.Span.In(data), h) != "" || len(elements) == MaxElements {
			return nil, nil, false
		}
		elements, heads = append(elements, v.Span), append(heads, h)
	}
	return elements, heads, len(elements) > 0
}

// methods are the names that occur in nearly every session, so that reading
// one allocates nothing.
var methods = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{
		"initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/result", "tasks/list",
		"tasks/cancel", "tasks/update", "sampling/createMessage", "elicitation/create", "roots/list",
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/message",
		"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
		"notifications/resources/updated", "notifications/roots/list_changed", "notifications/tasks/status",
		"notifications/subscriptions/acknowledged", "notifications/elicitation/complete",
	} {
		m[`"`+s+`"`] = s
	}
	return m
}()

func method(raw []byte) string {
	if m, ok := methods[string(raw)]; ok {
		return m
	}
	if len(raw) > MaxID { // of an open call it is remembered
		return string(bytes.ToValidUTF8(raw[1:64], nil)) + "…"
	}
	return frame.Unquote(raw)
}
