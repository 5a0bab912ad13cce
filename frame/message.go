package frame

import (
	"bytes"
	"strconv"
)

// Judge returns why b, a whole JSON text with head h, is no message as [Frame]
// says, "" if it is one: what a [Reader] has done for its frames, but not for
// the elements of a batch.
func Judge(b []byte, h Head) string { return judge(b, &h) }

// judge returns why a JSON text with head h is no message, "" if it is one.
func judge(b []byte, h *Head) string {
	switch {
	case h.Kind == Array:
		return ""
	case h.Kind != Object:
		return "neither object nor batch"
	case h.Version.Kind != String || !Is(h.Version.In(b), "2.0"):
		return "no jsonrpc 2.0"
	}
	if k := h.ID.Kind; k == Null {
		return "id is null"
	} else if k != Absent && k != String && k != Number {
		return "id is neither string nor number"
	}
	result, fault := h.Result.Kind != Absent, h.Error.Kind != Absent
	switch {
	case h.Method.Kind != Absent && h.Method.Kind != String:
		return "method is no string"
	case h.Method.Kind == String && (result || fault):
		return "method beside result or error"
	case h.Method.Kind == String:
		return ""
	case !result && !fault:
		return "neither method nor result"
	case h.ID.Kind == Absent:
		return "response without id"
	case result && fault:
		return "both result and error"
	case fault && !isError(h.Error.In(b), h.Error.Kind):
		return "malformed error"
	}
	return ""
}

// isError reports whether decoders of hosts can read the error.
func isError(b []byte, k Kind) bool {
	if k != Object {
		return false
	}
	for name, v := range Members(b) {
		raw := name.In(b)
		switch {
		case Is(raw, "code"):
			if v.Kind != Number {
				return false
			}
			if _, err := strconv.ParseInt(string(v.In(b)), 10, 64); err != nil {
				return false
			}
		case Is(raw, "message"):
			if v.Kind != String {
				return false
			}
		}
	}
	return true
}

// A broken line is looked at again from a few of its braces. These bound how
// many, and how many bytes beyond the line's own, twice, that may cost.
const (
	salvageTries = 16
	salvageBytes = 64 << 10
)

// salvage returns the id of the first part of a broken line that looks like a
// message, and whether that has a result or an error, as with text glued in
// front of a message, a message cut short, or two on one line. A part with a
// result or error comes before others, since a call may be waiting for it, and
// more has the ids of further ones.
func (r *Reader) salvage(line []byte) (id []byte, reply bool, more [][]byte) {
	if r.scan.looksLikeMessage() {
		id = r.scan.ID()
		reply = id != nil && r.scan.isReply()
	}
	if r.scan.err == nil {
		return id, reply, nil
	}
	budget := 2*len(line) + salvageBytes
	for at, n := 0, 0; n < salvageTries && budget > 0; n++ {
		next := bytes.IndexByte(line[at:], '{')
		if next < 0 {
			break
		}
		at += next
		part := line[at:]
		var s Scanner
		s.whole = true
		_ = s.Feed(part[:min(len(part), budget)]) // as far as it goes
		used := len(part)
		if s.err != nil {
			used = int(s.err.Offset)
		}
		budget -= used + 1
		if v := s.members[mID]; s.members[mVersion].Kind != Absent && (v.Kind == String || v.Kind == Number) && v.End > 0 && v.Len() <= MaxName {
			switch v := v.In(part); {
			case s.isReply() && !reply:
				id, reply = v, true
			case s.isReply() && !bytes.Equal(v, id):
				more = append(more, v)
			case id == nil:
				id = v
			}
		}
		if s.state == inEnd {
			at += used // it was whole
		} else {
			at++
		}
	}
	return id, reply, more
}

// isReply reports whether the name of a result or an error has been seen; what
// it names may be what breaks the text.
func (s *Scanner) isReply() bool { return s.seen&(1<<mResult|1<<mError) != 0 }

func (s *Scanner) looksLikeMessage() bool {
	return s.seen&(1<<mVersion|1<<mMethod) != 0 || s.isReply()
}
