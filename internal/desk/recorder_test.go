package desk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/audit"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/link"
)

func init() { roles["vanish"] = vanish }

// script makes the records of one session.
type script struct {
	session string
	seq     uint64
}

func (s *script) record(r call.Record) []byte {
	s.seq++
	r.V, r.Session, r.Seq, r.Time = call.Version, s.session, s.seq, call.At(time.Now())
	return r.Marshal()
}

func (s *script) callID(n int) string { return fmt.Sprintf("c_%s_%d", s.session[2:], n) }

func (s *script) intent(n int) []byte {
	return s.record(call.Record{Kind: call.CallIntent, CallID: s.callID(n), Intent: &call.Intent{
		Action: "tools/call", Server: "files", Tool: "read", Decision: "allow", Received: call.At(time.Now()),
	}})
}

func (s *script) outcome(n int) []byte {
	return s.record(call.Record{Kind: call.CallOutcome, CallID: s.callID(n), Outcome: &call.Outcome{
		State: call.Finished, RPC: call.RPCResult, Given: call.GivenWhole, StreamEnd: call.StreamOpen, Attempts: 1,
	}})
}

func (s *script) end() []byte {
	return s.record(call.Record{Kind: call.SessionEnd, End: &call.End{Reason: "host closed"}})
}

// taken waits for a receipt that must say that the record was taken.
func taken(t testing.TB, r *link.Receipt) {
	t.Helper()
	select {
	case <-r.Done():
		if r.Err() != nil {
			t.Fatalf("not taken: %v", r.Err())
		}
	case <-time.After(patience):
		t.Fatal("no answer to a record")
	}
}

func classify(b []byte) (audit.Event, error) {
	r, err := call.ParseRecord(b)
	if err != nil {
		return audit.Event{}, err
	}
	e := audit.Event{Call: r.CallID, Session: r.Session, Sequence: r.Seq}
	switch r.Kind {
	case call.CallIntent:
		e.Step = audit.StepIntent
	case call.CallOutcome:
		e.Step = audit.StepTerminal
	}
	return e, nil
}

// verified returns the records of the log in home, which must not have failed,
// and its report.
func verified(t *testing.T, home string) ([]*call.Record, *audit.Report) {
	t.Helper()
	ids, err := audit.ReadIdentities(filepath.Join(home, identityName), nil)
	if err != nil {
		t.Fatal(err)
	}
	vkey, err := os.ReadFile(filepath.Join(home, pinnedName))
	if err != nil {
		t.Fatal(err)
	}
	var list []*call.Record
	report, err := audit.Verify(deadline(t), filepath.Join(home, auditFolder), audit.VerifyOptions{
		VKey: string(vkey[:len(vkey)-1]), Identities: ids, Classify: classify,
		OnRecord: func(r *audit.Record) error {
			if r.Gap != nil || r.Abandoned != nil {
				return nil
			}
			rec, err := call.ParseRecord(r.Body)
			list = append(list, rec)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict == audit.Failed {
		t.Errorf("the log fails: %v", report.Findings)
	}
	return list, report
}

func outcomes(list []*call.Record) map[string][]call.State {
	m := map[string][]call.State{}
	for _, r := range list {
		if r.Outcome != nil {
			m[r.CallID] = append(m[r.CallID], r.Outcome.State)
		}
	}
	return m
}

func TestRecords(t *testing.T) {
	home := newHome(t, knobs{})
	s := &script{session: "s_records"}
	c := bridge(t, home, s.session)
	const calls = 100
	for n := range calls {
		taken(t, c.Record(s.intent(n), link.Intent, link.Written))
		end := c.Record(s.outcome(n), link.Terminal, link.Written)
		if n%10 == 0 {
			taken(t, end) // also without anything behind it
		}
	}
	taken(t, c.Record(s.intent(calls), link.Intent, link.Durable))
	taken(t, c.Record(s.outcome(calls), link.Terminal, link.Written))
	taken(t, c.Record(s.end(), link.Terminal, link.Written))
	st, err := person(t, home).Status(deadline(t))
	if err != nil || !st.Audit.Open || !st.Audit.Exposed || st.Audit.Records < 2*calls {
		t.Errorf("status %+v, %v", st.Audit, err)
	}
	if info, err := os.Stat(filepath.Join(home, identityName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("identity: %v, %v", info, err)
	}
	stopDesk(t, home)
	list, report := verified(t, home)
	if len(list) != int(s.seq) || report.Calls.Complete != calls+1 || report.Verdict != audit.Unanchored {
		t.Errorf("%d records of %d, %+v, %v", len(list), s.seq, report.Calls, report.Findings)
	}
}

func TestRecordRepeated(t *testing.T) {
	d := local(t, Config{})
	s := &script{session: "s_again"}
	c := connect(t, d, link.Bridge, s.session)
	in, out := s.intent(1), s.outcome(1)
	for range 3 {
		taken(t, c.Record(in, link.Intent, link.Written))
	}
	for range 3 {
		taken(t, c.Record(out, link.Terminal, link.Written))
	}
	taken(t, c.Record(s.end(), link.Terminal, link.Written))
	late := c.Record(s.outcome(2), link.Terminal, link.Written)
	<-late.Done()
	wantCode(t, late.Err(), link.CodeRefused, "end is on record")
	other := connect(t, d, link.Bridge, "s_other").Record(s.intent(3), link.Intent, link.Written)
	<-other.Done()
	wantCode(t, other.Err(), link.CodeForeign, "another session")
	d.shutdown()
	if list, _ := verified(t, d.cfg.Home); len(list) != 3 {
		t.Errorf("%d records, want 3", len(list))
	}
}

// A desk that is killed again and again loses nothing that it acknowledged, and
// what it did not is sent to the next.
func TestRecordsOverKilledDesks(t *testing.T) {
	home := newHome(t, knobs{})
	s := &script{session: "s_killed"}
	c := bridge(t, home, s.session)
	const calls = 200
	var receipts []*link.Receipt
	for n := range calls {
		receipts = append(receipts, c.Record(s.intent(n), link.Intent, link.Written), c.Record(s.outcome(n), link.Terminal, link.Written))
		if n%50 == 25 {
			taken(t, receipts[len(receipts)/2])
			desk, _, ok := c.Desk()
			if !ok {
				t.Fatal("a record was taken without a desk")
			}
			p, err := os.FindProcess(desk.PID)
			if err != nil {
				t.Fatal(err)
			}
			p.Kill()
		}
	}
	receipts = append(receipts, c.Record(s.end(), link.Terminal, link.Written))
	for _, r := range receipts {
		taken(t, r)
	}
	stopDesk(t, home)
	list, report := verified(t, home)
	seen := map[uint64]bool{}
	for _, r := range list {
		seen[r.Seq] = true
	}
	if len(seen) != int(s.seq) || report.Calls.Complete != calls || report.Strands < 2 {
		t.Errorf("%d records of %d in %d strands, %+v, %v", len(seen), s.seq, report.Strands, report.Calls, report.Findings)
	}
}

// vanish is a bridge with two open calls and an ended one.
func vanish(args []string) {
	home := args[0]
	program, _ := os.Executable()
	c := link.Dial(link.Options{Home: home, Session: "s_gone", Server: "files", Start: func(ctx context.Context) error { return Start(ctx, program, home) }})
	s := &script{session: "s_gone"}
	for _, r := range []*link.Receipt{
		c.Record(s.intent(1), link.Intent, link.Written), c.Record(s.intent(2), link.Intent, link.Written),
		c.Record(s.outcome(1), link.Terminal, link.Written), c.Record(s.intent(3), link.Intent, link.Written),
	} {
		<-r.Done()
	}
	fmt.Println("open")
	select {}
}

func TestBridgeVanishes(t *testing.T) {
	home := newHome(t, knobs{})
	cmd := exec.Command(program(t), "vanish", home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var word string
	fmt.Fscan(out, &word)
	cmd.Process.Kill()
	cmd.Wait()
	if word != "open" {
		t.Fatalf("the bridge says %q", word)
	}
	p := person(t, home)
	for until := time.Now().Add(patience); ; {
		st, err := p.Status(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		if st.Audit.Records >= 7 { // 4, two outcomes, and the end
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the ends are not recorded: %+v", st.Audit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	stopDesk(t, home)
	list, report := verified(t, home)
	got := fmt.Sprint(outcomes(list))
	if want := "map[c_gone_1:[finished] c_gone_2:[outcome_unknown] c_gone_3:[outcome_unknown]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if end := list[len(list)-1]; end.End == nil || report.Calls.Unknown != 0 {
		t.Errorf("ends with %+v, %+v", end, report.Calls)
	}
}

// Without a place for the log its records fail, and say why; results are kept.
func TestNoPlaceForRecords(t *testing.T) {
	d := local(t, Config{})
	if err := os.WriteFile(filepath.Join(d.cfg.Home, auditFolder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &script{session: "s_nowhere"}
	c := connect(t, d, link.Bridge, s.session)
	r := c.Record(s.intent(1), link.Intent, link.Written)
	<-r.Done()
	wantCode(t, r.Err(), link.CodeDisk, "not recorded")
	keep(t, c, text(1000))
	if a := d.status().Audit; a.Open || a.Why == "" {
		t.Errorf("status %+v", a)
	}
}
