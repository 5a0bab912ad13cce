package peers_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// bridges are what can stand in the middle in place of Penstock. Each rewrites
// one line; nil drops it. All but "copy" are broken in a way that a bridge
// could be broken, so that the tests can be seen to notice.
var bridges = map[string]func(up bool, line []byte) []byte{
	"copy": func(_ bool, line []byte) []byte { return line },
	// What a bridge that decodes every message and encodes it again does.
	"reencode": func(_ bool, line []byte) []byte {
		var v any
		if json.Unmarshal(line, &v) != nil {
			return line
		}
		out, err := json.Marshal(v)
		if err != nil {
			return line
		}
		return append(out, '\n')
	},
	"drop-notifications": func(up bool, line []byte) []byte {
		if m := members(line); !up && m["method"] != nil && m["id"] == nil {
			return nil
		}
		return line
	},
	"drop-server-requests": func(up bool, line []byte) []byte {
		if m := members(line); !up && m["method"] != nil && m["id"] != nil {
			return nil
		}
		return line
	},
	"strip-meta": func(up bool, line []byte) []byte {
		m := members(line)
		var result map[string]json.RawMessage
		if up || json.Unmarshal(m["result"], &result) != nil {
			return line
		}
		for _, name := range []string{"_meta", "ttlMs", "cacheScope"} {
			delete(result, name)
		}
		m["result"], _ = json.Marshal(result)
		out, _ := json.Marshal(m)
		return append(out, '\n')
	},
}

// members returns the members of a JSON object, nil for anything else.
func members(line []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil {
		return nil
	}
	return m
}

// brokenBridge is the program that stands in for Penstock: bridge NAME COMMAND
// ARG….
func brokenBridge(args []string) int {
	rewrite, ok := bridges[args[0]]
	if !ok {
		return complain(&os.PathError{Op: "bridge", Path: args[0], Err: os.ErrNotExist})
	}
	cmd := exec.Command(args[1], args[2:]...)
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
	ignore := func([]byte) error { return nil }
	go func() { // ends with the process: nothing interrupts the read
		passLines(rewriter{stdin, func(l []byte) []byte { return rewrite(true, l) }}, os.Stdin, ignore)
		stdin.Close()
		// Some servers go on for a minute after the end of their input.
		time.AfterFunc(1500*time.Millisecond, func() { cmd.Process.Signal(syscall.SIGTERM) })
	}()
	passLines(rewriter{os.Stdout, func(l []byte) []byte { return rewrite(false, l) }}, stdout, ignore)
	return exitCode(cmd.Wait())
}

// rewriter writes what rewrite makes of each write.
type rewriter struct {
	w interface {
		Write([]byte) (int, error)
	}
	rewrite func([]byte) []byte
}

func (r rewriter) Write(line []byte) (int, error) {
	if out := r.rewrite(bytes.Clone(line)); out != nil {
		if _, err := r.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(line), nil
}
