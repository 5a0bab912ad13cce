package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// pair returns both ends of a real socket.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestFrames(t *testing.T) {
	a, b := pair(t)
	w, r := NewConn(a), NewConn(b)
	frames := []Frame{
		{Hello, 0, []byte(`{"protocol":"penstock-link"}`), nil},
		{Request, 1, []byte(`{"op":"put"}`), nil},
		{Data, 1, nil, bytes.Repeat([]byte{0xff}, MaxChunk)},
		{Data, 1<<32 - 1, nil, []byte{0}},
		{End, 1, []byte(`{}`), nil},
		{Cancel, 2, nil, nil},
		{Credit, 1, nil, CreditBody(1 << 20)},
		{Reply, 3, nil, nil},
		{Reply, 4, append(append([]byte(`"`), bytes.Repeat([]byte("x"), MaxHead-2)...), '"'), bytes.Repeat([]byte("y"), MaxBody)},
		{Fail, 4, []byte(`{"code":"busy","message":"no"}`), nil},
		{Fail, 0, []byte(`{"code":"busy","message":"no"}`), nil},
	}
	go func() {
		for _, f := range frames {
			half := len(f.Body) / 2
			if err := w.Write(f.Kind, f.ID, f.Head, time.Minute, f.Body[:half], f.Body[half:]); err != nil {
				t.Errorf("write: %v", err)
			}
		}
		a.Close()
	}()
	for _, want := range frames {
		got, err := r.Read(nil)
		if err != nil {
			t.Fatalf("%s: %v", want.Kind, err)
		}
		if got.Kind != want.Kind || got.ID != want.ID || !bytes.Equal(got.Head, want.Head) || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("got %s %d with %d and %d bytes, want %s %d with %d and %d", got.Kind, got.ID, len(got.Head), len(got.Body), want.Kind, want.ID, len(want.Head), len(want.Body))
		}
	}
	if _, err := r.Read(nil); err != io.EOF {
		t.Errorf("at the end: got %v", err)
	}
}

func raw(kind, zero byte, head, body int, id uint32) *[headerSize]byte {
	return &[headerSize]byte{kind, zero, byte(head >> 8), byte(head), byte(body >> 24), byte(body >> 16), byte(body >> 8), byte(body), byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

func TestHeaderBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    *[headerSize]byte
		ok   bool
	}{
		{"kind 0", raw(0, 0, 0, 0, 1), false},
		{"kind 9", raw(9, 0, 2, 0, 1), false},
		{"zero is not zero", raw(2, 1, 2, 0, 1), false},
		{"body with its top bit set", raw(3, 0, 0, 0x80000001, 1), false},
		{"hello", raw(1, 0, maxHello, 0, 0), true},
		{"hello too long", raw(1, 0, maxHello+1, 0, 0), false},
		{"hello with an id", raw(1, 0, 2, 0, 1), false},
		{"hello without a head", raw(1, 0, 0, 0, 0), false},
		{"request", raw(2, 0, MaxHead, 0, 1), true},
		{"request without an id", raw(2, 0, 2, 0, 0), false},
		{"request with a body", raw(2, 0, 2, 1, 1), false},
		{"data", raw(3, 0, 0, MaxChunk, 1), true},
		{"data too long", raw(3, 0, 0, MaxChunk+1, 1), false},
		{"data without any", raw(3, 0, 0, 0, 1), false},
		{"data with a head", raw(3, 0, 1, 1, 1), false},
		{"end without a head", raw(4, 0, 0, 0, 1), false},
		{"cancel", raw(5, 0, 0, 0, 1), true},
		{"cancel with a body", raw(5, 0, 0, 1, 1), false},
		{"credit", raw(6, 0, 0, 4, 1), true},
		{"credit of 3 bytes", raw(6, 0, 0, 3, 1), false},
		{"reply", raw(7, 0, MaxHead, MaxBody, 1), true},
		{"reply too long", raw(7, 0, 0, MaxBody+1, 1), false},
		{"fail of the connection", raw(8, 0, 2, 0, 0), true},
		{"fail without a reason", raw(8, 0, 0, 0, 0), false},
	} {
		h, err := parseHeader(tt.b)
		if tt.ok != (err == nil) || err != nil && (!errors.Is(err, ErrProtocol) || h != header{}) {
			t.Errorf("%s: got %+v, %v", tt.name, h, err)
		}
	}
}

// TestHalfFrames checks that a frame that stops anywhere is an error and never
// a shorter frame.
func TestHalfFrames(t *testing.T) {
	whole := append(appendHeader(nil, Reply, 7, 2, 3), "{}abc"...)
	for n := 1; n < len(whole); n++ {
		a, b := pair(t)
		a.Write(whole[:n])
		a.Close()
		if f, err := NewConn(b).Read(nil); err != io.ErrUnexpectedEOF {
			t.Errorf("%d of %d bytes: got %+v, %v", n, len(whole), f, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for k := range kinds {
		f.Add(raw(byte(k), 0, 2, 0, 1)[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerSize {
			return
		}
		h, err := parseHeader((*[headerSize]byte)(b))
		if err != nil {
			if h != (header{}) {
				t.Errorf("%+v with %v", h, err)
			}
			return
		}
		if got := appendHeader(nil, h.kind, h.id, h.head, h.body); !bytes.Equal(got, b[:headerSize]) {
			t.Errorf("% x reads as %+v and writes as % x", b[:headerSize], h, got)
		}
	})
}

// FuzzFrames reads a stream of anything: what comes out is whole frames within
// their bounds, and then an error.
func FuzzFrames(f *testing.F) {
	f.Add(append(appendHeader(nil, Request, 1, 2, 0), "{}"...))
	f.Add(append(append(appendHeader(nil, Data, 1, 0, 3), "abc"...), appendHeader(nil, Cancel, 1, 0, 0)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, y := net.Pipe()
		defer y.Close()
		go func() { x.Write(b); x.Close() }()
		c := NewConn(y)
		for n := 0; ; {
			fr, err := c.Read(nil)
			if err != nil {
				return
			}
			if n += headerSize + len(fr.Head) + len(fr.Body); n > len(b) {
				t.Fatalf("%d bytes of frames in %d bytes", n, len(b))
			}
		}
	})
}
