package result

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
)

// generated is a response with size bytes made of unit, which are not held.
type generated struct {
	head, unit, tail string
	size             int64
}

func (g *generated) len() int64 { return int64(len(g.head)) + g.size + int64(len(g.tail)) }

// ReadAt fills p. size must be a multiple of len(unit).
func (g *generated) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		switch body := at - int64(len(g.head)); {
		case body < 0:
			n += copy(p[n:], g.head[at:])
		case body < g.size:
			k := int(body % int64(len(g.unit)))
			n += copy(p[n:min(len(p), n+int(g.size-body))], g.unit[k:])
		case body-g.size < int64(len(g.tail)):
			n += copy(p[n:], g.tail[body-g.size:])
		default:
			return n, io.EOF
		}
	}
	return n, nil
}

func generate(shape string, size int64) *generated {
	g := &generated{head: `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`, tail: `"}]}}`}
	switch shape {
	case "unbroken":
		g.unit = strings.Repeat("x", 64<<10)
	case "lines":
		g.unit = strings.Repeat(`the quick brown fox jumps over the lazy dog 0123456\n`, 1024)
	case "quotes":
		g.unit = strings.Repeat(`{\"name\":\"value\",\"n\":1},`, 1024)
	case "multibyte":
		g.unit = strings.Repeat("日本語テキスト ", 1024)
	case "blob":
		g.unit = strings.ReplaceAll(blob(64<<10), "=", "A")
	case "array":
		g.head = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"rows":[`
		g.unit = strings.Repeat(`{"id":12345,"name":"some name","ok":true},`, 1024)
		g.tail = `1]}}}`
	case "blocks":
		g.head = `{"jsonrpc":"2.0","result":{"content":[`
		g.unit = `{"type":"text","text":"` + strings.Repeat("some text in a block\\n", 2500) + `"},`
		g.tail = `{"type":"text","text":""}]},"id":1}`
	case "members":
		g.head = `{"jsonrpc":"2.0","result":{"content":[],"_meta":{`
		g.unit = `"a member of meta":[1,2,3,{"x":"yyyyyyyyyyyyyyyy"}],`
		g.tail = `"z":1}},"id":1}`
	case "names":
		g.head = `{"jsonrpc":"2.0","result":{"content":[],"x":{"`
		g.unit = strings.Repeat("n", 4096)
		g.tail = `":1}},"id":1}`
	case "digits":
		g.head = `{"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"n":1`
		g.unit = strings.Repeat("0", 4096)
		g.tail = `}},"id":1}`
	case "deep":
		g.head = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":[`
		g.unit = strings.Repeat(`{"a":[`, 200) + `"leaf"` + strings.Repeat(`]}`, 200) + `,`
		g.tail = `1]}}`
	}
	g.size = max(size/int64(len(g.unit)), 1) * int64(len(g.unit))
	return g
}

var shapes = []string{"unbroken", "lines", "quotes", "multibyte", "blob", "array", "blocks", "members", "names", "digits", "deep"}

func pour(t testing.TB, c *Cutter, g *generated) {
	b := make([]byte, 64<<10)
	for off := int64(0); off < g.len(); {
		n, _ := g.ReadAt(b, off)
		if _, err := c.Write(b[:n]); err != nil {
			t.Fatal(err)
		}
		off += int64(n)
	}
}

// What a Cutter holds depends on its limits, not on the size of the result.
func TestCutterMemory(t *testing.T) {
	const content = 64 << 10
	for _, shape := range shapes {
		for _, keep := range []Keep{Head, HeadAndTail} {
			held := func(size int64) int64 {
				g := generate(shape, size)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				c := NewCutter(Limits{Content: content, Keep: keep})
				pour(t, c, g)
				runtime.GC()
				runtime.ReadMemStats(&after)
				out, _, err := c.Finish(kept)
				if err != nil || out == nil {
					t.Fatalf("%s: %v", shape, err)
				}
				r := decodeReply(t, out)
				if n := r.textual(t); n > content {
					t.Errorf("%s: %d textual bytes", shape, n)
				}
				runtime.KeepAlive(g)
				return int64(after.HeapAlloc) - int64(before.HeapAlloc)
			}
			size := int64(12 << 20)
			if h := held(size); h > 4*content+1<<20 {
				t.Errorf("%s, keep %d: holds %d bytes of %d", shape, keep, h, size)
			}
		}
	}
}

func BenchmarkCutter(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape, func(b *testing.B) {
			g := generate(shape, 16<<20)
			whole := make([]byte, g.len())
			g.ReadAt(whole, 0)
			b.SetBytes(g.len())
			b.ReportAllocs()
			for b.Loop() {
				c := NewCutter(Limits{Content: 64 << 10})
				for p := range chunks(whole, 64<<10) {
					if _, err := c.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				if out, _, err := c.Finish(kept); err != nil || out == nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The first page of a result of 256 MiB, with its part not yet known.
func BenchmarkFirstPage(b *testing.B) {
	for _, shape := range []string{"unbroken", "lines", "quotes", "array"} {
		b.Run(shape, func(b *testing.B) {
			g := generate(shape, 256<<20)
			for b.Loop() {
				if p, err := Read(context.Background(), g, g.len(), testKey, Query{}); err != nil || len(p.Text) < 60_000 {
					b.Fatal(len(p.Text), err)
				}
			}
		})
	}
}

func BenchmarkGrep(b *testing.B) {
	for _, bm := range []struct{ name, shape, pattern string }{
		{"literal", "lines", "no such.*thing"}, {"literal-unbroken", "unbroken", "no such.*thing"}, {"literal-structured", "array", "no such.*thing"},
		{"literal-quotes", "quotes", "no such.*thing"}, {"no-literal", "lines", "[0-9]{8}"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			g := generate(bm.shape, 64<<20)
			whole := make([]byte, g.len())
			g.ReadAt(whole, 0)
			b.SetBytes(g.len())
			for b.Loop() {
				p, err := Read(context.Background(), bytes.NewReader(whole), g.len(), testKey, Query{Grep: bm.pattern})
				if err != nil || !p.End || p.Text != "" {
					b.Fatal(p, err)
				}
			}
		})
	}
}

func BenchmarkView(b *testing.B) {
	for _, shape := range []string{"lines", "quotes", "array"} {
		b.Run(shape, func(b *testing.B) {
			g := generate(shape, 64<<20)
			part := "0"
			if shape == "array" {
				part = "structured"
			}
			b.SetBytes(g.len())
			for b.Loop() {
				if _, err := View(context.Background(), io.Discard, g, g.len(), part); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestLargeResultIsReadBack(t *testing.T) {
	size := int64(256 << 20)
	if testing.Short() {
		size = 16 << 20
	}
	g := generate("lines", size)
	unit := strings.ReplaceAll(g.unit, `\n`, "\n")
	ctx := context.Background()
	p, err := Read(ctx, g, g.len(), testKey, Query{Max: 1000})
	if err != nil || !strings.HasPrefix(unit, p.Text) || p.TotalBytes != -1 {
		t.Fatalf("%d bytes, total %d, %v", len(p.Text), p.TotalBytes, err)
	}
	// Far inside, and the page after it.
	from := size / 2 / int64(len(g.unit)) * int64(len(unit))
	p, err = Read(ctx, g, g.len(), testKey, Query{Max: 1000, Bytes: &[2]int64{from, from + 5000}})
	if err != nil || p.Bytes[0] != from || !strings.HasPrefix(unit, p.Text) {
		t.Fatalf("bytes %v, %v", p.Bytes, err)
	}
	counted := &countingReader{g: g}
	next, err := Read(ctx, counted, g.len(), testKey, Query{Max: 1000, Cursor: p.Next})
	if err != nil || next.Bytes[0] != p.Bytes[1] || !strings.HasPrefix(unit, p.Text+next.Text) {
		t.Fatalf("bytes %v, %v", next.Bytes, err)
	}
	if counted.n > 4*chunkSize {
		t.Errorf("a page by cursor read %d bytes", counted.n)
	}
	// Past the end.
	p, err = Read(ctx, g, g.len(), testKey, Query{Bytes: &[2]int64{g.len() * 2, g.len() * 3}})
	total := g.size / int64(len(g.unit)) * int64(len(unit))
	if err != nil || p.Text != "" || !p.End || p.TotalBytes != total || p.Bytes != [2]int64{total, total} {
		t.Fatalf("past the end: %+v, %v", p, err)
	}
}

type countingReader struct {
	g *generated
	n int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.g.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}
