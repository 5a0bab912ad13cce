package frame_test

import (
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/frame"
)

// giant yields head, n bytes of fill over and over, and tail.
type giant struct {
	head, fill, tail string
	n                int64
	at               int
}

func (g *giant) Read(p []byte) (int, error) {
	if g.head != "" {
		n := copy(p, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	if g.n > 0 {
		p = p[:min(int64(len(p)), g.n)]
		for w := 0; w < len(p); {
			c := copy(p[w:], g.fill[g.at:])
			w += c
			g.at = (g.at + c) % len(g.fill)
		}
		g.n -= int64(len(p))
		return len(p), nil
	}
	if g.tail == "" {
		return 0, io.EOF
	}
	n := copy(p, g.tail)
	g.tail = g.tail[n:]
	return n, nil
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestGiantFrames: a frame of any size costs no memory and still tells its id.
func TestGiantFrames(t *testing.T) {
	fill := strings.Repeat("The quick brown fox. ", 3000)
	junk := strings.Repeat(`{\"id\":1}}],`, 5000)
	nested := strings.Repeat(`{"id":[3,"x"]},`, 4000)
	for _, tt := range []struct {
		name, head, fill, tail string
		n                      int64
		want                   string
	}{
		{"id behind the result", `{"result":{"text":"`, fill, `"},"jsonrpc":"2.0","id":7}`, 1 << 30, "7"},
		{"quotes and brackets", `{"result":"`, junk, `","id":"a"}`, int64(len(junk)) * 1024, `"a"`},
		{"nested ids", `{"result":[`, nested, `{}],"\u0069d":-5}`, int64(len(nested)) * 1024, "-5"},
		{"a long id", `{"result":1,"id":"`, fill, `"}`, 64 << 20, ""},
		{"a long name", `{"result":1,"`, fill, `":0,"id":1}`, 64 << 20, ""},
		{"a long method", `{"id":9,"method":"`, fill, `"}`, 64 << 20, "9"},
		{"a long number", `{"result":`, "1234567890", `,"id":9}`, 64 << 20, "9"},
		{"noise", "", fill, "", 64 << 20, ""},
	} {
		before := allocated()
		tt.n /= scale
		size := int64(len(tt.head)+len(tt.tail)) + tt.n
		r := frame.NewReader(&giant{head: tt.head, fill: tt.fill, tail: tt.tail + "\n", n: tt.n}, frame.Options{Limit: 1 << 20})
		var last frame.Frame
		for want := range []frame.Type{frame.Oversize, frame.OversizeEnd} {
			f, err := r.Next()
			if err != nil || f.Type != frame.Oversize+frame.Type(want) {
				t.Fatalf("%s: %+v, %v", tt.name, f, err)
			}
			last = f
		}
		if string(last.ID) != tt.want || last.Size != size {
			t.Errorf("%s: id %q of %d bytes, want %q of %d", tt.name, last.ID, last.Size, tt.want, size)
		}
		// Buffers on the way to the limit of 1 MiB, and nothing after it.
		if got := allocated() - before; got > 3<<20 {
			t.Errorf("%s: %d bytes allocated", tt.name, got)
		}
	}
}

// TestLargeFramesShareABuffer: large frames do not each leave their size to the
// collector, and none stays when the reader is idle.
func TestLargeFramesShareABuffer(t *testing.T) {
	const size = 8<<20 - 1000 // the next one begins low in the last chunk, so the buffer is given back
	large := padded(size) + "\n"
	in := &giant{fill: large, n: 20 * int64(len(large)), tail: ping + "\n"}
	r := frame.NewReader(in, frame.Options{})
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would take the buffer
	before := allocated()
	for range 20 {
		if f, err := r.Next(); err != nil || len(f.Data) != size {
			t.Fatal(len(f.Data), err)
		}
	}
	if got := allocated() - before; got > size+2<<20 {
		t.Errorf("20 frames of %d bytes: %d bytes allocated", size, got)
	}
	if f, err := r.Next(); err != nil || string(f.Data) != ping {
		t.Fatal(f, err)
	}
	if _, err := r.Next(); err != io.EOF { // as it waits for the next line
		t.Fatal(err)
	}
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	held := live()
	runtime.KeepAlive(r)
	r = nil
	if free := live(); held > free+128<<10 {
		t.Errorf("an idle reader holds %d bytes", held-free)
	}
	runtime.KeepAlive(in)
}
