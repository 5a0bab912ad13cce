// Command bench measures what penstock run costs, against a process that only
// copies bytes both ways and against no process at all, in one run, and prints
// the report that docs/benchmarks.md holds. "make bench" runs it.
//
// It builds penstock from this tree, plays the host, and is its own server and
// copier by re-execution.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			role(os.Args[2:])
			return
		}
	}
	quick := flag.Bool("quick", false, "a tenth of the work, to see that it runs")
	only := flag.String("only", "", "one section: calls, bulk, start, memory")
	flag.Parse()
	if err := measure(*quick, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// ways are the three ways to reach a server, by the words that stand in front
// of its command.
type way struct {
	name   string
	prefix []string
}

func measure(quick bool, only string) error {
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "penstock")
	build := exec.Command("go", "build", "-o", bin, "github.com/penstock-dev/penstock/cmd/penstock")
	build.Stderr = os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as releases are built
	if err := build.Run(); err != nil {
		return fmt.Errorf("building penstock: %w", err)
	}
	os.Setenv("PENSTOCK_HOME", filepath.Join(dir, "home"))
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ways := []way{
		{"direct", nil},
		{"copier", []string{self, "copier"}},
		{"penstock", []string{bin, "run", "--content-limit", "off", "--"}},
	}
	defer exec.Command(bin, "desk", "stop").Run() // an error says that there is none
	fmt.Printf("# Benchmarks\n\nMade by `make bench`. %s, %s/%s, %d cores. \"Copier\" is a Go program that only copies bytes both\nways between the host and the server; it is the least that anything in between can cost.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, s := range []struct {
		name string
		run  func(self string, ways []way, quick bool) error
	}{{"calls", calls}, {"bulk", bulk}, {"start", startup}, {"memory", memory}} {
		if only != "" && only != s.name {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring:", s.name)
		if err := s.run(self, ways, quick); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
