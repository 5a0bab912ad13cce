package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain reports goroutines that outlive the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = leftOver()
	}
	os.Exit(code)
}

func leftOver() int {
	var what string
	for range 1000 {
		what = ""
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, g := range strings.Split(string(buf), "\n\n") {
			if strings.Contains(g, "/link.") && !strings.Contains(g, "link.TestMain") {
				what += g + "\n\n"
			}
		}
		if what == "" {
			return 0
		}
		time.Sleep(10 * time.Millisecond) // what has ended may need an instant to be gone
	}
	fmt.Fprint(os.Stderr, "left over after the tests:\n", what)
	return 1
}

const patience = 30 * time.Second // a ceiling, far above what anything takes

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// fake is a desk that does what a test says.
type fake struct {
	t     *testing.T
	conns chan net.Conn // ends of clients that have connected
	dials int
}

// dialFake returns a client and its desk.
func dialFake(t *testing.T, o Options) (*Client, *fake) {
	t.Helper()
	f := &fake{t: t, conns: make(chan net.Conn, 16)}
	o.Session, o.Server = "s1", "files"
	o.Private = func(context.Context) (net.Conn, error) {
		f.dials++
		ours, theirs := pair(t)
		f.conns <- theirs
		return ours, nil
	}
	c := Dial(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.Close(ctx)
	})
	return c, f
}

// accept returns the next connection, after the hellos.
func (f *fake) accept() (*Conn, net.Conn, HelloHead) {
	f.t.Helper()
	select {
	case nc := <-f.conns:
		conn := NewConn(nc)
		hello, err := conn.Greet(HelloHead{Build: "fake", PID: 1}, false)
		if err != nil {
			f.t.Fatal(err)
		}
		return conn, nc, hello
	case <-time.After(patience):
		f.t.Fatal("no connection")
	}
	panic("not reached")
}

// frame reads the next frame and checks its kind.
func (f *fake) frame(c *Conn, want Kind) Frame {
	f.t.Helper()
	fr, err := c.Read(nil)
	if err != nil || fr.Kind != want {
		f.t.Fatalf("got a %s frame, %v, want %s", fr.Kind, err, want)
	}
	return fr
}

func (f *fake) answer(c *Conn, kind Kind, id uint32, head string, body []byte) {
	f.t.Helper()
	if err := c.Write(kind, id, []byte(head), patience, body); err != nil {
		f.t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code Code, says string) {
	t.Helper()
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("got %#v, want code %s and a message with %q", err, code, says)
	}
}

// TestPut follows a put from its first byte to its acknowledgement.
func TestPut(t *testing.T) {
	c, f := dialFake(t, Options{})
	p := c.NewPut()
	data := bytes.Repeat([]byte("0123456789"), 50_000)
	for rest := data; len(rest) > 0; rest = rest[min(len(rest), 777):] {
		p.Write(rest[:min(len(rest), 777)])
	}
	if err := p.Commit(Info{Tool: "t", Call: "c1", Part: "0"}); err != nil {
		t.Fatal(err)
	}
	conn, _, hello := f.accept()
	if hello.Who != Bridge || hello.Session != "s1" || hello.Server != "files" || len(hello.Secret) < 26 || hello.Version != Version {
		t.Errorf("hello %+v", hello)
	}
	fr := f.frame(conn, Request)
	var head RequestHead
	if err := json.Unmarshal(fr.Head, &head); err != nil || head.Op != OpPut || head.Handle != p.Handle() || !ValidHandle(head.Handle) {
		t.Fatalf("request %s", fr.Head)
	}
	// No byte without credit, and no more than that.
	f.answer(conn, Credit, fr.ID, "", CreditBody(100_000))
	var got []byte
	for len(got) < 65536 {
		got = append(got, f.frame(conn, Data).Body...)
	}
	if len(got) > 100_000 {
		t.Errorf("%d bytes came with credit for 100000", len(got))
	}
	f.answer(conn, Credit, fr.ID, "", CreditBody(1<<20))
	for len(got) < len(data) {
		got = append(got, f.frame(conn, Data).Body...)
	}
	if !bytes.Equal(got, data) {
		t.Error("other bytes came")
	}
	if end := f.frame(conn, End); string(end.Head) != `{"tool":"t","call_id":"c1","part":"0"}` {
		t.Errorf("end %s", end.Head)
	}
	select {
	case <-p.Done():
		t.Error("over before it is acknowledged")
	default:
	}
	f.answer(conn, Reply, fr.ID, "", nil)
	if err := p.Wait(deadline(t)); err != nil {
		t.Error(err)
	}
}

// TestFrozenDesk has a desk that takes the connection and then nothing: puts
// fail when the buffer is full, none of them waits, and a read ends with its
// context.
func TestFrozenDesk(t *testing.T) {
	c, f := dialFake(t, Options{Buffer: 256 << 10})
	f.accept()
	chunk := make([]byte, 64<<10)
	p := c.NewPut()
	for range 4 {
		p.Write(chunk)
	}
	if err := p.Err(); err != nil {
		t.Errorf("within the buffer: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Read(ctx, NewHandle(), json.RawMessage(`{}`))
	wantCode(t, err, CodeBusy, "did not answer in time")
	p.Write(chunk[:1])
	wantCode(t, p.Err(), CodeLost, "too slow")
	wantCode(t, p.Commit(Info{}), CodeLost, "too slow")
	_, err = c.Read(deadline(t), p.Handle(), json.RawMessage(`{}`))
	wantCode(t, err, CodeLost, "was not kept")
	// The room is free again.
	q := c.NewPut()
	for range 4 {
		q.Write(chunk)
	}
	if err := q.Err(); err != nil {
		t.Errorf("after the first is gone: %v", err)
	}
	if waited := q.Pace(time.Millisecond); waited < time.Millisecond {
		t.Errorf("paced for %v with a full buffer", waited)
	}
	q.Abort()
	if waited := c.NewPut().Pace(patience); waited != 0 {
		t.Errorf("paced for %v with an empty buffer", waited)
	}
}

// TestReconnect breaks the connection: what was on its way is lost and says so,
// a read is sent again, and the desk sees that it is the same session.
func TestReconnect(t *testing.T) {
	c, f := dialFake(t, Options{})
	conn, nc, first := f.accept()
	p := c.NewPut()
	p.Write([]byte("abc"))
	fr := f.frame(conn, Request)
	f.answer(conn, Credit, fr.ID, "", CreditBody(10))
	f.frame(conn, Data)
	type page struct {
		b   json.RawMessage
		err error
	}
	read := make(chan page, 1)
	go func() {
		b, err := c.Read(deadline(t), NewHandle(), json.RawMessage(`{"a":1}`))
		read <- page{b, err}
	}()
	f.frame(conn, Request)
	nc.Close()

	conn, _, second := f.accept()
	if first.Secret != second.Secret || first.Owner() != second.Owner() {
		t.Error("another session")
	}
	again := f.frame(conn, Request)
	if !bytes.Contains(again.Head, []byte(`"args":{"a":1}`)) {
		t.Errorf("sent again: %s", again.Head)
	}
	f.answer(conn, Reply, again.ID, "", []byte(`{"text":"x"}`))
	if got := <-read; got.err != nil || string(got.b) != `{"text":"x"}` {
		t.Errorf("got %s, %v", got.b, got.err)
	}
	wantCode(t, p.Err(), CodeLost, "went away")
	// One that had not begun is handed to the new desk.
	q := c.NewPut()
	q.Write([]byte("abc"))
	f.frame(conn, Request)
}

// TestRefusedPut checks that a refusal reaches who reads.
func TestRefusedPut(t *testing.T) {
	c, f := dialFake(t, Options{})
	conn, _, _ := f.accept()
	p := c.NewPut()
	p.Write([]byte("abc"))
	fr := f.frame(conn, Request)
	f.answer(conn, Fail, fr.ID, `{"code":"disk","message":"the disk is full"}`, nil)
	<-p.Done()
	p.Write([]byte("def"))
	wantCode(t, p.Commit(Info{}), CodeDisk, "full")
	_, err := c.Read(deadline(t), p.Handle(), json.RawMessage(`{}`))
	wantCode(t, err, CodeLost, "not kept: the disk is full")
}

// TestNoDesk checks a client that finds nothing, and one that is nil.
func TestNoDesk(t *testing.T) {
	c := Dial(Options{Session: "s1", Private: func(context.Context) (net.Conn, error) { return nil, errors.New("no such program") }})
	defer c.Close(deadline(t))
	_, err := c.Read(deadline(t), NewHandle(), json.RawMessage(`{}`))
	wantCode(t, err, CodeUnavailable, "no such program")
	p := c.NewPut()
	p.Write([]byte("abc"))
	wantCode(t, p.Commit(Info{}), CodeLost, "no such program")

	var none *Client
	q := none.NewPut()
	if n, err := q.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	q.Pace(patience)
	wantCode(t, q.Commit(Info{}), CodeUnavailable, "no desk")
	wantCode(t, q.Wait(deadline(t)), CodeUnavailable, "no desk")
	_, err = none.Read(deadline(t), q.Handle(), nil)
	wantCode(t, err, CodeUnavailable, "no desk")
	_, err = none.Status(deadline(t))
	wantCode(t, err, CodeUnavailable, "no desk")
	q.Abort()
	none.Close(deadline(t))
}

// TestClose checks that Close waits for what was committed, and not for more.
func TestClose(t *testing.T) {
	c, f := dialFake(t, Options{})
	conn, _, _ := f.accept()
	kept, open := c.NewPut(), c.NewPut()
	kept.Write([]byte("abc"))
	kept.Commit(Info{})
	open.Write([]byte("abc"))
	closed := make(chan struct{})
	go func() { c.Close(deadline(t)); close(closed) }()
	var id uint32
	for done := false; !done; {
		fr, err := conn.Read(nil)
		if err != nil {
			t.Fatal(err)
		}
		switch fr.Kind {
		case Request:
			var head RequestHead
			json.Unmarshal(fr.Head, &head)
			if head.Handle == kept.Handle() {
				id = fr.ID
			}
			f.answer(conn, Credit, fr.ID, "", CreditBody(10))
		case End:
			done = true
		}
	}
	select {
	case <-closed:
		t.Error("closed before the acknowledgement")
	default:
	}
	f.answer(conn, Reply, id, "", nil)
	<-closed
	if err := kept.Err(); err != nil {
		t.Error(err)
	}
	wantCode(t, open.Err(), CodeLost, "ended before")
	wantCode(t, c.NewPut().Err(), CodeLost, "ended")
}

// TestManyPuts checks that puts share the connection: one without credit does
// not hold another.
func TestManyPuts(t *testing.T) {
	c, f := dialFake(t, Options{})
	conn, _, _ := f.accept()
	a, b := c.NewPut(), c.NewPut()
	a.Write([]byte("aaa"))
	first := f.frame(conn, Request)
	b.Write([]byte("bbb"))
	second := f.frame(conn, Request)
	f.answer(conn, Credit, second.ID, "", CreditBody(1<<20))
	if fr := f.frame(conn, Data); fr.ID != second.ID || string(fr.Body) != "bbb" {
		t.Errorf("got %d %q", fr.ID, fr.Body)
	}
	a.Abort()
	if fr := f.frame(conn, Cancel); fr.ID != first.ID {
		t.Errorf("cancelled %d", fr.ID)
	}
}

func TestHandles(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		h := NewHandle()
		if !ValidHandle(h) || seen[h] {
			t.Fatalf("handle %q", h)
		}
		seen[h] = true
	}
	for _, bad := range []string{"", strings.Repeat("a", 25), strings.Repeat("a", 27), strings.Repeat("A", 26), strings.Repeat("1", 26), "../" + strings.Repeat("a", 23)} {
		if ValidHandle(bad) {
			t.Errorf("%q is taken for a handle", bad)
		}
	}
}

func TestSocketPath(t *testing.T) {
	if got := SocketPath("/home/ann/.penstock"); got != "/home/ann/.penstock/run/desk.sock" {
		t.Errorf("got %s", got)
	}
	at := func(n int) string { return "/" + strings.Repeat("h", n-1-len("/run/desk.sock")) }
	if got := SocketPath(at(100)); len(got) != 100 {
		t.Errorf("100 bytes: got %s", got)
	}
	long := SocketPath(at(101))
	if !strings.HasPrefix(long, "/tmp/penstock-") || len(long) > 100 || long == SocketPath(at(102)) {
		t.Errorf("101 bytes: got %s", long)
	}
}

func TestSecureFolder(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		make func(path string) error
		ok   bool
	}{
		{"new", func(string) error { return nil }, true},
		{"open to others", func(p string) error { return os.Mkdir(p, 0o755) }, true},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
		{"a link", func(p string) error { return os.Symlink(dir, p) }, false},
	} {
		path := dir + "/" + tt.name
		if err := tt.make(path); err != nil {
			t.Fatal(err)
		}
		err := SecureFolder(path)
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if info, err := os.Stat(path); tt.ok && (err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700) {
			t.Errorf("%s: mode %v, %v", tt.name, info.Mode(), err)
		}
	}
}

func TestSameUser(t *testing.T) {
	if err := sameUser(1000, 1000); err != nil {
		t.Error(err)
	}
	for _, theirs := range []int{0, 65534} {
		if err := sameUser(theirs, 1000); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("user %d: %v", theirs, err)
		}
	}
}

// TestPeer asks the system who is at the other end.
func TestPeer(t *testing.T) {
	a, b := pair(t)
	for _, nc := range []net.Conn{a, b} {
		if err := CheckPeer(nc); err != nil {
			t.Error(err)
		}
	}
}
