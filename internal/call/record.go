package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Version is the V of records that this package writes.
const Version = 1

// Most bytes of a record's body. A record of an end has a slot kept for it from
// its intent on, which is why it is small.
const (
	MaxRecord  = 64 << 10
	MaxOutcome = 4 << 10
)

// Kind says what a record tells.
type Kind string

const (
	SessionStart Kind = "session.start"
	SessionEnd   Kind = "session.end"
	SessionGap   Kind = "session.gap" // intents that were not recorded
	ServerExit   Kind = "server.exit"
	CallIntent   Kind = "call.intent"
	CallDispatch Kind = "call.dispatch"
	CallOutcome  Kind = "call.outcome"
	CallLate     Kind = "call.late"      // an answer after the end of its call
	CallGiven    Kind = "call.delivered" // of an answer that waited for the host when its outcome was recorded
	ToolChanged  Kind = "tool.changed"
	Debug        Kind = "debug"
)

// Record is one entry of the audit log: what was observed, when, of which
// session. Session and Seq name it; a repeat of both is the same record. Of the
// pointers exactly the one of its Kind is set.
type Record struct {
	V       int    `json:"v"`
	Kind    Kind   `json:"kind"`
	Session string `json:"session_id"`
	Seq     uint64 `json:"sequence"` // of records in the session, from 1
	Time    Time   `json:"time"`
	Mono    int64  `json:"mono_ms"` // since the start of the session
	CallID  string `json:"call_id,omitempty"`

	Start    *Start    `json:"start,omitempty"`
	End      *End      `json:"end,omitempty"`
	Gap      *Gap      `json:"gap,omitempty"`
	Exit     *Exit     `json:"exit,omitempty"`
	Intent   *Intent   `json:"intent,omitempty"`
	Dispatch *Dispatch `json:"dispatch,omitempty"`
	Outcome  *Outcome  `json:"outcome,omitempty"`
	Late     *Late     `json:"late,omitempty"`
	Given    *Given    `json:"given,omitempty"`
	Tool     *Tool     `json:"tool,omitempty"`
	Window   *Window   `json:"window,omitempty"`
}

// Time is a wall-clock time that is written in RFC 3339 with milliseconds, in
// UTC.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// At returns t as records hold it, cut to milliseconds.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Round(0).Truncate(time.Millisecond)}
}

// MarshalText returns t in RFC 3339 with milliseconds.
func (t Time) MarshalText() ([]byte, error) { return t.UTC().AppendFormat(nil, timeLayout), nil }

// MarshalJSON is MarshalText in quotes; null for the zero time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(nil, `"`+timeLayout+`"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Time{}
		return nil
	}
	p, err := time.Parse(`"`+timeLayout+`"`, string(b))
	if err != nil || p.Year() < 1970 || p.Year() > 9999 || len(b) > 40 {
		return fmt.Errorf("no time: %.40q", b)
	}
	*t = At(p)
	return nil
}

// UnmarshalText reads the word of a state.
func (s *State) UnmarshalText(b []byte) error {
	for i, w := range words {
		if w == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("no state: %.40q", b)
}

// Start tells of a session that begins.
type Start struct {
	Server    string   `json:"server"`
	Command   []string `json:"command"` // masked and bounded
	PID       int      `json:"pid"`     // of the bridge
	Host      int      `json:"host_pid,omitempty"`
	OnFailure string   `json:"on_failure"` // "observe" or "refuse"
	Build     string   `json:"build,omitempty"`
}

// End tells of a session that ended. Nothing is known of the server of a
// session whose bridge vanished: then all but Reason is unset.
type End struct {
	Reason     string           `json:"reason"`
	Exit       *Exit            `json:"server_exit"` // of the last process; null if not observed
	Calls      map[string]int64 `json:"calls,omitempty"`
	Starts     int64            `json:"starts,omitempty"`
	Unrecorded int64            `json:"unrecorded_intents,omitempty"` // went on without
	Overdue    int64            `json:"overdue_intents,omitempty"`    // recorded, but after their call went on
}

// Exit tells how one process of the server ended.
type Exit struct {
	PID        int       `json:"pid,omitempty"`
	ExitStatus *int      `json:"exit_status"` // null: not observed, or ended by a signal
	Signal     string    `json:"signal,omitempty"`
	StdoutEnd  string    `json:"stdout_end,omitempty"`
	StderrEnd  string    `json:"stream_end,omitempty"`
	Forced     bool      `json:"forced,omitempty"`
	Stderr     Stderr    `json:"stderr"`
	Left       []Process `json:"left,omitempty"` // descendants in sessions of their own
	LeftMore   int       `json:"left_more,omitempty"`
}

// Process is a descendant that outlived the server.
type Process struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// Gap tells of intents that could not be recorded, though their calls went on.
type Gap struct {
	Count  int64  `json:"count"`
	First  Time   `json:"first"`
	Last   Time   `json:"last"`
	Reason string `json:"reason,omitempty"`
}

// Intent tells of a call before anything is done for it.
type Intent struct {
	Action    string `json:"action"` // the method
	Server    string `json:"server"`
	Tool      string `json:"tool,omitempty"`
	ToolHash  string `json:"tool_digest,omitempty"` // of the definition; "" if it was never listed
	Target    string `json:"target,omitempty"`      // what a person was, or would be, shown
	RequestID string `json:"request_id,omitempty"`  // the host's id, as it wrote it

	Arguments
	BytesIn int64 `json:"bytes_in"` // of the request

	Decision  string `json:"decision"`             // "allow" or "deny"; "ask" while that is open
	DecidedBy string `json:"decided_by,omitempty"` // "default", "policy", or who
	Rule      string `json:"rule,omitempty"`

	Received     Time  `json:"requested_at"`
	ReceivedMono int64 `json:"requested_mono_ms"`
	Debug        bool  `json:"debug_window,omitempty"`
}

// Arguments is what a record keeps of a call's arguments.
type Arguments struct {
	Digest    string `json:"arguments_digest,omitempty"` // see [Digest]
	Bytes     int64  `json:"arguments_bytes"`
	Preview   string `json:"arguments_preview,omitempty"` // canonical, masked, cut
	Truncated bool   `json:"preview_truncated,omitempty"`
	Masked    int    `json:"masked,omitempty"` // places
}

// Dispatch tells that the first byte of a call was handed over.
type Dispatch struct {
	PID     int   `json:"pid,omitempty"` // of the process that got it
	Queued  int64 `json:"queued_ms"`
	Attempt int   `json:"attempt"`
}

// Step is a transition of a call.
type Step struct {
	State State `json:"state"`
	Time  Time  `json:"time"`
	Mono  int64 `json:"mono_ms"`
}

// Outcome tells how a call ended, as far as that was observed.
type Outcome struct {
	State   State   `json:"state"`
	Cause   string  `json:"cause,omitempty"`
	Failure Failure `json:"failure,omitempty"`
	Steps   []Step  `json:"steps"`

	// Four facts that are easily taken for one another.
	Delivered *bool  `json:"delivered"` // the host's pipe took all of the answer; null: not observed
	RPC       string `json:"rpc"`       // what the server answered: RPCResult and so on
	RPCCode   *int64 `json:"rpc_code,omitempty"`
	IsError   *bool  `json:"is_error"` // of the tool's result; null where there is none
	Given     string `json:"given"`    // to the host: GivenWhole and so on

	AnsweredBy string `json:"answered_by,omitempty"` // "server" or "penstock"
	BytesIn    int64  `json:"bytes_in"`              // of the request
	BytesOut   int64  `json:"bytes_out"`             // of the server's answer
	BytesGiven int64  `json:"bytes_given"`           // of the answer that the host was given
	Handle     string `json:"handle,omitempty"`      // of the whole result

	Stderr
	ExitStatus *int   `json:"exit_status"` // null: not observed
	Signal     string `json:"signal,omitempty"`
	StreamEnd  string `json:"stream_end"` // a word of DESIGN section 6, or StreamOpen, StreamNone
	Attempts   int    `json:"attempts"`
	Debug      bool   `json:"debug_window,omitempty"`
}

// What a server answered.
const (
	RPCResult = "result"
	RPCError  = "error"
	RPCNone   = "none"
	RPCUnread = "unread" // an answer of which that was not seen
)

// What a host was given.
const (
	GivenWhole    = "whole"
	GivenCut      = "cut"
	GivenReplaced = "replaced" // a text of ours
	GivenNothing  = "nothing"
)

// Ends of a stream besides those of package child.
const (
	StreamOpen    = "open"    // it goes on
	StreamNone    = "none"    // the call had none
	StreamUnknown = "unknown" // not observed
)

// Stderr is what was seen and kept of a stream of diagnostics during a call.
type Stderr struct {
	Seen      int64  `json:"stderr_bytes_seen"`
	Retained  int64  `json:"stderr_bytes_retained"`
	Truncated bool   `json:"stderr_truncated"`
	Retain    string `json:"stderr_retain,omitempty"`      // "tail" or "head_and_tail"
	Shared    int64  `json:"stderr_shared_with,omitempty"` // other calls during the interval
	LetGo     string `json:"stderr_let_go,omitempty"`      // SHA-256 of what the stream let go so far
}

// Late tells of an answer that came after the end of its call.
type Late struct {
	Delay int64 `json:"late_reply_ms"`
}

// Given tells whether the host took an answer after all.
type Given struct {
	Delivered bool `json:"delivered"`
}

// Tool tells of a definition that changed during the session.
type Tool struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Window tells of a debug window.
type Window struct {
	On    bool `json:"on"`
	Until Time `json:"until"`
}

// Errors of [ParseRecord]. Their scope is the record.
var (
	ErrRecord  = errors.New("no call record")
	ErrVersion = errors.New("a call record of a later version")
)

// ParseRecord reads the body of a record. Members that it does not know are
// left out, so what it returns is what was checked. Errors are ErrVersion or
// wrap ErrRecord.
func ParseRecord(b []byte) (*Record, error) {
	if len(b) > MaxRecord {
		return nil, bad("%d bytes", len(b))
	}
	if !utf8.Valid(b) {
		return nil, bad("invalid UTF-8")
	}
	if err := plainNames(b); err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, bad("%.200v", err)
	}
	if r.V > Version {
		return nil, ErrVersion
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRecord}, args...)...)
}

// plainNames refuses an object in which a name occurs twice, or in a second
// spelling: of such a record two readers could see different things.
func plainNames(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	type level struct {
		names map[string]bool // nil in an array
		name  bool            // a name comes next
	}
	var stack []level
	for {
		tok, err := d.Token()
		if err != nil {
			if len(stack) == 0 {
				return nil // the end, or an error that Unmarshal reports
			}
			return bad("%.200v", err)
		}
		top := len(stack) - 1
		if top >= 0 && stack[top].name {
			if s, ok := tok.(string); ok {
				key := strings.ToLower(s)
				if stack[top].names[key] {
					return bad("the member %.40q twice", s)
				}
				stack[top].names[key] = true
				stack[top].name = false
				continue
			}
		}
		switch tok {
		case json.Delim('{'):
			if top >= 0 && stack[top].names != nil {
				stack[top].name = true
			}
			stack = append(stack, level{names: map[string]bool{}, name: true})
		case json.Delim('['):
			if top >= 0 && stack[top].names != nil {
				stack[top].name = true
			}
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		default:
			if top >= 0 && stack[top].names != nil {
				stack[top].name = true
			}
		}
		if len(stack) > 16 {
			return bad("nested too deep")
		}
	}
}

// check holds what a record must satisfy to be believed.
func (r *Record) check() error {
	if r.V < 1 {
		return bad("version %d", r.V)
	}
	if !ident(r.Session, "s_") || r.Seq < 1 || r.Seq > 1<<53 || r.Time.IsZero() || r.Mono < 0 {
		return bad("no session, sequence or time")
	}
	parts := map[Kind]bool{
		SessionStart: r.Start != nil, SessionEnd: r.End != nil, SessionGap: r.Gap != nil, ServerExit: r.Exit != nil,
		CallIntent: r.Intent != nil, CallDispatch: r.Dispatch != nil, CallOutcome: r.Outcome != nil, CallLate: r.Late != nil, CallGiven: r.Given != nil,
		ToolChanged: r.Tool != nil, Debug: r.Window != nil,
	}
	if !parts[r.Kind] {
		return bad("kind %.40q without its part", r.Kind)
	}
	for k, set := range parts {
		if set && k != r.Kind {
			return bad("kind %s with the part of %s", r.Kind, k)
		}
	}
	ofCall := strings.HasPrefix(string(r.Kind), "call.")
	if ofCall && (!ident(r.CallID, "c_") || !strings.HasPrefix(r.CallID, "c_"+r.Session[2:]+"_")) {
		return bad("call_id %.80q in session %s", r.CallID, r.Session)
	}
	if !ofCall && r.CallID != "" {
		return bad("kind %s with a call_id", r.Kind)
	}
	switch {
	case r.Outcome != nil:
		return r.Outcome.check()
	case r.Intent != nil:
		i := r.Intent
		if i.Action == "" || i.Received.IsZero() || i.BytesIn < 0 || i.Bytes < 0 || i.Masked < 0 || i.ReceivedMono < 0 {
			return bad("an intent without action or time")
		}
		switch i.Decision {
		case "allow", "deny", "ask":
		default:
			return bad("decision %.40q", i.Decision)
		}
	case r.Gap != nil && (r.Gap.Count < 1 || r.Gap.First.IsZero() || r.Gap.Last.Before(r.Gap.First.Time)):
		return bad("an empty gap")
	case r.Late != nil && r.Late.Delay < 0:
		return bad("a negative delay")
	case r.Dispatch != nil && (r.Dispatch.Attempt < 1 || r.Dispatch.Queued < 0):
		return bad("attempt %d", r.Dispatch.Attempt)
	case r.Exit != nil:
		return r.Exit.Stderr.check()
	}
	return nil
}

func (o *Outcome) check() error {
	if !o.State.Terminal() {
		return bad("an outcome in state %s", o.State)
	}
	if sent := o.State.AfterDispatch(); sent != (o.Attempts > 0) || o.Attempts < 0 {
		return bad("state %s after %d attempts", o.State, o.Attempts)
	}
	if (o.Failure != "") != (o.State == FailedAfterDispatch) {
		return bad("state %s with failure %.40q", o.State, o.Failure)
	}
	switch o.Failure {
	case "", Local, Remote, ForcedTermination:
	default:
		return bad("failure %.40q", o.Failure)
	}
	switch o.RPC {
	case RPCResult, RPCError, RPCNone, RPCUnread:
	default:
		return bad("rpc %.40q", o.RPC)
	}
	switch o.Given {
	case GivenWhole, GivenCut, GivenReplaced, GivenNothing:
	default:
		return bad("given %.40q", o.Given)
	}
	if o.StreamEnd == "" {
		return bad("no stream_end")
	}
	if o.BytesIn < 0 || o.BytesOut < 0 || o.BytesGiven < 0 || len(o.Steps) > numStates {
		return bad("negative bytes, or too many steps")
	}
	for _, s := range o.Steps {
		if s.Time.IsZero() || s.Mono < 0 {
			return bad("a step without a time")
		}
	}
	return o.Stderr.check()
}

func (s *Stderr) check() error {
	if s.Seen < 0 || s.Retained < 0 || s.Retained > s.Seen || s.Shared < 0 || s.Truncated != (s.Retained < s.Seen) {
		return bad("stderr: %d of %d bytes, truncated %v", s.Retained, s.Seen, s.Truncated)
	}
	return nil
}

// ident reports whether s is prefix and a short word.
func ident(s, prefix string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || rest == "" || len(s) > 96 {
		return false
	}
	for _, c := range []byte(rest) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// Received returns when the call of an outcome was asked for, zero if that is
// not said.
func (o *Outcome) Received() Time {
	for _, s := range o.Steps {
		if s.State == Received {
			return s.Time
		}
	}
	return Time{}
}

// Lost returns the outcome of a call whose bridge vanished: nothing was
// observed, so it says unknown. Whether the call was dispatched is unknown too,
// since that record is awaited by nobody; saying that it may have run is the
// safe side.
func Lost(intent *Record, seq uint64, now time.Time, cause string) *Record {
	at := At(now)
	return &Record{
		V: Version, Kind: CallOutcome, Session: intent.Session, Seq: seq, Time: at, Mono: intent.Mono + max(0, at.Sub(intent.Time.Time).Milliseconds()),
		CallID: intent.CallID,
		Outcome: &Outcome{
			State: OutcomeUnknown, Cause: cause, RPC: RPCNone, Given: GivenNothing, BytesIn: intent.Intent.BytesIn,
			Steps:     []Step{{Received, intent.Intent.Received, intent.Intent.ReceivedMono}},
			StreamEnd: StreamUnknown, Attempts: 1, Debug: intent.Intent.Debug,
		},
	}
}

// Clip returns s cut to at most n bytes at a character boundary, with invalid
// UTF-8 replaced.
func Clip(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
