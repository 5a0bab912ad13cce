package bridge

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// R03: an answer without an end fails its call where it crosses the limit, not
// at a deadline, and costs no memory; the next call works.
func TestR03_AnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.WireLimit, c.Queues = 1<<20, 2<<20 }, "oversized", "endless=true", "reader=own")
	h.hello()
	h.send(toolCall("1", "large", `{}`))
	m := h.answer("1")
	if f := m.facts(t); !f.Dispatched || !strings.Contains(m.text(), "wire limit") {
		t.Errorf("got %s", m.raw)
	}
	// The server, told to stop by a cancellation, ends its line.
	if st := h.s.Stats(); st.ServerOversize != 1 {
		t.Errorf("oversize %d", st.ServerOversize)
	}
}

// The id may stand anywhere, and may be hidden among look-alikes.
func TestOversizeIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"first", "last", "escaped"} {
		for _, shape := range []string{"unbroken", "quotes", "multibyte", "blocks", "deep", "nested"} {
			if shape == "deep" && id != "first" {
				continue // nobody can tell whose it is: nested deeper than what is read
			}
			t.Run(id+"/"+shape, func(t *testing.T) {
				t.Parallel()
				h := start(t, func(c *Config) { c.WireLimit, c.Queues = 256<<10, 1<<20 }, "oversized", "bytes=2MiB", "id="+id, "shape="+shape)
				h.hello()
				h.send(toolCall("1", "large", `{}`))
				want := "finished"
				if shape == "deep" {
					want = "failed_after_dispatch" // nested too deep is no message, and so no answer
				}
				if m := h.answer("1"); m.Result == nil || !m.Result.IsError || m.facts(t).State != want {
					t.Errorf("got %.300s", m.raw)
				}
				h.echo("2")
			})
		}
	}
}

// R05, R07: every kind of noise is counted and kept from the host; a broken
// answer fails its own call, and a good one after it is delivered.
func TestR07_BrokenAnswers(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"half": "failed", "glued": "failed", "bad-value": "failed", "nan": "failed", "raw-newline": "failed",
		"result-and-error": "failed", "wrong-version": "failed", "no-version": "failed",
		"two": "failed", "pretty": "timeout", "in-array": "failed",
		"text": "good", "brace-text": "good", "scalars": "good", "ansi": "good", "nul": "good", "crlf": "good", "bom": "good",
		"padded": "good", "blank": "good", "spaces": "good", "idless-error": "good", "null-id": "good", "quoted": "good", "tail": "failed",
		"twice-id": "timeout", "invalid-utf8": "good", "banner": "good",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := start(t, func(c *Config) { c.Total = 5 * time.Second }, "noise", "kind=blank", "on=")
			h.hello()
			h.send(toolCall("1", "noisy", `{"kind":"`+kind+`"}`))
			m := h.answer("1")
			got := "good"
			if m.Result == nil || m.Result.IsError {
				got = "failed"
				if m.facts(t).State == "cancelled_after_dispatch" {
					got = "timeout"
				}
			}
			if got != want {
				t.Errorf("%s: %.300s", got, m.raw)
			}
			h.echo("2")
			if st := h.s.Stats(); want != "good" && st.ServerViolations+st.Stdout.Violations == 0 {
				t.Error("no violation was counted")
			}
		})
	}
}

// R09, R11: text arrives as it was, cut anywhere by writes; broken UTF-8 is
// replaced and counted, lone surrogates below the limit are left alone.
func TestR09_TextInPieces(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "trickle")
	h.hello()
	const text = "— 读取 🎉 \u2028 e\u0301"
	h.send(toolCall("1", "echo", `{"text":"`+text+`"}`))
	if m := h.answer("1"); m.text() != text {
		t.Errorf("got %q", m.text())
	}
}

func TestR11_DirtyText(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "dirty-text")
	h.hello()
	const fffd = "\uFFFD"
	for kind, want := range map[string]string{
		"lone-high": `a \ud83d b`, "lone-low": `a \ude00 b`, "reversed": `\ude00\ud83d`, "pair": `\ud83d\ude00`,
		"bytes": "caf" + fffd + " " + fffd + fffd, "overlong": fffd + fffd, "surrogate-bytes": fffd + fffd + fffd, "cut": fffd,
		"separators": `a\u2028b\u2029c`, "nul": `a\u0000b`, "bom": "\ufeffa\ufeff", "bidi": "a\u202eb", "escapes": `\"\\\/\b\f\n\r\t`,
	} {
		id := `"` + kind + `"`
		h.send(toolCall(id, "dirty", `{"kind":"`+kind+`"}`))
		if m := h.answer(id); !strings.Contains(m.raw, `"text":"`+want+`"`) {
			t.Errorf("%s: got %s, want %s", kind, m.raw, want)
		}
	}
	h.send(toolCall("1", "dirty", `{"kind":"straddle"}`))
	if m := h.answer("1"); !strings.HasSuffix(m.text(), "🎉") {
		t.Errorf("a character over byte 65,536: %.100s", m.raw)
	}
	for i, kind := range []string{"raw-control", "bad-escape"} {
		id := fmt.Sprint(10 + i)
		h.send(toolCall(id, "dirty", `{"kind":"`+kind+`"}`))
		if m := h.answer(id); m.facts(t).State != "failed_after_dispatch" {
			t.Errorf("%s: %s", kind, m.raw)
		}
	}
	if st := h.s.Stats(); st.Stdout.Replaced != 9 {
		t.Errorf("%d replacements were counted", st.Stdout.Replaced)
	}
}

// A message cut short swallows the line feed of its end, and with it the next
// one: both calls fail soon, and a third works.
func TestCutAnswerTakesTheNextAlong(t *testing.T) {
	t.Parallel()
	h := start(t, nil, "noise", "kind=blank", "on=")
	h.hello()
	h.send(toolCall("1", "noisy", `{"kind":"cut"}`), toolCall("2", "echo", `{"text":"x"}`))
	for range 2 {
		if f := h.next().facts(t); f.State != "failed_after_dispatch" {
			t.Errorf("facts %+v", f)
		}
	}
	h.echo("3")
}

// Requests of the host that are broken, too large or too deep are answered where
// their id can be read, never reach the server, and do not end the session.
func TestBrokenRequests(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t)
	h := start(t, func(c *Config) { c.WireLimit, c.Queues = 256<<10, 1<<20 }, "echo", "ledger="+l)
	h.hello()
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	big := strings.Repeat("x", 512<<10)
	for i, bad := range []string{
		toolCall("ID", "echo", `{"text":`+deep+`}`),
		toolCall("ID", "echo", `{"text":"`+big+`"}`),
		`{"method":"tools/call","jsonrpc":"2.0","params":{"name":"echo","arguments":{"text":"` + big + `"}},"id":ID}`,
		`{"jsonrpc":"2.0","id":ID,"method":"ping"`,
		`{"jsonrpc":"1.0","id":ID,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":ID,"method":"ping","params":{"a":"\x"}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":\"ping\",\"params\":{\"a\":\"\x01\"}}",
	} {
		id := fmt.Sprint(100 + i)
		h.send(strings.Replace(bad, "ID", id, 1))
		if f := h.answer(id).facts(t); f.Dispatched || !f.RetrySafe || f.State != "failed_before_dispatch" {
			t.Errorf("%.60s: facts %+v", bad, f)
		}
	}
	h.echo("1")
	for _, e := range events(t, l) {
		if e.What == "junk" || e.What == "read" && e.Method == "tools/call" && string(e.ID) != "1" {
			t.Errorf("a broken request reached the server: %+v", e)
		}
	}
}

// A last line without its line feed is a message if it is whole, and nothing if
// it is not.
func TestHalfFrameThenEOF(t *testing.T) {
	t.Parallel()
	for end, calls := range map[string]int64{`{"jsonrpc":"2.0","id":1,"method":"ping"}`: 2, `{"jsonrpc":"2.0","id":1,"met`: 2, `{"jsonrp`: 1} {
		h := start(t, nil, "echo")
		h.hello()
		io.WriteString(h.in, end)
		h.in.Close()
		if e := h.end(); e.Code != 0 {
			t.Errorf("%s: exit code %d", end, e.Code)
		}
		if st := h.s.Stats(); st.Calls != calls {
			t.Errorf("%s: %d calls", end, st.Calls)
		}
	}
}
