package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/penstock-dev/penstock/internal/config"
)

func newDoctorCmd(env *environment) *cobra.Command {
	var (
		s               settings
		calls, sessions int
		asJSON          bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and your settings",
		Long: `Doctor checks the settings, who may read them, and what this system offers, and
prints the most memory that the settings allow. It changes nothing. It exits 0
if all is well, 1 if there are problems; each comes with what to do.`,
		Example: `  penstock doctor
  penstock doctor --calls 50 --sessions 12
  penstock doctor --wire-limit 4MiB --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if calls < 0 || sessions < 0 {
				return usageError("--calls and --sessions cannot be negative")
			}
			if !cmd.Flags().Changed("calls") {
				calls = -1 // as many as the settings let in
			}
			d := diagnose(s.source(env), calls, sessions)
			if asJSON {
				if err := writeJSON(env.stdout, d); err != nil {
					return err
				}
			} else if err := d.print(env); err != nil {
				return err
			}
			if len(d.Problems) > 0 {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	addSettings(cmd, &s)
	cmd.Flags().IntVar(&calls, "calls", 0, "calls in flight in each session (default limits.calls)")
	cmd.Flags().IntVar(&sessions, "sessions", 1, "sessions at the same time")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// diagnosis is what doctor found. What could not be observed is null.
type diagnosis struct {
	Version  version    `json:"version"`
	Home     *string    `json:"home"`
	Settings *string    `json:"settings"` // the file that is read, null if there is none
	Problems []finding  `json:"problems"`
	Notes    []finding  `json:"notes"` // worth knowing, not wrong
	Memory   memory     `json:"memory"`
	System   systemFact `json:"system"`
}

// finding is one problem or note.
type finding struct {
	What string `json:"what"`
	Do   string `json:"do"`
}

// memory is the worst case, in bytes. The parts are for one bridge.
type memory struct {
	Calls    int         `json:"calls"`
	Sessions int         `json:"sessions"`
	Base     config.Size `json:"base"`
	Queues   config.Size `json:"queues"`
	Readers  config.Size `json:"readers"`
	Captures config.Size `json:"captures"`
	Results  config.Size `json:"results"`
	Bridge   config.Size `json:"bridge"`
	Total    config.Size `json:"total"`
	Assumes  string      `json:"assumes"` // which settings it was reckoned with
}

// systemFact is what this system offers, as it was tried.
type systemFact struct {
	OS           string  `json:"os"`
	Kernel       *string `json:"kernel"`
	Subreaper    *bool   `json:"subreaper"`
	PIDFD        *bool   `json:"pidfd"`
	ParentDeath  *bool   `json:"parent_death_signal"`
	PipeBytes    *int64  `json:"pipe_bytes"`
	PipeMaxBytes *int64  `json:"pipe_max_bytes"`
}

// hostLimit is the message size above which the most common hosts close the
// connection: those built on the TypeScript SDK.
const hostLimit config.Size = 10 << 20

// diagnose looks at everything. calls below zero stands for limits.calls.
func diagnose(src config.Source, calls, sessions int) *diagnosis {
	d := &diagnosis{
		Version:  buildVersion(),
		Problems: []finding{}, // JSON shows an empty list, not null
		Notes:    []finding{},
		System:   systemFacts(),
	}
	if file, found, err := config.Path(src); err == nil && found {
		d.Settings = &file
	}
	switch home, err := config.Home(src.Environ); {
	case err == nil:
		d.Home = &home
		for _, p := range config.CheckPlace(home) {
			d.Problems = append(d.Problems, finding{p.Error(), placeAdvice(home)})
		}
	case errors.Is(err, config.ErrNoHome):
		d.Notes = append(d.Notes, finding{"this user has no home, so nothing is kept and no settings file is read", "set PENSTOCK_HOME to the full path of a folder if you want settings"})
	}

	c, err := config.Load(src)
	assumes := "the settings in effect"
	if err != nil {
		c, assumes = config.Default(), "the defaults, since the settings have problems"
	}
	for _, p := range check(src) {
		d.Problems = append(d.Problems, finding{p.Error(), problemAdvice(p)})
	}
	if c.Limits.Wire > hostLimit {
		d.Notes = append(d.Notes, finding{
			fmt.Sprintf("limits.wire is %s: hosts built on the TypeScript SDK close the connection on a message above %s", c.Limits.Wire, hostLimit),
			"keep it at " + hostLimit.String() + " or below unless you know what your host takes",
		})
	}
	d.Notes = append(d.Notes, d.System.notes()...)

	if calls < 0 {
		calls = c.Limits.Calls
	}
	if calls > c.Limits.Calls {
		d.Notes = append(d.Notes, finding{
			fmt.Sprintf("limits.calls lets in %d calls; the other %d would be refused", c.Limits.Calls, calls-c.Limits.Calls),
			"raise limits.calls if an agent needs more at the same time",
		})
		calls = c.Limits.Calls
	}
	m := c.WorstCase(calls, sessions)
	d.Memory = memory{calls, sessions, m.Base, m.Queues, m.Readers, m.Captures, m.Results, m.Bridge, m.Total, assumes}
	return d
}

func placeAdvice(home string) string {
	if runtime.GOOS == "windows" {
		return "make it a folder that only you can open"
	}
	return fmt.Sprintf("make it a folder of your own: chown \"$(id -un)\" %s && chmod 700 %[1]s", shellQuote(home))
}

// problemAdvice says what to do about a problem with the settings, where the
// problem does not say so itself.
func problemAdvice(p config.Problem) string {
	switch {
	case errors.Is(p, config.ErrForeignHome):
		return "run it as that user, or set HOME to root's own home, or PENSTOCK_HOME to a folder"
	case p.Origin.Kind == config.FromEnv && p.Key == "":
		return "unset it, or correct its name"
	case p.Origin.Kind == config.FromEnv:
		return "correct the variable where the agent's configuration or your shell sets it"
	case p.Origin.Kind == config.FromFile && p.Origin.Line == 0:
		return "mend the file or its permissions, or name another one with --config"
	case p.Origin.Kind == config.FromFile:
		return fmt.Sprintf("correct line %d of the file", p.Origin.Line)
	}
	return "correct the flag"
}

// notes says what the system lacks.
func (s systemFact) notes() []finding {
	var notes []finding
	lacks := func(has *bool, what, do string) {
		if has != nil && !*has {
			notes = append(notes, finding{what, do})
		}
	}
	lacks(s.Subreaper, "this system does not hand orphans of a server to the bridge, so those that leave its group cannot be named", "use Linux 3.4 or later, outside of sandboxes that forbid prctl")
	lacks(s.PIDFD, "this system has no stable handles for processes", "use Linux 5.3 or later, outside of sandboxes that forbid pidfd_open")
	lacks(s.ParentDeath, "this system does not end a server when its bridge is killed; the server notices only when it next uses its pipes", "nothing, if your servers end when their input does")
	return notes
}

func (d *diagnosis) print(env *environment) error {
	out := env.stdout
	c := colours(env, out)
	settings := "none; the defaults apply"
	if d.Settings != nil {
		settings = *d.Settings
	}
	home := "unknown"
	if d.Home != nil {
		home = *d.Home
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Version\t%s\n", printable(d.Version.String()))
	fmt.Fprintf(w, "Folder\t%s\n", printable(home))
	fmt.Fprintf(w, "Settings\t%s\n", printable(settings))
	for _, row := range d.System.rows() {
		fmt.Fprintf(w, "%s\t%s\n", row[0], printable(row[1]))
	}
	if err := w.Flush(); err != nil {
		return err
	}

	m := d.Memory
	fmt.Fprintf(out, "\nMost memory that the limits allow, with %s and %s in flight in each\n(reckoned with %s):\n\n", counted(m.Sessions, "session"), counted(m.Calls, "call"), m.Assumes)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct {
		size config.Size
		what string
	}{
		{m.Queues, "queues (limits.queues)"},
		{m.Readers, "messages being read (twice limits.wire)"},
		{m.Captures, "kept stderr (helper_output)"},
		{m.Results, "results on their way to the desk, and being cut"},
		{m.Base, "the program itself, idle"},
		{m.Bridge, "one session"},
		{m.Total, "all sessions"},
	} {
		fmt.Fprintf(w, "%s\t  %s\n", row.size.Approx(), row.what)
	}
	if err := w.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(out)
	for _, f := range d.Notes {
		fmt.Fprintf(out, "%s %s\n     %s\n", c.yellow("note"), printable(f.What), printable(f.Do))
	}
	for _, f := range d.Problems {
		fmt.Fprintf(out, "%s %s\n     %s\n", c.red("problem"), printable(f.What), printable(f.Do))
	}
	summary := c.green("No problems.")
	if n := len(d.Problems); n > 0 {
		summary = c.red(counted(n, "problem") + ".")
	}
	_, err := fmt.Fprintln(out, summary)
	return err
}

// counted returns "1 thing" or "2 things".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// rows is the system in words.
func (s systemFact) rows() [][2]string {
	kernel := s.OS
	if s.Kernel != nil {
		kernel += " " + *s.Kernel
	}
	yes := func(b *bool) string {
		switch {
		case b == nil:
			return "unknown"
		case *b:
			return "yes"
		}
		return "no"
	}
	pipe := "unknown"
	if s.PipeBytes != nil {
		pipe = fmt.Sprintf("%d bytes", *s.PipeBytes)
	}
	if s.PipeMaxBytes != nil {
		pipe += fmt.Sprintf(", at most %d", *s.PipeMaxBytes)
	}
	return [][2]string{
		{"System", kernel},
		{"Subreaper", yes(s.Subreaper)},
		{"Process handles", yes(s.PIDFD)},
		{"Parent-death signal", yes(s.ParentDeath)},
		{"Pipe", pipe},
	}
}

// shellQuote quotes a path for a command that a person may paste.
func shellQuote(path string) string {
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
