package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 120e6, time.UTC)

func ptr[T any](v T) *T { return &v }

// journey is a session with one call of each sort, whole in every member.
func journey() []*Record {
	n := uint64(0)
	rec := func(k Kind, call string) *Record {
		n++
		return &Record{V: Version, Kind: k, Session: "s_7f", Seq: n, Time: At(noon.Add(time.Duration(n) * time.Second)), Mono: int64(n) * 1000, CallID: call}
	}
	var list []*Record
	add := func(r *Record) { list = append(list, r) }
	r := rec(SessionStart, "")
	r.Start = &Start{Server: "files", Command: []string{"srv", "--token", "[masked]"}, PID: 7, OnFailure: "observe"}
	add(r)
	r = rec(CallIntent, "c_7f_1")
	r.Intent = &Intent{
		Action: "tools/call", Server: "files", Tool: "write", ToolHash: "sha256:ab", Target: "write", RequestID: "9",
		Arguments: (&Masker{}).Arguments([]byte(`{"b":1,"a":"x"}`), 2048), BytesIn: 120,
		Decision: "allow", DecidedBy: "default", Received: At(noon), ReceivedMono: 5,
	}
	add(r)
	r = rec(CallDispatch, "c_7f_1")
	r.Dispatch = &Dispatch{PID: 8, Queued: 2, Attempt: 1}
	add(r)
	r = rec(CallOutcome, "c_7f_1")
	r.Outcome = &Outcome{
		State: CancelledAfterDispatch, Cause: "cancelled by the host", RPC: RPCNone, Given: GivenNothing, BytesIn: 120, Delivered: ptr(false),
		Steps:  []Step{{Received, At(noon), 5}, {Dispatched, At(noon.Add(time.Millisecond)), 6}, {CancelledAfterDispatch, At(noon.Add(time.Second)), 1005}},
		Stderr: Stderr{Seen: 184320, Retained: 16384, Truncated: true, Retain: "tail", LetGo: "00ff"}, StreamEnd: "reader_completed_after_cancel", Attempts: 1,
	}
	add(r)
	r = rec(CallLate, "c_7f_1")
	r.Late = &Late{Delay: 1500}
	add(r)
	r = rec(CallGiven, "c_7f_1")
	r.Given = &Given{Delivered: true}
	add(r)
	r = rec(ToolChanged, "")
	r.Tool = &Tool{Name: "write", Old: "sha256:a", New: "sha256:b"}
	add(r)
	r = rec(SessionGap, "")
	r.Gap = &Gap{Count: 2, First: At(noon), Last: At(noon.Add(time.Second)), Reason: "no desk"}
	add(r)
	r = rec(Debug, "")
	r.Window = &Window{On: true, Until: At(noon.Add(time.Minute))}
	add(r)
	r = rec(ServerExit, "")
	r.Exit = &Exit{PID: 8, ExitStatus: ptr(1), StdoutEnd: "eof", StderrEnd: "eof", Left: []Process{{9, "tmux"}}}
	add(r)
	r = rec(SessionEnd, "")
	r.End = &End{Reason: "the host has gone", Exit: list[len(list)-1].Exit, Calls: map[string]int64{"cancelled_after_dispatch": 1}, Starts: 1, Unrecorded: 2}
	add(r)
	return list
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	for _, r := range journey() {
		b := r.Marshal()
		got, err := ParseRecord(b)
		if err != nil {
			t.Fatalf("%s: %v\n%s", r.Kind, err, b)
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%s: got %+v, want %+v", r.Kind, got, r)
		}
		if r.Outcome != nil && len(b) > MaxOutcome {
			t.Errorf("an outcome of %d bytes", len(b))
		}
	}
}

// The example of the seed, exactly.
func TestTheSmallestAccountIsTheSeeds(t *testing.T) {
	var f Fold
	for _, r := range journey() {
		f.Add(r)
	}
	row, ok := f.Call("c_7f_1")
	if !ok {
		t.Fatal("no row")
	}
	row.Facts.CallID = "c_7f2a"
	got, err := json.MarshalIndent(row.Facts, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "call_id": "c_7f2a",
  "state": "cancelled_after_dispatch",
  "stderr_bytes_seen": 184320,
  "stderr_bytes_retained": 16384,
  "stderr_truncated": true,
  "exit_status": null,
  "stream_end": "reader_completed_after_cancel"
}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The example of docs/formats/record.md is what is written.
func TestDocumentedExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/formats/record.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := journey()[3].Marshal(); !bytes.Contains(doc, append(want, '\n')) {
		t.Errorf("the page does not have\n%s", want)
	}
}

func TestRowHasTheNamesThatAreFixed(t *testing.T) {
	b, _ := json.Marshal(Row{})
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("call_id state stderr_bytes_seen stderr_bytes_retained stderr_truncated exit_status stream_end " +
		"session_id server tool decision requested_at dispatched_at ended_at bytes_in bytes_out delivered") {
		if _, ok := m[name]; !ok {
			t.Errorf("a row of activity has no %s", name)
		}
	}
	if string(m["dispatched_at"]) != "null" || string(m["delivered"]) != "null" {
		t.Errorf("what was not observed is not null: %s", b)
	}
}

func TestFoldTakesAnyOrderAndRepeats(t *testing.T) {
	list := journey()
	var inOrder, reversed Fold
	for _, r := range list {
		if !inOrder.Add(r) {
			t.Errorf("%s counted as a repeat", r.Kind)
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		reversed.Add(list[i])
		if reversed.Add(list[i]) {
			t.Errorf("%s counted twice", list[i].Kind)
		}
	}
	a, b := inOrder.Activity(), reversed.Activity()
	if !reflect.DeepEqual(a, b) {
		t.Errorf("rows differ:\n%+v\n%+v", a, b)
	}
	if len(a) != 1 || a[0].LateReply == nil || a[0].Delivered == nil || !*a[0].Delivered || *a[0].LateReply != 1500 || a[0].Decision != "allow" || a[0].Preview != `{"a":"x","b":1}` {
		t.Errorf("row %+v", a)
	}
	s := reversed.Sessions()
	if len(s) != 1 || s[0].Unrecorded != 2 || s[0].Calls != 1 || s[0].States["cancelled_after_dispatch"] != 1 || s[0].Ended.IsZero() || *s[0].Exit.ExitStatus != 1 {
		t.Errorf("sessions %+v", s)
	}
}

func TestWithoutOutcome(t *testing.T) {
	list := journey()
	var f Fold
	f.Add(list[1])
	if row, _ := f.Call("c_7f_1"); row.State != Authorized {
		t.Errorf("after the intent: %s", row.State)
	}
	f.Add(list[2])
	if row, _ := f.Call("c_7f_1"); row.State != Dispatched || row.Dispatched.IsZero() || row.ExitStatus != nil {
		t.Errorf("after dispatch: %+v", row)
	}
	f.Add(list[len(list)-1])
	if row, _ := f.Call("c_7f_1"); row.State != OutcomeUnknown {
		t.Errorf("after the end of the session: %s", row.State)
	}
	lost := Lost(list[1], 99, noon.Add(time.Hour), "the bridge vanished")
	if _, err := ParseRecord(lost.Marshal()); err != nil {
		t.Error(err)
	}
	f.Add(lost)
	row, _ := f.Call("c_7f_1")
	if row.State != OutcomeUnknown || row.Cause != "the bridge vanished" || row.StreamEnd != StreamUnknown || row.Delivered != nil {
		t.Errorf("lost: %+v", row)
	}
	if got := SessionOf("c_7f_1"); got != "s_7f" {
		t.Errorf("SessionOf = %q", got)
	}
}

// Each change makes a record that must not be believed.
func TestRecordsThatAreRefused(t *testing.T) {
	outcome := string(journey()[3].Marshal())
	intent := string(journey()[1].Marshal())
	for what, c := range map[string][3]string{
		"other session's call":  {outcome, `"c_7f_1"`, `"c_70_1"`},
		"no sequence":           {outcome, `"sequence":4`, `"sequence":0`},
		"open state":            {outcome, `"state":"cancelled_after_dispatch","cause"`, `"state":"dispatched","cause"`},
		"unknown state":         {outcome, `"state":"cancelled_after_dispatch","cause"`, `"state":"fine","cause"`},
		"more kept than seen":   {outcome, `"stderr_bytes_retained":16384`, `"stderr_bytes_retained":999999`},
		"cut that is none":      {outcome, `"stderr_truncated":true`, `"stderr_truncated":false`},
		"dispatched zero times": {outcome, `"attempts":1`, `"attempts":0`},
		"failure of no failure": {outcome, `"cause":"cancelled by the host"`, `"failure":"remote"`},
		"foreign rpc":           {outcome, `"rpc":"none"`, `"rpc":"maybe"`},
		"wrong part":            {outcome, `"kind":"call.outcome"`, `"kind":"call.intent"`},
		"two parts":             {outcome, `"outcome":`, `"late":{"late_reply_ms":1},"outcome":`},
		"a name twice":          {outcome, `"attempts":1`, `"attempts":1,"attempts":1`},
		"a name in capitals":    {outcome, `"attempts":1`, `"attempts":1,"ATTEMPTS":1`},
		"trailing text":         {outcome, `"attempts":1}}`, `"attempts":1}}{}`},
		"unknown kind":          {outcome, `"kind":"call.outcome"`, `"kind":"call.x"`},
		"negative time":         {outcome, `"mono_ms":4000`, `"mono_ms":-1`},
		"foreign decision":      {intent, `"decision":"allow"`, `"decision":"perhaps"`},
		"no action":             {intent, `"action":"tools/call"`, `"action":""`},
		"foreign time":          {intent, `"time":"2026-12-01T12:00:02.120Z"`, `"time":"yesterday"`},
		"invalid UTF-8":         {intent, `"server":"files"`, "\"server\":\"\xff\""},
	} {
		bad := strings.Replace(c[0], c[1], c[2], 1)
		if bad == c[0] {
			t.Errorf("%s: nothing to change in %s", what, c[0])
			continue
		}
		if r, err := ParseRecord([]byte(bad)); !errors.Is(err, ErrRecord) || r != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	later := strings.Replace(outcome, `"v":1`, `"v":2`, 1)
	if _, err := ParseRecord([]byte(later)); err != ErrVersion {
		t.Errorf("a later version: %v", err)
	}
	extra := strings.Replace(outcome, `"v":1`, `"v":1,"extra":{"a":[1]}`, 1)
	r, err := ParseRecord([]byte(extra))
	if err != nil || bytes.Contains(r.Marshal(), []byte("extra")) {
		t.Errorf("an unknown member: %v", err)
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{ "b" : 1.0, "a" : [ 1e400 , "x" ] }`:   `{"a":[1e400,"x"],"b":1.0}`,
		`{"a":{"d":null,"c":true},"":{}}`:        `{"":{},"a":{"c":true,"d":null}}`,
		`{"ab":1,"a":2,"a b":3}`:                 `{"a":2,"a b":3,"ab":1}`,
		`"\u0041\/\u00e9\n\u0001\"\\"`:           `"A/é\n\u0001\"\\"`,
		`"\ud83d\ude00 \uD83D"`:                  `"😀 \ud83d"`,
		`[[],{},"",0]`:                           `[[],{},"",0]`,
		`9007199254740993`:                       `9007199254740993`,
		`{"\u0061":1,"b":{"z":[{"y":1,"x":2}]}}`: `{"a":1,"b":{"z":[{"x":2,"y":1}]}}`,
	} {
		if got := string(Canonical([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	a, b := Digest([]byte(`{"x":1, "y":[2]}`)), Digest([]byte(`{"y":[2],"x":1}`))
	if a != b || a == Digest([]byte(`{"y":[2],"x":1.0}`)) || !strings.HasPrefix(a, "sha256:") {
		t.Errorf("digests %s %s", a, b)
	}
	long := []byte(`{"y":"` + strings.Repeat("y", maxCanonical) + `"}`)
	if got := Digest(long); !strings.HasPrefix(got, "sha256-raw:") {
		t.Errorf("of long arguments: %s", got)
	}
}

func TestMasking(t *testing.T) {
	m := &Masker{Names: []string{"pin-code"}, Patterns: []*regexp.Regexp{regexp.MustCompile(`\b\d{16}\b`)}}
	for in, hidden := range map[string]string{
		`{"password":"hunter2hunter2"}`:                       "hunter2",
		`{"Api-Key":{"deep":"hunter2"}}`:                      "hunter2",
		`{"headers":{"Authorization":"hunter2"}}`:             "hunter2",
		`{"x":["Bearer abcdefghijkl"]}`:                       "abcdefghijkl",
		`{"x":"a \u0042earer abcdefghijkl"}`:                  "abcdefghijkl",
		`{"p\u0061ssword":"hunter2"}`:                         "hunter2",
		`{"url":"https://joe:hunter2@example.org/"}`:          "hunter2",
		`{"x":"-----BEGIN RSA PRIVATE KEY-----\nMIIhunter2"}`: "hunter2",
		`{"x":"ghp_0123456789abcdefgh"}`:                      "0123456789",
		`{"cmd":"curl -H token=hunter2"}`:                     "hunter2",
		`{"PINCODE":"hunter2"}`:                               "hunter2",
		`{"card":"4111111111111111"}`:                         "4111",
	} {
		a := m.Arguments([]byte(in), 2048)
		if strings.Contains(a.Preview, hidden) || !strings.Contains(a.Preview, maskedText) || a.Masked != 1 {
			t.Errorf("%s: preview %s, %d masked", in, a.Preview, a.Masked)
		}
		if a.Digest != Digest([]byte(in)) {
			t.Errorf("%s: the digest is of the masked form", in)
		}
	}
	if a := m.Arguments([]byte(`{"path":"/srv/x","n":1}`), 2048); a.Preview != `{"n":1,"path":"/srv/x"}` || a.Masked != 0 || a.Truncated {
		t.Errorf("nothing to hide: %+v", a)
	}
	got := m.Command([]string{"srv", "--api-key=hunter2", "--token", "hunter2", "-v", "--password", "hunter2", "x"})
	if strings.Contains(strings.Join(got, " "), "hunter2") || got[0] != "srv" || got[7] != "x" || got[4] != "-v" {
		t.Errorf("command %q", got)
	}
}

// A preview is cut to its bound, at a character, and no cut shows a part of
// what a pattern hides.
func TestPreviewIsBounded(t *testing.T) {
	secret := "https://u:" + strings.Repeat("p", 64) + "@h/"
	for pad := 0; pad < 100; pad++ {
		in := []byte(`{"a":"` + strings.Repeat("é", pad) + ` ` + secret + strings.Repeat("z", 9000) + `"}`)
		a := (&Masker{}).Arguments(in, 64)
		if len(a.Preview) > 64 || !a.Truncated || strings.Contains(a.Preview, "ppp") || strings.Contains(a.Preview, "\uFFFD") {
			t.Fatalf("pad %d: %q", pad, a.Preview)
		}
	}
	big := []byte(`{"k":[` + strings.Repeat(`{"a":1},`, 20000) + `0]}`)
	if a := (&Masker{}).Arguments(big, 2048); len(a.Preview) > 2048 || !a.Truncated || a.Bytes != int64(len(big)) {
		t.Errorf("%d bytes of preview", len(a.Preview))
	}
}

func TestClip(t *testing.T) {
	for n := range 8 {
		got := Clip("aé😀z", n)
		if len(got) > n || !strings.HasPrefix("aé😀z", got) {
			t.Errorf("Clip to %d: %q", n, got)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range journey() {
		f.Add(r.Marshal())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			if r != nil {
				t.Fatal("a record and an error")
			}
			return
		}
		once := r.Marshal()
		again, err := ParseRecord(once)
		if err != nil {
			t.Fatalf("what was parsed does not parse again: %v\n%s", err, once)
		}
		if slow := r.slow(); !bytes.Equal(slow, once) {
			t.Fatalf("written by hand:\n%s\nby encoding/json:\n%s", once, slow)
		}
		if !bytes.Equal(again.Marshal(), once) {
			t.Fatalf("not stable:\n%s\n%s", once, again.Marshal())
		}
		var fold Fold
		if !fold.Add(r) || fold.Add(again) {
			t.Fatal("a repeat is not seen as one")
		}
		fold.Activity()
		fold.Sessions()
	})
}

// Anything gives a digest without a panic; of valid JSON the canonical form is
// valid, means the same and is its own canonical form.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1,{"c":"\ud800x","a":-0.0e1}],"a":"\/"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		Digest(b)
		(&Masker{}).Arguments(b, 32)
		c := Canonical(b)
		if !json.Valid(b) || !json.Valid(c) {
			if json.Valid(b) {
				t.Fatalf("%q became invalid: %q", b, c)
			}
			return
		}
		if again := Canonical(c); !bytes.Equal(c, again) {
			t.Fatalf("%q: %q then %q", b, c, again)
		}
		var x, y any
		if json.Unmarshal(b, &x) == nil && json.Unmarshal(c, &y) == nil && !duplicates(b) && !reflect.DeepEqual(x, y) {
			t.Fatalf("%q means something else than %q", b, c)
		}
	})
}

// duplicates reports whether some name may occur twice in an object.
func duplicates(b []byte) bool { return plainNames(b) != nil }

// What is written by hand is what encoding/json writes.
func TestMarshalIsThatOfEncodingJSON(t *testing.T) {
	texts := []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f<>&", "é😀\u2028\u2029\ufffd", "a\xffb\xc3"}
	for _, r := range journey() {
		for _, text := range texts {
			for _, full := range []bool{false, true} {
				switch {
				case r.Intent != nil:
					i := r.Intent
					i.Action, i.Server, i.Tool, i.ToolHash, i.Target, i.RequestID, i.Preview, i.Rule, i.DecidedBy = text, text, text, text, text, text, text, text, text
					i.Truncated, i.Debug, i.Masked = full, full, len(text)
				case r.Dispatch != nil:
					r.Dispatch.PID = len(text)
				case r.Outcome != nil:
					o := r.Outcome
					o.Cause, o.Failure, o.AnsweredBy, o.Handle, o.Signal, o.StreamEnd, o.Retain, o.LetGo = text, Failure(text), text, text, text, text, text, text
					o.Debug, o.Truncated, o.Shared, o.Delivered, o.IsError, o.ExitStatus, o.RPCCode = full, full, int64(len(text)), nil, nil, nil, nil
					if full {
						o.Delivered, o.IsError, o.ExitStatus, o.RPCCode = ptr(true), ptr(false), ptr(7), ptr(int64(-32603))
					}
				}
				if got, want := r.Marshal(), r.slow(); !bytes.Equal(got, want) {
					t.Fatalf("got  %s\nwant %s", got, want)
				}
			}
		}
	}
}
