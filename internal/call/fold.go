package call

import "strings"

// Facts is the smallest honest account of a call.
type Facts struct {
	CallID         string `json:"call_id"`
	State          State  `json:"state"`
	StderrSeen     int64  `json:"stderr_bytes_seen"`
	StderrRetained int64  `json:"stderr_bytes_retained"`
	StderrCut      bool   `json:"stderr_truncated"`
	ExitStatus     *int   `json:"exit_status"` // null: not observed
	StreamEnd      string `json:"stream_end"`
}

// Row is one call of the Activity journal. Times are null where a transition
// was not observed.
type Row struct {
	Facts
	Session string `json:"session_id"`
	Server  string `json:"server"`
	Action  string `json:"action"`
	Tool    string `json:"tool"`
	Target  string `json:"target"`

	Decision  string `json:"decision"`
	DecidedBy string `json:"decided_by"`
	Rule      string `json:"rule,omitempty"`

	Requested  Time `json:"requested_at"`
	Dispatched Time `json:"dispatched_at"`
	Ended      Time `json:"ended_at"`

	BytesIn   int64  `json:"bytes_in"`
	BytesOut  int64  `json:"bytes_out"`
	Delivered *bool  `json:"delivered"`
	RPC       string `json:"rpc"`
	IsError   *bool  `json:"is_error"`
	Given     string `json:"given"`

	Cause     string  `json:"cause,omitempty"`
	Failure   Failure `json:"failure,omitempty"`
	LateReply *int64  `json:"late_reply_ms,omitempty"`
	Attempts  int     `json:"attempts"`
	Debug     bool    `json:"debug_window,omitempty"`

	Arguments

	Intent, Outcome bool `json:"-"` // whether the record was seen

	given bool // Delivered is of a later record than the outcome
}

// SessionRow is one session of the Sessions journal.
type SessionRow struct {
	Session    string           `json:"session_id"`
	Server     string           `json:"server"`
	Command    []string         `json:"command"`
	Started    Time             `json:"started_at"`
	Ended      Time             `json:"ended_at"` // null: no end was recorded
	Reason     string           `json:"reason,omitempty"`
	Exit       *Exit            `json:"server_exit"`
	Calls      int64            `json:"calls"`
	States     map[string]int64 `json:"calls_by_state"`
	Unrecorded int64            `json:"unrecorded_intents"`
	Exits      int64            `json:"server_exits"`
	Tools      []Tool           `json:"tools_changed,omitempty"`
}

// Fold makes the journals from records, in whatever order they come. A record
// that comes twice counts once. The zero Fold is empty. It is not safe for
// concurrent use.
type Fold struct {
	rows     map[string]*Row
	order    []*Row
	sessions map[string]*session
	list     []*session
}

type session struct {
	SessionRow
	seen  ranges
	calls []*Row
}

// Add takes a record, which must have passed [ParseRecord]. It reports whether
// the record was new.
func (f *Fold) Add(r *Record) bool {
	if f.rows == nil {
		f.rows, f.sessions = map[string]*Row{}, map[string]*session{}
	}
	s := f.sessions[r.Session]
	if s == nil {
		s = &session{SessionRow: SessionRow{Session: r.Session}}
		f.sessions[r.Session] = s
		f.list = append(f.list, s)
	}
	if !s.seen.add(r.Seq) {
		return false
	}
	switch {
	case r.Start != nil:
		s.Server, s.Command, s.Started = r.Start.Server, r.Start.Command, r.Time
	case r.End != nil:
		s.Ended, s.Reason = r.Time, r.End.Reason
		if r.End.Exit != nil {
			s.SessionRow.Exit = r.End.Exit
		}
	case r.Exit != nil:
		s.Exits++
		if s.SessionRow.Exit == nil || s.Ended.IsZero() {
			s.SessionRow.Exit = r.Exit
		}
	case r.Gap != nil:
		s.Unrecorded += r.Gap.Count
	case r.Tool != nil:
		s.Tools = append(s.Tools, *r.Tool)
	case r.CallID != "":
		f.row(r, s).add(r)
	}
	return true
}

func (f *Fold) row(r *Record, s *session) *Row {
	row := f.rows[r.CallID]
	if row == nil {
		row = &Row{Session: r.Session, Server: s.Server, RPC: RPCNone, Given: GivenNothing}
		row.CallID, row.StreamEnd = r.CallID, StreamUnknown
		f.rows[r.CallID] = row
		f.order = append(f.order, row)
		s.calls = append(s.calls, row)
	}
	return row
}

func (row *Row) add(r *Record) {
	switch {
	case r.Intent != nil:
		i := r.Intent
		row.Intent = true
		row.Server, row.Action, row.Tool, row.Target = i.Server, i.Action, i.Tool, i.Target
		row.Decision, row.DecidedBy, row.Rule = i.Decision, i.DecidedBy, i.Rule
		row.Requested, row.BytesIn, row.Arguments = i.Received, i.BytesIn, i.Arguments
		row.Debug = row.Debug || i.Debug
		if row.State == Received {
			row.State = Authorized
			if i.Decision == "ask" {
				row.State = AwaitingApproval
			}
		}
	case r.Dispatch != nil:
		row.Attempts = max(row.Attempts, r.Dispatch.Attempt)
		if row.Dispatched.IsZero() {
			row.Dispatched = r.Time
		}
		if !row.Outcome {
			row.State = Dispatched
		}
	case r.Outcome != nil:
		if row.Outcome {
			return // a second one is the verifier's to report; the first stands
		}
		o := r.Outcome
		row.Outcome = true
		row.State, row.Cause, row.Failure, row.Ended = o.State, o.Cause, o.Failure, r.Time
		row.StderrSeen, row.StderrRetained, row.StderrCut = o.Seen, o.Retained, o.Truncated
		row.ExitStatus, row.StreamEnd = o.ExitStatus, o.StreamEnd
		row.BytesOut, row.RPC, row.IsError, row.Given = o.BytesOut, o.RPC, o.IsError, o.Given
		if !row.given {
			row.Delivered = o.Delivered
		}
		row.BytesIn = max(row.BytesIn, o.BytesIn)
		row.Attempts = max(row.Attempts, o.Attempts)
		row.Debug = row.Debug || o.Debug
		for _, step := range o.Steps {
			switch {
			case step.State == Received && row.Requested.IsZero():
				row.Requested = step.Time
			case step.State == Dispatched:
				row.Dispatched = step.Time
			case step.State == o.State:
				row.Ended = step.Time
			}
		}
	case r.Late != nil:
		row.LateReply = &r.Late.Delay
	case r.Given != nil:
		row.Delivered, row.given = &r.Given.Delivered, true
	}
}

// Activity returns a row for each call, in the order in which they were first
// heard of. A call without an outcome in a session that ended is one of unknown
// outcome. The rows belong to the caller.
func (f *Fold) Activity() []Row {
	out := make([]Row, 0, len(f.order))
	for _, row := range f.order {
		out = append(out, f.finished(row))
	}
	return out
}

// Call returns the row of one call, and reports whether there is one.
func (f *Fold) Call(id string) (Row, bool) {
	row := f.rows[id]
	if row == nil {
		return Row{}, false
	}
	return f.finished(row), true
}

func (f *Fold) finished(row *Row) Row {
	r := *row
	if s := f.sessions[r.Session]; !r.State.Terminal() && !s.Ended.IsZero() {
		r.State, r.Cause = OutcomeUnknown, "no outcome was recorded"
	}
	return r
}

// Sessions returns a row for each session, in the order in which they were first
// heard of. The rows belong to the caller.
func (f *Fold) Sessions() []SessionRow {
	out := make([]SessionRow, 0, len(f.list))
	for _, s := range f.list {
		row := s.SessionRow
		row.Calls, row.States = int64(len(s.calls)), map[string]int64{}
		for _, c := range s.calls {
			row.States[f.finished(c).State.String()]++
		}
		out = append(out, row)
	}
	return out
}

// SessionOf returns the session of a call_id, "" if it is none.
func SessionOf(callID string) string {
	rest, ok := strings.CutPrefix(callID, "c_")
	i := strings.LastIndexByte(rest, '_')
	if !ok || i <= 0 {
		return ""
	}
	return "s_" + rest[:i]
}

// ranges is a set of numbers that come nearly in order, so that it stays small.
type ranges []span

type span struct{ from, to uint64 } // both in the set

// add puts n into the set and reports whether it was not there.
func (r *ranges) add(n uint64) bool {
	i := len(*r)
	for i > 0 && (*r)[i-1].from > n {
		i--
	}
	if i > 0 && n <= (*r)[i-1].to {
		return false
	}
	after := i > 0 && (*r)[i-1].to+1 == n
	before := i < len(*r) && n+1 == (*r)[i].from
	switch {
	case after && before:
		(*r)[i-1].to = (*r)[i].to
		*r = append((*r)[:i], (*r)[i+1:]...)
	case after:
		(*r)[i-1].to = n
	case before:
		(*r)[i].from = n
	default:
		*r = append(*r, span{})
		copy((*r)[i+1:], (*r)[i:])
		(*r)[i] = span{n, n}
	}
	return true
}
