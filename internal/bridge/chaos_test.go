package bridge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a random mix of everything must not break: every request gets exactly
// one answer unless it was cancelled, nothing else is answered, every line is
// a JSON-RPC message within the limit, queues stay within their bounds, and the
// session ends.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			chaos(t, seed, 150)
		})
	}
}

// chaos plays steps of a host that the seed chooses.
func chaos(t *testing.T, seed uint64, steps int) {
	const limit, queues = 64 << 10, 512 << 10
	r := rand.New(rand.NewPCG(seed, 1))
	h := start(t, func(c *Config) {
		c.WireLimit, c.Queues, c.Calls = limit, queues, 64
		c.Idle, c.Total, c.WedgeAfter, c.CancelGrace = 10*time.Second, 20*time.Second, time.Second, 10*time.Millisecond
		c.RestartWedged = true
	}, "restarts", "starts="+filepath.Join(t.TempDir(), "starts"))
	h.hello()

	// The host reads in bursts, when it is let.
	type line struct {
		raw string
		err error
	}
	lines, let := make(chan line, 4096), make(chan int, steps+1)
	go func() {
		defer close(lines)
		for n := range let {
			for ; n != 0; n-- { // -1: to the end
				l, err := h.lines.ReadString('\n')
				lines <- line{l, err}
				if err != nil {
					return
				}
			}
		}
	}()

	asked, cancelled := map[string]bool{}, map[string]bool{}
	id := 0
	next := func() string {
		id++
		s := fmt.Sprint(id)
		if r.IntN(4) == 0 {
			s = fmt.Sprintf("%q", "s"+s)
		}
		asked[s] = true
		return s
	}
	pick := func() string { // a request of before
		n := 0
		at := r.IntN(len(asked) + 1)
		for s := range asked {
			if n++; n > at {
				return s
			}
		}
		return `"none"`
	}
	for range steps {
		switch k := r.IntN(100); {
		case k < 35:
			h.send(toolCall(next(), "echo", `{"text":"`+strings.Repeat("x", r.IntN(3000))+`"}`))
		case k < 50:
			h.send(toolCall(next(), "big", fmt.Sprintf(`{"bytes":%d}`, r.IntN(2*limit))))
		case k < 60:
			h.send(toolCall(next(), "sleep", fmt.Sprintf(`{"ms":%d}`, r.IntN(200))))
		case k < 66:
			h.send(toolCall(next(), "error", `{}`), toolCall(next(), "generation", `{}`))
		case k < 78:
			c := pick()
			cancelled[c] = true
			h.send(cancel(c))
		case k < 80:
			h.send(toolCall(next(), "crash", `{}`))
		case k < 82:
			h.send(strings.Replace(toolCall(next(), "echo", `{"text":"a"}`), `"name"`, `"name":"x","name"`, 1))
		case k < 84:
			h.send(toolCall(next(), "echo", `{"text":"`+strings.Repeat("y", limit)+`"}`))
		case k < 87:
			h.send([]string{"{bad", "null", "[]", `{"jsonrpc":"2.0","result":{}}`, "\x00\xff", strings.Repeat("[", 2000), `{"jsonrpc":"2.0","id":null,"method":"ping"}`}[r.IntN(7)])
		case k < 90:
			h.send(`{"jsonrpc":"2.0","id":"nobody","result":{}}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		case k < 92:
			h.kill()
		default:
			let <- r.IntN(40)
		}
	}
	h.send(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	asked[`"last"`] = true
	let <- -1
	close(let)
	answers := map[string]int{}
	missing := func() (n int) {
		for s := range asked {
			if answers[s] == 0 && !cancelled[s] {
				n++
			}
		}
		return n
	}
	take := func(l line) {
		var m struct {
			Version string `json:"jsonrpc"`
			ID      json.RawMessage
			Method  *string
		}
		if err := json.Unmarshal([]byte(l.raw), &m); err != nil || m.Version != "2.0" || len(l.raw) > limit+1 {
			t.Fatalf("the host read %.200q (%d bytes)", l.raw, len(l.raw))
		}
		if m.Method == nil {
			answers[string(m.ID)]++
		}
	}
	for deadline := time.After(patience); missing() > 0; {
		select {
		case l := <-lines:
			if l.err != nil {
				t.Fatalf("reading: %v, %d answers missing", l.err, missing())
			}
			take(l)
		case <-deadline:
			t.Fatalf("%d answers never came", missing())
		}
	}
	h.in.Close()
	h.end()
	for l := range lines {
		if l.err == nil {
			take(l)
		}
	}
	for s, n := range answers {
		if !asked[s] || n != 1 {
			t.Errorf("%d answers to %s, asked: %v", n, s, asked[s])
		}
	}
	st := h.s.Stats()
	if st.Impossible != 0 || st.OpenCalls != 0 {
		t.Errorf("impossible %d, open %d", st.Impossible, st.OpenCalls)
	}
	if most := queues + 1<<20 + slack; st.QueueToHost.Most > most || st.QueueToServer.Most > most {
		t.Errorf("queues held %d and %d bytes", st.QueueToHost.Most, st.QueueToServer.Most)
	}
}
