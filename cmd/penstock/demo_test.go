package main

import (
	"os"
	"os/exec"
	"testing"
)

// What the demo calls shown has to differ between the ways, in every fact.
func TestAsTold(t *testing.T) {
	yes, no := true, false
	all, some, one, none, two := int64(100), int64(60), 1, 0, 2
	good := func(scene, through string) *observed {
		o := &observed{Scene: scene, Through: through, OutputBytes: &all, WrittenBytes: &some, StandsStill: &yes, CancelReached: &no,
			NextAnswered: &no, ServerRuns: &yes, ProcessesLeft: &one, OutputEnded: &no}
		if through == "penstock" {
			o.WrittenBytes, o.StandsStill, o.CancelReached, o.NextAnswered = &all, &no, &yes, &yes
			o.AnswersRead, o.ServerRuns, o.ProcessesLeft, o.OutputEnded = &two, &no, &none, &yes
		}
		return o
	}
	spoil := map[string][]func(o *observed){
		sceneAnswer: {
			func(o *observed) { o.WrittenBytes = other(o.WrittenBytes, &all, &some) },
			func(o *observed) { o.StandsStill = other(o.StandsStill, &yes, &no) },
			func(o *observed) { o.CancelReached = other(o.CancelReached, &yes, &no) },
			func(o *observed) { o.NextAnswered = other(o.NextAnswered, &yes, &no) },
			func(o *observed) { o.ServerRuns = other(o.ServerRuns, &yes, &no) },
			func(o *observed) { o.ServerRuns = nil },
		},
		sceneLogs: {
			func(o *observed) { o.WrittenBytes = other(o.WrittenBytes, &all, &some) },
			func(o *observed) { o.StandsStill = other(o.StandsStill, &yes, &no) },
			func(o *observed) { o.NextAnswered = other(o.NextAnswered, &yes, &no) },
		},
		sceneOrphan: {
			func(o *observed) { o.ProcessesLeft = other(o.ProcessesLeft, &one, &none) },
			func(o *observed) { o.OutputEnded = other(o.OutputEnded, &yes, &no) },
		},
	}
	for _, sc := range scenes() {
		for _, way := range ways {
			if !good(sc.key, way).asTold() {
				t.Errorf("%s over %s is not as told", sc.key, way)
			}
			for i, f := range spoil[sc.key] {
				o := good(sc.key, way)
				f(o)
				if o.asTold() {
					t.Errorf("%s over %s is as told with fact %d wrong", sc.key, way, i)
				}
			}
		}
	}
	o := good(sceneAnswer, "penstock")
	if o.AnswersRead = &one; o.asTold() {
		t.Error("a lost answer is as told")
	}
}

func other[T comparable](now, a, b *T) *T {
	if *now == *a {
		return b
	}
	return a
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 49220: "48 KiB", 65536: "64 KiB", 4 << 20: "4 MiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestProcessRuns(t *testing.T) {
	if runs, err := processRuns(os.Getpid()); err != nil || !runs {
		t.Errorf("this process: %v, %v", runs, err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	pid := cmd.Process.Pid
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if runs, err := processRuns(pid); err != nil || runs {
		t.Errorf("a process that ended: %v, %v", runs, err)
	}
}
