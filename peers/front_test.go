//go:build peers

package peers_test

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The conformance suite speaks HTTP only. A front gives a command that speaks
// stdio the HTTP side of both eras of the protocol:
//
//   - before 2026-07-28, each HTTP session has a process of its own, and ids
//     pass unchanged;
//   - from then on there are no sessions, so that all requests share one
//     process, and their ids and progress tokens are replaced on the way.
//
// It does no more than the suite needs. What it lacks is missing with and
// without a bridge behind it, which is what the test compares.
type front struct {
	t       *testing.T
	command []string

	modern func() (*modernSession, error) // starts it the first time

	mu       sync.Mutex
	sessions map[string]*legacySession // by Mcp-Session-Id, guarded by mu
	all      []*stdioProcess           // guarded by mu
}

// newFront serves command until the test ends, and returns the URL.
func newFront(t *testing.T, command []string) string {
	t.Helper()
	f := &front{t: t, command: command, sessions: map[string]*legacySession{}}
	f.modern = sync.OnceValues(f.startModern)
	server := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.mu.Lock()
		all := slices.Clone(f.all)
		f.mu.Unlock()
		for _, p := range all {
			p.stop()
			if t.Failed() && p.stderr.Len() > 0 {
				t.Logf("standard error of %q:\n%s", command, tail(p.stderr.Bytes(), 1024))
			}
		}
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}

// A message is a JSON-RPC message as its members. Replacing a member leaves the
// bytes of all others as they were.
type message map[string]json.RawMessage

// with returns m with the member at path replaced, or m itself if there is no
// such member.
func (m message) with(value json.RawMessage, path ...string) message {
	old, ok := m[path[0]]
	if !ok {
		return m
	}
	if len(path) > 1 {
		var inner message
		if json.Unmarshal(old, &inner) != nil {
			return m
		}
		value, _ = json.Marshal(inner.with(value, path[1:]...))
	}
	out := message{}
	for k, v := range m {
		out[k] = v
	}
	out[path[0]] = value
	return out
}

// at returns the raw value at path, nil if there is none.
func (m message) at(path ...string) json.RawMessage {
	value := m[path[0]]
	if len(path) == 1 {
		return value
	}
	var inner message
	if json.Unmarshal(value, &inner) != nil {
		return nil
	}
	return inner.at(path[1:]...)
}

// text returns the string at path, "" if there is none.
func (m message) text(path ...string) string {
	var s string
	if json.Unmarshal(m.at(path...), &s) != nil {
		return ""
	}
	return s
}

// stdioProcess is a running command.
type stdioProcess struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer  // not to be read before exited
	exited chan struct{}  // closed when the process is gone and its output read
	mu     sync.Mutex     // held while writing to stdin
	stdin  io.WriteCloser // guarded by mu
}

// startProcess starts the command and gives each message that it writes to
// receive, one at a time.
func (f *front) startProcess(receive func(message)) (*stdioProcess, error) {
	cmd := exec.Command(f.command[0], f.command[1:]...)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &stdioProcess{cmd: cmd, stderr: stderr, stdin: stdin, exited: make(chan struct{})}
	go func() { // ends with the output; stop waits for it
		defer close(p.exited)
		for in := bufio.NewReader(stdout); ; {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 {
				var m message
				if err := json.Unmarshal(line, &m); err != nil {
					f.t.Errorf("the front got a line that is not a message: %.200q", line)
				} else {
					receive(m)
				}
			}
			if err != nil {
				break
			}
		}
		cmd.Wait()
	}()
	f.mu.Lock()
	f.all = append(f.all, p)
	f.mu.Unlock()
	return p, nil
}

func (p *stdioProcess) send(m message) {
	line, err := json.Marshal(m)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stdin.Write(append(line, '\n'))
}

// stop ends the process and returns when it is gone.
func (p *stdioProcess) stop() {
	p.mu.Lock()
	p.stdin.Close()
	p.mu.Unlock()
	kill := time.AfterFunc(30*time.Second, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.exited
}

// A stream is the events of one HTTP response.
type stream struct{ events chan message }

func newStream() *stream { return &stream{make(chan message, 4096)} }

// write sends the first events and those of s to the client, until the stream
// or the client ends.
func (s *stream) write(w http.ResponseWriter, r *http.Request, first ...message) {
	flush := http.NewResponseController(w).Flush
	event := func(m message) {
		data, _ := json.Marshal(m)
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
		flush()
	}
	flush()
	for _, m := range first {
		event(m)
	}
	for {
		select {
		case m, ok := <-s.events:
			if !ok {
				return
			}
			event(m)
		case <-r.Context().Done():
			return
		}
	}
}

func eventHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
}

// fail answers with a JSON-RPC error.
func fail(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

const (
	versionKey      = "io.modelcontextprotocol/protocolVersion"
	capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"
	subscriptionKey = "io.modelcontextprotocol/subscriptionId"
)

func (f *front) serve(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if u, err := url.Parse(origin); !isLoopback(r.Host) || origin != "" && (err != nil || !isLoopback(u.Host)) {
		fail(w, http.StatusForbidden, nil, -32000, "this host or origin may not connect")
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	f.mu.Lock()
	session := f.sessions[id]
	f.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		body, err := io.ReadAll(r.Body)
		var m message
		if err != nil || json.Unmarshal(body, &m) != nil {
			fail(w, http.StatusBadRequest, nil, -32700, "not a JSON object")
			return
		}
		if m.text("params", "_meta", versionKey) != "" || r.Header.Get("Mcp-Protocol-Version") >= "2026" {
			f.serveModern(w, r, m)
			return
		}
		f.serveLegacy(w, r, m, id, session)
	case http.MethodGet, http.MethodDelete:
		if session == nil {
			fail(w, map[bool]int{true: http.StatusMethodNotAllowed, false: http.StatusNotFound}[id == ""], nil, -32000, "no such session")
			return
		}
		if r.Method == http.MethodGet {
			session.listen(w, r)
			return
		}
		f.mu.Lock()
		delete(f.sessions, id)
		f.mu.Unlock()
		session.process.stop()
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(w, http.StatusMethodNotAllowed, nil, -32000, "no such method")
	}
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1", "[::1]"}, host)
}

// legacySession is a session of the initialize era: one process.
type legacySession struct {
	process *stdioProcess

	mu     sync.Mutex
	open   map[string]*stream // by raw id of the request, guarded by mu
	tokens map[string]*stream // by raw progress token, guarded by mu
	recent []*stream          // open ones, oldest first, guarded by mu
	own    *stream            // of a GET, nil for none, guarded by mu
	queued []message          // for own, guarded by mu
}

func (f *front) serveLegacy(w http.ResponseWriter, r *http.Request, m message, id string, s *legacySession) {
	if s == nil && id == "" && m.text("method") == "initialize" {
		s = &legacySession{open: map[string]*stream{}, tokens: map[string]*stream{}}
		var err error
		if s.process, err = f.startProcess(s.receive); err != nil {
			fail(w, http.StatusInternalServerError, m["id"], -32603, err.Error())
			return
		}
		id = rand.Text()
		f.mu.Lock()
		f.sessions[id] = s
		f.mu.Unlock()
	}
	switch {
	case s == nil && id == "":
		fail(w, http.StatusBadRequest, m["id"], -32000, "no session")
		return
	case s == nil:
		fail(w, http.StatusNotFound, m["id"], -32000, "no such session")
		return
	case m["id"] == nil || m["method"] == nil:
		s.process.send(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	st := newStream()
	s.mu.Lock()
	s.open[string(m["id"])] = st
	if token := m.at("params", "_meta", "progressToken"); token != nil {
		s.tokens[string(token)] = st
	}
	s.recent = append(s.recent, st)
	s.mu.Unlock()
	eventHeader(w)
	w.Header().Set("Mcp-Session-Id", id)
	s.process.send(m)
	st.write(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = slices.DeleteFunc(s.recent, func(o *stream) bool { return o == st })
}

// receive takes a message of the process to the response that it belongs to.
func (s *legacySession) receive(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method := m.text("method")
	if method == "" {
		if st := s.open[string(m["id"])]; st != nil {
			delete(s.open, string(m["id"]))
			s.recent = slices.DeleteFunc(s.recent, func(o *stream) bool { return o == st })
			st.events <- m
			close(st.events)
		}
		return
	}
	var st *stream
	if method == "notifications/progress" {
		st = s.tokens[string(m.at("params", "progressToken"))]
	}
	ofSession := strings.HasSuffix(method, "/list_changed") || method == "notifications/resources/updated"
	if st == nil && !ofSession && len(s.recent) > 0 {
		st = s.recent[len(s.recent)-1]
	}
	switch {
	case st != nil && slices.Contains(s.recent, st):
		st.events <- m
	case s.own != nil:
		s.own.events <- m
	default:
		s.queued = append(s.queued, m)
	}
}

// listen serves the stream of a session that belongs to no request.
func (s *legacySession) listen(w http.ResponseWriter, r *http.Request) {
	st := newStream()
	s.mu.Lock()
	s.own = st
	for _, m := range s.queued {
		st.events <- m
	}
	s.queued = nil
	s.mu.Unlock()
	eventHeader(w)
	w.WriteHeader(http.StatusOK)
	st.write(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == st {
		s.own = nil
	}
}

// modernSession is the one process of the stateless era.
type modernSession struct {
	process *stdioProcess

	mu   sync.Mutex
	last int                     // newest id toward the process, guarded by mu
	open map[int]*modernExchange // by id toward the process, guarded by mu
}

// modernExchange is a request that waits for its response.
type modernExchange struct {
	id, token json.RawMessage // as the client sent them; token is nil for none
	stream    *stream
}

func (f *front) startModern() (*modernSession, error) {
	s := &modernSession{open: map[int]*modernExchange{}}
	var err error
	s.process, err = f.startProcess(s.receive)
	return s, err
}

// headerFault says what is wrong with the headers that repeat what the body
// says, "" if nothing is.
func headerFault(r *http.Request, m message) string {
	version := r.Header.Get("Mcp-Protocol-Version")
	body := m.text("params", "_meta", versionKey)
	name := m.text("params", "name")
	if m.text("method") == "resources/read" {
		name = m.text("params", "uri")
	}
	header := r.Header.Get("Mcp-Name")
	if coded, ok := strings.CutPrefix(header, "=?base64?"); ok && strings.HasSuffix(coded, "?=") {
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(coded, "?=")); err == nil {
			header = string(b)
		}
	}
	switch {
	case version == "" || body != "" && version != body:
		return "MCP-Protocol-Version is not what the body says"
	case r.Header.Get("Mcp-Method") != m.text("method"):
		return "Mcp-Method is not what the body says"
	case slices.Contains([]string{"tools/call", "prompts/get", "resources/read"}, m.text("method")) && header != name:
		return "Mcp-Name is not what the body says"
	}
	return ""
}

func (f *front) serveModern(w http.ResponseWriter, r *http.Request, m message) {
	if fault := headerFault(r, m); fault != "" {
		fail(w, http.StatusBadRequest, m["id"], -32020, fault)
		return
	}
	s, err := f.modern()
	if err != nil {
		fail(w, http.StatusInternalServerError, m["id"], -32603, err.Error())
		return
	}
	if m["id"] == nil {
		s.process.send(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.text("params", "_meta", versionKey) == "" || m.at("params", "_meta", capabilitiesKey) == nil {
		fail(w, http.StatusBadRequest, m["id"], -32602, "a member that _meta must have is missing")
		return
	}
	e := &modernExchange{m["id"], m.at("params", "_meta", "progressToken"), newStream()}
	s.mu.Lock()
	s.last++
	n := s.last
	s.open[n] = e
	s.mu.Unlock()
	own := json.RawMessage(strconv.Itoa(n))
	s.process.send(m.with(own, "id").with(own, "params", "_meta", "progressToken"))

	// The first event decides what kind of response this is. Until then there
	// is not even a header: clients take the header of a subscription's
	// response as a sign that it is active.
	select {
	case first := <-e.stream.events:
		if first["method"] == nil {
			answer(w, first)
			return
		}
		eventHeader(w)
		e.stream.write(w, r, first)
	case <-r.Context().Done():
	}
	s.mu.Lock()
	_, unanswered := s.open[n]
	delete(s.open, n)
	s.mu.Unlock()
	if unanswered {
		params, _ := json.Marshal(map[string]any{"requestId": n, "reason": "the client closed the stream"})
		s.process.send(message{"jsonrpc": json.RawMessage(`"2.0"`), "method": json.RawMessage(`"notifications/cancelled"`), "params": params})
	}
}

// answer writes a response that nothing came before as plain JSON.
func answer(w http.ResponseWriter, m message) {
	status := http.StatusOK
	code, _ := strconv.Atoi(string(cmp.Or(string(m.at("error", "code")), "0")))
	switch code {
	case -32601:
		status = http.StatusNotFound
	case -32020, -32021, -32022:
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(m)
}

// receive gives a message of the process its client's ids back and takes it to
// the response that it belongs to.
func (s *modernSession) receive(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	find := func(path ...string) *modernExchange {
		n, err := strconv.Atoi(string(m.at(path...)))
		if err != nil {
			return nil
		}
		return s.open[n]
	}
	method := m.text("method")
	if method == "" {
		e := find("id")
		if e == nil {
			return
		}
		n, _ := strconv.Atoi(string(m["id"]))
		delete(s.open, n)
		e.stream.events <- m.with(e.id, "id").with(e.id, "result", "_meta", subscriptionKey)
		close(e.stream.events)
		return
	}
	var e *modernExchange
	switch {
	case m.at("params", "_meta", subscriptionKey) != nil:
		if e = find("params", "_meta", subscriptionKey); e != nil {
			m = m.with(e.id, "params", "_meta", subscriptionKey)
		}
	case method == "notifications/progress":
		if e = find("params", "progressToken"); e != nil {
			m = m.with(e.token, "params", "progressToken")
		}
	case method == "notifications/cancelled":
		if e = find("params", "requestId"); e != nil {
			m = m.with(e.id, "params", "requestId")
		}
	default: // a log message names no request: the newest gets it
		for n := s.last; n > 0 && e == nil; n-- {
			e = s.open[n]
		}
	}
	if e != nil {
		e.stream.events <- m
	}
}
