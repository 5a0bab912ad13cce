package link

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Op names what a Request asks for.
type Op string

// The operations. All but Put are a Request and a Reply; Export has Data in
// between.
const (
	OpPut    Op = "put"    // keep a result: Data, then End or Cancel
	OpRead   Op = "read"   // one page of a kept result
	OpList   Op = "list"   // what is kept; for people
	OpExport Op = "export" // a whole view of a kept result; for people
	OpStatus Op = "status"
	OpStop   Op = "stop" // for people
)

// RequestHead is the head of a Request.
type RequestHead struct {
	Op        Op              `json:"op"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"` // after which nobody waits for the answer; 0 for none
	Handle    string          `json:"handle,omitempty"`     // of Put, Read, Export
	Args      json.RawMessage `json:"args,omitempty"`       // of Read: those of penstock_result
	Most      int             `json:"most,omitempty"`       // of Read: bytes of text in a page, 0 for the default
	Part      string          `json:"part,omitempty"`       // of Export; "" is raw
	After     string          `json:"after,omitempty"`      // of List: the last handle of the page before
}

// Info says where a result came from and which part of it was cut, the head of
// an End.
type Info struct {
	Tool string `json:"tool,omitempty"`
	Call string `json:"call_id,omitempty"`
	Part string `json:"part,omitempty"` // what penstock_result shows by default
}

// Time is an instant to the millisecond.
type Time struct{ time.Time }

// MarshalJSON writes RFC 3339 with three decimals, in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// Entry is one kept result.
type Entry struct {
	Handle  string `json:"handle"`
	Session string `json:"session_id"`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Call    string `json:"call_id"`
	Part    string `json:"part"`
	Bytes   int64  `json:"bytes"`
	Stored  Time   `json:"stored_at"`
	Expires Time   `json:"expires_at"`
}

// ListPage is the body of the Reply to a List. Next is empty on the last page.
type ListPage struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next,omitempty"`
}

// Status is the body of the Reply to a Status.
type Status struct {
	PID      int       `json:"pid"`
	Build    string    `json:"build"`
	Version  int       `json:"protocol"`
	Started  Time      `json:"started_at"`
	Private  bool      `json:"private"`
	Place    string    `json:"place"` // folder of the results, "memory", or "" while its disk does not answer
	Sessions []Session `json:"sessions"`
	Results  Results   `json:"results"`
}

// Session is a bridge that is connected.
type Session struct {
	ID     string `json:"session_id"`
	Server string `json:"server"`
	PID    int    `json:"pid"`
	Since  Time   `json:"since"`
}

// Results counts what is kept and what was not.
type Results struct {
	Count   int    `json:"count"`
	Bytes   int64  `json:"bytes"`
	Quota   int64  `json:"quota_bytes"`
	Writing int    `json:"writing"`
	Stored  int64  `json:"stored"`  // since the start
	Evicted int64  `json:"evicted"` // to make room
	Expired int64  `json:"expired"`
	Lost    int64  `json:"lost"`
	Why     string `json:"why_lost,omitempty"` // reason of the last one
}

// Code tells the kinds of [Error] apart.
type Code string

const (
	CodeQuery       Code = "query"       // the arguments make no sense; the message helps to mend them
	CodeUnknown     Code = "unknown"     // no such result, and nothing is known of one
	CodeForeign     Code = "foreign"     // it belongs to another session
	CodeExpired     Code = "expired"     // it was kept for as long as the settings say
	CodeEvicted     Code = "evicted"     // it made room for newer ones
	CodeLost        Code = "lost"        // it could not be kept
	CodeBusy        Code = "busy"        // too much at once, or the disk does not answer; later may do
	CodeDisk        Code = "disk"        // the disk says no
	CodeRefused     Code = "refused"     // this client may not
	CodeUnavailable Code = "unavailable" // no desk can be reached
	CodeAbsent      Code = "absent"      // no desk is running, and none was to be started
)

// Error is an answer that says no. It is of one request.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // a sentence or two, without a full stop at the end
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// AsError returns err as an Error; what is none gets the code.
func AsError(err error, code Code) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{code, err.Error()}
}

// failure reads a Fail frame.
func failure(f Frame) *Error {
	e := new(Error)
	if err := json.Unmarshal(f.Head, e); err != nil || e.Message == "" {
		return Errorf(CodeUnavailable, "the desk refused without a reason")
	}
	return e
}

// handleLength is that of rand.Text: 26 characters of 5 bits.
const handleLength = 26

// NewHandle returns the name of a new result: 130 random bits as 26 letters
// and digits. Lower case, since some file systems know no other.
func NewHandle() string { return strings.ToLower(rand.Text()) }

// ValidHandle reports whether s has the form of a handle. What has not must not
// come near the name of a file.
func ValidHandle(s string) bool {
	return len(s) == handleLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
