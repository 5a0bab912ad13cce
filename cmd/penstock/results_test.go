package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// keepMain is a session that hands the named files over to the desk and prints
// their handles.
func keepMain() {
	env := &environment{environ: os.Environ()}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := link.Dial(deskOptions(env, "s1", "files\n", 0))
	defer c.Close(ctx)
	var handles []string
	for _, name := range os.Args[1:] {
		b, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		p := c.NewPut()
		p.Write(b)
		p.Commit(link.Info{Tool: "read_file", Call: "c_1", Part: "0"})
		if err := p.Wait(ctx); err != nil {
			panic(err)
		}
		handles = append(handles, p.Handle())
	}
	fmt.Println(strings.Join(handles, " "))
}

// onMain runs a command with the first or the second handle that keep printed
// as its next argument, since scripts cannot cut words out of a file.
func onMain() {
	b, err := os.ReadFile("handles")
	if err != nil {
		panic(err)
	}
	handle := strings.Fields(string(b))[slices.Index([]string{"first", "second"}, os.Args[1])]
	args := slices.Insert(slices.Clone(os.Args[3:]), 2, handle)
	cmd := exec.Command(os.Args[2], args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		os.Exit(cmd.ProcessState.ExitCode())
	}
}

func TestProgressLine(t *testing.T) {
	for _, tt := range []struct {
		n, total int64
		after    time.Duration
		want     string
	}{
		{0, 100, 0, "[------------------------------]   0%  0 bytes of 100 bytes"},
		{50, 100, time.Second, "[###############---------------]  50%  50 bytes of 100 bytes  50 bytes/s"},
		{1 << 30, 1 << 30, 4 * time.Second, "[##############################] 100%  1.00 GiB of 1.00 GiB  256.0 MiB/s"},
		{3 << 20, -1, 2 * time.Second, "3.0 MiB  1.5 MiB/s"},
	} {
		p := progress{n: tt.n, total: tt.total}
		if got := p.line(tt.after); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestProgressPasses checks that what is exported is not what is shown.
func TestProgressPasses(t *testing.T) {
	var out, shown bytes.Buffer
	p := &progress{w: &out, show: &shown, total: 4, started: time.Now()}
	p.Write([]byte("ab"))
	p.Write([]byte("cd"))
	p.end()
	if out.String() != "abcd" || !strings.Contains(shown.String(), "100%") || !strings.HasSuffix(shown.String(), "\n") {
		t.Errorf("wrote %q, showed %q", out.String(), shown.String())
	}
}
