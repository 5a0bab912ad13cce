package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRootCmd returns the command tree. It holds no state outside env, so that
// every call makes an independent tree.
func newRootCmd(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "penstock",
		Short: "Keep MCP servers from freezing your agent",
		Long: `Penstock stands between an AI agent and the MCP servers it uses, and keeps
every call moving. Put "penstock run --" in front of a server's command in your
agent's configuration: the server works as before, but a huge result, a flood
of log lines, a stalled reader or a half-dead process can no longer freeze the
agent.`,
		Example: `  penstock demo              see an agent freeze, and not freeze
  penstock doctor            check this machine and your settings
  penstock run -- CMD ARG…   run one MCP server behind the gate
  penstock config show       see every setting and where its value comes from`,
		Args:          commandArgs,
		RunE:          showHelp,
		Version:       buildVersion().String(),
		SilenceErrors: true, // main prints them
		SilenceUsage:  true, // a page of usage hides the error above it

		DisableFlagsInUseLine: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(newHelpCmd(root))
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)

	// The subcommands, one file each, in alphabetical order.
	root.AddCommand(
		newConfigCmd(env),
		newDemoCmd(env),
		newDeskCmd(env),
		newDoctorCmd(env),
		newResultsCmd(env),
		newRunCmd(env),
		newVersionCmd(env),
	)
	// Cobra answers a shell that it does not know with a page of help and 0.
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = commandArgs, showHelp
		}
	}
	return root
}

// newHelpCmd replaces cobra's own, which ends with 0 for a command that does
// not exist.
func newHelpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = commandArgs(cmd, rest)
			}
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// run executes one command line. What goes wrong before a command has started
// is the fault of the command line and ends with exitUsage.
func run(ctx context.Context, args []string, env *environment) error {
	root := newRootCmd(env)
	root.SetArgs(args)
	started := false
	markStart(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || started {
		return err
	}
	return withHint(&exitError{exitUsage, err}, "Run %q to see how it is used.", cmd.CommandPath()+" --help")
}

// markStart makes every command of the tree set *started as it begins. Cobra
// returns one kind of error for everything, and this is how mistakes in flags
// and arguments are told from failures of commands.
func markStart(cmd *cobra.Command, started *bool) {
	if inner := cmd.RunE; inner != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return inner(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStart(sub, started)
	}
}

// noArgs is the Args of a command that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError("%q takes no arguments, and got %q", cmd.CommandPath(), args[0])
}

// commandArgs is the Args of a command that has only subcommands: any argument
// is one that does not exist, and the nearest ones are named.
func commandArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("%q has no command %q", cmd.CommandPath(), args[0])
	// Cobra sets its default distance only on the way that we do not take.
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError("%s", msg)
}
