package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

func hostFixtures() []Fixture {
	tool := Key{Name: "tool", Default: "large", Meaning: "the tool that is called"}
	arguments := Key{Name: "arguments", Default: "{}", Meaning: "its arguments, a JSON object"}
	handshake := Key{Name: "handshake", Kind: Flag, Default: "true", Meaning: "initialize comes first"}
	return []Fixture{
		fixture(Host, "blocked-parent", "calls a tool and does not read the answer, cancels it, asks for something else, and may read again",
			[]Key{tool, arguments, handshake,
				{Name: "wait", Kind: Duration, Default: "1s", Meaning: "how long it does not read"},
				{Name: "resume", Kind: Flag, Default: "true", Meaning: "reads again after that, up to the answer of the second call"},
			}, blockedParent),
		fixture(Host, "slow-host", "sends many calls at once and reads the answers slowly; ends with 0 if each came once",
			[]Key{tool, arguments, handshake,
				{Name: "calls", Kind: Number, Default: "32", Meaning: "calls in flight"},
				{Name: "piece", Kind: Size, Default: "4KiB", Meaning: "bytes of one read"},
				{Name: "pause", Kind: Duration, Default: "1ms", Meaning: "wait before each read"},
			}, slowHost),
		fixture(Host, "vanishing-host", "goes away while a call is open",
			[]Key{tool, arguments, handshake,
				{Name: "how", Kind: Choice, Default: "kill", Choices: []string{"kill", "exit", "close-stdin", "close-stdout"}, Meaning: "kills itself; exits; closes one pipe and then waits for the server to end"},
				{Name: "after", Kind: Size, Default: "0", Meaning: "bytes of the answer that are read before"},
			}, vanishingHost),
		fixture(Host, "garbled-host", "writes what is no good message, a ping behind each; ends with 0 if every ping is answered",
			[]Key{handshake,
				{Name: "kind", Kind: List, Default: "", Choices: garbleKinds(), Meaning: "what it writes; empty: all, in turn"},
				{Name: "bytes", Kind: Size, Default: "9MiB", Meaning: "size of the line of kind huge"},
			}, garbledHost),
		fixture(Host, "cancelling-host", "cancels a call, then asks for something else; ends with 0 if that is answered",
			[]Key{tool, arguments, handshake,
				{Name: "at", Kind: Choice, Default: "output", Choices: []string{"start", "output", "end"}, Meaning: "when it cancels: at once; when bytes of the answer have come; when all have"},
			}, cancellingHost),
	}
}

// A peer is the server that a host fixture started, and its pipes.
type peer struct {
	s     *stage
	cmd   *exec.Cmd
	in    *os.File // its stdin, our end
	out   *os.File // its stdout, our end
	lines *bufio.Reader
	tasks sync.WaitGroup // the reader of its stderr, and the one that waits for its end
	ended chan struct{}  // closed once it has ended
}

// startPeer starts the command behind "--". Its stderr is read to the end and
// handed on.
func (s *stage) startPeer() (*peer, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &peer{s: s, cmd: exec.Command(s.rest[0], s.rest[1:]...), in: inW, out: outR, lines: bufio.NewReader(outR), ended: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for _, f := range []*os.File{inR, outW, errW} {
		_ = f.Close()
	}
	p.tasks.Go(func() {
		n, _ := io.Copy(s.err, errR)
		s.record(Event{What: "eof", Text: "stderr", N: n})
	})
	p.tasks.Go(func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the status is read from ProcessState
	})
	s.record(Event{What: "spawn", Text: "server", N: int64(p.cmd.Process.Pid)})
	return p, nil
}

// send writes one line and notes it.
func (p *peer) send(line string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.s.record(Event{What: "note", Text: "send: " + err.Error()})
		return err
	}
	p.s.record(Event{What: "wrote", N: int64(len(line) + 1), Text: fmt.Sprintf("%.80s", line)})
	return nil
}

// receive reads one message and notes it.
func (p *peer) receive() (message, error) {
	for {
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			p.s.record(Event{What: "eof", Text: "stdout"})
			return message{}, err
		}
		m := message{raw: line}
		if json.Unmarshal(line, &m) != nil {
			p.s.record(Event{What: "junk", N: int64(len(line)), Text: fmt.Sprintf("%.80q", line)})
			continue
		}
		p.s.record(Event{What: "read", Method: m.Method, ID: m.ID, N: int64(len(line))})
		return m, nil
	}
}

// until reads up to the answer to id, given as raw JSON.
func (p *peer) until(id string) (message, error) {
	for {
		m, err := p.receive()
		if err != nil || m.Method == "" && string(m.ID) == id {
			return m, err
		}
	}
}

// handshake initializes the server unless handshake=false.
func (p *peer) handshake() error {
	if !p.s.flag("handshake") {
		return nil
	}
	err := p.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}}`)
	if err != nil {
		return err
	}
	if _, err := p.until(`"init"`); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// call sends the tool call of tool= and arguments= with that id.
func (p *peer) call(id int64) error {
	return p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, id, quote(p.s.text("tool")), p.s.text("arguments")))
}

func (p *peer) cancel(id int64) error {
	return p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"no longer wanted"}}`, id))
}

func (p *peer) ping(id int64) error {
	return p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id))
}

// end closes stdin, reads what is left, waits for the server to end, and notes
// its exit status, or -1 if a signal ended it.
func (p *peer) end() {
	_ = p.in.Close()
	n, _ := io.Copy(io.Discard, p.lines)
	p.s.record(Event{What: "eof", Text: "stdout", N: n})
	p.tasks.Wait()
	p.s.record(Event{What: "note", Text: "server ended", N: int64(p.cmd.ProcessState.ExitCode())})
}

// drive starts the server, does the handshake, plays, and ends the server. It
// returns 1 if play fails.
func drive(s *stage, play func(*peer) error) int {
	if _, has := s.values["arguments"]; has && !json.Valid([]byte(s.text("arguments"))) {
		s.complain(errors.New("arguments= is not JSON"))
		return 2
	}
	p, err := s.startPeer()
	if err != nil {
		s.complain(err)
		return 1
	}
	if err = p.handshake(); err == nil {
		err = play(p)
	}
	p.end()
	if err != nil {
		s.complain(err)
		return 1
	}
	return 0
}

func blockedParent(s *stage) int {
	return drive(s, func(p *peer) error {
		if err := p.call(1); err != nil {
			return err
		}
		s.record(Event{What: "note", Text: "stops reading"})
		s.sleep(s.duration("wait"))
		select {
		case <-p.ended:
			s.record(Event{What: "note", Text: "server has ended"})
		default:
			s.record(Event{What: "note", Text: "server still runs"})
		}
		if err := p.cancel(1); err != nil {
			return err
		}
		if err := p.ping(2); err != nil {
			return err
		}
		if !s.flag("resume") {
			s.sleep(s.duration("wait"))
			_ = p.cmd.Process.Kill()
			return nil
		}
		s.record(Event{What: "note", Text: "reads again"})
		_, err := p.until("2")
		return err
	})
}

// slowly reads a piece at a time, with a pause before each.
type slowly struct {
	ctx   context.Context
	r     io.Reader
	piece int
	pause time.Duration
}

func (s slowly) Read(b []byte) (int, error) {
	select {
	case <-time.After(s.pause):
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	return s.r.Read(b[:min(len(b), s.piece)])
}

func slowHost(s *stage) int {
	return drive(s, func(p *peer) error {
		p.lines = bufio.NewReader(slowly{s.ctx, p.lines, max(1, int(s.number("piece"))), s.duration("pause")})
		calls := s.number("calls")
		sent := make(chan error, 1)
		go func() {
			for id := range calls {
				if err := p.call(id); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		seen := map[string]bool{}
		for int64(len(seen)) < calls {
			m, err := p.receive()
			if err != nil {
				return fmt.Errorf("%d of %d answers came: %w", len(seen), calls, err)
			}
			if m.Method != "" || m.ID == nil {
				continue
			}
			if seen[string(m.ID)] {
				return fmt.Errorf("a second answer to %s", m.ID)
			}
			seen[string(m.ID)] = true
		}
		return <-sent
	})
}

func vanishingHost(s *stage) int {
	return drive(s, func(p *peer) error {
		if err := p.call(1); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, p.lines, s.number("after")); err != nil {
			return err
		}
		s.record(Event{What: "note", Text: "goes away: " + s.text("how")})
		switch s.text("how") {
		case "kill":
			if err := suicide("kill"); err != nil {
				return err
			}
			s.forever()
		case "exit":
			s.die(0)
		case "close-stdout":
			_ = p.out.Close()
		}
		return nil // end closes stdin
	})
}

func cancellingHost(s *stage) int {
	return drive(s, func(p *peer) error {
		if err := p.call(1); err != nil {
			return err
		}
		switch s.text("at") {
		case "output":
			if _, err := p.lines.Peek(1); err != nil {
				return err
			}
			s.record(Event{What: "note", Text: "answer begins"})
		case "end":
			if _, err := p.until("1"); err != nil {
				return err
			}
		}
		if err := p.cancel(1); err != nil {
			return err
		}
		if err := p.ping(2); err != nil {
			return err
		}
		_, err := p.until("2")
		return err
	})
}
