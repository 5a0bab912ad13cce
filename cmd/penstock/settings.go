package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-dev/penstock/internal/config"
)

// settings are the settings of a command as its line gives them: a file, and
// the flags that override single keys.
type settings struct {
	file  string
	flags config.Flags
}

// addSettings gives cmd the flag --config and one flag for each key that has
// one.
func addSettings(cmd *cobra.Command, s *settings) {
	cmd.Flags().StringVar(&s.file, "config", "", "settings file (default ~/.penstock/config.yaml)")
	for _, k := range config.Keys() {
		if k.Flag != "" {
			cmd.Flags().Var(s.flags.Value(k), k.Flag, k.Usage())
		}
	}
}

// load returns the effective settings: flags, environment, file, defaults. A
// home that must not be used is no reason not to run a server: that is said,
// and there is no file.
func (s *settings) load(env *environment) (*config.Config, error) {
	if _, err := config.Home(env.environ); errors.Is(err, config.ErrForeignHome) && s.file == "" {
		fmt.Fprintf(env.stderr, "penstock: %v: no settings file is read; set PENSTOCK_HOME or --config to name one\n", err)
	}
	c, err := config.Load(config.Source{File: s.file, Environ: env.environ, Flags: &s.flags})
	return c, withHint(err, "Nothing was started. Run \"penstock config check\" after mending it.")
}
