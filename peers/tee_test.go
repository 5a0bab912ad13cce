package peers_test

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A recording is the lines of one conversation in the order in which they were
// seen at one place, each with its line ending as it was. It is written as
// "> line" for what went to the server and "< line" for what came from it;
// the host's end of input is the entry "> " without a line ending.
type recording []entry

type entry struct {
	up   bool   // from host to server
	line []byte // with its line ending, empty for the end of input
}

// recorder appends entries to a file. It is safe for concurrent use.
type recorder struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (r *recorder) add(up bool, line []byte) error {
	prefix := "< "
	if up {
		prefix = "> "
	}
	rec := append([]byte(prefix), line...)
	if !bytes.HasSuffix(rec, []byte{'\n'}) {
		rec = append(rec, "\\ no newline\n"...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.w.Write(rec)
	return err
}

// parseRecording undoes what recorder.add did.
func parseRecording(b []byte) (recording, error) {
	var rec recording
	for line := range bytes.Lines(b) {
		if len(line) < 2 || line[1] != ' ' || line[0] != '>' && line[0] != '<' {
			return nil, fmt.Errorf("not an entry: %.100q", line)
		}
		up, rest := line[0] == '>', line[2:]
		if bare, ok := bytes.CutSuffix(rest, []byte("\\ no newline\n")); ok {
			rest = bare
		}
		rec = append(rec, entry{up, rest})
	}
	return rec, nil
}

func readRecording(t testing.TB, path string) recording {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := parseRecording(b)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return rec
}

// lines returns the lines of one direction without the end of input.
func (r recording) lines(up bool) [][]byte {
	var lines [][]byte
	for _, e := range r {
		if e.up == up && len(e.line) > 0 {
			lines = append(lines, e.line)
		}
	}
	return lines
}

// untilEOF returns the part of r before the host's end of input.
func (r recording) untilEOF() recording {
	for i, e := range r {
		if e.up && len(e.line) == 0 {
			return r[:i]
		}
	}
	return r
}

// withoutLateCancels returns r without the cancellations that came to the host
// after its end of input.
func (r recording) withoutLateCancels() recording {
	before := len(r.untilEOF())
	return append(slices.Clone(r[:before]), slices.DeleteFunc(slices.Clone(r[before:]), func(e entry) bool {
		return !e.up && string(members(e.line)["method"]) == `"notifications/cancelled"`
	})...)
}

// compare reports every difference between what passed a tee on the host's
// side of a bridge and one on the server's side, other than those that
// docs/protocol.md declares for a session without faults.
//
// What the server wrote after it saw the host's end of input may be missing at
// the host, which may be gone. After its end of input the host may be told that
// what the server had asked it is no longer wanted, as the server has ended.
func compare(hostSide, serverSide recording) error {
	errs := []error{compareLines("to the server", hostSide.lines(true), serverSide.lines(true))}
	sent, sentChanges := splitChanges(escapeSeparators(serverSide.lines(false)))
	must, mustChanges := splitChanges(escapeSeparators(serverSide.untilEOF().lines(false)))
	arrived, arrivedChanges := splitChanges(hostSide.withoutLateCancels().lines(false))
	if len(arrived) >= len(must) && len(arrived) < len(sent) {
		sent = sent[:len(arrived)]
	}
	errs = append(errs, compareLines("to the host", sent, arrived))
	for method, lines := range mustChanges {
		if len(arrivedChanges[method]) == 0 {
			errs = append(errs, fmt.Errorf("to the host: none of %d notifications arrived: %s", len(lines), excerpt(lines[0], 0)))
		}
	}
	for method, lines := range arrivedChanges {
		if len(lines) > len(sentChanges[method]) {
			errs = append(errs, fmt.Errorf("to the host: %d notifications %s became %d", len(sentChanges[method]), method, len(lines)))
		}
		for _, line := range lines {
			if !slices.ContainsFunc(sentChanges[method], func(s []byte) bool { return bytes.Equal(s, line) }) {
				errs = append(errs, fmt.Errorf("to the host: this notification was never sent: %s", excerpt(line, 0)))
			}
		}
	}
	return errors.Join(errs...)
}

// checkTees compares the recordings in dir, one pair for each process that the
// client started.
func checkTees(t *testing.T, dir string) {
	t.Helper()
	hosts, err := filepath.Glob(filepath.Join(dir, "host.*"))
	if err != nil || len(hosts) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, host := range hosts {
		id := filepath.Ext(host)
		if err := compare(readRecording(t, host), readRecording(t, filepath.Join(dir, "server"+id))); err != nil {
			t.Errorf("process %s: %v", id, err)
		}
	}
}

// escapeSeparators applies a declared rewrite toward hosts: U+2028 and U+2029
// arrive as escapes.
func escapeSeparators(lines [][]byte) [][]byte {
	var out [][]byte
	for _, line := range lines {
		line = bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`))
		out = append(out, bytes.ReplaceAll(line, []byte("\u2029"), []byte(`\u2029`)))
	}
	return out
}

// splitChanges takes out the notifications of which a bridge may pass on only
// the last one while several wait for the host, by their method.
func splitChanges(lines [][]byte) (rest [][]byte, changes map[string][][]byte) {
	changes = map[string][][]byte{}
	for _, line := range lines {
		method := string(members(line)["method"])
		if strings.HasSuffix(method, `/list_changed"`) || method == `"notifications/resources/updated"` {
			changes[method] = append(changes[method], line)
		} else {
			rest = append(rest, line)
		}
	}
	return rest, changes
}

// compareLines reports the first line that is not the same.
func compareLines(direction string, sent, arrived [][]byte) error {
	for i := range max(len(sent), len(arrived)) {
		switch {
		case i >= len(arrived):
			return fmt.Errorf("%s: line %d of %d was lost: %s", direction, i+1, len(sent), excerpt(sent[i], 0))
		case i >= len(sent):
			return fmt.Errorf("%s: line %d was never sent: %s", direction, i+1, excerpt(arrived[i], 0))
		case !bytes.Equal(sent[i], arrived[i]):
			at := 0
			for at < min(len(sent[i]), len(arrived[i])) && sent[i][at] == arrived[i][at] {
				at++
			}
			return fmt.Errorf("%s: line %d differs from byte %d on:\n  sent    %s\n  arrived %s",
				direction, i+1, at, excerpt(sent[i], at), excerpt(arrived[i], at))
		}
	}
	return nil
}

// excerpt quotes the part of line around at.
func excerpt(line []byte, at int) string {
	from, to := max(0, at-60), min(len(line), at+100)
	return fmt.Sprintf("%q (%d bytes)", line[from:to], len(line))
}

// teeID is the environment variable that tells a tee the id of the one around
// it.
const teeID = "PENSTOCK_PEERS_TEE"

// tee is the program that passes every byte on between its own standard
// streams and a server that it starts, and records what passes:
// tee RECORDING COMMAND ARG…. Its exit code is the server's.
//
// Some clients start their server more than once, so each process has a
// recording of its own: RECORDING.ID, where a tee within a tee has the outer
// one's id.
func tee(args []string) int {
	id := cmp.Or(os.Getenv(teeID), strconv.Itoa(os.Getpid()))
	file, err := os.Create(args[0] + "." + id)
	if err != nil {
		return complain(err)
	}
	defer file.Close()
	rec := &recorder{w: file}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Env = append(os.Environ(), teeID+"="+id)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return complain(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return complain(err)
	}
	if err := cmd.Start(); err != nil {
		return complain(err)
	}
	forwardSignals(cmd.Process)
	go func() { // ends with the process: nothing interrupts the read
		passLines(stdin, os.Stdin, func(line []byte) error { return rec.add(true, line) })
		rec.add(true, nil)
		stdin.Close()
	}()
	passLines(os.Stdout, stdout, func(line []byte) error { return rec.add(false, line) })
	return exitCode(cmd.Wait())
}

// forwardSignals passes on what asks this process to end, so that the whole
// chain ends when a client ends its first process.
func forwardSignals(to *os.Process) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() { // ends with the process
		for s := range signals {
			to.Signal(s)
		}
	}()
}

// passLines copies line by line, each in one write after see has seen it. It
// reads to the end even if nobody takes the lines any more.
func passLines(w io.Writer, r io.Reader, see func([]byte) error) {
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := see(line); err != nil {
				complain(err)
			}
			w.Write(line)
		}
		if err != nil {
			return
		}
	}
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "peers:", err)
	return 1
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	} else if err != nil {
		return complain(err)
	}
	return 0
}
