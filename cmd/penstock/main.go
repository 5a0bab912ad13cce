// Command penstock keeps MCP servers from freezing the agents that use them.
//
// This package holds flags, wiring, process-wide settings and words for
// people; everything else lives in the packages that it calls. Each subcommand
// has one file and one constructor, listed in root.go. Standard output carries
// protocol or results, standard error carries words.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// main is the only place that ends the process: os.Exit skips deferred calls,
// so nothing below it may use it. The servers of the demo are this program
// again and none of the rest.
func main() {
	hostile.Main()
	env := &environment{
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		environ: os.Environ(),
	}
	os.Exit(report(env.stderr, run(context.Background(), os.Args[1:], env)))
}

// environment is what a command may use of the process that it runs in. It is
// filled once by main and only read afterwards.
type environment struct {
	stdin, stdout, stderr *os.File
	environ               []string // as os.Environ gives it
}

// lookup returns the value of a variable, "" if it is not set. Of several, the
// last counts, as in os/exec.
func (e *environment) lookup(name string) string {
	for _, kv := range slices.Backward(e.environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// exitUsage is the exit code for a command line that makes no sense, the same
// for every command.
const exitUsage = 2

// exitError ends the process with a code of its own. With a nil err nothing is
// printed: the command has said what there was to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// hintError adds to an error what a person can do about it. Packages below
// this one return bare errors; the hints are here, where the commands are
// known.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// withHint returns err with a hint, or nil for a nil err.
func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// usageError returns an error that ends the process with exitUsage.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// report prints err for a person, each of its lines with our name in front,
// since hosts mix them with what servers write, and returns the exit code: 0 without an
// error, the code that the error names, else 1.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code, silent := 1, false
	if e := (*exitError)(nil); errors.As(err, &e) {
		code, silent = e.code, e.err == nil
	}
	if !silent {
		for line := range strings.Lines(printable(err.Error()) + "\n") {
			fmt.Fprint(w, "penstock: ", line)
		}
	}
	if e := (*hintError)(nil); errors.As(err, &e) {
		fmt.Fprintf(w, "%s\n", printable(e.hint))
	}
	return code
}
