package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// A message is what a server needs to know of one line from its host.
type message struct {
	raw    []byte          // with the line feed, if it has one
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// modern reports whether the message says that it is of the stateless era.
func (m message) modern() bool {
	return bytes.Contains(m.raw, []byte(`"io.modelcontextprotocol/protocolVersion"`))
}

// A call is the part of tools/call parameters that the tools read.
type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      struct {
		Token json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

// A tool of a fixture. run answers the message itself, or does not.
type tool struct {
	name, description string
	schema            string // JSON of the properties of its arguments
	hints             string // JSON of its annotations; may be empty
	output            string // JSON of its output schema; may be empty
	meta              string // JSON of its _meta; may be empty
	slow              bool   // run in a goroutine of its own, until it is cancelled
	run               func(ctx context.Context, s *server, m message, c call)
}

// A server is a working MCP server; fixtures change what they need to. Its
// loop reads and answers in one goroutine, as the simplest servers do: while
// it writes it does not read. Only slow tools run beside it.
type server struct {
	*stage
	lines *bufio.Reader
	tools []tool

	// first sees each message before the server does and reports whether it has
	// dealt with it. May be nil.
	first func(m message) bool
	// answer changes the bytes of an answer to m before they are written; nil
	// answers nothing. May be nil.
	answer func(m message, frame []byte) []byte
	// whenCancelled is called in the read loop for a cancellation, before the
	// context of the call ends. May be nil.
	whenCancelled func(id json.RawMessage)

	out   *meter
	wmu   sync.Mutex // held for each frame written to out
	calls sync.WaitGroup
	mu    sync.Mutex
	live  map[string]context.CancelFunc // slow calls by raw id; guarded by mu

	listens []json.RawMessage // ids of open subscriptions/listen; of the read loop
}

func newServer(s *stage, more ...tool) *server {
	return &server{
		stage: s,
		lines: bufio.NewReaderSize(s.in, 64<<10),
		tools: append(baseTools(), more...),
		out:   &meter{s: s, stream: "stdout", w: s.out},
		live:  map[string]context.CancelFunc{},
	}
}

// serve answers until stdin ends, then stops what is running. It returns 0,
// or 1 if stdin could not be read.
func (s *server) serve() int {
	code := 0
	for {
		m, err := s.read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.record(Event{What: "note", Text: "read: " + err.Error()})
			code = 1
			break
		}
		s.take(m)
	}
	s.mu.Lock()
	for _, stop := range s.live {
		stop()
	}
	s.mu.Unlock()
	s.calls.Wait()
	return code
}

// read returns the next message of the host. Lines that are none are noted and
// skipped.
func (s *server) read() (message, error) {
	for {
		line, err := s.lines.ReadBytes('\n')
		if err != nil && len(line) == 0 {
			s.record(Event{What: "eof"})
			return message{}, err
		}
		if m, ok := s.message(line); ok {
			return m, nil
		}
	}
}

// message reads one line and reports whether it is a message.
func (s *server) message(line []byte) (message, bool) {
	m := message{raw: line}
	if json.Unmarshal(line, &m) != nil {
		s.record(Event{What: "junk", N: int64(len(line)), Text: fmt.Sprintf("%.80q", line)})
		return m, false
	}
	s.record(Event{What: "read", Method: m.Method, ID: m.ID, N: int64(len(line))})
	return m, true
}

// take deals with one message.
func (s *server) take(m message) {
	if s.first != nil && s.first(m) {
		return
	}
	if m.ID == nil {
		if m.Method == "notifications/cancelled" {
			s.cancel(m)
		}
		return
	}
	switch m.Method {
	case "": // an answer of the host; fixtures that ask see it in first
	case "initialize":
		s.initialize(m)
	case "server/discover":
		if s.text("era") == "legacy" {
			s.refuse(m, -32601, "method not found: server/discover")
			return
		}
		s.result(m, `"supportedVersions":["2026-07-28"],"capabilities":`+capabilities+`,"ttlMs":0,"cacheScope":"private"`)
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		s.result(m, "")
	case "subscriptions/listen":
		if s.text("era") == "legacy" {
			s.refuse(m, -32601, "method not found: subscriptions/listen")
			return
		}
		s.listen(m)
	case "tools/list":
		s.page(m, "tools", s.describe(s.tools))
	case "tools/call":
		s.dispatch(m)
	case "resources/list":
		s.page(m, "resources", `{"uri":"hostile://note","name":"note","mimeType":"text/plain"}`)
	case "resources/templates/list":
		s.page(m, "resourceTemplates", "")
	case "resources/read":
		s.result(m, `"contents":[{"uri":"hostile://note","mimeType":"text/plain","text":"a note"}]`+s.fresh(m))
	case "prompts/list":
		s.page(m, "prompts", `{"name":"greet","description":"Greets."}`)
	case "prompts/get":
		s.result(m, `"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]`)
	default:
		s.refuse(m, -32601, "method not found: "+m.Method)
	}
}

const capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{}}`

// versions are the protocol revisions of the initialize era.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

func (s *server) initialize(m message) {
	if s.text("era") == "modern" {
		s.refuse(m, -32601, "method not found: initialize")
		return
	}
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(m.Params, &p)
	if !slices.Contains(versions, p.ProtocolVersion) {
		p.ProtocolVersion = versions[0]
	}
	s.result(m, `"protocolVersion":"`+p.ProtocolVersion+`","capabilities":`+capabilities+`,"serverInfo":{"name":"hostile","version":"1"}`)
}

// fresh gives the members that a cacheable result of the stateless era must have.
func (s *server) fresh(m message) string {
	if m.modern() {
		return `,"ttlMs":0,"cacheScope":"private"`
	}
	return ""
}

func (s *server) page(m message, name, items string) {
	s.result(m, `"`+name+`":[`+items+`]`+s.fresh(m))
}

func (s *server) describe(tools []tool) string {
	var all []string
	for _, t := range tools {
		hints := ""
		if t.hints != "" {
			hints = `,"annotations":` + t.hints
		}
		if t.output != "" {
			hints += `,"outputSchema":` + t.output
		}
		if t.meta != "" {
			hints += `,"_meta":` + t.meta
		}
		all = append(all, `{"name":`+quote(t.name)+`,"description":`+quote(t.description)+
			`,"inputSchema":{"type":"object","properties":{`+t.schema+`}}`+hints+`}`)
	}
	return strings.Join(all, ",")
}

// dispatch runs the tool that m calls.
func (s *server) dispatch(m message) {
	var c call
	if json.Unmarshal(m.Params, &c) != nil {
		s.refuse(m, -32602, "params of tools/call are not as they should be")
		return
	}
	i := slices.IndexFunc(s.tools, func(t tool) bool { return t.name == c.Name })
	if i < 0 {
		s.refuse(m, -32602, "unknown tool: "+c.Name)
		return
	}
	t := s.tools[i]
	if !t.slow {
		t.run(s.ctx, s, m, c)
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	key := string(m.ID)
	s.mu.Lock()
	s.live[key] = stop
	s.mu.Unlock()
	s.calls.Go(func() {
		t.run(ctx, s, m, c)
		s.mu.Lock()
		delete(s.live, key)
		s.mu.Unlock()
		stop()
	})
}

// listen acknowledges m, which then stays open until it is cancelled.
func (s *server) listen(m message) {
	var p struct {
		Notifications json.RawMessage `json:"notifications"`
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Notifications == nil {
		s.refuse(m, -32602, "notifications are missing")
		return
	}
	s.listens = append(s.listens, m.ID)
	s.notify("notifications/subscriptions/acknowledged", `{"notifications":`+string(p.Notifications)+`,`+subscription(m.ID)+`}`)
}

// subscription is the member that ties a notification to a listen.
func subscription(id json.RawMessage) string {
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(id) + `}`
}

// changed says that the tools changed: on each open listen, or, if there is
// none and the era allows it, unasked.
func (s *server) changed() {
	for _, id := range s.listens {
		s.notify("notifications/tools/list_changed", `{`+subscription(id)+`}`)
	}
	if len(s.listens) == 0 && s.text("era") != "modern" {
		s.notify("notifications/tools/list_changed", `{}`)
	}
}

// cancel ends the slow call or the listen that m names.
func (s *server) cancel(m message) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p)
	if s.whenCancelled != nil {
		s.whenCancelled(p.RequestID)
	}
	if i := slices.IndexFunc(s.listens, func(id json.RawMessage) bool { return string(id) == string(p.RequestID) }); i >= 0 {
		s.listens = slices.Delete(s.listens, i, i+1)
		s.record(Event{What: "cancelled", ID: p.RequestID})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop, ok := s.live[string(p.RequestID)]; ok {
		stop()
	}
}

// result answers m with the given members of the result.
func (s *server) result(m message, members string) {
	if m.modern() {
		if members != "" {
			members = "," + members
		}
		members = `"resultType":"complete"` + members
	}
	s.reply(m, `"result":{`+members+`}`)
}

// content answers m with one text.
func (s *server) content(m message, text string) {
	s.result(m, `"content":[{"type":"text","text":`+quote(text)+`}]`)
}

// failed answers m with a tool result that says it failed.
func (s *server) failed(m message, text string) {
	s.result(m, `"content":[{"type":"text","text":`+quote(text)+`}],"isError":true`)
}

// refuse answers m with a JSON-RPC error.
func (s *server) refuse(m message, code int, text string) {
	s.reply(m, fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, quote(text)))
}

// reply writes the answer to m, with the bytes of its id as they came.
func (s *server) reply(m message, member string) {
	frame := make([]byte, 0, len(member)+len(m.ID)+32)
	frame = append(frame, `{"jsonrpc":"2.0","id":`...)
	frame = append(frame, m.ID...)
	frame = append(frame, ',')
	frame = append(frame, member...)
	frame = append(frame, "}\n"...)
	if s.answer != nil {
		if frame = s.answer(m, frame); frame == nil {
			return
		}
	}
	if s.write(frame) {
		s.record(Event{What: "wrote", ID: m.ID, N: int64(len(frame))})
	}
}

// write hands p to stdout as one write and reports whether it went out. A
// failure is noted; the read loop then meets the end of stdin by itself.
func (s *server) write(p []byte) bool {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if _, err := s.out.Write(p); err != nil {
		s.record(Event{What: "note", Text: "write: " + err.Error()})
		return false
	}
	return true
}

// notify writes a notification.
func (s *server) notify(method, params string) bool {
	return s.write([]byte(`{"jsonrpc":"2.0","method":` + quote(method) + `,"params":` + params + "}\n"))
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic("hostile: " + err.Error())
	}
	return string(b)
}
