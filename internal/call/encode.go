package call

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Marshal returns the body of r. Whoever fills a record bounds its texts, with
// [Clip] or [Masker].
//
// The three records that each call makes are written by hand, since they are made
// while the call waits: encoding/json takes several times as long for the same
// bytes.
func (r *Record) Marshal() []byte {
	if r.Intent == nil && r.Dispatch == nil && r.Outcome == nil {
		return r.slow()
	}
	e := encoder{make([]byte, 0, 1024)}
	e.b = append(e.b, `{"v":`...)
	e.b = strconv.AppendInt(e.b, int64(r.V), 10)
	e.str(`,"kind":`, string(r.Kind))
	e.str(`,"session_id":`, r.Session)
	e.b = append(e.b, `,"sequence":`...)
	e.b = strconv.AppendUint(e.b, r.Seq, 10)
	e.time(`,"time":`, r.Time)
	e.num(`,"mono_ms":`, r.Mono)
	e.opt(`,"call_id":`, r.CallID)
	switch {
	case r.Intent != nil:
		e.intent(r.Intent)
	case r.Dispatch != nil:
		e.b = append(e.b, `,"dispatch":{`...)
		if r.Dispatch.PID != 0 {
			e.num(`"pid":`, int64(r.Dispatch.PID))
			e.b = append(e.b, ',')
		}
		e.num(`"queued_ms":`, r.Dispatch.Queued)
		e.num(`,"attempt":`, int64(r.Dispatch.Attempt))
	default:
		e.outcome(r.Outcome)
	}
	return append(e.b, "}}"...)
}

func (r *Record) slow() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("call: marshal record: " + err.Error()) // no member can fail
	}
	return b
}

// encoder writes what encoding/json would.
type encoder struct{ b []byte }

func (e *encoder) intent(i *Intent) {
	e.str(`,"intent":{"action":`, i.Action)
	e.str(`,"server":`, i.Server)
	e.opt(`,"tool":`, i.Tool)
	e.opt(`,"tool_digest":`, i.ToolHash)
	e.opt(`,"target":`, i.Target)
	e.opt(`,"request_id":`, i.RequestID)
	e.opt(`,"arguments_digest":`, i.Digest)
	e.num(`,"arguments_bytes":`, i.Bytes)
	e.opt(`,"arguments_preview":`, i.Preview)
	e.flag(`,"preview_truncated":true`, i.Truncated)
	if i.Masked != 0 {
		e.num(`,"masked":`, int64(i.Masked))
	}
	e.num(`,"bytes_in":`, i.BytesIn)
	e.str(`,"decision":`, i.Decision)
	e.opt(`,"decided_by":`, i.DecidedBy)
	e.opt(`,"rule":`, i.Rule)
	e.time(`,"requested_at":`, i.Received)
	e.num(`,"requested_mono_ms":`, i.ReceivedMono)
	e.flag(`,"debug_window":true`, i.Debug)
}

func (e *encoder) outcome(o *Outcome) {
	e.str(`,"outcome":{"state":`, o.State.String())
	e.opt(`,"cause":`, o.Cause)
	e.opt(`,"failure":`, string(o.Failure))
	if o.Steps == nil {
		e.b = append(e.b, `,"steps":null`...)
	} else {
		e.b = append(e.b, `,"steps":[`...)
		for i, s := range o.Steps {
			if i > 0 {
				e.b = append(e.b, ',')
			}
			e.str(`{"state":`, s.State.String())
			e.time(`,"time":`, s.Time)
			e.num(`,"mono_ms":`, s.Mono)
			e.b = append(e.b, '}')
		}
		e.b = append(e.b, ']')
	}
	e.maybe(`,"delivered":`, o.Delivered)
	e.str(`,"rpc":`, o.RPC)
	if o.RPCCode != nil {
		e.num(`,"rpc_code":`, *o.RPCCode)
	}
	e.maybe(`,"is_error":`, o.IsError)
	e.str(`,"given":`, o.Given)
	e.opt(`,"answered_by":`, o.AnsweredBy)
	e.num(`,"bytes_in":`, o.BytesIn)
	e.num(`,"bytes_out":`, o.BytesOut)
	e.num(`,"bytes_given":`, o.BytesGiven)
	e.opt(`,"handle":`, o.Handle)
	e.num(`,"stderr_bytes_seen":`, o.Seen)
	e.num(`,"stderr_bytes_retained":`, o.Retained)
	e.maybe(`,"stderr_truncated":`, &o.Truncated)
	e.opt(`,"stderr_retain":`, o.Retain)
	if o.Shared != 0 {
		e.num(`,"stderr_shared_with":`, o.Shared)
	}
	e.opt(`,"stderr_let_go":`, o.LetGo)
	if o.ExitStatus == nil {
		e.b = append(e.b, `,"exit_status":null`...)
	} else {
		e.num(`,"exit_status":`, int64(*o.ExitStatus))
	}
	e.opt(`,"signal":`, o.Signal)
	e.str(`,"stream_end":`, o.StreamEnd)
	e.num(`,"attempts":`, int64(o.Attempts))
	e.flag(`,"debug_window":true`, o.Debug)
}

func (e *encoder) num(name string, n int64) {
	e.b = append(e.b, name...)
	e.b = strconv.AppendInt(e.b, n, 10)
}

func (e *encoder) flag(member string, set bool) {
	if set {
		e.b = append(e.b, member...)
	}
}

func (e *encoder) maybe(name string, v *bool) {
	e.b = append(e.b, name...)
	if v == nil {
		e.b = append(e.b, "null"...)
	} else {
		e.b = strconv.AppendBool(e.b, *v)
	}
}

func (e *encoder) time(name string, t Time) {
	e.b = append(e.b, name...)
	if t.IsZero() {
		e.b = append(e.b, "null"...)
		return
	}
	e.b = append(e.b, '"')
	e.b = t.UTC().AppendFormat(e.b, timeLayout)
	e.b = append(e.b, '"')
}

// opt writes a member that is left out where it is empty.
func (e *encoder) opt(name, s string) {
	if s != "" {
		e.str(name, s)
	}
}

func (e *encoder) str(name, s string) {
	const hex = "0123456789abcdef"
	e.b = append(append(e.b, name...), '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				e.b = append(append(e.b, s[from:i]...), `\ufffd`...)
				from = i + n
			case r == '\u2028' || r == '\u2029':
				e.b = append(append(e.b, s[from:i]...), `\u202`...)
				e.b = append(e.b, hex[r&15])
				from = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			i++
			continue
		}
		e.b = append(e.b, s[from:i]...)
		switch c {
		case '"', '\\':
			e.b = append(e.b, '\\', c)
		case '\n':
			e.b = append(e.b, `\n`...)
		case '\r':
			e.b = append(e.b, `\r`...)
		case '\t':
			e.b = append(e.b, `\t`...)
		case '\b':
			e.b = append(e.b, `\b`...)
		case '\f':
			e.b = append(e.b, `\f`...)
		default:
			e.b = append(e.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	e.b = append(append(e.b, s[from:]...), '"')
}
