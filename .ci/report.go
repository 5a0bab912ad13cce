// Report reads what "go test -json" prints and shows it as "go test" does: one
// line for each package, the output of what failed, and every skipped test. It
// adds what it counted to a file, and with -sum prints the total, so that one
// run of several go commands ends in one honest line.
//
//	go test -json ./... | go run ./.ci/report.go -tally FILE
//	go run ./.ci/report.go -sum -tally FILE
//
// Tests and subtests count each. A package that fails without a failed test,
// as one that does not build, counts as one failure. The exit status is 1 if
// anything failed or nothing ran, and with -no-skips if anything was skipped.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// slow is how long, in seconds, a test must take for a line of its own.
const slow = 10

func main() {
	tally := flag.String("tally", "", "file that the counts are added to")
	sum := flag.Bool("sum", false, "print the total of the file instead of reading events")
	noSkips := flag.Bool("no-skips", false, "a skipped test is a failure")
	flag.Parse()
	err := errors.New("-tally FILE is needed")
	if *tally != "" {
		if *sum {
			err = total(*tally, *noSkips)
		} else {
			err = report(os.Stdin, *tally)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// event is one line of go test -json; see "go doc test2json".
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type counts struct{ passed, failed, skipped int }

func report(in io.Reader, tally string) error {
	var n counts
	output := map[[2]string]*strings.Builder{} // by package and test
	failed := map[string]bool{}                // packages with a failed test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				os.Stdout.Write(line) // what the go command says besides
			} else {
				n.take(e, output, failed)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	f, err := os.OpenFile(tally, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, n.passed, n.failed, n.skipped)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	switch {
	case n.failed > 0:
		return fmt.Errorf("%d failed", n.failed)
	case n.passed+n.skipped == 0:
		return errors.New("no test ran")
	}
	return nil
}

func (n *counts) take(e event, output map[[2]string]*strings.Builder, failed map[string]bool) {
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "output":
		if output[key] == nil {
			output[key] = new(strings.Builder)
		}
		output[key].WriteString(e.Output)
	case "pass":
		switch {
		case e.Test == "":
			fmt.Printf("ok    %s  %.1fs\n", e.Package, e.Elapsed)
		case e.Elapsed >= slow && !strings.Contains(e.Test, "/"):
			fmt.Printf("      %s  %.1fs\n", e.Test, e.Elapsed)
		}
		if e.Test != "" {
			n.passed++
		}
		delete(output, key)
	case "skip":
		if e.Test != "" {
			n.skipped++
			fmt.Printf("SKIP  %s  %s\n%s", e.Package, e.Test, text(output[key]))
		}
		delete(output, key)
	case "fail":
		if e.Test != "" {
			n.failed++
			failed[e.Package] = true
			fmt.Printf("FAIL  %s  %s\n%s", e.Package, e.Test, text(output[key]))
		} else {
			if !failed[e.Package] {
				n.failed++
			}
			fmt.Printf("FAIL  %s  %.1fs\n%s", e.Package, e.Elapsed, text(output[key]))
		}
		delete(output, key)
	}
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

func total(tally string, noSkips bool) error {
	f, err := os.Open(tally)
	if err != nil {
		return err
	}
	defer f.Close()
	var sum counts
	for {
		var n counts
		if _, err := fmt.Fscanln(f, &n.passed, &n.failed, &n.skipped); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", tally, err)
		}
		sum.passed += n.passed
		sum.failed += n.failed
		sum.skipped += n.skipped
	}
	switch {
	case sum.failed > 0:
		err = errors.New("something failed")
	case sum.passed == 0:
		err = errors.New("no test ran")
	case noSkips && sum.skipped > 0:
		err = errors.New("a skipped test counts as failed here: it says nothing")
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	return err
}
