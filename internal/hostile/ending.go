package hostile

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
)

// moments are the points at which the fixture "exits" can end.
var moments = []string{"start", "initialize", "discover", "initialized", "list", "call", "ping", "cancelled"}

func endingFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "ignores-eof", "goes on when stdin ends", nil, func(s *stage) int {
			newServer(s).serve()
			s.forever()
			return 0
		}),
		fixture(Server, "ignores-term", "ignores the signals that ask it to end; ends with stdin", nil, func(s *stage) int {
			s.ignoreSignals()
			return newServer(s).serve()
		}),
		fixture(Server, "ignores-both", "ignores the end of stdin and all signals that can be ignored", nil, func(s *stage) int {
			s.ignoreSignals()
			newServer(s).serve()
			s.forever()
			return 0
		}),
		fixture(Server, "exits", "ends at a chosen moment, with a status or by a signal",
			[]Key{
				{Name: "on", Kind: Choice, Default: "call", Choices: moments, Meaning: "the moment; all but start: when that message was read"},
				{Name: "nth", Kind: Number, Default: "1", Meaning: "at which such message"},
				{Name: "when", Kind: Choice, Default: "before", Choices: []string{"before", "effect", "midframe", "after"}, Meaning: "before anything is done; after the side effect and without an answer; in the middle of the answer; after it"},
				{Name: "how", Kind: Choice, Default: "exit", Choices: []string{"exit", "kill", "term", "close"}, Meaning: "exit with code=; by that signal; close: stdout is closed and the process lives on"},
				{Name: "code", Kind: Number, Default: "1", Meaning: "exit status"},
				{Name: "say", Meaning: "last words on stderr"},
			}, exits),
	}
}

// ignoreSignals takes note of the signals that ask a process to end, and does not obey.
func (s *stage) ignoreSignals() {
	c := make(chan os.Signal, 16)
	signal.Notify(c, polite()...)
	s.record(Event{What: "note", Text: "ignores signals"}) // from here on; not yet at its start
	go func() {                                            // ends with the process, as all that ignores does
		for sig := range c {
			s.record(Event{What: "signal", Text: sig.String()})
		}
	}()
}

// momentOf names the moment that m is.
func momentOf(m message) string {
	switch m.Method {
	case "initialize":
		return "initialize"
	case "server/discover":
		return "discover"
	case "notifications/initialized":
		return "initialized"
	case "tools/list":
		return "list"
	case "tools/call":
		return "call"
	case "ping":
		return "ping"
	case "notifications/cancelled":
		return "cancelled"
	}
	return ""
}

func exits(s *stage) int {
	var seen int64
	var closed atomic.Bool
	srv := newServer(s)
	end := func() {
		if say := s.text("say"); say != "" {
			fmt.Fprintln(s.err, say)
		}
		switch how := s.text("how"); how {
		case "exit":
			s.die(int(s.number("code")))
		case "close":
			s.record(Event{What: "note", Text: "stdout closed"})
			closed.Store(true)
			if c, ok := s.out.(io.Closer); ok {
				_ = c.Close()
			}
		default:
			s.record(Event{What: "note", Text: "ends by signal " + how})
			if err := suicide(how); err != nil {
				s.complain(err)
				s.die(1)
			}
			s.forever()
		}
	}
	if s.text("on") == "start" {
		end()
	}
	if on, when := s.text("on"), s.text("when"); (on == "initialized" || on == "cancelled") && (when == "midframe" || when == "after") {
		s.complain(fmt.Errorf("on=%s has no answer for when=%s", on, when))
		return 2
	}
	due := false // the message in hand is the one
	srv.first = func(m message) bool {
		if closed.Load() {
			return true
		}
		if momentOf(m) != s.text("on") {
			return false
		}
		if seen++; seen != s.number("nth") {
			return false
		}
		switch s.text("when") {
		case "before":
			end()
		case "effect":
			if s.text("effect") != "" {
				if err := s.effect(m.ID); err != nil {
					s.complain(err)
				}
			}
			end()
		default:
			due = true
			return false
		}
		return true
	}
	srv.answer = func(m message, frame []byte) []byte {
		if !due {
			return frame
		}
		due = false
		if s.text("when") == "midframe" {
			frame = frame[:len(frame)/2]
		}
		srv.write(frame)
		s.record(Event{What: "wrote", ID: m.ID, N: int64(len(frame))})
		end()
		return nil
	}
	return srv.serve()
}
