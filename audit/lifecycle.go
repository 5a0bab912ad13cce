package audit

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// Step is what a record means in the life of a call.
type Step int

const (
	// StepOther is for records that the rule does not concern.
	StepOther Step = iota
	// StepIntent is the record before anything is done.
	StepIntent
	// StepTerminal is the record of how it ended.
	StepTerminal
)

// Event is what a judge of lifecycles needs to know of a record.
type Event struct {
	Call string // "" if it belongs to none
	Step Step
	// Session and Sequence tell a repeat (the same record sent again after a
	// lost acknowledgement) from a second record. Without a session, equal
	// bodies are a repeat.
	Session  string
	Sequence uint64
	// Time is when the intent of the call was, or should have been, taken. If it
	// is set, a gap explains a missing intent only if it covers it.
	Time time.Time
}

// A Classifier reads a body's meaning. An error says that the body breaks its
// schema, which fails the log.
type Classifier func(body []byte) (Event, error)

// judge holds the rule: for each call exactly one intent, before exactly one
// terminal record, over all strands.
type judge struct {
	classify Classifier
	calls    map[string]*callState
	gaps     []Gap
	at       map[Position]string // intents by position, for abandonments
	strands  map[ID]bool         // whether it is live
	counts   Calls
	problems []Finding
}

type callState struct {
	intent, terminal Position
	has              [2]bool     // intent, terminal
	sum              [2][16]byte // of session, sequence and body
	time             time.Time
}

func newJudge(c Classifier) *judge {
	return &judge{classify: c, calls: map[string]*callState{}, at: map[Position]string{}, strands: map[ID]bool{}}
}

func (j *judge) fail(id ID, format string, args ...any) {
	if len(j.problems) < 1000 {
		j.problems = append(j.problems, Finding{Failed, &id, fmt.Sprintf(format, args...)})
	}
}

// record takes the next record of a strand.
func (j *judge) record(r *Record) {
	switch {
	case r.Gap != nil:
		j.gaps = append(j.gaps, *r.Gap)
		return
	case r.Abandoned != nil:
		j.abandoned(r)
		return
	}
	e, err := j.classify(r.Body)
	if err != nil {
		j.fail(r.Strand, "leaf %d: %.200v", r.Leaf, err)
		return
	}
	if e.Call == "" || e.Step == StepOther {
		return
	}
	c := j.calls[e.Call]
	if c == nil {
		c = &callState{}
		j.calls[e.Call] = c
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %d ", e.Session, e.Sequence)
	h.Write(r.Body)
	sum := [16]byte(h.Sum(nil))
	i := 0
	if e.Step == StepTerminal {
		i = 1
	}
	if c.has[i] {
		if c.sum[i] == sum {
			j.counts.Repeated++
		} else {
			j.fail(r.Strand, "call %.80q has two different %s records (leaf %d)", e.Call, [2]string{"intent", "terminal"}[i], r.Leaf)
		}
		return
	}
	c.has[i], c.sum[i] = true, sum
	if !e.Time.IsZero() {
		c.time = e.Time
	}
	if i == 0 {
		c.intent = r.Position
		j.at[Position{Strand: r.Strand, Leaf: r.Leaf}] = e.Call
		if c.has[1] && c.terminal.Strand == r.Strand {
			j.fail(r.Strand, "call %.80q ended (leaf %d) before its intent (leaf %d)", e.Call, c.terminal.Leaf, r.Leaf)
		}
	} else {
		c.terminal = r.Position
	}
}

// abandoned takes the log's own record that nothing was done for an intent.
func (j *judge) abandoned(r *Record) {
	call, ok := j.at[Position{Strand: r.Strand, Leaf: *r.Abandoned}]
	if !ok {
		if *r.Abandoned >= r.Leaf {
			j.fail(r.Strand, "leaf %d abandons leaf %d, which is no intent before it", r.Leaf, *r.Abandoned)
		}
		return // of a record that is no part of a call, or cannot be read
	}
	c := j.calls[call]
	j.counts.Abandons++
	if c.has[1] {
		j.fail(r.Strand, "call %.80q was abandoned (leaf %d) and has a terminal record (leaf %d)", call, r.Leaf, c.terminal.Leaf)
		return
	}
	c.has[1], c.terminal = true, r.Position
}

// end judges what is left. hidden says that records could not be read, in which
// an intent may stand.
func (j *judge) end(report *Report, hidden bool) {
	var missing, allowed int
	for _, g := range j.gaps {
		j.counts.Missing += g.Count
		if g.Class == ClassIntent {
			allowed += g.Count
		}
	}
	var unknown []string
	for name, c := range j.calls {
		switch {
		case c.has[0] && c.has[1]:
			j.counts.Complete++
		case c.has[0]:
			if j.strands[c.intent.Strand] {
				j.counts.InFlight++
			} else {
				j.counts.Unknown++
				unknown = append(unknown, name)
			}
		case hidden:
			// Its intent may stand where nobody can read.
		case j.covered(c.time) && missing < allowed:
			missing++
		default:
			j.fail(c.terminal.Strand, "call %.80q ended (leaf %d) without an intent, and no recorded gap explains it", name, c.terminal.Leaf)
		}
	}
	j.counts.Complete -= j.counts.Abandons
	for _, f := range j.problems {
		report.Findings = append(report.Findings, f)
		report.Verdict = max(report.Verdict, f.Verdict)
	}
	if n := j.counts.Missing; n > 0 {
		report.add(Incomplete, nil, "the log says that it could not keep %d records (%d of them intents)", n, allowed)
	}
	slices.Sort(unknown)
	if n := len(unknown); n > 0 {
		report.add(Incomplete, nil, "%d calls have an intent and no outcome: %s", n, some(unknown))
	}
	counts := j.counts
	report.Calls = &counts
}

// covered reports whether an intent at t may be one of those that a gap counts.
func (j *judge) covered(t time.Time) bool {
	for _, g := range j.gaps {
		// Times in gaps are cut to milliseconds.
		if g.Class == ClassIntent && (t.IsZero() || !t.Before(g.First.Add(-time.Second)) && !t.After(g.Last.Add(time.Second))) {
			return true
		}
	}
	return false
}
