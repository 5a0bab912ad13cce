package main

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// TestMain makes the test binary stand in for the commands that the scripts
// run, so that they are real processes. Add a command by adding its main here.
func TestMain(m *testing.M) {
	// A desk is started by the path of the program, not by a name of the scripts.
	if len(os.Args) > 2 && os.Args[1] == "desk" && os.Args[2] == "serve" {
		main()
		return
	}
	hostile.Main() // the servers and hosts of these tests are this binary too
	// Most of these tests wait for a ladder of seconds and use no processor. A
	// -parallel of the command line is read later and wins.
	flag.Set("test.parallel", "8")
	testscript.Main(m, map[string]func(){
		"penstock": main,
		"keep":     keepMain,
		"on":       onMain,
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
			home := env.WorkDir + "/home"
			env.Setenv("PENSTOCK_HOME", home)
			env.Defer(func() {
				ctx, cancel := context.WithTimeout(context.Background(), deskTimeout)
				defer cancel()
				if err := (&deskPlace{home: home}).stop(ctx); err != nil {
					t.Errorf("a desk is left: %v", err)
				}
			})
			return nil
		},
	})
}
