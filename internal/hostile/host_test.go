package hostile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// host starts a host fixture in front of a server fixture and returns it with
// the ledger of the server.
func host(t *testing.T, name string, args []string, server string, more ...string) (*proc, string) {
	t.Helper()
	ledger := filepath.Join(t.TempDir(), "server")
	args = append(append(args, "--"), Command(server, append(more, "ledger="+ledger)...)...)
	return start(t, name, args...), ledger
}

func (p *proc) notes() []string {
	p.t.Helper()
	var notes []string
	for _, e := range p.events() {
		if e.What == "note" {
			notes = append(notes, e.Text)
		}
	}
	return notes
}

func serverEvents(t *testing.T, path string) []Event {
	t.Helper()
	events, err := ReadLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// The host really does not read: the server is blocked in its write until the
// host reads again.
func TestBlockedParent(t *testing.T) {
	p, ledger := host(t, "blocked-parent", []string{"wait=400ms"}, "oversized", "bytes=1MiB", "stall=20ms")
	if _, err := Await(p.ctx, ledger, func(e Event) bool { return e.What == "blocked" }); err != nil {
		t.Fatal(err)
	}
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s, %s", got, p.stderrText())
	}
	notes := p.notes()
	if want := []string{"stops reading", "server still runs", "reads again", "server ended"}; !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	at := map[string]int{}
	for i, e := range serverEvents(t, ledger) {
		at[e.What+e.Method] = i
	}
	if at["blocked"] == 0 || at["blocked"] > at["readnotifications/cancelled"] {
		t.Errorf("server: %v", at)
	}
}

func TestBlockedParentThatNeverReads(t *testing.T) {
	p, ledger := host(t, "blocked-parent", []string{"wait=50ms", "resume=false", "handshake=false"}, "oversized")
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s", got)
	}
	for _, e := range serverEvents(t, ledger) {
		if e.What == "wrote" || e.Method == "ping" {
			t.Errorf("server: %+v", e)
		}
	}
}

func TestSlowHost(t *testing.T) {
	p, ledger := host(t, "slow-host", []string{"tool=big", `arguments={"bytes":9000}`, "calls=20", "piece=1000", "pause=0s"}, "echo")
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s, %s", got, p.stderrText())
	}
	answers := 0
	for _, e := range p.events() {
		if e.What == "read" && e.N == 9000 {
			answers++
		}
	}
	calls := 0
	for _, e := range serverEvents(t, ledger) {
		if e.Method == "tools/call" {
			calls++
		}
	}
	if answers != 20 || calls != 20 {
		t.Errorf("%d calls, %d answers", calls, answers)
	}
}

// It is a judge too: an answer that comes twice or not at all is an error.
func TestSlowHostJudges(t *testing.T) {
	p, _ := host(t, "slow-host", []string{"tool=stray", `arguments={"kind":"duplicate"}`, "calls=2", "pause=0s"}, "stray")
	if got := p.wait(); got != "exit status 1" || !strings.Contains(p.stderrText(), "a second answer to 0") {
		t.Errorf("twice: %s, %s", got, p.stderrText())
	}
	p, _ = host(t, "slow-host", []string{"tool=echo", "calls=2", "pause=0s"}, "exits", "nth=2")
	if got := p.wait(); got != "exit status 1" || !strings.Contains(p.stderrText(), "1 of 2 answers came") {
		t.Errorf("never: %s, %s", got, p.stderrText())
	}
}

func TestVanishingHost(t *testing.T) {
	for how, end := range map[string]string{"exit": "exit status 0", "kill": "signal: killed", "close-stdin": "exit status 0", "close-stdout": "exit status 0"} {
		p, ledger := host(t, "vanishing-host", []string{"how=" + how, "after=1000"}, "oversized", "bytes=1MiB")
		if got := p.wait(); got != end {
			t.Errorf("%s: %s, %s", how, got, p.stderrText())
		}
		// The server loses its pipe, or reads the end of stdin.
		if _, err := Await(p.ctx, ledger, func(e Event) bool { return e.Method == "tools/call" }); err != nil {
			t.Error(err)
		}
		if !slices.Contains(p.notes(), "goes away: "+how) {
			t.Errorf("notes %q", p.notes())
		}
	}
}

func TestCancellingHost(t *testing.T) {
	for _, at := range []string{"start", "output", "end"} {
		p, ledger := host(t, "cancelling-host", []string{"at=" + at}, "oversized", "bytes=200000", "reader=own")
		if got := p.wait(); got != "exit status 0" {
			t.Errorf("%s: %s, %s", at, got, p.stderrText())
		}
		var seen []string
		for _, e := range serverEvents(t, ledger) {
			if e.What == "read" {
				seen = append(seen, e.Method)
			}
		}
		if slices.Contains(p.notes(), "answer begins") != (at == "output") {
			t.Errorf("%s: notes %q", at, p.notes())
		}
		if want := "tools/call notifications/cancelled ping"; !strings.HasSuffix(strings.Join(seen, " "), want) {
			t.Errorf("%s: server read %q", at, seen)
		}
	}
	for _, at := range []string{"output", "end"} { // a server without an answer is never cancelled
		p, ledger := host(t, "cancelling-host", []string{"tool=echo", "at=" + at}, "exits", "on=call")
		if got := p.wait(); got != "exit status 1" {
			t.Errorf("%s: %s, %s", at, got, p.stderrText())
		}
		for _, e := range serverEvents(t, ledger) {
			if e.Method == "notifications/cancelled" {
				t.Errorf("%s: cancelled before there was an answer", at)
			}
		}
	}
	p, _ := host(t, "cancelling-host", []string{"tool=echo", "at=start"}, "silent", "methods=tools/call")
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("silent: %s, %s", got, p.stderrText())
	}
}

func TestGarbledHost(t *testing.T) {
	p, ledger := host(t, "garbled-host", []string{"bytes=100KiB"}, "echo")
	if got := p.wait(); got != "exit status 0" {
		t.Errorf("end: %s, %s", got, p.stderrText())
	}
	for _, kind := range garbleKinds() {
		if !slices.Contains(p.notes(), "garbled "+kind) {
			t.Errorf("%s was not written", kind)
		}
	}
	junk, huge := 0, 0
	for _, e := range serverEvents(t, ledger) {
		switch {
		case e.What == "junk":
			junk++
		case e.N == 100<<10:
			huge++
		}
	}
	if junk < 10 || huge != 1 {
		t.Errorf("the server met %d lines of junk, %d huge ones", junk, huge)
	}
}

func TestGarbledHostJudges(t *testing.T) {
	p, _ := host(t, "garbled-host", []string{"kind=text"}, "exits", "on=ping")
	if got := p.wait(); got != "exit status 1" || !strings.Contains(p.stderrText(), "ping after text") {
		t.Errorf("end: %s, %s", got, p.stderrText())
	}
}

func TestHostsNeedACommand(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "no command", 2},
		{[]string{"--", filepath.Join(t.TempDir(), "none")}, "no such file", 1},
		{append([]string{"arguments={", "--"}, Command("echo")...), "is not JSON", 2},
	} {
		p := spawn(t, "blocked-parent", tc.args...)
		if got, want := p.wait(), fmt.Sprint("exit status ", tc.code); got != want || !strings.Contains(p.stderrText(), tc.want) {
			t.Errorf("%q: %s, %s", tc.args, got, p.stderrText())
		}
	}
}
