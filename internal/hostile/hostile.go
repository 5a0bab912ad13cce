// Package hostile holds misbehaving MCP servers and hosts, each one a fixture
// that a test or the release gate runs as a real process over real pipes.
//
// A test binary calls [Main] first in its TestMain and starts a fixture with
// the argument list that [Command] returns: the binary runs itself again.
// Fixtures take key=value arguments, read strictly; [Fixture.Keys] lists them.
// Unless its summary says otherwise a fixture is a working MCP server of the
// initialize era with a few tools, so that real clients can drive it into the
// behaviour that it is made for.
//
// What a fixture did and saw it writes to a ledger, a file named with
// ledger=PATH, so that a judge reads facts and not texts: see [Event],
// [ReadLedger] and [Await].
//
// A fixture owns its process. It may end it, kill it, or change how it takes
// signals, so Run is meant for a process that does nothing else. Fixtures do
// the same each time; time plays a part only where an argument gives one, in
// reports of a blocked write, and in life=, after which a forgotten process
// ends by itself.
//
// The package shares no code with the framing that it is used to test.
package hostile

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Side says what a fixture plays.
type Side string

// The sides.
const (
	Server Side = "server" // an MCP server: speaks on stdin and stdout
	Host   Side = "host"   // starts the command behind "--" and is its client
	Helper Side = "helper" // neither; a process that others start
)

// A Fixture is one misbehaviour. Its fields are not to be changed.
type Fixture struct {
	Name    string
	Summary string // one sentence
	Side    Side
	Keys    []Key // arguments of its own and those that all fixtures take

	// Run plays the fixture and returns the exit status, 2 if args are wrong
	// (with one line on stderr). It may also end the process itself. A fixture
	// that starts processes gives them the real stdin, stdout and stderr of
	// this process, not these.
	Run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// All returns every fixture, in the order of their names.
func All() []Fixture {
	all := slices.Concat(
		plainFixtures(), oversizedFixtures(), floodFixtures(), noiseFixtures(), readingFixtures(),
		endingFixtures(), familyFixtures(), cancelFixtures(),
		strayFixtures(), requestFixtures(), textFixtures(), resultFixtures(), batchFixtures(), hostFixtures(),
	)
	slices.SortFunc(all, func(a, b Fixture) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// Lookup returns the fixture of that name and reports whether there is one.
func Lookup(name string) (Fixture, bool) {
	all := All()
	i := slices.IndexFunc(all, func(f Fixture) bool { return f.Name == name })
	if i < 0 {
		return Fixture{}, false
	}
	return all[i], true
}

// argument is what makes a binary that calls Main play a fixture.
const argument = "hostile-fixture"

// Main runs a fixture and exits if this process was started with the
// arguments that [Command] gives; otherwise it returns at once. Call it first
// in TestMain, before flags are parsed.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != argument {
		return
	}
	if len(os.Args) < 3 {
		fmt.Fprintf(os.Stderr, "usage: %s %s NAME [key=value]...\n", os.Args[0], argument)
		os.Exit(2)
	}
	f, ok := Lookup(os.Args[2])
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no fixture %.64q\n", argument, os.Args[2])
		os.Exit(2)
	}
	os.Exit(f.Run(context.Background(), os.Args[3:], os.Stdin, os.Stdout, os.Stderr))
}

// Command returns the argument list that runs the named fixture in a new
// process of this very executable, which must call [Main]. It panics if the
// path of the executable is not known.
func Command(name string, args ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic("hostile: " + err.Error())
	}
	return append([]string{exe, argument, name}, args...)
}

// lifeExit is the exit status of a fixture that outlived its life= argument.
const lifeExit = 99

// common are the arguments that every fixture takes.
func common() []Key {
	return []Key{
		{Name: "ledger", Meaning: "file that gets a line for all that the fixture does and sees"},
		{Name: "effect", Meaning: "file to which each side effect appends a line"},
		{Name: "era", Kind: Choice, Default: "legacy", Choices: []string{"legacy", "modern", "both"}, Meaning: "which handshake is answered: initialize, server/discover, or both"},
		{Name: "delay", Kind: Duration, Default: "0s", Meaning: "wait before the first byte is read or written"},
		{Name: "stall", Kind: Duration, Default: "250ms", Meaning: "a write that has not returned for so long is reported as blocked"},
		{Name: "life", Kind: Duration, Default: "10m", Meaning: "a process that is older ends by itself, with status 99"},
	}
}

// fixture makes a Fixture of a play function: it reads the arguments, opens
// the ledger, and notes start and exit in it.
func fixture(side Side, name, summary string, keys []Key, play func(*stage) int) Fixture {
	keys = append(keys, common()...)
	return Fixture{Name: name, Summary: summary, Side: side, Keys: keys,
		Run: func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
			v, rest, err := parse(keys, args)
			if err == nil && len(rest) == 0 && side == Host {
				err = fmt.Errorf("no command: put it behind --")
			}
			if err != nil {
				fmt.Fprintf(stderr, "%s: %v\n", name, err)
				return 2
			}
			s := &stage{ctx: ctx, values: v, rest: rest, in: stdin, out: stdout, err: stderr}
			if s.ledger, err = openLedger(v.text("ledger"), name); err != nil {
				fmt.Fprintf(stderr, "%s: %v\n", name, err)
				return 2
			}
			life := time.AfterFunc(v.duration("life"), func() {
				s.record(Event{What: "life"})
				os.Exit(lifeExit)
			})
			defer life.Stop()
			s.record(Event{What: "start", N: int64(os.Getppid())})
			s.sleep(v.duration("delay"))
			code := play(s)
			s.exit(code)
			return code
		}}
}

// A stage is what a fixture plays on.
type stage struct {
	values
	ctx    context.Context
	rest   []string // what stands behind "--"
	in     io.Reader
	out    io.Writer
	err    io.Writer
	ledger *ledger // nil if none was asked for
}

func (s *stage) record(e Event) { s.ledger.write(e) }

// exit notes that the process ends now with code.
func (s *stage) exit(code int) { s.record(Event{What: "exit", N: int64(code)}) }

// die ends the process at once with code.
func (s *stage) die(code int) {
	s.exit(code)
	os.Exit(code)
}

// sleep waits for d or the end of ctx.
func (s *stage) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// forever waits for the end of ctx: in a process of its own, until a signal
// or the life of the fixture ends it.
func (s *stage) forever() {
	<-s.ctx.Done()
}
