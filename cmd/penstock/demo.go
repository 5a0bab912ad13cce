package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoTime bounds the whole demo.
const demoTime = 59 * time.Second

func newDemoCmd(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See an agent freeze on a plain pipe, and not behind penstock",
		Long: `Demo starts badly behaved MCP servers on this machine, first over plain pipes as
agents start them, then the same servers behind "penstock run", and shows what
it saw of both. It takes well under a minute, uses no network, starts nothing
but this program, and leaves no file and no process behind.

The exit status is 0 only if everything that the demo is meant to show was
really observed.`,
		Example: `  penstock demo
  penstock demo --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			err := runDemo(ctx, env, asJSON)
			if err != nil && ctx.Err() != nil {
				return &exitError{130, errors.New("the demo was interrupted; its servers have been ended")}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the observations, one JSON object a line")
	return cmd
}

// ways are the two that every scene is played: over plain pipes and behind
// penstock run.
var ways = [2]string{"pipe", "penstock"}

// A scene is one misbehaviour, played both ways.
type scene struct {
	key   string
	title string
	lead  string // what it is about, for a newcomer
	play  func(*stage, *observed) error
	rows  []row
}

// A row is one line of the table that compares the ways.
type row struct {
	label string
	tell  func(*observed) string
}

func runDemo(ctx context.Context, env *environment, asJSON bool) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTime, fmt.Errorf("the demo did not end within %v", demoTime))
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "penstock-demo-")
	if err != nil {
		return withHint(err, "The demo needs a directory for what its servers report. Set TMPDIR to one that can be written.")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	say := func(format string, args ...any) {
		if !asJSON {
			fmt.Fprintf(env.stdout, format, args...)
		}
	}
	line := progressLine{w: env.stderr, on: !asJSON && isTerminal(env.stderr) && isTerminal(env.stdout)}
	say("%s", demoIntro)
	var unseen []string
	for i, sc := range scenes() {
		say("\n%d. %s\n   %s\n\n", i+1, sc.title, strings.ReplaceAll(sc.lead, "\n", "\n   "))
		var both [len(ways)]*observed
		for j, way := range ways {
			st := &stage{ctx: ctx, exe: exe, dir: filepath.Join(dir, fmt.Sprint(i, j)), behind: way == "penstock", environ: env.environ, line: line}
			o := &observed{Scene: sc.key, Through: way}
			both[j] = o
			begin := time.Now()
			err := st.run(sc.play, o)
			line.clear()
			o.ElapsedMS = time.Since(begin).Milliseconds()
			if err != nil {
				return fmt.Errorf("scene %q over %s: %w", o.Scene, way, err)
			}
			o.AsTold = o.asTold()
			if !o.AsTold {
				unseen = append(unseen, o.Scene+" over "+way)
			}
			if asJSON {
				if err := json.NewEncoder(env.stdout).Encode(o); err != nil {
					return err
				}
			}
		}
		if !asJSON {
			printRows(env.stdout, sc.rows, both)
		}
	}
	if len(unseen) > 0 {
		return withHint(fmt.Errorf("not everything that this demo is meant to show was observed: %s", strings.Join(unseen, ", ")),
			"The lines of %q say what was.", "penstock demo --json")
	}
	say("%s", demoEnd(exe))
	return nil
}

const demoIntro = `An AI agent talks to each of its tool servers (MCP servers) through pipes. A
pipe holds very little. When the agent does not read for a while, because it
thinks, waits for you, or shows a dialog, the pipe is full and the server
stands still in the middle of a write. A server that stands still reads nothing
either: not your "stop", not the next question. The agent looks frozen.

This runs three badly behaved servers on this machine, each twice: over plain
pipes, and behind "penstock run". All that it prints was observed just now.
`

// printRows prints a table of what was observed both ways.
func printRows(w io.Writer, rows []row, both [len(ways)]*observed) {
	const format = "   %-37s  %-20s  %s\n"
	fmt.Fprintf(w, format, "", "plain pipe", "behind penstock")
	for _, r := range rows {
		fmt.Fprintf(w, format, r.label, r.tell(both[0]), r.tell(both[1]))
	}
}

// demoEnd says what to do next.
func demoEnd(exe string) string {
	command, note := exe, ""
	if temporary(exe) {
		command = "/path/to/penstock"
		note = `
This copy of penstock was built by "go run" and is gone in a moment. Build one
that stays, and put its full path in the place of /path/to/penstock:

    go build -o penstock ./cmd/penstock
`
	}
	// Marshalled, since the path may need escapes.
	quoted, err := json.Marshal(command)
	if err != nil {
		quoted = []byte(`"penstock"`)
	}
	return `
The servers were the same both times; only what stands in front of them was not.

To use it, put penstock in front of a server in your agent's configuration. The
server's own command and arguments follow behind "--". For example, in the form
that Claude Desktop, Claude Code and Cursor read:

    {
      "mcpServers": {
        "files": {
          "command": ` + string(quoted) + `,
          "args": ["run", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/path/to/files"]
        }
      }
    }
` + note
}

// temporary reports whether the go command built exe only to run it once.
func temporary(exe string) bool {
	return strings.Contains(filepath.ToSlash(exe), "/go-build")
}

// A progressLine is one line of a terminal that says what is going on.
type progressLine struct {
	w  io.Writer
	on bool
}

func (p progressLine) show(format string, args ...any) {
	if p.on {
		fmt.Fprintf(p.w, "\r\x1b[K   … "+format, args...)
	}
}

func (p progressLine) clear() {
	if p.on {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
