package peers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replay is the server of the conversation tests: it plays the server's part
// of a recording. It reads a line where the recording has one for it, writes
// one where the recording has one of its own, and records what really came:
// replay SCRIPT RECORDING.
func replay(args []string) int {
	script, err := os.ReadFile(args[0])
	if err != nil {
		return complain(err)
	}
	rec, err := parseRecording(script)
	if err != nil {
		return complain(err)
	}
	file, err := os.Create(args[1])
	if err != nil {
		return complain(err)
	}
	defer file.Close()
	if err := play(rec, false, os.Stdin, os.Stdout, &recorder{w: file}); err != nil {
		return complain(err)
	}
	return 0
}

// play takes one part of a conversation: that of the host, or of the server.
// It writes its own lines to w and reads one line from r for each of the
// other's, so that both parts move in step, and adds what it read to seen. At
// the end it reads to the end of r, or closes w if it is the host.
func play(script recording, host bool, r io.Reader, w io.Writer, seen *recorder) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for i, e := range script {
		if e.up == host {
			if _, err := w.Write(e.line); err != nil {
				return fmt.Errorf("entry %d: %w", i+1, err)
			}
			continue
		}
		line, err := in.ReadBytes('\n')
		if err := seen.add(e.up, line); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("entry %d, waiting for %s: %w", i+1, excerpt(e.line, 0), err)
		}
	}
	if c, ok := w.(io.Closer); ok && host {
		if err := c.Close(); err != nil {
			return err
		}
	}
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := seen.add(!host, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// converse holds the conversation through command and returns what arrived:
// the lines at the host, and those at the server.
func converse(t *testing.T, script recording, bridge func(server ...string) []string) (atHost, atServer recording, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	scriptFile, serverFile := filepath.Join(dir, "script"), filepath.Join(dir, "server")
	var file bytes.Buffer
	for _, e := range script {
		(&recorder{w: &file}).add(e.up, e.line)
	}
	if err := os.WriteFile(scriptFile, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := start(ctx, t, bridge(self(t), "replay", scriptFile, serverFile))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A line that is lost leaves both sides waiting. The end of the host's
	// input wakes the server, the bridge and this side, in that order.
	unstick := context.AfterFunc(ctx, func() { stdin.Close() })
	defer unstick()
	var host bytes.Buffer
	played := play(script, true, stdout, stdin, &recorder{w: &host})
	stdin.Close()
	err = errors.Join(played, cmd.Wait())
	atHost, parseErr := parseRecording(host.Bytes())
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	return atHost, readRecording(t, serverFile), err
}

// check reports every difference between a script and what arrived.
func check(script, atHost, atServer recording) error {
	return errors.Join(
		compareLines("to the server", script.lines(true), atServer.lines(true)),
		compareLines("to the host", script.lines(false), atHost.lines(false)))
}

// TestComparisonNotices sees the comparison fail behind bridges that are
// broken, and hold behind a pipe.
func TestComparisonNotices(t *testing.T) {
	script := readRecording(t, "testdata/legacy.rec")
	for name := range bridges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "drop-") {
				// A lost line stops the conversation, so it is not held: the
				// bridge is asked line by line.
				lost := 0
				for _, e := range script {
					if bridges[name](e.up, e.line) == nil {
						lost++
					}
				}
				if lost == 0 {
					t.Error("the conversation has no line that this bridge would lose")
				}
				return
			}
			atHost, atServer, err := converse(t, script, func(server ...string) []string {
				return append([]string{self(t), "bridge", name}, server...)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := check(script, atHost, atServer); (err == nil) != (name == "copy") {
				t.Errorf("comparison behind the bridge %q: %v", name, err)
			}
		})
	}
}
