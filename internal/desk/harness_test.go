package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// roles are processes that tests need besides desks.
var roles = map[string]func(args []string){}

const patience = 30 * time.Second // a ceiling, far above what anything takes

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func program(t testing.TB) string {
	t.Helper()
	p, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newHome returns a folder for a desk in a process of its own, which is stopped
// at the end.
func newHome(t *testing.T, k knobs) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	k.write(t, home)
	t.Cleanup(func() { stopDesk(t, home) })
	return home
}

// stopDesk ends the desk of the home, if there is one, and waits until its
// place is free.
func stopDesk(t testing.TB, home string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := link.Dial(link.Options{Home: home, Who: link.Person})
	err := c.Stop(ctx) // a desk that is just going may not answer
	c.Close(ctx)
	if gone := WaitStopped(ctx, home); gone != nil {
		t.Errorf("the desk does not end: %v, %v", err, gone)
	}
}

// bridge returns a client of the desk in home, which it starts.
func bridge(t *testing.T, home, session string) *link.Client {
	t.Helper()
	return dial(t, link.Options{Home: home, Session: session, Server: "files", Build: "test", Start: starter(t, home)})
}

func starter(t testing.TB, home string) func(context.Context) error {
	p := program(t)
	return func(ctx context.Context) error { return Start(ctx, p, home) }
}

func dial(t *testing.T, o link.Options) *link.Client {
	t.Helper()
	c := link.Dial(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.Close(ctx)
	})
	return c
}

func person(t *testing.T, home string) *link.Client {
	t.Helper()
	return dial(t, link.Options{Home: home, Who: link.Person})
}

// keep stores bytes and waits until they are kept.
func keep(t *testing.T, c *link.Client, data []byte) string {
	t.Helper()
	p := c.NewPut()
	p.Write(data)
	p.Commit(link.Info{Tool: "read_file", Call: "c1"})
	if err := p.Wait(deadline(t)); err != nil {
		t.Fatalf("put of %d bytes: %v", len(data), err)
	}
	return p.Handle()
}

// export returns the bytes of a kept result as a person gets them.
func export(t *testing.T, c *link.Client, handle string) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := c.Export(deadline(t), handle, "raw", &b); err != nil {
		t.Fatalf("export: %v", err)
	}
	return b.Bytes()
}

// wantCode checks that err is an Error of the code and says something.
func wantCode(t *testing.T, err error, code link.Code, says string) {
	t.Helper()
	e := (*link.Error)(nil)
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("got %#v, want code %s and a message with %q", err, code, says)
	}
}

// local serves a desk in this process, for tests that look inside.
func local(t *testing.T, cfg Config) *desk {
	t.Helper()
	if cfg.Home == "" {
		cfg.Home = filepath.Join(t.TempDir(), "home")
	}
	if err := link.SecureFolder(filepath.Join(cfg.Home, "run")); err != nil {
		t.Fatal(err)
	}
	cfg.Build = "test"
	d := newDesk(context.Background(), cfg)
	t.Cleanup(d.shutdown)
	return d
}

// connect returns a client that is connected to d.
func connect(t *testing.T, d *desk, who link.Who, session string) *link.Client {
	t.Helper()
	return dial(t, link.Options{Who: who, Session: session, Server: "files", Private: func(context.Context) (net.Conn, error) {
		ours, theirs := pipe(t)
		d.wg.Go(func() { d.serve(theirs) })
		return ours, nil
	}})
}

// pipe returns both ends of a real socket.
func pipe(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// args are the arguments of penstock_result that read a page of the bytes as
// they came, since these tests keep what is no message.
func args(handle string) json.RawMessage {
	b, err := json.Marshal(map[string]any{"handle": handle, "part": "raw"})
	if err != nil {
		panic(err)
	}
	return b
}

func text(n int) []byte {
	return bytes.Repeat([]byte("0123456789abcde\n"), n/16+1)[:n]
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
