// Package call is the life of one request: its states, the transitions between
// them, and the facts that were observed on the way.
//
// Most callers need [Call.To], the one function that moves a call. A state
// never follows from text that a process printed, and the package knows no
// clock, no pipe and no log: whoever moves a call says when and why.
//
// A [Record] is what is written of it; docs/formats/record.md is its format. The
// journals are what [Fold] makes of records.
package call

import (
	"fmt"
	"strconv"
	"time"
)

// State is where a call stands. The zero State is Received.
type State uint8

const (
	Received State = iota
	Validated
	AwaitingApproval
	Authorized // free to be sent; waits in a queue
	Dispatched // the first byte was handed to the server
	Finished   // an answer of the server was observed
	Denied
	Expired // nobody decided in time
	CancelledBeforeDispatch
	FailedBeforeDispatch
	CancelledAfterDispatch
	FailedAfterDispatch
	OutcomeUnknown // the process boundary was lost after dispatch

	numStates = iota
)

var words = [numStates]string{
	"received", "validated", "awaiting_approval", "authorized", "dispatched", "finished",
	"denied", "expired", "cancelled_before_dispatch", "failed_before_dispatch",
	"cancelled_after_dispatch", "failed_after_dispatch", "outcome_unknown",
}

// next holds, for each state, the states that may follow it. A state without
// successors is terminal.
var next = [numStates][]State{
	Received:         {Validated, CancelledBeforeDispatch, FailedBeforeDispatch},
	Validated:        {AwaitingApproval, Authorized, Denied, CancelledBeforeDispatch, FailedBeforeDispatch},
	AwaitingApproval: {Authorized, Denied, Expired, CancelledBeforeDispatch, FailedBeforeDispatch},
	Authorized:       {Dispatched, CancelledBeforeDispatch, FailedBeforeDispatch},
	Dispatched:       {Finished, CancelledAfterDispatch, FailedAfterDispatch, OutcomeUnknown},
}

// String returns the word that records and answers use.
func (s State) String() string {
	if int(s) < len(words) {
		return words[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// MarshalText returns the word of s.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Terminal reports whether nothing can follow s.
func (s State) Terminal() bool { return len(next[s]) == 0 }

// AfterDispatch reports whether a call in state s was dispatched. While it is
// false a retry repeats nothing.
func (s State) AfterDispatch() bool {
	switch s {
	case Dispatched, Finished, CancelledAfterDispatch, FailedAfterDispatch, OutcomeUnknown:
		return true
	}
	return false
}

// Failure says where a call that failed after dispatch failed. The zero value
// means that it did not.
type Failure string

const (
	Local             Failure = "local"              // on our side of the pipe
	Remote            Failure = "remote"             // the server said something that is no answer
	ForcedTermination Failure = "forced_termination" // we ended the process
)

// Call is one request and what was observed of it. The zero Call is received
// at the zero time. It is not safe for concurrent use: its owner's lock guards
// it.
type Call struct {
	Session string // session_id
	Seq     uint64 // position in the session, from 1
	Method  string
	Tool    string // params.name of tools/call and prompts/get, else ""

	State   State
	Cause   string  // why the last transition was made, a phrase; "" for the ordinary
	Failure Failure // set with FailedAfterDispatch

	// Times of the transitions that were made, by state; zero where not.
	At [numStates]time.Time

	// LateReply is how long after the end of the call its answer came, zero
	// when none did.
	LateReply time.Duration
}

// ID returns the call_id: unique, stable, and made of the session and the
// sequence number, so that two processes that know the session agree on it.
func (c *Call) ID() string {
	s := c.Session
	if len(s) > 2 {
		s = s[2:]
	}
	return "c_" + s + "_" + strconv.FormatUint(c.Seq, 10)
}

// To moves the call to state s at time at for the reason cause. It fails and
// changes nothing if s cannot follow the present state.
func (c *Call) To(s State, at time.Time, cause string) error {
	for _, n := range next[c.State] {
		if n == s {
			c.State, c.Cause, c.At[s] = s, cause, at
			return nil
		}
	}
	return &TransitionError{ID: c.ID(), From: c.State, To: s}
}

// TransitionError says that a transition was asked for that does not exist. It
// concerns one call.
type TransitionError struct {
	ID       string
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("call %s cannot go from %s to %s", e.ID, e.From, e.To)
}
