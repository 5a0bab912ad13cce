package child

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func patternBytes(n int) []byte {
	b, _ := io.ReadAll(&pattern{left: int64(n)})
	return b
}

// checkCapture compares c with all that was written to it.
func checkCapture(t interface {
	Helper()
	Errorf(string, ...any)
}, c *Capture, all []byte) {
	t.Helper()
	s, e := c.Snapshot(), c.Since(0)
	if s.Seen != int64(len(all)) || c.Seen() != s.Seen || e.Seen != s.Seen {
		t.Errorf("seen %d, %d and %d of %d", s.Seen, c.Seen(), e.Seen, len(all))
	}
	if s.HeadKept > int64(c.headMax) || s.TailKept > int64(c.tailMax) {
		t.Errorf("kept %d and %d, more than %d and %d", s.HeadKept, s.TailKept, c.headMax, c.tailMax)
	}
	if s.Truncated != (s.Kept() < s.Seen) || e.Truncated != s.Truncated || e.Kept != s.Kept() {
		t.Errorf("truncated %v and %v; kept %d and %d of %d", s.Truncated, e.Truncated, s.Kept(), e.Kept, s.Seen)
	}
	if !s.Truncated {
		if s.LetGo != "" || e.Head != nil || !bytes.Equal(e.Tail, all) {
			t.Errorf("whole stream: digest %q, head %q, tail %q, want %q", s.LetGo, e.Head, e.Tail, all)
		}
		return
	}
	from, to := int(s.HeadKept), len(all)-int(s.TailKept)
	if !bytes.Equal(e.Head, all[:from]) || !bytes.Equal(e.Tail, all[to:]) {
		t.Errorf("head %q and tail %q of %q", e.Head, e.Tail, all)
	}
	if sum := sha256.Sum256(all[from:to]); s.LetGo != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s of bytes %d to %d, want %x", s.LetGo, from, to, sum)
	}
}

func TestCaptureBoundaries(t *testing.T) {
	const size = 100
	for _, head := range []int{0, 1, 30, size} {
		tail := size - head
		for _, n := range []int{0, 1, head, head + 1, size - 1, size, size + 1, 2 * size, 10*size + 1} {
			for _, step := range []int{1, 3, 7, 64, size - 1, size, size + 1, 1 << 20} {
				all := patternBytes(n)
				c := NewCapture(CaptureConfig{Head: head, Tail: tail})
				for rest := all; len(rest) > 0; {
					k := min(step, len(rest))
					if got, err := c.Write(rest[:k]); got != k || err != nil {
						t.Fatalf("Write: %d, %v", got, err)
					}
					rest = rest[k:]
				}
				checkCapture(t, c, all)
				if s := c.Snapshot(); s.Kept() != int64(min(n, size)) || s.Shrunk || (s.Retain == RetainTail) != (head == 0) {
					t.Errorf("head %d, tail %d, %d bytes in steps of %d: %+v", head, tail, n, step, s)
				}
			}
		}
	}
}

func TestCaptureOddReaders(t *testing.T) {
	all := patternBytes(5000)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "data and error": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCapture(CaptureConfig{Head: 10, Tail: 100})
			if _, err := io.CopyBuffer(c, wrap(bytes.NewReader(all)), make([]byte, 777)); err != nil {
				t.Fatal(err)
			}
			checkCapture(t, c, all)
		})
	}
}

// However captures share a budget, its sum holds and each tells the truth.
func TestBudgetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3000).Draw(t, "limit")
		b := NewBudget(int64(limit))
		var cs []*Capture
		var all [][]byte
		for range rapid.IntRange(1, 6).Draw(t, "captures") {
			cs = append(cs, NewCapture(CaptureConfig{
				Head: rapid.SampledFrom([]int{0, 0, 1, 50, 400}).Draw(t, "head"),
				Tail: rapid.SampledFrom([]int{0, 1, 64, 1000, 4000}).Draw(t, "tail"), Budget: b,
			}))
			all = append(all, nil)
		}
		at := int64(0)
		for range rapid.IntRange(0, 60).Draw(t, "writes") {
			i := rapid.IntRange(0, len(cs)-1).Draw(t, "which")
			if cs[i] == nil {
				continue
			}
			if rapid.IntRange(0, 19).Draw(t, "close") == 0 {
				cs[i].Close()
				cs[i] = nil
				continue
			}
			n := int64(rapid.SampledFrom([]int{0, 1, 2, 7, 63, 64, 65, 500, 2000}).Draw(t, "bytes"))
			p, _ := io.ReadAll(&pattern{at: at, left: n})
			at += n
			cs[i].Write(p)
			all[i] = append(all[i], p...)

			var used, kept int64
			for j, c := range cs {
				if c == nil {
					continue
				}
				checkCapture(t, c, all[j])
				used += int64(c.retained())
				s := c.Snapshot()
				kept += s.Kept()
				if s.Kept() < min(s.Seen, int64(c.headMax+c.tailMax)) && !s.Shrunk {
					t.Errorf("capture %d keeps less than it may and does not say so: %+v", j, s)
				}
			}
			if used != b.Retained() || used > int64(limit) || kept > used {
				t.Fatalf("retained %d, counted %d, kept %d; limit %d", used, b.Retained(), kept, limit)
			}
		}
		for _, c := range cs {
			if c != nil {
				c.Close()
			}
		}
		if n := b.Retained(); n != 0 || len(b.captures) != 0 {
			t.Errorf("%d bytes and %d captures after all were closed", n, len(b.captures))
		}
	})
}

// A flood that fills the budget leaves a quiet stream room for its last words.
func TestBudgetIsFair(t *testing.T) {
	const limit = 100_000
	b := NewBudget(limit)
	flood := NewCapture(CaptureConfig{Tail: limit, Budget: b})
	flood.Write(patternBytes(3 * limit))
	if n := flood.Snapshot().Kept(); n != limit {
		t.Fatalf("alone it keeps %d of %d", n, limit)
	}
	quiet := NewCapture(CaptureConfig{Tail: 16384, Budget: b})
	words := patternBytes(10_000)
	quiet.Write(words)
	flood.Write(patternBytes(3 * limit))
	checkCapture(t, quiet, words)
	if s := quiet.Snapshot(); s.Truncated || s.Shrunk {
		t.Errorf("the quiet stream keeps %+v", s)
	}
	if s := flood.Snapshot(); !s.Shrunk || s.Kept() < limit/3 {
		t.Errorf("the flood keeps %+v", s)
	}

	// Many floods come out about equal.
	var many []*Capture
	for range 9 {
		c := NewCapture(CaptureConfig{Tail: limit, Budget: b})
		many = append(many, c)
		for range 50 {
			c.Write(patternBytes(2000))
		}
	}
	for i, c := range many {
		if n := c.Snapshot().Kept(); n < limit/10/4 || n > limit/10*4 {
			t.Errorf("flood %d of 9 keeps %d of %d", i, n, limit)
		}
	}
}

func TestCaptureClosed(t *testing.T) {
	c := NewCapture(CaptureConfig{Head: 2, Tail: 4})
	c.Write([]byte("0123456789"))
	before := c.Snapshot()
	c.Close()
	c.Close()
	c.Write([]byte("more"))
	s := c.Snapshot()
	if s.Seen != 14 || s.Kept() != 0 || !s.Truncated || s.LetGo != before.LetGo {
		t.Errorf("before %+v, after %+v", before, s)
	}
	if got := c.Since(0).Text(-1); got != "[stderr truncated: kept last 0 of 14 bytes]\n" {
		t.Errorf("text %q", got)
	}
}

func TestCaptureConcurrent(t *testing.T) {
	const writers, each = 8, 20_000
	b := NewBudget(1000)
	c := NewCapture(CaptureConfig{Head: 10, Tail: 2000, Budget: b})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			own := NewCapture(CaptureConfig{Tail: 500, Budget: b})
			defer own.Close()
			for range each / 100 {
				c.Write(patternBytes(100))
				own.Write(patternBytes(100))
				if e := c.Since(c.Seen() - 50); e.Kept > e.Seen {
					t.Errorf("excerpt %+v", e)
				}
				c.Snapshot()
			}
		})
	}
	wg.Wait()
	if c.Seen() != writers*each {
		t.Errorf("seen %d of %d", c.Seen(), writers*each)
	}
}

func TestSince(t *testing.T) {
	c := NewCapture(CaptureConfig{Head: 4, Tail: 4})
	c.Write([]byte("0123456789abcdef")) // keeps 0123 and cdef
	for _, tt := range []struct {
		from       int64
		head, tail string
		seen       int64
		truncated  bool
	}{
		{-1, "0123", "cdef", 16, true},
		{0, "0123", "cdef", 16, true},
		{3, "3", "cdef", 13, true},
		{4, "", "cdef", 12, true},
		{11, "", "cdef", 5, true},
		{12, "", "cdef", 4, false},
		{14, "", "ef", 2, false},
		{16, "", "", 0, false},
		{17, "", "", 0, false},
	} {
		e := c.Since(tt.from)
		if string(e.Head) != tt.head || string(e.Tail) != tt.tail || e.Seen != tt.seen || e.Truncated != tt.truncated ||
			e.Kept != int64(len(tt.head)+len(tt.tail)) || e.Name != "stderr" {
			t.Errorf("Since(%d) = %+v", tt.from, e)
		}
	}
	// Excerpts belong to the caller.
	e := c.Since(12)
	c.Write([]byte("XXXX"))
	if string(e.Tail) != "cdef" {
		t.Errorf("an excerpt changed to %q", e.Tail)
	}
}

func TestText(t *testing.T) {
	cut := func(seen int64, head, tail string) Excerpt {
		return Excerpt{Name: "stderr", Seen: seen, Kept: int64(len(head) + len(tail)), Truncated: true, Head: []byte(head), Tail: []byte(tail)}
	}
	whole := func(s string) Excerpt {
		return Excerpt{Name: "stderr", Seen: int64(len(s)), Kept: int64(len(s)), Tail: []byte(s)}
	}
	for _, tt := range []struct {
		name string
		e    Excerpt
		max  int
		want string
	}{
		{"whole", whole("all of it\n"), -1, "all of it\n"},
		{"whole, exactly max", whole("12345"), 5, "12345"},
		{"whole, one over max", whole("12345"), 4, "[stderr truncated: kept last 4 of 5 bytes]\n2345"},
		{"whole, max 0", whole("12345"), 0, "[stderr truncated: kept last 0 of 5 bytes]\n"},
		{"empty", whole(""), 0, ""},
		{"tail", cut(184320, "", strings.Repeat("x", 16384)), -1,
			"[stderr truncated: kept last 16384 of 184320 bytes]\n" + strings.Repeat("x", 16384)},
		{"head and tail", cut(184320, strings.Repeat("h", 2048), strings.Repeat("t", 14336)), -1,
			"[stderr truncated: kept first 2048 and last 14336 of 184320 bytes]\n" + strings.Repeat("h", 2048) +
				"\n[stderr: 167936 bytes not shown]\n" + strings.Repeat("t", 14336)},
		{"head that ends a line", cut(100, "head\n", "tail"), -1,
			"[stderr truncated: kept first 5 and last 4 of 100 bytes]\nhead\n[stderr: 91 bytes not shown]\ntail"},
		{"head and tail, max", cut(100, "hhhh", "tttttttttttt"), 8,
			"[stderr truncated: kept first 2 and last 6 of 100 bytes]\nhh\n[stderr: 92 bytes not shown]\ntttttt"},
		{"invalid", whole("a\xffb\xc3"), -1, "a\uFFFDb\uFFFD"},
		{"invalid costs what it shows", whole("\xff\xff\xff"), 6, "[stderr truncated: kept last 2 of 3 bytes]\n\uFFFD\uFFFD"},
		{"invalid in a head", cut(100, strings.Repeat("\xff", 10), strings.Repeat("t", 30)), 24,
			"[stderr truncated: kept first 2 and last 18 of 100 bytes]\n\uFFFD\uFFFD\n[stderr: 80 bytes not shown]\n" + strings.Repeat("t", 18)},
		{"max inside a character", whole("a\u20ac\u20ac"), 5, "[stderr truncated: kept last 3 of 7 bytes]\n\u20ac"},
		{"cut inside a character", cut(100, "", "\x82\xacabc"), -1, "[stderr truncated: kept last 3 of 100 bytes]\nabc"},
		{"cut inside a head", cut(100, "abc\xe2\x82", "\xacxyz"), -1,
			"[stderr truncated: kept first 3 and last 3 of 100 bytes]\nabc\n[stderr: 94 bytes not shown]\nxyz"},
		{"garbage after the cut", cut(100, "", "\x80\x80\x80\x80z"), -1, "[stderr truncated: kept last 2 of 100 bytes]\n\uFFFDz"},
		{"replacement character itself", whole("\uFFFD"), 3, "\uFFFD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.e.Text(tt.max); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// A multibyte character at every place across the cut, by way of a Capture.
func TestTextAcrossTheCut(t *testing.T) {
	const text = "\u00e9\u20ac\U0001F600z"
	all := strings.Repeat(text, 20)
	for tail := range 25 {
		for head := range 12 {
			c := NewCapture(CaptureConfig{Head: head, Tail: tail})
			for i := range len(all) {
				c.Write([]byte{all[i]})
			}
			if got := c.Since(0).Text(-1); strings.ContainsRune(got, '\uFFFD') {
				t.Errorf("head %d, tail %d: %q", head, tail, got)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("caf\u00e9\n\xff\xe2\x82"), uint8(2), uint8(4), int16(5))
	f.Fuzz(func(t *testing.T, data []byte, head, tail uint8, max int16) {
		c := NewCapture(CaptureConfig{Head: int(head), Tail: int(tail)})
		c.Write(data)
		e := c.Since(0)
		got := e.Text(int(max))
		if strings.ToValidUTF8(got, "?") != got {
			t.Fatalf("not UTF-8: %q", got)
		}
		if max < 0 {
			return
		}
		first, rest, _ := strings.Cut(got, "\n")
		var h, l, of int
		if n, _ := fmt.Sscanf(first, "[stderr truncated: kept first %d and last %d of %d bytes]", &h, &l, &of); n == 3 {
			rest = strings.Replace(rest, fmt.Sprintf("[stderr: %d bytes not shown]\n", of-h-l), "", 1)
			if len(rest) > int(max)+1 { // and the line feed before the second marker
				t.Errorf("%d bytes shown of at most %d: %q", len(rest), max, got)
			}
			return
		}
		if n, _ := fmt.Sscanf(first, "[stderr truncated: kept last %d of %d bytes]", &l, &of); n != 2 {
			rest = got
		}
		if len(rest) > int(max) {
			t.Errorf("%d bytes shown of at most %d: %q", len(rest), max, got)
		}
	})
}
