package call

import (
	"errors"
	"testing"
	"time"
)

func walk(t *testing.T, states ...State) *Call {
	t.Helper()
	c := &Call{Session: "s_ab", Seq: 3}
	for i, s := range states {
		if err := c.To(s, time.Unix(int64(i+1), 0), "because"); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestPathsToEveryEnd(t *testing.T) {
	sent := []State{Validated, Authorized, Dispatched}
	for end, path := range map[State][]State{
		Finished:                sent,
		CancelledAfterDispatch:  sent,
		FailedAfterDispatch:     sent,
		OutcomeUnknown:          sent,
		Denied:                  {Validated, AwaitingApproval},
		Expired:                 {Validated, AwaitingApproval},
		CancelledBeforeDispatch: {Validated, Authorized},
		FailedBeforeDispatch:    {},
	} {
		c := walk(t, append(path[:len(path):len(path)], end)...)
		if !c.State.Terminal() {
			t.Errorf("%s is not terminal", end)
		}
		if got, want := c.State.AfterDispatch(), !c.At[Dispatched].IsZero(); got != want {
			t.Errorf("%s: AfterDispatch = %v, but dispatch seen is %v", end, got, want)
		}
		if c.At[end].IsZero() || c.Cause != "because" {
			t.Errorf("%s: time or cause not kept", end)
		}
	}
}

// Terminal is terminal, and nothing but Authorized leads to Dispatched.
func TestImpossibleTransitions(t *testing.T) {
	for from := State(0); from < numStates; from++ {
		for to := State(0); to < numStates; to++ {
			c := Call{State: from}
			err := c.To(to, time.Unix(1, 0), "")
			switch {
			case from.Terminal() && err == nil:
				t.Errorf("%s is terminal, yet went to %s", from, to)
			case to == Dispatched && from != Authorized && err == nil:
				t.Errorf("%s went to dispatched", from)
			case to == Finished && from != Dispatched && err == nil:
				t.Errorf("%s went to finished without dispatch", from)
			case err != nil:
				if c.State != from || !c.At[to].IsZero() {
					t.Errorf("a refused transition %s to %s changed the call", from, to)
				}
				var te *TransitionError
				if !errors.As(err, &te) || te.From != from || te.To != to {
					t.Errorf("error %v", err)
				}
			}
		}
	}
}

func TestID(t *testing.T) {
	if got := (&Call{Session: "s_7f2a", Seq: 12}).ID(); got != "c_7f2a_12" {
		t.Errorf("ID = %q", got)
	}
}
