package main

import (
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

// load returns the effective settings: flags, environment, file, defaults.
func (s *settings) load(env *environment) (*config.Config, error) {
	c, err := config.Load(config.Source{File: s.file, Environ: env.environ, Flags: &s.flags})
	return c, withHint(err, "Nothing was started. Run \"penstock config check\" after mending it.")
}
