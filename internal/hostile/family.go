package hostile

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

func familyFixtures() []Fixture {
	holds := Key{Name: "holds", Kind: List, Default: "stdout,stderr", Choices: []string{"stdin", "stdout", "stderr"}, Meaning: "pipes of the server that the grandchild keeps open"}
	stubborn := Key{Name: "stubborn", Kind: Flag, Default: "false", Meaning: "the grandchild ignores the signals that ask it to end"}
	chatty := Key{Name: "chatty", Kind: Flag, Default: "false", Meaning: "the grandchild goes on writing to stderr, if it holds it"}
	holderLife := Key{Name: "holder-life", Kind: Duration, Default: "2m", Meaning: "after which a forgotten grandchild ends by itself"}
	return []Fixture{
		fixture(Server, "grandchild", "starts a process that holds its pipes open and does not wait for it",
			[]Key{holds, stubborn, chatty, holderLife,
				{Name: "setsid", Kind: Flag, Default: "false", Meaning: "the grandchild has a session of its own"},
				{Name: "spawn", Kind: Choice, Default: "start", Choices: []string{"start", "call"}, Meaning: "when: at the start, or at each call of the tool \"spawn\""},
				{Name: "leave", Kind: Flag, Default: "false", Meaning: "the server ends at once and leaves only the grandchild"},
				{Name: "code", Kind: Number, Default: "0", Meaning: "exit status"},
			}, grandchild),
		fixture(Helper, "holder", "holds the files that it was started with, and lives",
			[]Key{stubborn, chatty}, holder),
		fixture(Server, "wrapper", "is a chain of processes in front of a server, as package runners are; what stands behind -- goes to the server",
			[]Key{
				{Name: "depth", Kind: Number, Default: "2", Meaning: "wrappers in the chain"},
				{Name: "server", Default: "echo", Meaning: "fixture at its end"},
				{Name: "gone", Kind: Flag, Default: "false", Meaning: "each wrapper ends as soon as it has started the next"},
			}, wrapper),
	}
}

func grandchild(s *stage) int {
	start := func() (int, error) {
		args := []string{"stubborn=" + strconv.FormatBool(s.flag("stubborn")), "chatty=" + strconv.FormatBool(s.flag("chatty")), "life=" + s.duration("holder-life").String()}
		if s.ledger != nil {
			args = append(args, "ledger="+s.text("ledger"))
		}
		argv := Command("holder", args...)
		cmd := exec.Command(argv[0], argv[1:]...)
		if has := s.list("holds"); slices.Contains(has, "stdin") {
			cmd.Stdin = os.Stdin
		}
		if slices.Contains(s.list("holds"), "stdout") {
			cmd.Stdout = os.Stdout
		}
		if slices.Contains(s.list("holds"), "stderr") {
			cmd.Stderr = os.Stderr
		}
		if s.flag("setsid") {
			leaveSession(cmd)
		}
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		s.record(Event{What: "spawn", Text: "holder", N: int64(cmd.Process.Pid)})
		return cmd.Process.Pid, nil
	}
	if s.text("spawn") == "start" {
		if _, err := start(); err != nil {
			s.complain(err)
			return 1
		}
	}
	if s.flag("leave") {
		return int(s.number("code"))
	}
	srv := newServer(s, tool{name: "spawn", description: "Starts a process that holds the pipes of the server.",
		run: func(_ context.Context, srv *server, m message, _ call) {
			pid, err := start()
			if err != nil {
				srv.failed(m, err.Error())
				return
			}
			srv.content(m, strconv.Itoa(pid))
		}})
	srv.serve()
	return int(s.number("code"))
}

func holder(s *stage) int {
	if s.flag("stubborn") {
		s.ignoreSignals()
	}
	// Paced, since a flood would only show how fast the machine is.
	for s.flag("chatty") {
		if _, err := io.WriteString(s.err, "holder is still here\n"); err != nil {
			s.record(Event{What: "note", Text: "write: " + err.Error()})
			break
		}
		s.sleep(10 * time.Millisecond)
	}
	s.forever()
	return 0
}

func wrapper(s *stage) int {
	var argv []string
	if depth := s.number("depth"); depth > 1 {
		args := []string{"depth=" + strconv.FormatInt(depth-1, 10), "server=" + s.text("server"), "gone=" + strconv.FormatBool(s.flag("gone")), "life=" + s.duration("life").String()}
		if s.ledger != nil {
			args = append(args, "ledger="+s.text("ledger"))
		}
		argv = Command("wrapper", append(append(args, "--"), s.rest...)...)
	} else {
		argv = Command(s.text("server"), s.rest...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		s.complain(err)
		return 1
	}
	s.record(Event{What: "spawn", Text: fmt.Sprintf("wrapped %d", s.number("depth")), N: int64(cmd.Process.Pid)})
	if s.flag("gone") {
		return 0
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); err != nil && code < 0 {
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
