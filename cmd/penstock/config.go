package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-dev/penstock/internal/config"
)

func newConfigCmd(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and check the settings",
		Long: `Settings are optional. They come from flags, from PENSTOCK_* variables and from
one file, ~/.penstock/config.yaml, in this order: the first that sets a value
wins. docs/config.md describes each of them.`,
		Example: `  penstock config show
  penstock config check
  penstock config schema > ~/.penstock/schema.json`,
		Args: commandArgs,
		RunE: showHelp,

		DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(
		newConfigCheckCmd(env),
		newConfigPathCmd(env),
		newConfigSchemaCmd(env),
		newConfigShowCmd(env),
	)
	return cmd
}

// source is where the settings of a command come from.
func (s *settings) source(env *environment) config.Source {
	return config.Source{File: s.file, Environ: env.environ, Flags: &s.flags}
}

// addFile gives cmd only the flag --config, for commands that do not care for
// single values.
func addFile(cmd *cobra.Command, s *settings) {
	cmd.Flags().StringVar(&s.file, "config", "", "settings file (default ~/.penstock/config.yaml)")
}

func newConfigShowCmd(env *environment) *cobra.Command {
	var (
		s      settings
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every value and where it comes from",
		Long: `Show prints the value of every setting and its source: default, the file with
the line, the variable, or the flag. It takes the flags of "penstock run" that
change a setting, to show what they would do.`,
		Example: `  penstock config show
  penstock config show --json
  penstock config show --wire-limit 4MiB`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := config.Load(s.source(env))
			if err != nil {
				return withHint(err, "Mend these, then look again. Nothing is in effect until all of them are gone.")
			}
			if asJSON {
				return showJSON(env, c)
			}
			w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
			for _, k := range config.Keys() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", k.Path, c.Text(k.Path), printable(c.Origin(k.Path).String()))
			}
			for i, r := range c.Tools {
				fmt.Fprintf(w, "tools[%d]\t%s\t%s\n", i, printable(r.Text()), printable(r.Origin.String()))
			}
			return w.Flush()
		},
	}
	addSettings(cmd, &s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// shown is a line of config show --json. One of Value and ValueMS is set.
type shown struct {
	Key     string      `json:"key"`
	Kind    config.Kind `json:"kind"`
	Value   any         `json:"value,omitempty"`    // bytes, a count, a word or a rule
	ValueMS *int64      `json:"value_ms,omitempty"` // of a duration
	Text    string      `json:"text"`
	Source  string      `json:"source"` // default, file, env or flag
	place
}

// place is where a value or a problem is.
type place struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Variable string `json:"variable,omitempty"`
	Flag     string `json:"flag,omitempty"`
}

func placeOf(o config.Origin) place {
	switch o.Kind {
	case config.FromFile:
		return place{File: o.Name, Line: o.Line}
	case config.FromEnv:
		return place{Variable: o.Name}
	case config.FromFlag:
		return place{Flag: o.Name}
	}
	return place{}
}

func showJSON(env *environment, c *config.Config) error {
	for _, k := range config.Keys() {
		o := c.Origin(k.Path)
		row := shown{Key: k.Path, Kind: k.Kind, Text: c.Text(k.Path), Source: o.Kind.String(), place: placeOf(o)}
		n, isNumber := c.Number(k.Path)
		switch {
		case !isNumber:
			row.Value = row.Text
		case k.Kind == config.Duration || k.Kind == config.Seconds:
			ms := time.Duration(n).Milliseconds()
			row.ValueMS = &ms
		default:
			row.Value = n
		}
		if err := writeJSON(env.stdout, row); err != nil {
			return err
		}
	}
	for i, r := range c.Tools {
		row := shown{Key: fmt.Sprintf("tools[%d]", i), Kind: "rule", Text: r.Text(), Source: r.Origin.Kind.String(), place: placeOf(r.Origin)}
		row.Value = struct {
			Server  string      `json:"server"`
			Tool    string      `json:"tool"`
			Content config.Size `json:"content,omitempty"` // -1: off
			Media   config.Size `json:"media,omitempty"`
			Keep    string      `json:"keep,omitempty"`
		}{r.Server, r.Tool, r.Content, r.Media, r.Keep}
		if err := writeJSON(env.stdout, row); err != nil {
			return err
		}
	}
	return nil
}

func newConfigCheckCmd(env *environment) *cobra.Command {
	var (
		s      settings
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Report everything that is wrong with the settings",
		Long: `Check reads the file and the environment and prints every problem with its
place. It also reports PENSTOCK_* variables that set nothing, which other
commands ignore. It exits 0 if all is well, 1 if there are problems.`,
		Example: `  penstock config check
  penstock config check --config ./team.yaml --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			problems := check(s.source(env))
			if asJSON {
				for _, p := range problems {
					if err := writeJSON(env.stdout, problemRow(p)); err != nil {
						return err
					}
				}
			} else {
				for _, p := range problems {
					fmt.Fprintln(env.stdout, printable(p.Error()))
				}
			}
			if len(problems) > 0 {
				return &exitError{code: 1}
			}
			if asJSON {
				return nil
			}
			file, found, err := config.Path(s.source(env))
			switch {
			case err != nil:
				return err
			case found:
				fmt.Fprintf(env.stdout, "%s: no problems\n", printable(file))
			case file == "":
				fmt.Fprintln(env.stdout, "this user has no home, so there is no file; the defaults apply")
			default:
				fmt.Fprintf(env.stdout, "%s: not there; the defaults apply\n", printable(file))
			}
			return nil
		},
	}
	addFile(cmd, &s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, none if all is well")
	return cmd
}

// check returns everything that is wrong with the settings.
func check(src config.Source) config.Problems {
	_, err := config.Load(src)
	var problems config.Problems
	errors.As(err, &problems)
	return append(problems, config.UnknownEnv(src.Environ)...)
}

// problemJSON is a line of config check --json.
type problemJSON struct {
	Source string `json:"source"`
	place
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

func problemRow(p config.Problem) problemJSON {
	return problemJSON{Source: p.Origin.Kind.String(), place: placeOf(p.Origin), Column: p.Origin.Column, Key: p.Key, Message: p.Msg}
}

func newConfigSchemaCmd(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the settings file for editors",
		Example: `  penstock config schema > ~/.penstock/schema.json

  and as the first line of the settings file, for editors with yaml-language-server:
  # yaml-language-server: $schema=schema.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.stdout.Write(config.Schema())
			return err
		},
	}
}

func newConfigPathCmd(env *environment) *cobra.Command {
	var (
		s      settings
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "path",
		Short:   "Print which settings file is read",
		Example: `  ${EDITOR:-vi} "$(penstock config path)"`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			file, found, err := config.Path(s.source(env))
			if err == nil && file == "" {
				err = config.ErrNoHome
			}
			if err != nil {
				return withHint(err, "No file is read. Set PENSTOCK_HOME to the full path of a folder, or give --config FILE.")
			}
			if asJSON {
				return writeJSON(env.stdout, struct {
					Path   string `json:"path"`
					Exists bool   `json:"exists"`
				}{file, found})
			}
			// Not made printable: it is for other programs to open.
			_, err = fmt.Fprintln(env.stdout, filepath.Clean(file))
			return err
		},
	}
	addFile(cmd, &s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
