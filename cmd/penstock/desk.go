package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-dev/penstock/internal/config"
	"github.com/penstock-dev/penstock/internal/desk"
	"github.com/penstock-dev/penstock/internal/link"
)

// deskTimeout bounds what a person waits for in commands of the desk.
const deskTimeout = 20 * time.Second

func newDeskCmd(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "desk",
		Short: "Start, stop and look at the background process",
		Long: `The desk is one background process for all sessions of a user. It keeps the
results that were too large for an agent, so that their rest can be read. The
first session starts it and it leaves when nobody needs it; these commands are
for looking, and for the moment after an update or a change of settings.`,
		Example: `  penstock desk status
  penstock desk restart      after an update, or a change of the settings`,
		Args: commandArgs,
		RunE: showHelp,

		DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(
		newDeskRestartCmd(env),
		newDeskServeCmd(env),
		newDeskStartCmd(env),
		newDeskStatusCmd(env),
		newDeskStopCmd(env),
	)
	return cmd
}

func newDeskStartCmd(env *environment) *cobra.Command {
	return deskCommand(env, "start", "Start the desk, if none is running",
		`Start starts the desk in the background. The first session does so by itself.`,
		func(ctx context.Context, d *deskPlace) error { return d.start(ctx) })
}

func newDeskStopCmd(env *environment) *cobra.Command {
	return deskCommand(env, "stop", "Stop the desk",
		`Stop ends the desk. What it keeps stays on the disk until it expires, and the
next session that needs a desk starts one again.`,
		func(ctx context.Context, d *deskPlace) error { return d.stop(ctx) })
}

func newDeskRestartCmd(env *environment) *cobra.Command {
	return deskCommand(env, "restart", "Stop the desk and start it again",
		`Restart ends the desk and starts this version with the present settings. Sessions
go on meanwhile and find the new desk; only a result that is being handed over
at that moment may be lost, and says so.`,
		func(ctx context.Context, d *deskPlace) error {
			if err := d.stop(ctx); err != nil {
				return err
			}
			return d.start(ctx)
		})
}

func newDeskStatusCmd(env *environment) *cobra.Command {
	return deskCommand(env, "status", "Show whether a desk is running, and what it does",
		`Status shows the desk, its sessions and what it keeps. It starts nothing, and
exits 0 also if no desk is running, since one starts by itself.`,
		func(context.Context, *deskPlace) error { return nil })
}

// deskCommand is a command that does something to the desk and then says how
// it stands.
func deskCommand(env *environment, name, short, long string, do func(context.Context, *deskPlace) error) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Example: fmt.Sprintf(`  penstock desk %[1]s
  penstock desk %[1]s --json`, name),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), deskTimeout)
			defer cancel()
			d, err := findDesk(env)
			if err != nil {
				return err
			}
			if err := do(ctx, d); err != nil {
				return withHint(err, "The desk is as it was before. \"penstock doctor\" looks for what is wrong with its folder, %s.", d.home)
			}
			return d.show(ctx, env, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// deskPlace is the desk of the user who runs this command.
type deskPlace struct {
	home    string
	program string
}

func findDesk(env *environment) (*deskPlace, error) {
	home, err := config.Home(env.environ)
	if err != nil {
		return nil, withHint(err, "The desk lives in .penstock in your home. Set PENSTOCK_HOME to a folder for it.")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("where this program is: %w", err)
	}
	return &deskPlace{home, program}, nil
}

// dial returns a client for a person. If start is set, it starts a desk that
// is not running.
func (d *deskPlace) dial(start bool) *link.Client {
	o := link.Options{Home: d.home, Who: link.Person, Build: buildVersion().String()}
	if start {
		o.Start = d.start
	}
	return link.Dial(o)
}

func (d *deskPlace) start(ctx context.Context) error { return desk.Start(ctx, d.program, d.home) }

func (d *deskPlace) stop(ctx context.Context) error {
	c := d.dial(false)
	defer c.Close(ctx)
	err := c.Stop(ctx) // a desk that is just going may not answer
	if gone := desk.WaitStopped(ctx, d.home); gone != nil {
		if err != nil && !notRunning(err) {
			return err
		}
		return fmt.Errorf("the desk does not end: %w", gone)
	}
	return nil
}

// notRunning reports whether err says that nobody listens.
func notRunning(err error) bool {
	e := (*link.Error)(nil)
	return errors.As(err, &e) && e.Code == link.CodeAbsent
}

// deskStatus is what `penstock desk status --json` prints.
type deskStatus struct {
	Running bool `json:"running"`
	*link.Status
}

func (d *deskPlace) show(ctx context.Context, env *environment, asJSON bool) error {
	c := d.dial(false)
	defer c.Close(ctx)
	s, err := c.Status(ctx)
	if err != nil && !notRunning(err) {
		return withHint(err, "Something holds the place of the desk in %s. \"penstock desk restart\" may help.", d.home)
	}
	if asJSON {
		if err != nil {
			return writeJSON(env.stdout, deskStatus{})
		}
		return writeJSON(env.stdout, deskStatus{true, &s})
	}
	if err != nil {
		_, err = fmt.Fprintln(env.stdout, "no desk is running; the first session that needs one starts it")
		return err
	}
	w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "desk\tprocess %d, since %s\n", s.PID, s.Started.Local().Format(time.DateTime))
	fmt.Fprintf(w, "build\t%s\n", printable(s.Build))
	place := "in " + printable(s.Place)
	if s.Place == "" {
		place = "and their disk does not answer"
	}
	fmt.Fprintf(w, "results\t%d kept, %s of %s, %s\n", s.Results.Count, approx(s.Results.Bytes), approx(s.Results.Quota), place)
	if s.Results.Lost > 0 {
		fmt.Fprintf(w, "lost\t%d, the last because: %s\n", s.Results.Lost, printable(s.Results.Why))
	}
	fmt.Fprintf(w, "sessions\t%d\n", len(s.Sessions))
	for _, x := range s.Sessions {
		fmt.Fprintf(w, "\t%s\t%s\tprocess %d\tsince %s\n", printable(x.ID), printable(x.Server), x.PID, x.Since.Local().Format(time.DateTime))
	}
	return w.Flush()
}

// approx returns a size for people.
func approx(n int64) string {
	switch f := float64(n); {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", f/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", f/(1<<20))
	default:
		return fmt.Sprintf("%.2f GiB", f/(1<<30))
	}
}

// deskMemory is where the collector of a desk works harder, below the 48 MiB
// that one may take.
const deskMemory = 40 << 20

func newDeskServeCmd(env *environment) *cobra.Command {
	privateFD := -1
	cmd := &cobra.Command{
		Use:    "serve",
		Short:  "Be the desk, in the foreground",
		Hidden: true, // sessions start it; a service manager may
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveDesk(cmd.Context(), env, privateFD)
		},
	}
	cmd.Flags().IntVar(&privateFD, "private-fd", -1, "serve one session on this descriptor")
	return cmd
}

func serveDesk(ctx context.Context, env *environment, privateFD int) error {
	debug.SetMemoryLimit(deskMemory)
	debug.SetGCPercent(50)
	ready := desk.Ready(env.stdout)
	cfg, err := deskConfig(env)
	if err == nil {
		if privateFD >= 0 {
			err = desk.Detach(privateFD)
		} else {
			err = desk.Detach()
		}
	}
	if err != nil {
		if privateFD < 0 {
			ready(err)
		}
		return err
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if privateFD >= 0 {
		return desk.ServePrivate(ctx, privateFD, cfg)
	}
	return desk.Run(ctx, cfg, ready)
}

// deskConfig reads the settings of the desk: from the file, never from the
// environment of whoever started it.
func deskConfig(env *environment) (desk.Config, error) {
	cfg := desk.Config{
		Build: buildVersion().String(),
		Log:   slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	home, err := config.Home(env.environ)
	if err != nil && !errors.Is(err, config.ErrNoHome) {
		return cfg, err
	}
	cfg.Home = home
	var source config.Source
	if home != "" {
		source.Environ = []string{"PENSTOCK_HOME=" + home}
	}
	c, err := config.Load(source)
	if err != nil {
		return cfg, err
	}
	cfg.Quota, cfg.SessionQuota, cfg.Expire = int64(c.Results.Quota), int64(c.Results.SessionQuota), c.Results.Expire
	return cfg, nil
}

// deskOptions say how the session of a server reaches a desk: the shared one,
// which it starts if need be, else one of its own. Without a usable home there
// is only the latter.
func deskOptions(env *environment, session, server string, page int) link.Options {
	o := link.Options{Session: session, Server: server, Build: buildVersion().String(), Page: page}
	program, err := os.Executable()
	if err != nil {
		return o
	}
	if home, err := config.Home(env.environ); err == nil {
		o.Home = home
	}
	o.Start = func(ctx context.Context) error { return desk.Start(ctx, program, o.Home) }
	o.Private = func(ctx context.Context) (net.Conn, error) { return desk.Private(ctx, program, o.Home) }
	return o
}
