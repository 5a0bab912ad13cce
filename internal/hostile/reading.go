package hostile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
)

func readingFixtures() []Fixture {
	return []Fixture{
		fixture(Server, "never-reads", "answers the first messages, then never reads stdin again",
			[]Key{
				{Name: "after", Kind: Number, Default: "0", Meaning: "messages that are read and answered first"},
				{Name: "bytes", Kind: Size, Default: "0", Meaning: "bytes of the next message that are still read"},
				{Name: "chatty", Kind: Flag, Default: "false", Meaning: "goes on writing notifications without an end"},
			}, neverReads),
		fixture(Server, "read-then-block", "reads the start of a tool call, blocks in a large write, and reads the rest only then",
			[]Key{
				{Name: "first", Kind: Size, Default: "4KiB", Meaning: "bytes of the call that are read before the write"},
				{Name: "write", Kind: Size, Default: "1MiB", Meaning: "bytes of the write, a notification"},
			}, readThenBlock),
		fixture(Server, "trickle", "writes its answers in tiny pieces",
			[]Key{{Name: "piece", Kind: Size, Default: "1", Meaning: "bytes of one write"}},
			func(s *stage) int {
				srv := newServer(s)
				srv.out.piece = int(s.number("piece"))
				return srv.serve()
			}),
		fixture(Server, "slow-start", "counts its starts in a file and is slow to come up: give it delay=",
			[]Key{{Name: "starts", Meaning: "file that gets a line with the pid for each start"}},
			func(s *stage) int {
				if _, err := s.generation(strconv.Itoa(os.Getpid())); err != nil {
					s.complain(err)
					return 1
				}
				return newServer(s).serve()
			}),
		fixture(Server, "restarts", "knows how often it was started: tool \"generation\" tells it, \"crash\" ends the process, \"change\" sends list_changed",
			[]Key{
				{Name: "starts", Meaning: "file that gets a line for each start"},
				{Name: "then", Kind: Choice, Default: "same", Choices: []string{"same", "version", "capability", "info", "refuse", "silent", "exit"}, Meaning: "what initialize meets from the second start on: the same; another protocol version; no prompts any more; another name; an error; nothing; an exit"},
			}, restarts),
	}
}

// complain says on stderr why the fixture cannot play.
func (s *stage) complain(err error) {
	s.record(Event{What: "note", Text: err.Error()})
	_, _ = io.WriteString(s.err, "hostile: "+err.Error()+"\n")
}

// A single reads a byte at a time, so that nothing is read ahead.
type single struct{ r io.Reader }

func (s single) Read(p []byte) (int, error) { return s.r.Read(p[:min(1, len(p))]) }

func neverReads(s *stage) int {
	srv := newServer(s)
	srv.lines = bufio.NewReader(single{s.in})
	for range s.number("after") {
		m, err := srv.read()
		if err != nil {
			return 0
		}
		srv.take(m)
	}
	if n, err := io.CopyN(io.Discard, srv.lines, s.number("bytes")); err != nil && !errors.Is(err, io.EOF) {
		s.record(Event{What: "note", Text: err.Error(), N: n})
	}
	s.record(Event{What: "note", Text: "stops reading"})
	for s.flag("chatty") && srv.notify("notifications/message", `{"level":"info","data":"still here"}`) {
	}
	s.forever()
	return 0
}

func readThenBlock(s *stage) int {
	srv := newServer(s)
	// The buffer is as large as the first part: no more than that is read before the write.
	srv.lines = bufio.NewReaderSize(s.in, int(s.number("first")))
	for {
		// A line that fits into first bytes is answered as usual.
		head, err := srv.lines.Peek(1)
		if err != nil || len(head) == 0 {
			s.record(Event{What: "eof"})
			return 0
		}
		line, rest := readSome(srv.lines, int(s.number("first")))
		if rest {
			s.record(Event{What: "note", Text: "first part read", N: int64(len(line))})
			text := quote(string(bytes.Repeat([]byte("x"), int(s.number("write")))))
			srv.notify("notifications/message", `{"level":"info","data":`+text+`}`)
			s.record(Event{What: "wrote", Text: "notifications", N: int64(len(text))})
			more, err := srv.lines.ReadBytes('\n')
			if err != nil {
				s.record(Event{What: "eof"})
				return 1
			}
			line = append(line, more...)
		}
		if m, ok := srv.message(line); ok {
			srv.take(m)
		}
	}
}

// readSome reads up to n bytes of a line and reports whether there is more of it.
func readSome(r io.ByteReader, n int) (line []byte, more bool) {
	for len(line) < n {
		b, err := r.ReadByte()
		if err != nil {
			return line, false
		}
		line = append(line, b)
		if b == '\n' {
			return line, false
		}
	}
	return line, true
}

// generation appends a line to the file of starts= and returns how many it has.
func (s *stage) generation(line string) (int, error) {
	path := s.text("starts")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(line + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, err
	}
	data, err := os.ReadFile(path)
	return bytes.Count(data, []byte("\n")), err
}

func restarts(s *stage) int {
	gen, err := s.generation("start")
	if err != nil {
		s.complain(err)
		return 1
	}
	s.record(Event{What: "note", Text: "generation", N: int64(gen)})
	srv := newServer(s,
		tool{name: "generation", description: "Tells how often the server was started.", hints: `{"readOnlyHint":true}`,
			run: func(_ context.Context, srv *server, m message, _ call) { srv.content(m, strconv.Itoa(gen)) }},
		tool{name: "change", description: "Says that the tools changed.",
			run: func(_ context.Context, srv *server, m message, _ call) {
				srv.changed()
				srv.content(m, "changed")
			}},
		tool{name: "crash", description: "Ends the process without an answer.",
			run: func(context.Context, *server, message, call) { s.die(3) }},
	)
	srv.first = func(m message) bool {
		if m.Method != "initialize" || gen == 1 {
			return false
		}
		switch s.text("then") {
		case "refuse":
			srv.refuse(m, -32600, "not again")
		case "silent":
		case "exit":
			s.die(4)
		default:
			return false
		}
		return true
	}
	srv.answer = func(m message, frame []byte) []byte {
		if m.Method != "initialize" || gen == 1 {
			return frame
		}
		switch s.text("then") {
		case "version":
			frame = bytes.Replace(frame, []byte(`"protocolVersion":"20`), []byte(`"protocolVersion":"19`), 1)
		case "capability":
			frame = bytes.Replace(frame, []byte(`,"prompts":{"listChanged":true}`), nil, 1)
		case "info":
			frame = bytes.Replace(frame, []byte(`"name":"hostile"`), []byte(`"name":"other"`), 1)
		}
		return frame
	}
	return srv.serve()
}
