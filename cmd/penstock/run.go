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
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-dev/penstock/child"
	"github.com/penstock-dev/penstock/internal/bridge"
	"github.com/penstock-dev/penstock/internal/config"
	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/result"
)

func newRunCmd(env *environment) *cobra.Command {
	o := runOptions{statsFD: -1}
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG…]",
		Short: "Run one MCP server behind the gate",
		Long: `Run starts the MCP server CMD and passes messages between it and the agent on
standard input and output. The server behaves as before, except that nothing
can freeze the agent: output is always read, every queue is bounded, a cancelled
call is cancelled in the server too, a dead server is restarted, and nothing it
started is left behind.

Put it in front of the server's command in your agent's configuration. Standard
output carries the protocol only; what the server writes to standard error is
passed on, labelled and bounded. The exit status is the server's, 128 + n if
signal n ended it, 127 or 126 if CMD could not be started.`,
		Example: `  penstock run -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  penstock run --name files --total-timeout 10m -- ./my-server --verbose
  penstock run --stats-fd 3 -- ./my-server 3> stats.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("no command to run: put it after --, as in: penstock run -- ./my-server")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&o.name, "name", "", "label of the server in logs (default: the name of CMD)")
	f.BoolVar(&o.noRestart, "no-restart", false, "end with the server instead of restarting it on the next request")
	f.IntVar(&o.statsFD, "stats-fd", -1, "write counters as one JSON object to this file descriptor at the end")
	addSettings(cmd, &o.settings)
	return cmd
}

type runOptions struct {
	name      string
	noRestart bool
	statsFD   int
	settings
}

func (o *runOptions) run(ctx context.Context, env *environment, args []string) error {
	cfg, err := o.load(env)
	if err != nil {
		return err
	}
	var statsFile *os.File
	if o.statsFD >= 0 {
		if statsFile, err = openFD(o.statsFD); err != nil {
			return usageError("--stats-fd %d: %v", o.statsFD, err)
		}
		defer statsFile.Close()
	}
	name := o.name
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	}

	prepareProcess(env)
	in, restoreIn := pollable(env.stdin)
	defer restoreIn()
	out, restoreOut := pollable(env.stdout)
	defer restoreOut()
	bc := bridgeConfig(cfg, name, args, o.noRestart)
	if bc.ContentLimit > 0 || bc.Spill || bc.Rule != nil {
		bc.Desk = func(session string) *link.Client {
			return link.Dial(deskOptions(env, session, name, pageSize(bc.ContentLimit)))
		}
	}
	s := bridge.New(bc, in, out, env.stderr)
	ctx, stop := signals(ctx, s)
	defer stop()

	exit, err := s.Run(ctx)
	if e := (*child.StartError)(nil); errors.As(err, &e) {
		return withHint(&exitError{e.ExitCode(), err}, "Nothing was started. Give the full path of the command, or set PATH where the agent starts penstock.")
	}
	if err != nil {
		return err
	}
	if statsFile != nil {
		if err := writeStats(statsFile, s); err != nil {
			fmt.Fprintf(env.stderr, "penstock: --stats-fd %d: %v\n", o.statsFD, err)
		}
	}
	if exit.Code != 0 {
		return &exitError{code: exit.Code}
	}
	return nil
}

func bridgeConfig(c *config.Config, name string, args []string, noRestart bool) bridge.Config {
	return bridge.Config{
		Name: name, Args: args,
		Rule: toolRule(c, name), CutAll: c.Results.PromptsAndResources == config.CutToo,
		ContentLimit: int(max(c.Limits.Content, 0)), ContentMost: int(c.Limits.ContentMost), MediaLimit: int(c.Limits.Media),
		Keep: keeps[c.Results.Keep], Spill: c.Results.Oversize == config.OversizeSpill,
		WireLimit: int(c.Limits.Wire), Queues: int(c.Limits.Queues), Calls: c.Limits.Calls,
		Idle: c.Timeouts.Idle, Total: c.Timeouts.Total,
		CancelGrace: c.Timeouts.CancelGrace, WedgeAfter: c.Timeouts.WedgeAfter,
		RestartWedged: c.Wedge == config.WedgeRestart, NoRestart: noRestart,
		KillDescendants: c.Descendants == config.DescendantsKill,
		StderrPerCall:   int(c.HelperOutput.StderrRetainedPerCall), StderrProcess: int(c.HelperOutput.StderrRetainedProcess),
		StderrExcerpt: int(c.HelperOutput.StderrAgentExcerpt), StderrPerMinute: int(c.HelperOutput.StderrForwardPerMinute),
		StderrHead: c.HelperOutput.Retain == config.RetainHeadAndTail,
		Grace:      c.HelperOutput.ShutdownGrace,
	}
}

// toolRule returns the function that looks up the rule of a tool, nil if there
// are no rules.
func toolRule(c *config.Config, server string) func(string) bridge.Rule {
	if len(c.Tools) == 0 {
		return nil
	}
	return func(tool string) bridge.Rule {
		r := c.ToolRule(server, tool)
		rule := bridge.Rule{Content: int(r.Content), Media: int(r.Media)}
		if keep, ok := keeps[r.Keep]; ok {
			rule.Keep = &keep
		}
		return rule
	}
}

var keeps = map[string]result.Keep{config.KeepHead: result.Head, config.KeepTail: result.Tail, config.KeepHeadAndTail: result.HeadAndTail}

// pageSize is the most bytes of text of one page of a kept result. The answer
// holds it twice, as text and as structured content, and must be within the
// limit itself.
func pageSize(limit int) int {
	if limit == 0 {
		return 0 // the default
	}
	return max(limit/2-1024, 512)
}

// memoryLimit is where the garbage collector works harder: well below the 48
// MiB that a bridge may take at its worst, which holds two frames being read
// and full queues.
const memoryLimit = 40 << 20

// prepareProcess makes the settings that concern the whole process.
func prepareProcess(env *environment) {
	debug.SetMemoryLimit(memoryLimit)
	if err := child.BecomeSubreaper(); err != nil {
		fmt.Fprintf(env.stderr, "penstock: orphans of the server cannot be collected here: %v\n", err)
	}
}

// signals passes signals on to the session: one that asks to end ends it, the
// rest go to the server. Without this a write to a host that has gone would
// end the process by SIGPIPE before the server is stopped.
func signals(ctx context.Context, s *bridge.Session) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, append([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE}, caught...)...)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-ch:
				switch {
				case sig == syscall.SIGPIPE:
				case sig == os.Interrupt || sig == syscall.SIGTERM:
					cancel()
				case sig == childSignal:
					child.ReapOrphans(nil)
				case sig == statsSignal:
					s.LogStats()
				default:
					s.Signal(sig)
				}
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() {
		// The process ends next: signals stay caught, so that none of them
		// cuts the end short.
		cancel()
		close(quit)
		<-done
	}
}

func writeStats(w io.Writer, s *bridge.Session) error {
	b, err := json.Marshal(s.Stats())
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
