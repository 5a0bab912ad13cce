package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what `penstock version --json` prints. What the build did not
// record is empty, or null for modified.
type version struct {
	Version  string `json:"version"` // module version, "(devel)" from a work tree
	Revision string `json:"revision"`
	Time     string `json:"time"` // of the revision, RFC 3339
	Modified *bool  `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func newVersionCmd(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Example: `  penstock version
  penstock version --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if asJSON {
				return writeJSON(env.stdout, v)
			}
			_, err := fmt.Fprintln(env.stdout, v)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// buildVersion reads what the go command recorded in this binary.
func buildVersion() version {
	v := version{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			modified := s.Value == "true"
			v.Modified = &modified
		}
	}
	return v
}

func (v version) String() string {
	s := "penstock"
	if v.Version != "" {
		s += " " + v.Version
	}
	if v.Revision != "" {
		s += " " + v.Revision
	}
	if v.Modified != nil && *v.Modified {
		s += " (modified)"
	}
	return fmt.Sprintf("%s %s %s/%s", s, v.Go, v.OS, v.Arch)
}
