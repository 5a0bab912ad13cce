package bridge

import (
	"strconv"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// Sentences that every answer of ours ends with, so that whoever reads it knows
// whether to try again.
const (
	notSent = "It was not sent to the server, so trying again repeats nothing."
	maySent = "It was sent to the server, and whether it took effect is unknown: check before repeating it."
)

// errFailed is the JSON-RPC code of our own refusals and failures (internal
// error); what happened is in the data.
const errFailed = -32603

// facts are what an answer of ours says to programs.
type facts struct {
	exit   *int   // of the server, where it was observed
	stderr string // excerpt, its marker included
}

// failure returns the answer that ends e with one plain paragraph: a result
// with isError for tools/call, since hosts show it to the model, and a JSON-RPC
// error for the rest. The line feed is included.
func failure(e *request, text string, f facts) []byte {
	b := make([]byte, 0, 512+len(text)+len(f.stderr))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, e.id...)
	if e.Method != "tools/call" {
		b = append(b, `,"error":{"code":`...)
		b = strconv.AppendInt(b, errFailed, 10)
		b = append(b, `,"message":`...)
		b = frame.Quote(b, text)
		b = append(b, `,"data":{"dev.penstock/call":`...)
		b = appendFacts(b, &e.Call, f)
		return append(b, "}}}\n"...)
	}
	b = append(b, `,"result":{"content":[{"type":"text","text":`...)
	if f.stderr != "" {
		text += "\nIts last words on stderr:\n" + f.stderr
	}
	b = frame.Quote(b, text)
	b = append(b, `}],"isError":true`...)
	if e.modern {
		b = append(b, `,"resultType":"complete"`...)
	}
	b = append(b, `,"_meta":{"dev.penstock/call":`...)
	b = appendFacts(b, &e.Call, f)
	return append(b, "}}}\n"...)
}

func appendFacts(b []byte, c *call.Call, f facts) []byte {
	b = append(b, `{"call_id":`...)
	b = frame.Quote(b, c.ID())
	b = append(b, `,"state":`...)
	b = frame.Quote(b, c.State.String())
	b = append(b, `,"dispatched":`...)
	b = strconv.AppendBool(b, c.State.AfterDispatch())
	b = append(b, `,"retry_safe":`...)
	b = strconv.AppendBool(b, !c.State.AfterDispatch())
	if f.exit != nil {
		b = append(b, `,"exit_status":`...)
		b = strconv.AppendInt(b, int64(*f.exit), 10)
	}
	if f.stderr != "" {
		b = append(b, `,"stderr":`...)
		b = frame.Quote(b, f.stderr)
	}
	return append(b, '}')
}

// refuse returns a JSON-RPC error for a peer's request that is in no table: to
// the server, or to the host where the id is all that could be read.
func refuse(id rpc.ID, text string) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, errFailed, 10)
	b = append(b, `,"message":`...)
	b = frame.Quote(b, text)
	return append(b, "}}\n"...)
}

// cancelled returns the notification that ends request id.
func cancelled(id rpc.ID, reason string) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	b = append(b, `,"reason":`...)
	b = frame.Quote(b, reason)
	return append(b, "}}\n"...)
}

// line returns a copy of a frame with its line feed, for a queue.
func line(data []byte) []byte {
	b := make([]byte, len(data)+1)
	copy(b, data)
	b[len(data)] = '\n'
	return b
}
