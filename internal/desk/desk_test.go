package desk

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstock-dev/penstock/internal/link"
)

// slowly hands data over no faster than the desk takes it, so that a test of
// something else does not depend on the speed of the machine.
func slowly(t *testing.T, c *link.Client, data []byte) *link.Put {
	t.Helper()
	p := c.NewPut()
	for rest := data; len(rest) > 0; {
		m := min(len(rest), 50001)
		p.Pace(patience)
		p.Write(rest[:m])
		rest = rest[m:]
	}
	p.Commit(link.Info{Tool: "read_file", Call: "c1"})
	return p
}

func TestKeep(t *testing.T) {
	home := newHome(t, knobs{})
	c := bridge(t, home, "s1")
	for _, n := range []int{0, 1, 70 << 10, 3<<20 + 1, 64 << 20} {
		data := text(n)
		p := slowly(t, c, data)
		if err := p.Wait(deadline(t)); err != nil {
			t.Fatalf("put of %d bytes: %v", n, err)
		}
		if got := export(t, person(t, home), p.Handle()); !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d others", n, len(got))
		}
	}
	page, err := person(t, home).List(deadline(t), "")
	if err != nil || len(page.Entries) != 5 || page.Next != "" {
		t.Fatalf("list: %+v, %v", page, err)
	}
	for _, e := range page.Entries {
		if e.Session != "s1" || e.Server != "files" || e.Tool != "read_file" || e.Call != "c1" || e.Expires.Sub(e.Stored.Time) != 24*time.Hour {
			t.Errorf("entry %+v", e)
		}
	}
	s, err := person(t, home).Status(deadline(t))
	if err != nil || s.Results.Count != 5 || s.Results.Stored != 5 || len(s.Sessions) != 1 || s.Sessions[0].ID != "s1" {
		t.Errorf("status %+v, %v", s, err)
	}
	// Nobody else may look into the files.
	filepath.Walk(home, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
}

// TestOneOfFifty starts fifty bridges at once: they meet at one desk.
func TestOneOfFifty(t *testing.T) {
	home := newHome(t, knobs{})
	clients := make([]*link.Client, 50)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { clients[i] = bridge(t, home, "s") })
	}
	wg.Wait()
	pids := make(map[int]int)
	for _, c := range clients {
		s, err := c.Status(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		pids[s.PID]++
	}
	if len(pids) != 1 {
		t.Errorf("clients by desk: %v", pids)
	}
	if s, err := person(t, home).Status(deadline(t)); err != nil || len(s.Sessions) != 50 {
		t.Errorf("%d sessions, %v", len(s.Sessions), err)
	}
}

// TestKilled kills the desk in the middle of a put: that one is lost, says so,
// and the next desk serves what was kept before.
func TestKilled(t *testing.T) {
	home := newHome(t, knobs{})
	c := bridge(t, home, "s1")
	before := keep(t, c, text(100<<10))
	s, err := c.Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	p := c.NewPut()
	p.Write(text(300 << 10))
	waitFor(t, "the put is on the disk", func() bool {
		parts, _ := filepath.Glob(filepath.Join(home, "results", "*.part"))
		return len(parts) == 1
	})
	proc, err := os.FindProcess(s.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the put has failed", func() bool { return p.Err() != nil })
	p.Write(text(1 << 20))
	wantCode(t, p.Commit(link.Info{}), link.CodeLost, "went away")
	_, err = c.Read(deadline(t), p.Handle(), args(p.Handle()))
	wantCode(t, err, link.CodeLost, "was not kept")

	if _, err := c.Read(deadline(t), before, args(before)); err != nil {
		t.Errorf("what was kept before: %v", err)
	}
	after, err := c.Status(deadline(t))
	if err != nil || after.PID == s.PID || after.Results.Count != 1 {
		t.Errorf("the next desk: %+v, %v", after, err)
	}
	if parts, _ := filepath.Glob(filepath.Join(home, "results", "*.part")); len(parts) != 0 {
		t.Errorf("left over: %v", parts)
	}
	keep(t, c, text(1))
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for ctx := deadline(t); !ok(); {
		if ctx.Err() != nil {
			t.Fatalf("not so within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestForeign checks that a session reads its own results and no others, before
// and after it has reconnected, and that a person reads all.
func TestForeign(t *testing.T) {
	d := local(t, Config{})
	mine, other, same := connect(t, d, link.Bridge, "s1"), connect(t, d, link.Bridge, "s2"), connect(t, d, link.Bridge, "s1")
	h := keep(t, mine, text(10))
	if _, err := mine.Read(deadline(t), h, args(h)); err != nil {
		t.Error(err)
	}
	for _, c := range []*link.Client{other, same} { // the name of a session is no secret
		_, err := c.Read(deadline(t), h, args(h))
		wantCode(t, err, link.CodeForeign, "another session")
	}
	if _, err := connect(t, d, link.Person, "").Read(deadline(t), h, args(h)); err != nil {
		t.Error(err)
	}
	_, err := mine.Read(deadline(t), link.NewHandle(), args(h))
	wantCode(t, err, link.CodeUnknown, "no result")
	for _, bad := range []string{"", "../../etc/passwd", strings.Repeat("a", 25), strings.Repeat("A", 26)} {
		_, err = mine.Read(deadline(t), bad, args(bad))
		wantCode(t, err, link.CodeQuery, "not a handle")
	}
	_, err = mine.List(deadline(t), "")
	wantCode(t, err, link.CodeRefused, "may not")
	wantCode(t, mine.Stop(deadline(t)), link.CodeRefused, "may not")
	_, err = mine.Export(deadline(t), h, "raw", new(bytes.Buffer))
	wantCode(t, err, link.CodeRefused, "may not")
}

// clock is a wall clock that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func TestExpiry(t *testing.T) {
	clk := &clock{t: time.Now()}
	d := local(t, Config{Expire: time.Hour, now: clk.now})
	c := connect(t, d, link.Bridge, "s1")
	h := keep(t, c, text(10))
	clk.add(time.Hour - 2*time.Second)
	if _, err := c.Read(deadline(t), h, args(h)); err != nil {
		t.Error(err)
	}
	clk.add(2 * time.Second)
	_, err := c.Read(deadline(t), h, args(h))
	wantCode(t, err, link.CodeExpired, "kept for 1h")
	waitFor(t, "the files are removed", func() bool { return len(files(t, d.cfg.Home)) == 0 })
	if s, _ := c.Status(deadline(t)); s.Results.Expired != 1 || s.Results.Bytes != 0 || s.Results.Count != 0 {
		t.Errorf("status %+v", s.Results)
	}
}

func files(t *testing.T, home string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(home, "results", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestQuota(t *testing.T) {
	d := local(t, Config{Quota: 1000, SessionQuota: 400})
	a, b, c := connect(t, d, link.Bridge, "a"), connect(t, d, link.Bridge, "b"), connect(t, d, link.Bridge, "c")
	a1, a2 := keep(t, a, text(200)), keep(t, a, text(200))
	a3 := keep(t, a, text(1)) // one session over its share: its oldest goes
	_, err := a.Read(deadline(t), a1, args(a1))
	wantCode(t, err, link.CodeEvicted, "made room")
	keep(t, b, text(400))
	c1 := keep(t, c, text(399)) // exactly full: 201 + 400 + 399
	if s, _ := a.Status(deadline(t)); s.Results.Bytes != 1000 || s.Results.Evicted != 1 {
		t.Errorf("status %+v", s.Results)
	}
	keep(t, c, text(1)) // over in all: the oldest of all goes
	_, err = a.Read(deadline(t), a2, args(a2))
	wantCode(t, err, link.CodeEvicted, "made room")
	for h, owner := range map[string]*link.Client{a3: a, c1: c} {
		if _, err := owner.Read(deadline(t), h, args(h)); err != nil {
			t.Error(err)
		}
	}
	p := c.NewPut()
	p.Write(text(401))
	p.Commit(link.Info{})
	wantCode(t, p.Wait(deadline(t)), link.CodeLost, "results.session_quota")
	waitFor(t, "what was evicted is removed", func() bool {
		s, _ := a.Status(deadline(t))
		return len(files(t, d.cfg.Home)) == 2*s.Results.Count
	})
}

// TestManySmall checks the bounds of the index: results, and names that a
// server may choose.
func TestManySmall(t *testing.T) {
	d := local(t, Config{entries: 3})
	c := connect(t, d, link.Bridge, "s1")
	first := keep(t, c, nil)
	p := c.NewPut()
	p.Commit(link.Info{Tool: strings.Repeat("ü", 10000)})
	if err := p.Wait(deadline(t)); err != nil {
		t.Fatal(err)
	}
	keep(t, c, nil)
	if _, err := c.Read(deadline(t), first, args(first)); err != nil {
		t.Errorf("the first of three: %v", err)
	}
	keep(t, c, nil)
	_, err := c.Read(deadline(t), first, args(first))
	wantCode(t, err, link.CodeEvicted, "made room")
	page, err := connect(t, d, link.Person, "").List(deadline(t), "")
	if err != nil || len(page.Entries) != 3 {
		t.Fatalf("list: %+v, %v", page, err)
	}
	for _, e := range page.Entries {
		if len(e.Tool) > maxName || !utf8.ValidString(e.Tool) {
			t.Errorf("tool %q", e.Tool)
		}
	}
}

// TestRecovery checks what a new desk makes of the files it finds.
func TestRecovery(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := local(t, Config{Home: home})
	c := connect(t, d, link.Bridge, "s1")
	whole, short, undescribed, bad := keep(t, c, text(1000)), keep(t, c, text(1000)), keep(t, c, text(1000)), keep(t, c, text(1000))
	d.shutdown()

	results := filepath.Join(home, "results")
	name := func(h, ext string) string { return filepath.Join(results, h+ext) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Truncate(name(short, dataExt), 999))
	must(os.Remove(name(undescribed, metaExt)))
	must(os.WriteFile(name(bad, metaExt), []byte(`{"v":1}`), 0o600))
	must(os.WriteFile(name(link.NewHandle(), partExt), text(10), 0o600))
	must(os.WriteFile(name(link.NewHandle(), metaExt+tempExt), text(10), 0o600))
	must(os.WriteFile(filepath.Join(results, "notes.txt"), text(10), 0o600))
	linked := link.NewHandle()
	must(os.Symlink("/etc/passwd", name(linked, dataExt)))

	d2 := local(t, Config{Home: home})
	p := connect(t, d2, link.Person, "")
	page, err := p.List(deadline(t), "")
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Handle != whole {
		t.Errorf("kept: %+v, %v", page.Entries, err)
	}
	if got := export(t, p, whole); !bytes.Equal(got, text(1000)) {
		t.Error("other bytes")
	}
	want := []string{filepath.Join(results, "notes.txt"), name(whole, dataExt), name(whole, metaExt)}
	got := files(t, home)
	if strings.Join(got, "\n") != strings.Join(sorted(want), "\n") {
		t.Errorf("files left:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(sorted(want), "\n"))
	}
}

// TestIdle checks that a desk leaves when nobody is connected, and that the
// next one serves the same session what it kept.
func TestIdle(t *testing.T) {
	home := newHome(t, knobs{Idle: 50 * time.Millisecond})
	c := bridge(t, home, "s1")
	h := keep(t, c, text(100))
	s, err := c.Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.Close(ctx)
	if err := WaitStopped(ctx, home); err != nil {
		t.Fatalf("an idle desk stays: %v", err)
	}
	if _, err := os.Lstat(link.SocketPath(home)); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	p := dial(t, link.Options{Home: home, Who: link.Person, Start: starter(t, home)})
	page, err := p.List(deadline(t), "")
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Handle != h {
		t.Errorf("kept: %+v, %v", page, err)
	}
	if s2, _ := p.Status(deadline(t)); s2.PID == s.PID {
		t.Error("the same desk")
	}
}

// TestLongHome has a home whose socket has no room in a socket's address.
func TestLongHome(t *testing.T) {
	home := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	knobs{}.write(t, home)
	t.Cleanup(func() { stopDesk(t, home) })
	c := bridge(t, home, "s1")
	keep(t, c, text(10))
	if desk, private, ok := c.Desk(); !ok || private || desk.PID == 0 {
		t.Errorf("got %+v, private %v, %v", desk, private, ok)
	}
	path := link.SocketPath(home)
	if !strings.HasPrefix(path, "/tmp/penstock-") || len(path) > 100 {
		t.Errorf("socket at %s", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}
