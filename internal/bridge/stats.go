package bridge

import (
	"encoding/json"
	"time"

	"github.com/penstock-dev/penstock/child"
	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// counters are what a session counts. Guarded by the session's lock.
type counters struct {
	Counters
	states     map[call.State]int64
	flushing   bool        // the end of the session waits for the host's writer
	server     StreamStats // of generations that ended
	stderrSeen int64       // likewise
	stderrKept int64
	exits      []ServerExit
}

// Counters are the plain counts of a session.
type Counters struct {
	Calls        int64 `json:"calls"`
	AnsweredByUs int64 `json:"answered_by_penstock"` // failures and refusals
	Timeouts     int64 `json:"timeouts"`
	Overload     int64 `json:"overload"` // frames refused because a bound was reached

	FramesToHost   int64 `json:"frames_to_host"`
	BytesToHost    int64 `json:"bytes_to_host"`
	FramesToServer int64 `json:"frames_to_server"`
	BytesToServer  int64 `json:"bytes_to_server"`

	HostViolations   int64 `json:"host_violations"`
	HostOversize     int64 `json:"host_oversize"`
	HostDebris       int64 `json:"host_debris"` // answers and progress to what is not open
	HostOverrun      bool  `json:"host_overrun"`
	ServerViolations int64 `json:"server_violations"`
	ServerOversize   int64 `json:"server_oversize"`
	ServerDebris     int64 `json:"server_debris"`
	UnknownReplies   int64 `json:"unknown_replies"`
	LateReplies      int64 `json:"late_replies"`
	RepairedIDs      int64 `json:"repaired_ids"`

	Cut            int64 `json:"results_cut"`
	CutBytes       int64 `json:"results_cut_bytes"` // left out of what hosts were given
	Kept           int64 `json:"results_kept"`
	NotKept        int64 `json:"results_not_kept"`
	LargeToolLists int64 `json:"large_tool_lists"`

	CancelsReceived        int64 `json:"cancels_received"`
	CancelsSent            int64 `json:"cancels_sent"`
	CancelsIgnored         int64 `json:"cancels_ignored"`
	CancelledDelivery      int64 `json:"cancelled_delivery"` // answers dropped because the host had cancelled
	CancelsNotAcknowledged int64 `json:"cancels_not_acknowledged"`
	Unresponsive           int64 `json:"unresponsive"`

	Starts     int64 `json:"starts"`
	Restarts   int64 `json:"restarts"`
	Exits      int64 `json:"exits"`
	LastExit   *int  `json:"last_exit"`  // null: not observed
	Impossible int64 `json:"impossible"` // transitions refused: a bug of ours

	DispatchWait    time.Duration `json:"-"` // calls waiting for room in the server's stdin
	DispatchWaitMax time.Duration `json:"-"`
	LateReplyMax    time.Duration `json:"-"`
}

// ServerExit is what was observed of the end of one server process.
type ServerExit struct {
	ExitStatus *int   `json:"exit_status"`
	Signal     string `json:"signal,omitempty"`
	Stdout     string `json:"stdout_end"`
	Stderr     string `json:"stderr_end"`
	Forced     bool   `json:"forced"`
	Left       int    `json:"descendants_left"`
}

// Stats is a picture of a session, for people and programs. Durations are in
// milliseconds, sizes in bytes.
type Stats struct {
	SessionID string `json:"session_id"`
	Server    string `json:"server"`
	Counters
	States            map[string]int64 `json:"ended_by_state"`
	OpenCalls         int              `json:"open_calls"`
	OpenAsks          int              `json:"open_server_requests"`
	DispatchWaitMS    float64          `json:"dispatch_wait_ms"`
	DispatchWaitMaxMS float64          `json:"dispatch_wait_max_ms"`
	LateReplyMaxMS    float64          `json:"late_reply_max_ms"`
	Host              StreamStats      `json:"host_stdin"`
	Stdout            StreamStats      `json:"server_stdout"`
	StderrSeen        int64            `json:"stderr_bytes_seen"`
	StderrKept        int64            `json:"stderr_bytes_retained"`
	LogDropped        int64            `json:"log_bytes_dropped"`
	QueueToHost       QueueStats       `json:"queue_to_host"`
	QueueToServer     QueueStats       `json:"queue_to_server"`
	ServerExits       []ServerExit     `json:"server_exits"`
}

// StreamStats are the counts of one byte stream, in the words of [frame.Stats].
type StreamStats struct {
	Bytes          int64 `json:"bytes"`
	Frames         int64 `json:"frames"`
	LargestFrame   int64 `json:"largest_frame"`
	Blank          int64 `json:"blank_lines"`
	CR             int64 `json:"cr_lf_lines"`
	BOM            int64 `json:"byte_order_marks"`
	Violations     int64 `json:"violations"`
	ViolationBytes int64 `json:"violation_bytes"`
	Oversize       int64 `json:"oversize"`
	OversizeBytes  int64 `json:"oversize_bytes"`
	Replaced       int64 `json:"utf8_replaced"`
	Escaped        int64 `json:"separators_escaped"`
}

func streamStats(s frame.Stats) StreamStats { return StreamStats(s) }

func (a *StreamStats) add(b StreamStats) {
	a.Bytes += b.Bytes
	a.Frames += b.Frames
	a.LargestFrame = max(a.LargestFrame, b.LargestFrame)
	a.Blank += b.Blank
	a.CR += b.CR
	a.BOM += b.BOM
	a.Violations += b.Violations
	a.ViolationBytes += b.ViolationBytes
	a.Oversize += b.Oversize
	a.OversizeBytes += b.OversizeBytes
	a.Replaced += b.Replaced
	a.Escaped += b.Escaped
}

// QueueStats is a picture of one queue.
type QueueStats struct {
	Bytes   int `json:"bytes"`
	Entries int `json:"entries"`
	Most    int `json:"bytes_max"`
	rpc.Dropped
}

// maxExits bounds the exits that are listed one by one.
const maxExits = 32

func (c *counters) end(state call.State) {
	if c.states == nil {
		c.states = map[call.State]int64{}
	}
	c.states[state]++
}

func (c *counters) report(r child.Report) {
	if len(c.exits) < maxExits {
		c.exits = append(c.exits, ServerExit{
			ExitStatus: r.ExitCode, Signal: r.Signal, Forced: r.Forced, Left: len(r.Descendants),
			Stdout: string(r.Stdout.End), Stderr: string(r.Stderr.End),
		})
	}
}

// addStreams adds what a generation's streams counted. Called with the lock
// held, when its output has been read.
func (s *Session) addStreams(g *generation) {
	if g.out != nil {
		s.stats.server.add(streamStats(g.out.Stats()))
	}
	s.stats.stderrSeen += g.ch.StderrSeen()
	s.stats.stderrKept += g.stderr.Snapshot().Kept()
}

// Stats returns a picture of the session. It may be called at any time, also
// after Run.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.stats
	st := Stats{
		SessionID: s.id, Server: s.c.Name, Counters: c.Counters, States: map[string]int64{},
		OpenCalls: s.calls.Len(), OpenAsks: s.asks.Len(),
		DispatchWaitMS: ms(c.DispatchWait), DispatchWaitMaxMS: ms(c.DispatchWaitMax), LateReplyMaxMS: ms(c.LateReplyMax),
		Host: streamStats(s.host.Stats()), Stdout: c.server, StderrSeen: c.stderrSeen, StderrKept: c.stderrKept,
		QueueToHost: queueStats(s.toHost), QueueToServer: queueStats(s.toServer),
		ServerExits: append([]ServerExit{}, c.exits...),
	}
	for state, n := range c.states {
		st.States[state.String()] = n
	}
	if g := s.server; g != nil {
		if g.out != nil {
			st.Stdout.add(streamStats(g.out.Stats()))
		}
		st.StderrSeen += g.ch.StderrSeen()
		st.StderrKept += g.stderr.Snapshot().Kept()
	}
	s.log.mu.Lock()
	st.LogDropped = s.log.total
	s.log.mu.Unlock()
	return st
}

// LogStats writes the picture to the log of the session, as a line of JSON, and
// waits for nobody who reads it.
func (s *Session) LogStats() {
	b, err := json.Marshal(s.Stats())
	if err != nil {
		return // not with these types
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if len(s.log.queue) < 2*logQueue {
		s.log.push("", b)
	}
}

func queueStats(q *rpc.Queue) QueueStats {
	return QueueStats{Bytes: q.Bytes(), Entries: q.Len(), Most: q.HighWater, Dropped: q.Dropped}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
