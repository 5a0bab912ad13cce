package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-dev/penstock/internal/desk"
	"github.com/penstock-dev/penstock/internal/hostile"
	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/result"
)

// The list of tools gets one more at the end of its first page, whatever its
// form; everything else in it keeps its bytes.
func TestListed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		params string
		own    string // "" if it is not listed
	}{
		{"one page", []string{"results"}, `{}`, "penstock_result"},
		{"stateless", []string{"results"}, `{` + modernMeta + `}`, "penstock_result"},
		{"white space and other members", []string{"results", "spread=true"}, `{}`, "penstock_result"},
		{"stateless, with white space", []string{"results", "spread=true"}, `{` + modernMeta + `}`, "penstock_result"},
		{"empty", []string{"results", "none=true"}, `{}`, "penstock_result"},
		{"first page", []string{"pages"}, `{}`, "penstock_result"},
		{"second page", []string{"pages"}, `{"cursor":"8"}`, ""},
		{"second page with an empty cursor", []string{"pages", "cursor=empty"}, `{"cursor":""}`, ""},
		{"name in use", []string{"results", "collide=true"}, `{}`, "penstock_result_2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + tt.params + `}`
			var raw [2]string
			for i, limit := range []int{0, 8 << 10} {
				h := start(t, withDesk(t, limit), tt.args[0], tt.args[1:]...)
				if !strings.Contains(tt.params, "_meta") {
					h.hello()
				}
				h.send(list)
				raw[i] = h.answer("1").raw
			}
			if tt.own == "" {
				if raw[0] != raw[1] {
					t.Errorf("changed to %.300s", raw[1])
				}
				return
			}
			own := string(result.ToolJSON(tt.own))
			if strings.Count(raw[1], own) != 1 {
				t.Fatalf("%s is not listed in %s", tt.own, raw[1])
			}
			if rest := strings.Replace(raw[1], own, "", 1); rest != raw[0] && strings.Replace(raw[1], ","+own, "", 1) != raw[0] {
				t.Errorf("other bytes changed:\n%s\n%s", raw[0], raw[1])
			}
			var r struct {
				Result struct{ Tools []struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(raw[1]), &r); err != nil {
				t.Fatal(err)
			}
			if n := len(r.Result.Tools); r.Result.Tools[n-1].Name != tt.own {
				t.Errorf("the last of %d tools is %s", n, r.Result.Tools[n-1].Name)
			}
		})
	}
}

// A tool of the server with our name is theirs; ours has another one, by which
// notices speak of it.
func TestToolOfThatName(t *testing.T) {
	h := start(t, withDesk(t, 8<<10), "results", "collide=true")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	h.answer(`"list"`)
	h.send(toolCall("1", "penstock_result", `{}`))
	if m := h.answer("1"); m.text() != "theirs" {
		t.Errorf("their tool answered %.300s", m.raw)
	}
	h.send(toolCall("2", "text", `{"bytes":100000}`))
	m := h.answer("2")
	if !strings.Contains(m.text(), "call penstock_result_2 with") {
		t.Errorf("the notice names another tool: %.300s", m.raw)
	}
	handle, _, _ := handleOf(t, m)
	h.send(toolCall("3", "penstock_result_2", fmt.Sprintf(`{"handle":%q}`, handle)))
	if m := h.answer("3"); m.Result == nil || m.Result.IsError || !strings.HasPrefix(m.text(), "a line\n") {
		t.Errorf("got %.300s", m.raw)
	}
}

// A list that fills the context of every conversation is passed on whole, and
// counted.
func TestLargeList(t *testing.T) {
	h := start(t, withDesk(t, 8<<10), "pages", "tools=2000", "page=2000")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if m := h.answer("1"); len(m.raw) < largeList || strings.Contains(m.raw, "[penstock") {
		t.Errorf("%d bytes: %.200s", len(m.raw), m.raw)
	}
	if n := h.s.Stats().LargeToolLists; n != 1 {
		t.Errorf("counted %d", n)
	}
}

func readURI(id, uri string, modern bool) string {
	more := ""
	if modern {
		more = "," + modernMeta
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"resources/read","params":{"uri":%q%s}}`, id, uri, more)
}

// A kept result is a resource too, in both eras; what is none of this session's
// is refused in one sentence. Other resources are the server's.
func TestResultAsResource(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint(modern), func(t *testing.T) {
			other := start(t, withDesk(t, 8<<10), "results")
			other.hello()
			other.send(toolCall("1", "text", `{"bytes":100000}`))
			foreign, _, _ := handleOf(t, other.answer("1"))

			h := start(t, withDesk(t, 8<<10), "results", "bytes=1KiB")
			if !modern {
				h.hello()
			}
			h.send(toolCall("1", "text", `{"bytes":100000}`))
			handle, _, _ := handleOf(t, h.answer("1"))
			h.send(readURI("2", resultURI+handle, modern))
			var r struct {
				Result *struct {
					ResultType, CacheScope string
					TTL                    *int `json:"ttlMs"`
					Contents               []struct{ URI, MimeType, Text string }
				}
			}
			m := h.answer("2")
			if err := json.Unmarshal([]byte(m.raw), &r); err != nil || r.Result == nil || len(r.Result.Contents) != 1 {
				t.Fatalf("%v: %.300s", err, m.raw)
			}
			c := r.Result.Contents[0]
			if c.URI != resultURI+handle || c.MimeType != "text/plain" || !strings.HasPrefix(c.Text, "a line\n") || !strings.Contains(c.Text, "go on with the tool penstock_result and cursor") {
				t.Errorf("got %.200s … %.200s", m.raw, c.Text[max(0, len(c.Text)-200):])
			}
			if modern != (r.Result.ResultType == "complete" && r.Result.CacheScope == "private" && r.Result.TTL != nil) {
				t.Errorf("members of the era: %.100s … %.200s", m.raw, m.raw[len(m.raw)-100:])
			}
			for i, bad := range []string{foreign, "nonsense", "", handle + "x", "../../etc/passwd"} {
				id := fmt.Sprint(10 + i)
				h.send(readURI(id, resultURI+bad, modern))
				if m := h.answer(id); m.Error == nil || !strings.HasPrefix(m.Error.Message, "Nothing was read: ") || strings.Contains(m.Error.Message, "\n") {
					t.Errorf("%q: %.300s", bad, m.raw)
				}
				h.send(toolCall(`"t`+id+`"`, "penstock_result", fmt.Sprintf(`{"handle":%q}`, bad)))
				if m := h.answer(`"t` + id + `"`); m.Result == nil || !m.Result.IsError || !strings.HasPrefix(m.text(), "Nothing was read: ") {
					t.Errorf("%q: %.300s", bad, m.raw)
				}
			}
			h.send(readURI("20", "hostile://note", modern))
			if m := h.answer("20"); !strings.Contains(m.raw, `"uri":"hostile://note"`) {
				t.Errorf("a resource of the server: %.300s", m.raw)
			}
		})
	}
}

// frozen is a desk that takes all and says nothing.
func frozen(session string) *link.Client {
	return link.Dial(link.Options{Session: session, Private: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go io.Copy(io.Discard, there) // ends when the client closes its end
		return here, nil
	}})
}

// A read that the host cancels is over at once, and what comes after it is
// served, although the desk never answers.
func TestCancelRead(t *testing.T) {
	h := start(t, func(c *Config) {
		withDesk(t, 8<<10)(c)
		c.Desk = frozen
	}, "results")
	h.hello()
	h.send(toolCall("1", "penstock_result", `{"handle":"aaaaaaaaaaaaaaaaaaaaaaaaaa"}`), cancel("1"))
	h.send(readURI("2", resultURI+"aaaaaaaaaaaaaaaaaaaaaaaaaa", false), cancel("2"))
	h.echo("3") // and no answer to 1 or 2 before it
	st := h.s.Stats()
	if st.CancelsReceived != 2 || st.CancelsIgnored != 0 {
		t.Errorf("%d cancellations taken, %d ignored", st.CancelsReceived, st.CancelsIgnored)
	}
	// One that is still open does not keep the session from ending.
	h.send(toolCall("4", "penstock_result", `{"handle":"aaaaaaaaaaaaaaaaaaaaaaaaaa"}`))
	h.in.Close()
	h.end()
}

// A handle is good at once: a read waits for what is still on its way to the
// desk. When the desk dies, what it kept in memory is gone, and a read says so;
// the next result is kept by the next desk.
func TestDeskDiesBetween(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	var desks sync.WaitGroup
	t.Cleanup(func() { stop(); desks.Wait() })
	up := make(chan net.Conn, 16)
	h := start(t, func(c *Config) {
		withDesk(t, 8<<10)(c)
		c.WireLimit, c.Queues = 1<<20, 4<<20
		c.Desk = func(session string) *link.Client {
			return link.Dial(link.Options{Session: session, Page: 4096, Private: func(context.Context) (net.Conn, error) {
				ours, theirs, err := socketPair(filepath.Join(dir, "desk"))
				if err != nil {
					return nil, err
				}
				desks.Go(func() { desk.ServeConn(ctx, theirs, desk.Config{Home: dir}) })
				up <- theirs
				return ours, nil
			}})
		}
	}, "results")
	h.hello()
	for i := range 5 {
		id := fmt.Sprint(i)
		h.send(toolCall(id, "text", `{"bytes":900000}`))
		handle, _, total := handleOf(t, h.answer(id))
		// Sent in one go with nothing in between: the put may not have ended.
		h.send(toolCall(`"r`+id+`"`, "penstock_result", fmt.Sprintf(`{"handle":%q,"bytes":[%d,%d]}`, handle, total-7, total)))
		if m := h.answer(`"r` + id + `"`); m.Result.IsError || m.text() != "a line\n" {
			t.Errorf("the end of result %d: %.300s", i, m.raw)
		}
		if i == 4 {
			(<-up).Close()
			h.send(toolCall(`"gone"`, "penstock_result", fmt.Sprintf(`{"handle":%q}`, handle)))
			if m := h.answer(`"gone"`); m.Result == nil || !m.Result.IsError || !strings.HasPrefix(m.text(), "Nothing was read: ") {
				t.Errorf("after the desk died: %.300s", m.raw)
			}
		}
	}
	eventually(t, "a result is kept again", func() bool {
		h.send(toolCall(`"again"`, "text", `{"bytes":100000}`))
		m := h.answer(`"again"`)
		return m.Result != nil && strings.Contains(string(m.Result.Meta["dev.penstock/truncated"]), `"handle"`)
	})
}

// In a batch a call of the continuation tool is taken out and answered here; a
// session without a desk answers it too.
func TestReadInBatch(t *testing.T) {
	for _, kept := range []bool{true, false} {
		l := ledgerOf(t)
		h := start(t, func(c *Config) {
			withDesk(t, 8<<10)(c)
			if !kept {
				c.Desk = nil
			}
		}, "batch", "ledger="+l)
		h.helloAs("2025-03-26", "0")
		h.send(`[` + toolCall(`"read"`, "penstock_result", `{"handle":"nonsense"}`) + `,` + readURI(`"uri"`, resultURI+"nonsense", false) + `,{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		seen := map[string]bool{}
		for range 3 {
			l := h.nextLine()
			switch {
			case l == `[{"jsonrpc":"2.0","id":1,"result":{}}]`:
				seen["ping"] = true
			case strings.HasPrefix(l, `{"jsonrpc":"2.0","id":"read","result":`) && strings.Contains(l, "Nothing was read: "):
				seen["read"] = true
			case strings.HasPrefix(l, `{"jsonrpc":"2.0","id":"uri","error":`) && strings.Contains(l, "Nothing was read: "):
				seen["uri"] = true
			default:
				t.Errorf("got %s", l)
			}
		}
		if len(seen) != 3 {
			t.Errorf("kept: %t: got %v", kept, seen)
		}
		e := await(t, l, "note", func(e hostile.Event) bool { return strings.HasPrefix(e.Text, "batch ") })
		if e.Text != `batch [{"jsonrpc":"2.0","id":1,"method":"ping"}]` {
			t.Errorf("the server read %s", e.Text)
		}
		// Alone in its batch nothing is left to send.
		h.send(`[` + toolCall(`"read"`, "penstock_result", `{"handle":"nonsense"}`) + `]`)
		if m := h.answer(`"read"`); m.Result == nil || !m.Result.IsError {
			t.Errorf("got %s", m.raw)
		}
	}
}
