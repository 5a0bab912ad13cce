package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The gates, on a disk that keeps nothing: 25,000 single commits/s, 150,000
// batched records/s, 300 MB/s verified without a key, 100,000 records/s with it
// at 16 records a commit. Bodies are 1,000 bytes unless the name says otherwise.

func benchBody(n int) []byte {
	return fmt.Appendf(nil, `{"v":1,"k":"note","call":"","x":"%0*d"}`, n-39, 0)
}

func benchWriter(b *testing.B, disk Disk) *Writer {
	l := newTestLog(b)
	w := l.open(func(c *Config) {
		c.Disk, c.HeadEvery = disk, time.Hour
		c.MaxRecords, c.MaxBytes = 8192, 64<<20
	})
	b.Cleanup(func() { l.close(w) })
	return w
}

func BenchmarkSingleCommits(b *testing.B) {
	w := benchWriter(b, nullDisk{})
	body := benchBody(1000)
	for b.Loop() {
		r, err := w.Append(body, Written)
		must(b, err)
		_, err = r.Wait(context.Background())
		must(b, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

func BenchmarkBatchedRecords(b *testing.B) {
	for _, size := range []int{200, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w := benchWriter(b, nullDisk{})
			body := benchBody(size)
			var last *Receipt
			wait := func() {
				_, err := last.Wait(context.Background())
				must(b, err)
			}
			n := 0
			for b.Loop() {
				r, err := w.Append(body, Durable)
				must(b, err)
				if n++; n%1024 == 0 {
					if last != nil {
						wait() // at most 2,048 are on their way
					}
					last = r
				}
			}
			if last != nil {
				wait()
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkDurableCallers(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			w := benchWriter(b, nil)
			body := benchBody(1000)
			var wg sync.WaitGroup
			began := time.Now()
			for range callers {
				wg.Go(func() {
					for range b.N {
						r, err := w.Append(body, Durable)
						if err == nil {
							_, err = r.Wait(context.Background())
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*callers)/time.Since(began).Seconds(), "records/s")
		})
	}
}

// BenchmarkRawSync is what the callers above are measured against.
func BenchmarkRawSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	must(b, err)
	defer f.Close()
	must(b, ignoreUnsupported(reserve(f, 0, 64<<20)))
	buf := make([]byte, 1160)
	for b.Loop() {
		_, err := f.Write(buf)
		must(b, err)
		must(b, syncData(f))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
}

func benchLog(b *testing.B, batch int) *testLog {
	l := newTestLog(b)
	w := l.open(func(c *Config) { c.MaxRecords, c.MaxBytes = 8192, 64<<20 })
	body := benchBody(1000)
	for range 40000 / batch {
		// One commit for each batch.
		w.mu.Lock()
		for range batch {
			w.enqueue(&item{class: ClassTerminal, body: body, cost: recordCost(len(body)), at: time.Now()})
		}
		w.mu.Unlock()
		r, err := w.Append(intentBody("x"), Written)
		must(b, err)
		_, err = r.Wait(context.Background())
		must(b, err)
	}
	l.close(w)
	return l
}

func BenchmarkVerify(b *testing.B) {
	for _, batch := range []int{1, 16, 256} {
		l := benchLog(b, batch)
		for _, kind := range []string{"keyless", "keyed", "all-signatures"} {
			b.Run(fmt.Sprintf("%s/%d", kind, batch), func(b *testing.B) {
				var r *Report
				for b.Loop() {
					r = l.verify(func(o *VerifyOptions) {
						o.Classify, o.AllSignatures = nil, kind == "all-signatures"
						if kind != "keyed" {
							o.Identities = nil
						}
					})
				}
				if r.Verdict != Unanchored {
					b.Fatal(r)
				}
				b.SetBytes(r.Bytes)
				b.ReportMetric(float64(r.Records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}
