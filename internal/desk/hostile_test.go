package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// rawClient is a connection to d that says hello and then what a test wants.
func rawClient(t *testing.T, d *desk, hello link.HelloHead) (*link.Conn, net.Conn) {
	t.Helper()
	ours, theirs := pipe(t)
	d.wg.Go(func() { d.serve(theirs) })
	t.Cleanup(func() { ours.Close() })
	c := link.NewConn(ours)
	if _, err := c.Greet(hello, true); err != nil {
		t.Fatalf("greet: %v", err)
	}
	return c, ours
}

var session = link.HelloHead{Who: link.Bridge, Session: "s1", Secret: strings.Repeat("s", 26)}

// nextFrame reads the next frame.
func nextFrame(t *testing.T, c *link.Conn, nc net.Conn) (link.Frame, error) {
	t.Helper()
	guard := time.AfterFunc(patience, func() { nc.Close() })
	defer guard.Stop()
	return c.Read(nil)
}

func send(t *testing.T, c *link.Conn, kind link.Kind, id uint32, head string, body ...[]byte) {
	t.Helper()
	if err := c.Write(kind, id, []byte(head), patience, body...); err != nil {
		t.Fatalf("%s frame: %v", kind, err)
	}
}

// TestHostileBytes sends what is not the protocol: the desk says so where it
// can, ends that connection, and serves the others.
func TestHostileBytes(t *testing.T) {
	d := local(t, Config{})
	good := connect(t, d, link.Bridge, "s2")
	put := func(handle string) string { return fmt.Sprintf(`{"op":"put","handle":%q}`, handle) }
	for name, do := range map[string]func(c *link.Conn, nc net.Conn){
		"garbage":         func(c *link.Conn, nc net.Conn) { nc.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) },
		"huge length":     func(c *link.Conn, nc net.Conn) { nc.Write([]byte{3, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1}) },
		"head is no JSON": func(c *link.Conn, nc net.Conn) { send(t, c, link.Request, 1, `{"op":`) },
		"second hello":    func(c *link.Conn, nc net.Conn) { send(t, c, link.Hello, 0, `{}`) },
		"a reply":         func(c *link.Conn, nc net.Conn) { send(t, c, link.Reply, 1, `{}`) },
		"id again": func(c *link.Conn, nc net.Conn) {
			send(t, c, link.Request, 2, `{"op":"x"}`)
			send(t, c, link.Request, 2, `{"op":"x"}`)
		},
		"head of strings": func(c *link.Conn, nc net.Conn) { send(t, c, link.Request, 1, `{"op":"read","handle":7}`) },
		"more than granted": func(c *link.Conn, nc net.Conn) {
			send(t, c, link.Request, 1, put(link.NewHandle()))
			for range window/link.MaxChunk + 1 {
				if c.Write(link.Data, 1, nil, patience, make([]byte, link.MaxChunk)) != nil {
					return
				}
			}
			// The desk may have written some of it and granted more by now.
			for range 1 << 16 {
				if c.Write(link.Data, 1, nil, patience, make([]byte, link.MaxChunk)) != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, nc := rawClient(t, d, session)
			go do(c, nc)
			for {
				f, err := nextFrame(t, c, nc)
				if err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
						t.Errorf("the connection is still open: %v", err)
					}
					break
				}
				if f.ID == 0 && f.Kind != link.Fail {
					t.Errorf("got a %s frame", f.Kind)
				}
			}
			if _, err := good.Status(deadline(t)); err != nil {
				t.Errorf("another client: %v", err)
			}
		})
	}
	waitFor(t, "nothing is left of the puts", func() bool {
		s, err := good.Status(deadline(t))
		return err == nil && s.Results.Writing == 0 && s.Results.Bytes == 0 && len(files(t, d.cfg.Home)) == 0
	})
}

// TestBadHello checks who is let in.
func TestBadHello(t *testing.T) {
	d := local(t, Config{})
	for name, hello := range map[string]link.HelloHead{
		"nobody":     {},
		"stranger":   {Who: "root"},
		"no session": {Who: link.Bridge, Secret: strings.Repeat("s", 26)},
		"no secret":  {Who: link.Bridge, Session: "s1", Secret: "short"},
	} {
		c, nc := rawClient(t, d, hello)
		f, err := nextFrame(t, c, nc)
		if err != nil || f.Kind != link.Fail || f.ID != 0 || !bytes.Contains(f.Head, []byte("refused")) {
			t.Errorf("%s: got %s %s, %v", name, f.Kind, f.Head, err)
		}
		if _, err := nextFrame(t, c, nc); err == nil {
			t.Errorf("%s: still connected", name)
		}
	}
}

// TestOtherVersion checks that both sides say what the other speaks.
func TestOtherVersion(t *testing.T) {
	d := local(t, Config{})
	ours, theirs := pipe(t)
	defer ours.Close()
	d.wg.Go(func() { d.serve(theirs) })
	head, err := json.Marshal(map[string]any{"protocol": "penstock-link", "version": 99, "build": "of tomorrow", "pid": 7, "more": []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	c := link.NewConn(ours)
	send(t, c, link.Hello, 0, string(head))
	f, err := nextFrame(t, c, ours)
	var hello link.HelloHead
	if err != nil || json.Unmarshal(f.Head, &hello) != nil || hello.Version != link.Version || hello.Build != "test" {
		t.Fatalf("got %s %s, %v", f.Kind, f.Head, err)
	}
	if _, err := nextFrame(t, c, ours); err == nil {
		t.Error("the desk goes on with another version")
	}

	// The other way round: a desk of tomorrow.
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := dial(t, link.Options{Who: link.Person, Build: "of today", Private: func(context.Context) (net.Conn, error) {
		go func() {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			c := link.NewConn(nc)
			c.Read(nil)
			c.Write(link.Hello, 0, head, patience)
			c.Read(nil)
		}()
		return net.Dial("unix", l.Addr().String())
	}})
	_, err = client.Status(deadline(t))
	wantCode(t, err, link.CodeUnavailable, "this penstock (of today) speaks version 1 of the desk's protocol, and the other side (of tomorrow, process 7) version 99")
}

// TestTooManyRequests checks the bounds of one client.
func TestTooManyRequests(t *testing.T) {
	d := local(t, Config{})
	c, nc := rawClient(t, d, session)
	for i := range maxWaiting + 1 {
		send(t, c, link.Request, uint32(i+1), fmt.Sprintf(`{"op":"put","handle":%q}`, link.NewHandle()))
	}
	for {
		f, err := nextFrame(t, c, nc)
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == link.Fail {
			if f.ID != maxWaiting+1 || !bytes.Contains(f.Head, []byte(`"busy"`)) {
				t.Errorf("put %d: %s", f.ID, f.Head)
			}
			break
		}
	}
}

// TestReaderThatStops checks that a client that takes no answers is cut off
// before they fill the desk's memory.
func TestReaderThatStops(t *testing.T) {
	d := local(t, Config{})
	writer := connect(t, d, link.Bridge, "s2")
	h := keep(t, writer, []byte(`{"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}]}}`))
	c, nc := rawClient(t, d, link.HelloHead{Who: link.Person})
	gone := make(chan error, 1)
	go func() {
		for id := uint32(1); ; id++ {
			if err := c.Write(link.Request, id, []byte(fmt.Sprintf(`{"op":"read","handle":%q,"most":1048576,"args":{"handle":%q,"part":"raw"}}`, h, h)), patience); err != nil {
				gone <- err
				return
			}
			time.Sleep(time.Millisecond) // the desk answers only so many at a time
		}
	}()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the desk still takes requests")
	}
	nc.Close()
}

// TestHalfPut checks that a connection that breaks in the middle of a put, in
// the middle of a frame, leaves nothing.
func TestHalfPut(t *testing.T) {
	d := local(t, Config{})
	c, nc := rawClient(t, d, session)
	send(t, c, link.Request, 1, fmt.Sprintf(`{"op":"put","handle":%q}`, link.NewHandle()))
	if f, err := nextFrame(t, c, nc); err != nil || f.Kind != link.Credit || link.CreditOf(f) != window {
		t.Fatalf("got %+v, %v", f, err)
	}
	send(t, c, link.Data, 1, "", text(1000))
	if n := len(files(t, d.cfg.Home)); n != 1 {
		t.Errorf("%d files while it is written", n)
	}
	nc.Write([]byte{3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 'x'})
	nc.Close()
	waitFor(t, "nothing is left", func() bool { return len(files(t, d.cfg.Home)) == 0 })
	if _, err := io.ReadAll(nc); err == nil {
		t.Error("the connection is open")
	}
}
