package bridge

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/hostile"
)

// flood is one of the helpers that write too much, played in steps, so that many
// sessions can be in the same step at once.
type flood struct {
	name    string
	fixture string
	args    func(f *flooded) []string
	tool    string
	held    bool                              // its intent is not recorded before after says so
	ready   func(f *flooded)                  // waits until the flood is on
	settle  func(f *flooded)                  // brings the call to its end
	check   func(f *flooded, o call.Outcome)  // judges its outcome
	exit    func(f *flooded, last *call.Exit) // judges the end of the process
}

// flooded is a session with a flood.
type flooded struct {
	*flood
	t         *testing.T
	h         *host
	b         *book
	dir       string
	cancelled time.Time
	mu        sync.Mutex
	peak      int64 // most bytes retained that were seen; guarded by mu
}

const retained = 16 << 10 // per call, as config says

func (f *flooded) seen(n int64) {
	eventually(f.t, "the flood", func() bool { return f.h.s.Stats().StderrSeen >= n })
}

// bounded judges what a flooded call's record says of stderr.
func (f *flooded) bounded(o call.Outcome) {
	if o.Retained > retained || o.Truncated != (o.Retained < o.Seen) || o.Truncated && o.LetGo == "" || o.Retain != "tail" {
		f.t.Errorf("%s: stderr %+v", f.name, o.Stderr)
	}
}

var floods = []flood{{
	name: "before the call may go", fixture: "stderr-flood", tool: "echo", held: true,
	args:   func(*flooded) []string { return []string{"at=initialize", "bytes=1MiB"} },
	ready:  func(f *flooded) { f.seen(1 << 20) },
	settle: func(f *flooded) { f.b.speak(nil); f.h.answer("1") },
	check: func(f *flooded, o call.Outcome) {
		if o.State != call.Finished || o.Seen != 0 || o.Truncated || o.StreamEnd != call.StreamOpen || !*o.Delivered {
			f.t.Errorf("%s: %+v", f.name, o)
		}
	},
	exit: func(f *flooded, e *call.Exit) {
		if e.Stderr.Seen != 1<<20 || e.Stderr.Retained > retained || !e.Stderr.Truncated {
			f.t.Errorf("%s: %+v", f.name, e)
		}
	},
}, {
	name: "while it waits, and an exit right after", fixture: "exits", tool: "echo", held: true,
	args: func(*flooded) []string {
		return []string{"on=call", "when=before", "code=4", "say=" + strings.Repeat("last words ", 9000)}
	},
	ready:  func(*flooded) {},
	settle: func(f *flooded) { f.b.speak(nil); f.h.answer("1") },
	check: func(f *flooded, o call.Outcome) {
		f.bounded(o)
		if o.State != call.OutcomeUnknown || o.ExitStatus == nil || *o.ExitStatus != 4 || o.StreamEnd != "eof" || o.Given != "replaced" {
			f.t.Errorf("%s: %+v", f.name, o)
		}
	},
	exit: func(f *flooded, e *call.Exit) {
		if e.ExitStatus == nil || *e.ExitStatus != 4 || e.Stderr.Seen < 9000*11 || !e.Stderr.Truncated {
			f.t.Errorf("%s: %+v", f.name, e)
		}
	},
}, {
	name: "after the effect, and a cancellation", fixture: "stderr-flood", tool: "counter",
	args: func(f *flooded) []string {
		return []string{"at=effect", "forever=true", "effect=" + filepath.Join(f.dir, "effect"), "ledger=" + filepath.Join(f.dir, "ledger")}
	},
	ready: func(f *flooded) { f.seen(1 << 20) },
	settle: func(f *flooded) {
		f.cancelled = time.Now()
		f.h.send(cancel("1"))
		eventually(f.t, "the cancellation", func() bool { return f.h.s.Stats().CancelsReceived == 1 })
	},
	check: func(f *flooded, o call.Outcome) {
		f.bounded(o)
		if o.State != call.CancelledAfterDispatch || o.ExitStatus != nil || *o.Delivered || o.StreamEnd != call.StreamOpen || !o.Truncated {
			f.t.Errorf("%s: %+v", f.name, o)
		}
		events, err := hostile.ReadLedger(filepath.Join(f.dir, "ledger"))
		if err != nil {
			f.t.Fatal(err)
		}
		effects := 0
		for _, e := range events {
			if e.What == "effect" {
				effects++
			}
		}
		if effects != 1 || len(readLines(f.t, filepath.Join(f.dir, "effect"))) != 1 {
			f.t.Errorf("%s: the ledger has %d effects", f.name, effects)
		}
	},
	exit: func(f *flooded, e *call.Exit) {
		if e.Signal == "" || e.StderrEnd != "reader_completed_after_cancel" && e.StderrEnd != "eof_after_kill" {
			f.t.Errorf("%s: %+v", f.name, e)
		}
	},
}, {
	name: "a descendant that keeps stderr", fixture: "grandchild", tool: "echo",
	args:   func(*flooded) []string { return []string{"holds=stderr", "chatty=true", "stubborn=true"} },
	ready:  func(f *flooded) { f.seen(1) },
	settle: func(f *flooded) { f.h.answer("1") },
	check: func(f *flooded, o call.Outcome) {
		f.bounded(o)
		if o.State != call.Finished || o.StreamEnd != call.StreamOpen || o.ExitStatus != nil {
			f.t.Errorf("%s: %+v", f.name, o)
		}
	},
	exit: func(f *flooded, e *call.Exit) {
		if e.ExitStatus == nil || *e.ExitStatus != 0 || e.StderrEnd != "eof_after_kill" || !e.Forced {
			f.t.Errorf("%s: %+v", f.name, e)
		}
	},
}, {
	name: "invalid bytes", fixture: "stderr-flood", tool: "echo",
	args:   func(*flooded) []string { return []string{"at=call", "bytes=1MiB", "shape=invalid"} },
	ready:  func(f *flooded) { f.seen(1 << 20) },
	settle: func(f *flooded) { f.h.answer("1") },
	check:  finishedFlood,
	exit:   wholeFlood,
}, {
	name: "one line larger than what is kept", fixture: "stderr-flood", tool: "echo",
	args:   func(*flooded) []string { return []string{"at=call", "bytes=1MiB", "shape=unbroken"} },
	ready:  func(f *flooded) { f.seen(1 << 20) },
	settle: func(f *flooded) { f.h.answer("1") },
	check:  finishedFlood,
	exit:   wholeFlood,
}}

func finishedFlood(f *flooded, o call.Outcome) {
	f.bounded(o)
	if o.State != call.Finished || o.IsError == nil || *o.IsError || !*o.Delivered || o.Given != "whole" || o.StreamEnd != call.StreamOpen {
		f.t.Errorf("%s: %+v", f.name, o)
	}
}

func wholeFlood(f *flooded, e *call.Exit) {
	if e.Stderr.Seen != 1<<20 || !e.Stderr.Truncated || e.StderrEnd != "eof" || e.ExitStatus == nil || *e.ExitStatus != 0 {
		f.t.Errorf("%s: %+v", f.name, e)
	}
}

// watch notes the most that is retained until ctx ends.
func (f *flooded) watch(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n := f.h.s.captures.Retained()
			f.mu.Lock()
			f.peak = max(f.peak, n)
			f.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// The seed's floods, alone and many at once: what is retained stays bounded, the
// process ends, the state is that of the action, and the record is there.
func playFloods(t *testing.T, sessions int) {
	ctx, stop := context.WithCancel(context.Background())
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	all := make([]*flooded, sessions)
	for i := range all {
		f := &flooded{flood: &floods[i%len(floods)], t: t, b: &book{t: t}, dir: t.TempDir()}
		f.h = start(t, recorded(f.b, nil), f.fixture, f.args(f)...)
		watchers.Go(func() { f.watch(ctx) })
		all[i] = f
	}
	for _, f := range all {
		f.h.hello()
		if f.held {
			f.b.silence()
		}
		f.h.send(toolCall("1", f.tool, `{"text":"a"}`))
	}
	for _, f := range all {
		f.ready(f)
	}
	for _, f := range all {
		f.settle(f)
	}
	for _, f := range all {
		f.h.in.Close() // the host goes away
	}
	var slowest time.Duration
	var peak int64
	for _, f := range all {
		f.h.end()
		f.b.check(t)
		f.check(f, f.b.outcome(t, "1"))
		var last *call.Record
		for _, r := range f.b.records() {
			if r.Exit != nil {
				last = r
			}
		}
		if last == nil {
			t.Fatalf("%s: no exit was recorded", f.name)
		}
		f.exit(f, last.Exit)
		if !f.cancelled.IsZero() {
			slowest = max(slowest, last.Time.Sub(f.cancelled))
		}
		f.mu.Lock()
		peak = max(peak, f.peak)
		f.mu.Unlock()
	}
	if peak > retained {
		t.Errorf("%d bytes were retained in one session, more than %d", peak, retained)
	}
	t.Logf("%d sessions: at most %d bytes retained in one, %v from cancellation to exit", sessions, peak, slowest.Round(time.Millisecond))
}

func TestFloods(t *testing.T) {
	for _, n := range []int{len(floods), 25} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { playFloods(t, n) })
	}
}

// Calls of one session that share a flood say with how many.
func TestConcurrentCallsShareAFlood(t *testing.T) {
	b := &book{t: t}
	h := start(t, recorded(b, nil), "stderr-flood", "at=ping", "bytes=256KiB")
	h.hello()
	h.send(toolCall("1", "sleep", `{"ms":3600000}`), toolCall("2", "sleep", `{"ms":3600000}`))
	eventually(t, "both were sent", func() bool { return h.s.Stats().FramesToServer >= 4 })
	h.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	h.answer("3")
	eventually(t, "the flood", func() bool { return h.s.Stats().StderrSeen >= 256<<10 })
	h.send(cancel("1"), cancel("2"))
	eventually(t, "both ended", func() bool { return h.s.Stats().CancelsReceived == 2 })
	h.leave(b)
	for _, id := range []string{"1", "2"} {
		if o := b.outcome(t, id); o.Seen != 256<<10 || o.Retained > retained || !o.Truncated || o.Shared != 2 {
			t.Errorf("call %s: %+v", id, o.Stderr)
		}
	}
}
