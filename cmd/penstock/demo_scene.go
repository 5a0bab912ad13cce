package main

import (
	"fmt"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// observed is what a scene saw one way, and a line of demo --json. What was
// not looked at is left out. Sizes are bytes; times run from the moment that the
// agent wrote to the moment that the demo read the fact in the server's ledger.
type observed struct {
	Scene   string `json:"scene"`
	Through string `json:"through"` // "pipe" or "penstock"

	OutputBytes   *int64 `json:"output_bytes,omitempty"`      // that the server set out to write
	WrittenBytes  *int64 `json:"written_bytes,omitempty"`     // that it got rid of while the agent did not read
	StandsStill   *bool  `json:"stands_still,omitempty"`      // its write had not returned in the end
	CancelReached *bool  `json:"cancel_reached,omitempty"`    // the server stopped the cancelled work
	CancelMS      *int64 `json:"cancel_reached_ms,omitempty"` // when
	NextAnswered  *bool  `json:"next_answered,omitempty"`     // the server answered the next call
	NextMS        *int64 `json:"next_answered_ms,omitempty"`  // when
	AnswersRead   *int   `json:"answers_read,omitempty"`      // by the agent when it read again
	ServerRuns    *bool  `json:"server_runs,omitempty"`       // when all was over for the agent
	ProcessesLeft *int   `json:"processes_left,omitempty"`    // when all was over for the agent
	OutputEnded   *bool  `json:"output_ended,omitempty"`      // the agent saw the end of the server's output

	AsTold    bool  `json:"as_told"` // all of it is what the demo sets out to show
	ElapsedMS int64 `json:"elapsed_ms"`
}

// The scenes by name.
const (
	sceneAnswer = "huge_answer"
	sceneLogs   = "log_flood"
	sceneOrphan = "process_left"
)

// asTold reports whether o is what the demo is meant to show.
func (o *observed) asTold() bool {
	is := func(p *bool, want bool) bool { return p != nil && *p == want }
	piped := o.Through == "pipe"
	switch o.Scene {
	case sceneAnswer:
		return is(o.StandsStill, piped) && is(o.CancelReached, !piped) && is(o.NextAnswered, !piped) &&
			(*o.WrittenBytes == *o.OutputBytes) == !piped && is(o.ServerRuns, piped) && (piped || *o.AnswersRead == 2)
	case sceneLogs:
		return is(o.StandsStill, piped) && is(o.NextAnswered, !piped) && (*o.WrittenBytes == *o.OutputBytes) == !piped
	default:
		return (*o.ProcessesLeft == 1) == piped && is(o.OutputEnded, !piped)
	}
}

// patience is how long the demo looks on before it says that nothing happens.
const patience = time.Second

// silence says that patience ended.
var silence = fmt.Sprintf("no, nothing in %.0f s", patience.Seconds())

// The sizes of the demo. The answer stays below the largest that agents take.
const (
	answerBytes = 4 << 20
	logBytes    = 1 << 20
)

func scenes() []scene {
	yes := func(p *bool) bool { return p != nil && *p }
	written := func(o *observed) string {
		if *o.StandsStill {
			return fmt.Sprintf("no, stuck at %s", sizeText(*o.WrittenBytes))
		}
		return fmt.Sprintf("yes, all %s", sizeText(*o.WrittenBytes))
	}
	reached := func(ok *bool, ms *int64) string {
		if yes(ok) {
			return fmt.Sprintf("yes, in %d ms", *ms)
		}
		return silence
	}
	next := func(o *observed) string { return reached(o.NextAnswered, o.NextMS) }
	return []scene{
		{sceneAnswer, "A huge answer, and an agent that does not read",
			"The agent asks for " + sizeText(answerBytes) + " of text, starts a slow job, and then reads nothing.\nYou press stop for the slow job and ask something else.",
			hugeAnswer, []row{
				{"the server can write its answer", written},
				{"your stop reaches the slow job", func(o *observed) string { return reached(o.CancelReached, o.CancelMS) }},
				{"the server answers the next question", next},
				{"when all is over, the server", func(o *observed) string {
					if *o.ServerRuns {
						return "still hangs"
					}
					return "has ended"
				}},
			}},
		{sceneLogs, "A server that logs too much",
			"The server writes " + sizeText(logBytes) + " of log lines before its answer. Nobody reads the log.",
			logFlood, []row{
				{"the server can write its log", written},
				{"the server answers the question", next},
			}},
		{sceneOrphan, "A server that leaves a process behind",
			"The agent ends the server, which exits but leaves a process of its own that\nignores polite signals and holds the pipes open.",
			processLeft, []row{
				{"processes left behind", func(o *observed) string { return fmt.Sprint(*o.ProcessesLeft) }},
				{"the agent sees that the server ended", func(o *observed) string {
					if *o.OutputEnded {
						return "yes"
					}
					return silence
				}},
			}},
	}
}

// hugeAnswer calls for a huge answer and a slow job, reads nothing, cancels
// the job and asks something else.
func hugeAnswer(s *stage, o *observed) error {
	p, err := s.start("oversized", fmt.Sprint("bytes=", answerBytes))
	if err != nil {
		return err
	}
	if err := p.handshake(); err != nil {
		return err
	}
	s.line.show("the agent asks for %s and does not read", sizeText(answerBytes))
	if err := p.send(callLine(1, "large", "{}"), callLine(2, "sleep", `{"ms":3600000}`)); err != nil {
		return err
	}
	wrote, err := p.settles("stdout", func(e hostile.Event) bool { return e.What == "wrote" && string(e.ID) == "1" })
	if err != nil {
		return err
	}
	if wrote {
		// The job has to be there before it can be cancelled.
		if _, err := p.sees(func(e hostile.Event) bool { return e.What == "read" && string(e.ID) == "2" }); err != nil {
			return err
		}
	}
	s.line.show("you press stop and ask something else")
	begin := time.Now()
	if err := p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"the user pressed stop"}}`, callLine(3, "echo", `{"text":"are you there?"}`)); err != nil {
		return err
	}
	if o.CancelReached, o.CancelMS, err = p.happens(begin, func(e hostile.Event) bool { return e.What == "cancelled" && string(e.ID) == "2" }); err != nil {
		return err
	}
	if o.NextAnswered, o.NextMS, err = p.happens(begin, func(e hostile.Event) bool { return e.What == "wrote" && string(e.ID) == "3" }); err != nil {
		return err
	}
	// Looked at last, so that the server had all the time there was.
	if err := p.output(o, "stdout", answerBytes, func(e hostile.Event) bool { return string(e.ID) == "1" }); err != nil {
		return err
	}
	if *o.NextAnswered {
		s.line.show("the agent reads again")
		n, err := p.answers("1", "3")
		if err != nil {
			return err
		}
		o.AnswersRead = &n
	}
	return p.leave(o)
}

// logFlood asks a server that logs too much before it answers.
func logFlood(s *stage, o *observed) error {
	p, err := s.start("stderr-flood", fmt.Sprint("bytes=", logBytes))
	if err != nil {
		return err
	}
	if err := p.handshake(); err != nil {
		return err
	}
	s.line.show("the server writes %s of log lines", sizeText(logBytes))
	begin := time.Now()
	if err := p.send(callLine(1, "echo", `{"text":"are you there?"}`)); err != nil {
		return err
	}
	if _, err := p.settles("stderr", func(e hostile.Event) bool { return e.What == "wrote" && e.Text == "stderr" }); err != nil {
		return err
	}
	if o.NextAnswered, o.NextMS, err = p.happens(begin, func(e hostile.Event) bool { return e.What == "wrote" && e.Text == "" && string(e.ID) == "1" }); err != nil {
		return err
	}
	if err := p.output(o, "stderr", logBytes, func(e hostile.Event) bool { return e.Text == "stderr" }); err != nil {
		return err
	}
	return p.leave(o)
}

// processLeft ends a server that leaves a process behind.
func processLeft(s *stage, o *observed) error {
	p, err := s.start("grandchild", "stubborn=true", "holds=stdout,stderr")
	if err != nil {
		return err
	}
	if err := p.handshake(); err != nil {
		return err
	}
	e, err := p.sees(func(e hostile.Event) bool { return e.Fixture == "holder" && e.Text == "ignores signals" })
	if err != nil {
		return err
	}
	return p.leaveBehind(o, e.PID)
}
