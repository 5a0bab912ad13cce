package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// roleEnv asks this test binary to play a child: its value is the name of one
// of roles.
const roleEnv = "AUDIT_TEST_ROLE"

// ceiling bounds what a test waits for something that must happen.
const ceiling = 60 * time.Second

func TestMain(m *testing.M) {
	testOnlyWorkFactor = 10
	if name := os.Getenv(roleEnv); name != "" {
		role, ok := roles[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no role %q\n", name)
			os.Exit(99)
		}
		role(os.Args[1:])
		os.Exit(0)
	}
	before := openFiles()
	code := m.Run()
	if code == 0 {
		code = leftOver(before)
	}
	os.Exit(code)
}

func openFiles() []string {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil // not Linux
	}
	var names []string
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:[event") { // the runtime keeps its own
			names = append(names, to)
		}
	}
	return names
}

// leftOver reports goroutines and descriptors that outlived the tests.
func leftOver(files []string) int {
	var what string
	for range 1000 { // what has ended may need an instant to be gone
		what = ""
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n") {
			if strings.Contains(g, "penstock/audit.") && !strings.Contains(g, "audit.TestMain") {
				what += "goroutine: " + g + "\n"
			}
		}
		if now := openFiles(); len(now) > len(files) {
			what += fmt.Sprintf("descriptors: %q, before %q\n", now, files)
		}
		if what == "" {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprint(os.Stderr, "left over after the tests:\n", what)
	return 1
}

// A testLog is a log in a folder of its own, with one identity.
type testLog struct {
	t          testing.TB
	dir        string
	identity   string
	recipients *Recipients
	ids        *Identities
}

func newTestLog(t testing.TB) *testLog {
	t.Helper()
	l := &testLog{t: t, dir: filepath.Join(t.TempDir(), "audit")}
	identity, recipient, err := NewIdentity(true) // classic: smaller files
	must(t, err)
	l.identity = identity
	l.recipients, err = ParseRecipients(recipient)
	must(t, err)
	l.ids, err = ParseIdentities([]byte(identity), nil)
	must(t, err)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) open(change func(*Config)) *Writer {
	l.t.Helper()
	c := Config{Dir: l.dir, Recipients: l.recipients, Deadline: ceiling}
	if change != nil {
		change(&c)
	}
	w, err := Open(context.Background(), c)
	must(l.t, err)
	return w
}

func (l *testLog) close(w *Writer) {
	l.t.Helper()
	must(l.t, w.Close(context.Background()))
}

func (l *testLog) spine() *Spine {
	l.t.Helper()
	s, err := OpenSpine(context.Background(), l.dir, false)
	must(l.t, err)
	l.t.Cleanup(func() { s.Close() })
	return s
}

func (l *testLog) anchor() []byte {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, nameCheckpoint))
	must(l.t, err)
	return b
}

func (l *testLog) vkey() string {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, nameNodeVKey))
	must(l.t, err)
	return strings.TrimSpace(string(b))
}

// call writes the two records of a call and waits for both.
func call(t testing.TB, w *Writer, name string) {
	t.Helper()
	i, err := w.Intent(intentBody(name), Durable)
	must(t, err)
	_, err = i.Wait(context.Background())
	must(t, err)
	must(t, i.Terminal(outcomeBody(name)))
}

// settle waits until all that was taken is on the disk.
func settle(t testing.TB, w *Writer) {
	t.Helper()
	r, err := w.Append([]byte(`{"v":1,"k":"note","call":""}`), Durable)
	must(t, err)
	_, err = r.Wait(context.Background())
	must(t, err)
}

func intentBody(name string) []byte {
	return fmt.Appendf(nil, `{"v":1,"k":"intent","call":%q}`, name)
}

func outcomeBody(name string) []byte {
	return fmt.Appendf(nil, `{"v":1,"k":"outcome","call":%q}`, name)
}

// classify reads the bodies above.
func classify(body []byte) (Event, error) {
	var k, c string
	if _, err := fmt.Sscanf(string(body), `{"v":1,"k":%q,"call":%q}`, &k, &c); err != nil {
		return Event{}, fmt.Errorf("unknown body %.60q", body)
	}
	switch k {
	case "intent":
		return Event{Call: c, Step: StepIntent}, nil
	case "outcome":
		return Event{Call: c, Step: StepTerminal}, nil
	case "note":
		return Event{}, nil
	}
	return Event{}, fmt.Errorf("unknown kind %q", k)
}

func (l *testLog) verify(change func(*VerifyOptions)) *Report {
	l.t.Helper()
	opt := VerifyOptions{Identities: l.ids, Classify: classify}
	if change != nil {
		change(&opt)
	}
	r, err := Verify(context.Background(), l.dir, opt)
	must(l.t, err)
	return r
}

// want fails unless the log verifies so, with and without the key.
func (l *testLog) want(v Verdict, text string) {
	l.t.Helper()
	for _, keyed := range []bool{false, true} {
		r := l.verify(func(o *VerifyOptions) {
			if !keyed {
				o.Identities = nil
			}
		})
		wantVerdict(l.t, r, v, text)
	}
}

func wantVerdict(t testing.TB, r *Report, v Verdict, text string) {
	t.Helper()
	var b strings.Builder
	r.WriteText(&b)
	if r.Verdict != v || !strings.Contains(b.String(), text) {
		t.Errorf("verdict %v, want %v with %q:\n%s", r.Verdict, v, text, b.String())
	}
	if n := strings.Count(b.String(), "\n"); n > 24 {
		t.Errorf("the verdict takes %d lines", n)
	}
}

// bodies returns all records of the log.
func (l *testLog) bodies() []string {
	l.t.Helper()
	r, err := OpenReader(l.dir, "", l.ids)
	must(l.t, err)
	defer r.Close()
	var list []string
	for rec, err := range r.Records(Query{}) {
		must(l.t, err)
		list = append(list, string(rec.Body))
	}
	return list
}

// strandPath returns the folder of the only strand.
func (l *testLog) strandPath() string {
	l.t.Helper()
	list, err := filepath.Glob(filepath.Join(l.dir, nameStrands, "*"))
	must(l.t, err)
	if len(list) != 1 {
		l.t.Fatalf("%d strands", len(list))
	}
	return list[0]
}

// copyLog copies a folder; the copy has no live writer.
func copyLog(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

func equal[S ~[]E, E comparable](t testing.TB, got, want S) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// roles are what the test binary can play, filled by the files that need them.
var roles = map[string]func(args []string){}
