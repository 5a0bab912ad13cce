package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// An Event is one line of a ledger: a JSON object. Lines are only ever
// appended, each with one write, so that several processes (a server started
// again, a grandchild) share a file. A line is written after the fact that it
// states, except "exit", which is written just before.
//
// What is one of
//
//	start      the process runs; N is the pid of its parent
//	read       a message was read; Method and ID are its own, N its bytes with the line feed
//	junk       a line was read that is not a JSON object; N bytes
//	eof        stdin ended
//	wrote      an answer or a burst has been written in full; N bytes, ID if it answers one
//	blocked    a write to the stream named in Text has not returned for the time of
//	           stall=; N bytes had been written to that stream before this write
//	unblocked  that write returned; N bytes are written now
//	cancelled  the work of the call ID was stopped because a cancellation came
//	effect     the side effect of a call was done
//	signal     the signal named in Text came and was not obeyed
//	spawn      a process was started; N is its pid, Text its role
//	env        Text is one entry of the environment
//	note       Text says what
//	life       the fixture ended itself, older than life=
//	exit       the process ends now; N is the exit status
type Event struct {
	Seq     int             `json:"seq"` // counts the lines of one process, from 1
	PID     int             `json:"pid"`
	Fixture string          `json:"fixture"`
	What    string          `json:"what"`
	Method  string          `json:"method,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	N       int64           `json:"n,omitempty"`
	Text    string          `json:"text,omitempty"`
}

// A ledger appends events to a file. A nil ledger drops them. Safe for use by
// several goroutines.
type ledger struct {
	fixture string
	mu      sync.Mutex
	file    *os.File // guarded by mu, like seq; lives as long as the process
	seq     int
}

func openLedger(path, fixture string) (*ledger, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &ledger{fixture: fixture, file: f}, nil
}

// write panics if the line cannot be written: a ledger with a gap would
// make the judge believe that something did not happen.
func (l *ledger) write(e Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq, e.PID, e.Fixture = l.seq, os.Getpid(), l.fixture
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic("hostile: ledger: " + err.Error())
	}
}

// ReadLedger returns the events in the file at path. A last line without its
// line feed is still being written and is left out. A file that does not exist
// is an empty ledger.
func ReadLedger(path string) ([]Event, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var events []Event
	for r := bufio.NewReader(bytes.NewReader(data)); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return events, nil
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("ledger line %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
}

// Await returns the first event of the ledger at path for which match is true,
// waiting for it as long as ctx lasts. The error then says what the ledger held.
func Await(ctx context.Context, path string, match func(Event) bool) (Event, error) {
	for {
		events, err := ReadLedger(path)
		if err != nil {
			return Event{}, err
		}
		for _, e := range events {
			if match(e) {
				return e, nil
			}
		}
		select {
		case <-ctx.Done():
			return Event{}, fmt.Errorf("%w, the ledger holds %s", context.Cause(ctx), brief(events))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// brief lists the ends of a ledger.
func brief(events []Event) string {
	const most = 12
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d events:", len(events))
	for _, e := range events[max(0, len(events)-most):] {
		fmt.Fprintf(&b, " %s(%s%s %d %.80q)", e.What, e.Method, e.ID, e.N, e.Text)
	}
	return b.String()
}
