package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-dev/penstock/internal/desk"
	"github.com/penstock-dev/penstock/internal/hostile"
	"github.com/penstock-dev/penstock/internal/link"
)

// withDesk gives a session a content limit and a desk of its own, which keeps
// results in memory.
func withDesk(t *testing.T, limit int) func(*Config) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var desks sync.WaitGroup
	t.Cleanup(func() { cancel(); desks.Wait() })
	return func(c *Config) {
		c.ContentLimit, c.ContentMost, c.MediaLimit, c.Spill = limit, 4*limit, c.WireLimit, true
		c.Desk = func(session string) *link.Client {
			return link.Dial(link.Options{Session: session, Page: limit / 2, Private: func(context.Context) (net.Conn, error) {
				ours, theirs, err := socketPair(filepath.Join(dir, "desk"))
				if err != nil {
					return nil, err
				}
				desks.Go(func() { desk.ServeConn(ctx, theirs, desk.Config{Home: dir}) })
				return ours, nil
			}})
		}
	}
}

// socketPair returns both ends of a connection by way of a socket at path.
func socketPair(path string) (ours, theirs net.Conn, err error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if ours, err = net.Dial("unix", path); err != nil {
		return nil, nil, err
	}
	theirs, err = l.Accept()
	return ours, theirs, err
}

// pages reads a whole kept result through the continuation tool.
func (h *host) pages(handle string) string {
	h.t.Helper()
	var all strings.Builder
	args := fmt.Sprintf(`{"handle":%q}`, handle)
	for i := 0; ; i++ {
		id := fmt.Sprintf(`"page-%d"`, i)
		h.send(toolCall(id, "penstock_result", args))
		m := h.answer(id)
		var page struct {
			Result struct {
				StructuredContent struct {
					Text       string
					Bytes      [2]int64
					NextCursor string
					End        bool
				}
			}
		}
		if err := json.Unmarshal([]byte(m.raw), &page); err != nil || m.Result.IsError {
			h.t.Fatalf("page %d: %.400s", i, m.raw)
		}
		p := page.Result.StructuredContent
		all.WriteString(p.Text)
		if p.End {
			return all.String()
		}
		args = fmt.Sprintf(`{"handle":%q,"cursor":%q}`, handle, p.NextCursor)
	}
}

func handleOf(t *testing.T, m msg) (handle string, shown, total int64) {
	t.Helper()
	var cut struct {
		Handle string `json:"handle"`
		Shown  int64  `json:"shown_bytes"`
		Total  int64  `json:"total_bytes"`
	}
	if m.Result == nil || json.Unmarshal(m.Result.Meta["dev.penstock/truncated"], &cut) != nil || cut.Handle == "" {
		t.Fatalf("no handle in %.500s", m.raw)
	}
	return cut.Handle, cut.Shown, cut.Total
}

// A result over the content limit is cut, says so first and last, and is read
// on to its end; one at the wire limit and one over it are no different.
func TestCutAndReadOn(t *testing.T) {
	const limit = 16 << 10
	h := start(t, func(c *Config) {
		c.WireLimit, c.Queues = 1<<20, 2<<20
		withDesk(t, limit)(c)
	}, "echo")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	if m := h.answer(`"list"`); !strings.HasSuffix(m.raw, `"openWorldHint":false}}]}}`) || !strings.Contains(m.raw, `"name":"penstock_result"`) {
		t.Fatalf("the continuation tool is not the last one listed: %s", m.raw)
	}
	for i, size := range []int{2 << 10, limit - 1, 20 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 2, 3 << 20} {
		id := fmt.Sprint(i + 1)
		h.send(toolCall(id, "big", fmt.Sprintf(`{"bytes":%d}`, size)))
		m := h.answer(id)
		if m.Result == nil || m.Result.IsError {
			t.Fatalf("%d bytes: %.300s", size, m.raw)
		}
		if size < limit {
			if len(m.raw)+1 != size {
				t.Errorf("%d bytes were changed to %d", size, len(m.raw)+1)
			}
			continue
		}
		if len(m.raw) > 2*limit {
			t.Errorf("%d bytes became %d", size, len(m.raw))
		}
		texts := m.Result.Content
		if len(texts) == 0 || !strings.Contains(texts[0].Text, " of ") || !strings.Contains(texts[len(texts)-1].Text, "penstock_result") {
			t.Errorf("first and last text do not say what was cut: %.200q … %.300q", texts[0].Text, texts[len(texts)-1].Text)
		}
		handle, shown, total := handleOf(t, m)
		whole := h.pages(handle)
		if int64(len(whole)) != total || shown >= total {
			t.Errorf("%d bytes: pages hold %d, said are %d of %d", size, len(whole), shown, total)
		}
		frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
		if over := size - len(frame) - len(whole); over < 0 || over > 64 {
			t.Errorf("%d bytes: %d are not in the pages", size, over)
		}
	}
	if st := h.s.Stats(); st.Cut != 5 || st.Kept != 5 || st.Impossible != 0 {
		t.Errorf("cut %d, kept %d, impossible %d", st.Cut, st.Kept, st.Impossible)
	}
}

// A giant frame with its id behind the result is kept whole, in flat memory.
func TestSpillGiant(t *testing.T) {
	for _, id := range []string{"first", "last"} {
		t.Run(id, func(t *testing.T) {
			h := start(t, withDesk(t, 16<<10), "oversized", "bytes=64MiB", "id="+id)
			h.hello()
			h.send(toolCall("1", "large", `{}`))
			handle, _, total := handleOf(t, h.answer("1"))
			if total < 64<<20-200 {
				t.Errorf("total is %d", total)
			}
			h.send(toolCall("2", "penstock_result", fmt.Sprintf(`{"handle":%q,"bytes":[%d,%d]}`, handle, total-5, total)))
			if m := h.answer("2"); m.Result.IsError {
				t.Errorf("the last bytes: %s", m.raw)
			}
			h.echo("3")
		})
	}
}

// While the host reads nothing, results that find no room are kept and
// answered by a handle.
func TestStalledHostResultsAreKept(t *testing.T) {
	l := ledgerOf(t)
	h := start(t, func(c *Config) {
		c.WireLimit, c.Queues = 1<<20, 2<<20
		withDesk(t, 16<<10)(c)
		c.ContentLimit = 0 // nothing is cut that has room
	}, "echo", "ledger="+l)
	h.hello()
	const calls = 16
	for i := range calls {
		h.send(toolCall(fmt.Sprint(i), "big", `{"bytes":524288}`))
	}
	await(t, l, "wrote", func(e hostile.Event) bool { return string(e.ID) == fmt.Sprint(calls-1) })
	kept := 0
	for range calls {
		m := h.next()
		if m.Result == nil || m.Result.IsError {
			t.Fatalf("a result was lost: %.300s", m.raw)
		}
		if len(m.raw) < 64<<10 {
			handleOf(t, m)
			kept++
		}
	}
	if kept == 0 {
		t.Error("nothing was kept")
	}
}

// With no desk the notice says that the rest is lost, and the call is answered.
func TestCutWithoutDesk(t *testing.T) {
	h := start(t, func(c *Config) { withDesk(t, 16<<10)(c); c.Desk = nil }, "echo")
	h.hello()
	h.send(toolCall("1", "big", `{"bytes":100000}`))
	m := h.answer("1")
	if m.Result == nil || m.Result.IsError || !strings.Contains(m.raw, "keeps no results") {
		t.Errorf("got %.600s", m.raw)
	}
	h.echo("2")
}
