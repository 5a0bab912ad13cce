package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// peer is a started chain of processes that answers calls.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func begin(w way, self string, role ...string) (*peer, error) {
	args := append(append(slices.Clone(w.prefix), self), role...)
	cmd := exec.Command(args[0], args[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &peer{cmd, in, bufio.NewReaderSize(out, 1<<20)}, nil
}

func (p *peer) end() error {
	p.in.Close()
	return p.cmd.Wait()
}

func request(id int, args string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":%s}}`+"\n", id, args)
}

// answer reads one line and returns its size.
func (p *peer) answer() (n int, err error) {
	for {
		part, err := p.out.ReadSlice('\n')
		n += len(part)
		if err == nil {
			return n, nil
		}
		if err != bufio.ErrBufferFull {
			return n, err
		}
	}
}

// rounds is how often each way is measured in turn, so that what else the
// machine does falls on all of them.
const rounds = 5

func calls(self string, ways []way, quick bool) error {
	n, m := 4000, 20000
	if quick {
		n, m = n/10, m/10
	}
	lat := map[string][]time.Duration{}
	rate, cpu := map[string][]float64{}, map[string][]float64{}
	for range rounds {
		for _, w := range ways {
			p, err := begin(w, self, "server")
			if err != nil {
				return err
			}
			for i := range n {
				req := request(i, `{"text":"hello"}`)
				t := time.Now()
				if _, err := p.in.Write(req); err != nil {
					return err
				}
				if _, err := p.answer(); err != nil {
					return err
				}
				if i > n/10 {
					lat[w.name] = append(lat[w.name], time.Since(t))
				}
			}
			r, err := p.inFlight(m, 32)
			if err != nil {
				return err
			}
			rate[w.name] = append(rate[w.name], r)
			if err := p.end(); err != nil {
				return err
			}
			used := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
			cpu[w.name] = append(cpu[w.name], us(used)/float64(n+m))
		}
	}
	fmt.Printf("\n## Small calls\n\n%d calls of 100 bytes one after the other, then %d with 32 in flight, %d rounds.\n\n| | p50 | p99 | calls/s, 32 in flight | processor time per call, server included |\n|---|---|---|---|---|\n", n*rounds, m*rounds, rounds)
	for _, w := range ways {
		fmt.Printf("| %s | %.1f µs | %.1f µs | %.0f | %.1f µs |\n", w.name, us(quantile(lat[w.name], 0.5)), us(quantile(lat[w.name], 0.99)), median(rate[w.name]), median(cpu[w.name]))
	}
	added := us(quantile(lat["penstock"], 0.5)) - us(quantile(lat["copier"], 0.5))
	ratio := median(rate["penstock"]) / median(rate["copier"])
	fmt.Printf("\nAgainst the copier: %+.1f µs at p50 (target: at most +30), %.0f %% of its calls/s (target: at least 85).\n", added, 100*ratio)
	return nil
}

// inFlight makes n calls with k open at a time and returns calls per second.
func (p *peer) inFlight(n, k int) (float64, error) {
	slots := make(chan struct{}, k)
	var werr error
	var wg sync.WaitGroup
	t := time.Now()
	wg.Go(func() {
		for i := range n {
			slots <- struct{}{}
			if _, werr = p.in.Write(request(1_000_000+i, `{"text":"hello"}`)); werr != nil {
				return
			}
		}
	})
	for range n {
		if _, err := p.answer(); err != nil {
			return 0, err
		}
		<-slots
	}
	d := time.Since(t)
	wg.Wait()
	return float64(n) / d.Seconds(), werr
}

func bulk(self string, ways []way, quick bool) error {
	const size = 4 << 20
	n := 60
	if quick {
		n = 6
	}
	serial, piped := map[string][]float64{}, map[string][]float64{}
	for range rounds {
		for _, w := range ways {
			p, err := begin(w, self, "server")
			if err != nil {
				return err
			}
			args := fmt.Sprintf(`{"bytes":%d}`, size)
			for _, k := range []int{1, 4} {
				t := time.Now()
				for i := range n + k {
					if i < n {
						if _, err := p.in.Write(request(i, args)); err != nil {
							return err
						}
					}
					if i >= k-1 && i-k+1 < n {
						if got, err := p.answer(); err != nil || got < size {
							return fmt.Errorf("%s: got %d bytes: %v", w.name, got, err)
						}
					}
				}
				mib := float64(n) * size / (1 << 20) / time.Since(t).Seconds()
				if k == 1 {
					serial[w.name] = append(serial[w.name], mib)
				} else {
					piped[w.name] = append(piped[w.name], mib)
				}
			}
			if err := p.end(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n## Results of 4 MiB\n\n%d results one after the other, and %d with 4 in flight.\n\n| | one after the other | 4 in flight |\n|---|---|---|\n", n*rounds, n*rounds)
	for _, w := range ways {
		fmt.Printf("| %s | %.0f MiB/s | %.0f MiB/s |\n", w.name, median(serial[w.name]), median(piped[w.name]))
	}
	fmt.Printf("\nAgainst the copier: %.0f %% and %.0f %% (target: at least 60).\n", 100*median(serial["penstock"])/median(serial["copier"]), 100*median(piped["penstock"])/median(piped["copier"]))
	return nil
}

func startup(self string, ways []way, quick bool) error {
	n := 40
	if quick {
		n = 5
	}
	took := map[string][]time.Duration{}
	for range n {
		for _, w := range ways {
			t := time.Now()
			p, err := begin(w, self, "stamp")
			if err != nil {
				return err
			}
			if _, err := p.in.Write(request(1, "{}")); err != nil {
				return err
			}
			line, err := p.out.ReadBytes('\n')
			if err != nil {
				return err
			}
			_, rest, _ := bytes.Cut(line, []byte(`"at":`))
			at, err := strconv.ParseInt(string(rest[:bytes.IndexByte(rest, '}')]), 10, 64)
			if err != nil {
				return err
			}
			took[w.name] = append(took[w.name], time.Unix(0, at).Sub(t))
			if err := p.end(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n## Start\n\nFrom the start of the command until the server has its first byte, %d starts.\n\n| | p50 | p99 |\n|---|---|---|\n", n)
	for _, w := range ways {
		fmt.Printf("| %s | %.1f ms | %.1f ms |\n", w.name, us(quantile(took[w.name], 0.5))/1000, us(quantile(took[w.name], 0.99))/1000)
	}
	fmt.Printf("\nPenstock adds %.1f ms at p50 (target: at most 15).\n", (us(quantile(took["penstock"], 0.5))-us(quantile(took["direct"], 0.5)))/1000)
	return nil
}

func memory(self string, ways []way, quick bool) error {
	mib, stall := 1024, time.Minute
	if quick {
		mib, stall = 64, 2*time.Second
	}
	w := ways[len(ways)-1]
	fmt.Printf("\n## Memory\n\nAnonymous memory (RssAnon) of the `penstock run` process, sampled every 2 ms.\n\n| | peak |\n|---|---|\n")
	for _, c := range []struct {
		name string
		role []string
		do   func(*peer) error
	}{
		{"idle", []string{"server"}, func(p *peer) error {
			p.in.Write(request(1, "{}"))
			_, err := p.answer()
			time.Sleep(2 * time.Second)
			return err
		}},
		{fmt.Sprintf("one frame of %d MiB", mib), []string{"giant", strconv.Itoa(mib)}, func(p *peer) error {
			p.in.Write(request(1, "{}"))
			p.in.Write(request(2, `{"text":"small"}`)) // answered after the whole frame
			if _, err := p.answer(); err != nil {
				return err
			}
			_, err := p.answer()
			return err
		}},
		{fmt.Sprintf("%d MiB of stderr", mib), []string{"flood", strconv.Itoa(mib)}, func(p *peer) error {
			p.in.Write(request(1, "{}"))
			_, err := p.answer()
			return err
		}},
		{fmt.Sprintf("a host that reads nothing for %v, 100 results of 4 MiB", stall), []string{"server"}, func(p *peer) error {
			for i := range 100 {
				p.in.Write(request(i, fmt.Sprintf(`{"bytes":%d}`, 4<<20)))
			}
			time.Sleep(stall)
			for range 100 {
				if _, err := p.answer(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"100 frames of 7 MiB each way", []string{"server"}, func(p *peer) error {
			pad := strings.Repeat("x", 7<<20)
			for i := range 100 {
				p.in.Write(request(i, fmt.Sprintf(`{"pad":"%s","bytes":%d}`, pad, 7<<20)))
				if _, err := p.answer(); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		p, err := begin(w, self, c.role...)
		if err != nil {
			return err
		}
		peak := watch(p.cmd.Process.Pid)
		if err := c.do(p); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("| %s | %.1f MiB |\n", c.name, float64(peak())/(1<<20))
		if err := p.end(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	fmt.Printf("\nTargets: at most 48 MiB, idle at most 10 MiB.\n")
	return nil
}

// watch samples the anonymous memory of a process until the returned function
// is called, which returns the peak in bytes.
func watch(pid int) (peak func() int64) {
	quit, result := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, rssAnon(pid))
			select {
			case <-tick.C:
			case <-quit:
				result <- most
				return
			}
		}
	}()
	return func() int64 { close(quit); return <-result }
}

func rssAnon(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, ok := strings.Cut(string(b), "RssAnon:")
	if !ok {
		return 0
	}
	kb, _ := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]), 10, 64)
	return kb << 10
}

func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[int(float64(len(d)-1)*q)]
}

func median(f []float64) float64 {
	slices.Sort(f)
	return f[len(f)/2]
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
