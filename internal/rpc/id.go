package rpc

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/penstock-dev/penstock/frame"
)

// MaxID is the most bytes of an id or a progress token, as it stands in the
// frame. Longer ones are refused, so that what is remembered of a call stays
// small.
const MaxID = 1 << 10

// ID is a JSON-RPC id or a progress token as it stands in a frame, type and
// spelling included: "1" and 1 are different. A string that is spelled with
// escapes is kept in its plain spelling, since peers re-encode strings. The
// zero ID means that there is none.
type ID string

// separators are the first bytes of U+2028 and U+2029, which are escaped on the
// way to a host.
var separators = []byte("\xe2\x80")

// MakeID returns the ID of the raw JSON value, or "" if it is neither a string
// nor a number, or longer than [MaxID].
func MakeID(raw []byte) ID {
	if len(raw) == 0 || len(raw) > MaxID {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		if bytes.IndexByte(raw, '\\') >= 0 || bytes.Contains(raw, separators) {
			return ID(frame.Quote(nil, frame.Unquote(raw)))
		}
		return ID(raw)
	case c == '-' || '0' <= c && c <= '9':
		return ID(raw)
	}
	return ""
}

// Alike reports whether a peer that loses the type or the spelling of ids may
// have turned a into b: "7" for 7, or 1000 for 1e3.
func (a ID) Alike(b ID) bool {
	x, y := a.bare(), b.bare()
	if x == y {
		return true
	}
	f, err1 := strconv.ParseFloat(x, 64)
	g, err2 := strconv.ParseFloat(y, 64)
	return err1 == nil && err2 == nil && f == g
}

// QuotedNumber reports whether a is a string that looks like a number.
func (a ID) QuotedNumber() bool {
	return len(a) > 2 && a[0] == '"' && strings.Trim(string(a[1:len(a)-1]), "0123456789+-.eE") == ""
}

func (a ID) bare() string { return strings.Trim(string(a), `"`) }
