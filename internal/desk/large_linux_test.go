package desk

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

func init() {
	roles["produce"] = produce
}

// produce is a server that writes one message with a long text, as fast as it
// can.
func produce(args []string) {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(messageHead)
	const unit = `0123456789abcdefghijklmnopqrstuvwxyz line of a text\n`
	line := bytes.Repeat([]byte(unit), 64<<10/len(unit))
	n -= n % int64(len(unit)) // no half of an escape
	for n > 0 {
		m := min(n, int64(len(line)))
		if _, err := os.Stdout.Write(line[:m]); err != nil {
			panic(err)
		}
		n -= m
	}
	os.Stdout.WriteString(messageTail)
}

const (
	messageHead = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`
	messageTail = `"}]}}`
)

// pass reads what produce writes, hands it to w and returns its digest, if one
// is asked for, and how long it took.
func pass(tb testing.TB, n int64, w io.Writer, h hash.Hash) time.Duration {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "produce", strconv.FormatInt(n, 10))
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	start := time.Now()
	buf := make([]byte, 64<<10)
	for {
		m, err := out.Read(buf)
		w.Write(buf[:m])
		if h != nil {
			h.Write(buf[:m])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	took := time.Since(start)
	if err := cmd.Wait(); err != nil {
		tb.Fatal(err)
	}
	return took
}

// rssAnon returns the anonymous memory of a process in bytes.
func rssAnon(tb testing.TB, pid int) int64 {
	tb.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	m := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(b)
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n << 10
}

// mostRSS watches a process until the returned function is called.
func mostRSS(t *testing.T, pid int) func() int64 {
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		var m int64
		for {
			select {
			case <-stop:
				most <- m
				return
			case <-time.After(10 * time.Millisecond):
				m = max(m, rssAnon(t, pid))
			}
		}
	}()
	return func() int64 { close(stop); return <-most }
}

// TestLarge keeps, reads and exports a result of 1 GiB while the desk's memory
// is watched.
func TestLarge(t *testing.T) {
	n := int64(1 << 30)
	if raceEnabled {
		n /= 16 // its memory is not the desk's anyway
	}
	home := newHome(t, knobs{})
	c := bridge(t, home, "s1")
	s, err := c.Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	rss := mostRSS(t, s.PID)
	h := sha256.New()
	p := c.NewPut()
	took := pass(t, n, paced{p}, h)
	p.Commit(link.Info{Tool: "read_file", Call: "c1", Part: "0"})
	if err := p.Wait(deadline(t)); err != nil {
		t.Fatalf("put: %v", err)
	}
	t.Logf("kept at %d MB/s", n/1_000_000*int64(time.Second)/int64(took))
	start := time.Now()
	if _, err := c.Read(deadline(t), p.Handle(), []byte(`{"handle":"`+p.Handle()+`"}`)); err != nil {
		t.Errorf("first page: %v", err)
	}
	t.Logf("first page after %v", time.Since(start))
	start = time.Now()
	if _, err := c.Read(deadline(t), p.Handle(), []byte(`{"handle":"`+p.Handle()+`","grep":"no such line"}`)); err != nil {
		t.Errorf("grep: %v", err)
	}
	t.Logf("grep of all in %v", time.Since(start))
	got := sha256.New()
	start = time.Now()
	if _, err := person(t, home).Export(deadline(t), p.Handle(), "raw", got); err != nil {
		t.Errorf("export: %v", err)
	}
	t.Logf("exported in %v", time.Since(start))
	if !bytes.Equal(got.Sum(nil), h.Sum(nil)) {
		t.Error("other bytes came back")
	}
	most := rss()
	t.Logf("RssAnon of the desk at most %.1f MiB", float64(most)/(1<<20))
	if most > 48<<20 && !raceEnabled {
		t.Errorf("RssAnon of the desk reached %d bytes", most)
	}
}

// paced holds the source back, so that the test does not depend on the speed of
// the machine.
type paced struct{ p *link.Put }

func (p paced) Write(b []byte) (int, error) {
	p.p.Pace(patience)
	return p.p.Write(b)
}

// BenchmarkSpill compares handing a result over with reading and dropping it,
// at the speed of the source and at that of the desk. Lost counts the results
// that the desk did not keep up with.
func BenchmarkSpill(b *testing.B) {
	const n = 1 << 30
	b.Run("drop", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			pass(b, n, io.Discard, nil)
		}
	})
	spill := func(b *testing.B, sink func(*link.Put) io.Writer) {
		home := b.TempDir()
		os.WriteFile(home+"/"+knobsName, []byte("{}"), 0o600)
		c := link.Dial(link.Options{Home: home, Session: "s1", Start: starter(b, home)})
		defer stopDesk(b, home)
		defer c.Close(b.Context())
		if _, err := c.Status(b.Context()); err != nil {
			b.Fatal(err)
		}
		lost := 0
		b.SetBytes(n)
		for b.Loop() {
			p := c.NewPut()
			pass(b, n, sink(p), nil)
			p.Commit(link.Info{})
			if err := p.Wait(b.Context()); err != nil {
				lost++
			}
		}
		b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
	}
	b.Run("spill", func(b *testing.B) { spill(b, func(p *link.Put) io.Writer { return p }) })
	b.Run("paced", func(b *testing.B) { spill(b, func(p *link.Put) io.Writer { return paced{p} }) })
}
