package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/frame"
)

// Resources and prompts have parts of another shape than results of tools, and
// keep it when they are cut: hosts check it. The part that was cut is read on by
// the same name.
func TestOtherLists(t *testing.T) {
	long := filler("lines", 40<<10)
	text := string(frame.Quote(nil, long))
	for _, tt := range []struct {
		name   string
		list   List
		result string
		part   string // that is cut
		whole  string // what that part holds
	}{
		{"resource", Contents, `"contents":[{"uri":"a:b","mimeType":"text/plain","text":` + text + `}],"ttlMs":5`, "0", long},
		{"second text", Contents, `"contents":[{"uri":"a:b","text":"short"},{"text":` + text + `,"uri":"a:c"}]`, "1", long},
		{"blob", Contents, `"contents":[{"uri":"a:b","mimeType":"image/png","blob":"` + blob(40<<10) + `"}]`, "0", blob(40 << 10)},
		{"another list beside it", Contents, `"messages":null,"contents":[{"uri":"a:b","text":` + text + `}]`, "0", long},
		{"prompt", Messages, `"description":"d","messages":[{"role":"assistant","content":{"type":"text","text":` + text + `}}]`, "0", long},
		{"resource in a prompt", Messages, `"messages":[{"role":"user","content":{"type":"text","text":"x"}},{"role":"user","content":{"type":"resource","resource":{"uri":"a:b","text":` + text + `}}}]`, "1", long},
		{"image in a prompt", Messages, `"messages":[{"role":"user","content":{"type":"image","mimeType":"image/png","data":"` + blob(40<<10) + `"}}]`, "0", blob(40 << 10)},
		{"content that is a list", Messages, `"messages":[{"role":"user","content":[{"type":"text","text":` + text + `}]}]`, "0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := []byte(`{"jsonrpc":"2.0","id":1,"result":{` + tt.result + `}}`)
			l := Limits{Content: 8 << 10, Media: 8 << 10, List: tt.list}
			out, info := cutIn(t, f, l, kept, 0)
			if out == nil || !info.Truncated || info.Default != tt.part {
				t.Fatalf("not cut as it should be: %+v", info)
			}
			if len(out) > 10<<10 {
				t.Errorf("%d bytes are left", len(out))
			}
			for _, size := range []int{1, 7} {
				if again, _ := cutIn(t, f, l, kept, size); !bytes.Equal(again, out) {
					t.Errorf("in pieces of %d bytes it is cut another way", size)
				}
			}
			if decodeReply(t, out).Result.Meta["dev.penstock/truncated"] == nil {
				t.Errorf("no facts in %s", out)
			}
			var r struct {
				Result struct {
					Contents []struct{ URI, Text, Blob *string }
					Messages []struct {
						Role    string
						Content struct{ Type, Text string }
					}
				}
			}
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatal(err)
			}
			if tt.list == Contents && len(r.Result.Contents) == 0 || tt.list == Messages && len(r.Result.Messages) == 0 {
				t.Errorf("its list is gone: %.300s", out)
			}
			for _, c := range r.Result.Contents {
				if c.URI == nil || (c.Text == nil) == (c.Blob == nil) {
					t.Errorf("no content of a resource: %.300s", out)
				}
			}
			for _, m := range r.Result.Messages {
				if m.Role == "" || m.Content.Type == "" {
					t.Errorf("no message of a prompt: %.300s", out)
				}
			}
			if n := strings.Count(string(out), " of "); n < 2 {
				t.Errorf("the first and the last text do not say what was cut: %.300s", out)
			}
			if tt.whole == "" {
				return
			}
			p, err := read1(t, f, Query{Part: tt.part, Max: 1 << 20})
			if err != nil || p.Text != tt.whole {
				t.Errorf("read %d bytes of %d, %v", len(p.Text), len(tt.whole), err)
			}
		})
	}
}

// A tool may answer with members of those names: they are not its content.
func TestContentComesFirst(t *testing.T) {
	long := filler("lines", 40<<10)
	f := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"messages":[{"content":{"type":"text","text":"not this"}}],"contents":[{"uri":"a:b","text":"nor this"}],"content":[{"type":"text","text":%s}]}}`, frame.Quote(nil, long)))
	out, info := cutIn(t, f, Limits{Content: 8 << 10}, kept, 0)
	if r := decodeReply(t, out); len(r.Result.Content) != 1 || info.Default != "0" {
		t.Errorf("got %.300s", out)
	}
	p, err := read1(t, f, Query{Part: "0", Max: 1 << 20})
	if err != nil || p.Text != long {
		t.Errorf("read %d bytes, %v", len(p.Text), err)
	}
}
