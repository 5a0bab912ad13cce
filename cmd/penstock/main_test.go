package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary stand in for the commands that the scripts
// run, so that they are real processes. Add a command by adding its main here.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"penstock": main,
	})
}

// TestScripts runs testdata/script/*.txtar, one topic a file.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Nothing of the machine may leak in, nor anything out to a real home.
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PENSTOCK_HOME", env.WorkDir+"/home")
			return nil
		},
	})
}
