package frame_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/frame"
)

// sink takes room bytes in all and notes each call.
type sink struct {
	calls []string
	room  int
	err   error
}

func (s *sink) Write(p []byte) (int, error) {
	s.calls = append(s.calls, string(p))
	if n := min(len(p), s.room); n < len(p) {
		s.room = 0
		return n, s.err
	}
	s.room -= len(p)
	return len(p), nil
}

func TestWriter(t *testing.T) {
	s := &sink{room: 1 << 20}
	w := frame.NewWriter(s)
	large := strings.Repeat("y", 100<<10)
	for _, in := range []string{ping, large, "{}"} {
		b := append([]byte(in), "behind"...)
		if err := w.WriteFrame(b[:len(in)]); err != nil {
			t.Fatal(err)
		}
		if string(b) != in+"behind" {
			t.Error("the caller's bytes were changed")
		}
	}
	for _, bad := range []string{"\n", "{}\n", "{\n}"} {
		if err := w.WriteFrame([]byte(bad)); err != frame.ErrNewline {
			t.Errorf("WriteFrame(%q): %v", bad, err)
		}
	}
	for _, bad := range []string{"", "{}", "{\n}\n", "{}\n\n", "\n{}"} {
		if err := w.WriteLine([]byte(bad)); err != frame.ErrNewline {
			t.Errorf("WriteLine(%q): %v", bad, err)
		}
	}
	line := []byte("{}\n")
	if err := w.WriteLine(line); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(s.calls, "|"), ping+"\n|"+large+"\n|{}\n|{}\n"; got != want {
		t.Errorf("%d writes", len(s.calls))
	}
	if n := testing.AllocsPerRun(100, func() {
		s.calls, s.room = s.calls[:0], 1<<20
		_ = w.WriteLine(line)
	}); n > 1 { // the sink's string
		t.Errorf("WriteLine: %v allocations", n)
	}
}

func TestWriterErrorStays(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct{ err, want error }{{boom, boom}, {nil, io.ErrShortWrite}} {
		s := &sink{room: 5, err: tt.err}
		w := frame.NewWriter(s)
		for range 2 {
			if err := w.WriteFrame([]byte(ping)); err != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err := w.WriteLine([]byte("{}\n")); err != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		}
		if len(s.calls) != 1 {
			t.Errorf("%d writes, half a frame was followed by others", len(s.calls))
		}
	}
}

// FuzzReader: the pieces in which a stream arrives make no difference, a
// message is one, and what is written is read.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		ping + "\r\n\n" + ping, "log " + ping + "\n{bad\n" + ping + "\n", padded(200) + "\n" + ping, "\xEF\xBB\xBF\xEF\xBB\n" + ping,
		`{"jsonrpc":"2.0","id":1,"result":"` + "\xff\u2028\xf0\x9f" + `"}` + "\n", strings.Repeat("x\n", 40), `{"result":"` + strings.Repeat("y", 300) + `","id":1}`,
		"[" + ping + "]\n" + strings.Repeat(" ", 130) + "\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		o := frame.Options{Limit: 100, Noise: 300, Discard: 2000, EscapeSeparators: n&1 != 0}
		whole, err := events(bytes.NewReader(b), o)
		cut, cutErr := events(&pieces{b, int(n%32) + 1}, o)
		end := func(e error) bool { return e == io.EOF }
		if end(err) != end(cutErr) {
			t.Fatalf("%q: %v whole, %v in pieces", b, err, cutErr)
		}
		if end(err) && strings.Join(whole, "\n") != strings.Join(cut, "\n") {
			t.Fatalf("%q:\n whole  %q\n pieces %q", b, whole, cut)
		}
		var out bytes.Buffer
		w := frame.NewWriter(&out)
		var want []string
		for _, e := range whole {
			data, ok := strings.CutPrefix(e, "message ")
			if !ok {
				continue
			}
			if err := w.WriteFrame([]byte(data)); err != nil || len(data) > o.Limit {
				t.Fatalf("%q: %v", data, err)
			}
			want = append(want, e)
		}
		if got, err := events(&out, o); err != io.EOF || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q: written and read again %q, %v", want, got, err)
		}
	})
}

// pieces reads n bytes at a time.
type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.b)
	p.b = p.b[n:]
	return n, nil
}
