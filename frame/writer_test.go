package frame_test

import (
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
