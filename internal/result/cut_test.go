package result

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var kept = Notice{Handle: "r_0123456789abcdef0123456789abcdef", Kept: true}

// cutIn cuts f fed in pieces of n bytes, whole if n is 0.
func cutIn(t testing.TB, f []byte, l Limits, n Notice, size int) ([]byte, Info) {
	t.Helper()
	c := NewCutter(l)
	if size == 0 {
		size = len(f)
	}
	for p := range chunks(f, size) {
		if _, err := c.Write(p); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	out, info, err := c.Finish(n)
	if err != nil {
		t.Fatalf("Finish: %v", err)
	}
	return out, info
}

func chunks(f []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(f) > 0 {
			n := min(size, len(f))
			if !yield(f[:n]) {
				return
			}
			f = f[n:]
		}
	}
}

// reply is a response as a host decodes it.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Result *struct {
		Content    []json.RawMessage          `json:"content"`
		Structured json.RawMessage            `json:"structuredContent"`
		IsError    bool                       `json:"isError"`
		ResultType string                     `json:"resultType"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

type blockView struct {
	Type, Text, Data, MimeType, URI string
	Resource                        struct{ URI, Text, Blob string }
}

func (r *reply) blocks(t testing.TB) []blockView {
	t.Helper()
	var out []blockView
	for _, raw := range r.Result.Content {
		var b blockView
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatalf("block %s: %v", raw, err)
		}
		out = append(out, b)
	}
	return out
}

// textual measures r with a decoder that is not ours.
func (r *reply) textual(t testing.TB) int {
	n := 0
	if r.Error != nil {
		return len(r.Error.Message) + len(r.Error.Data)
	}
	for _, b := range r.blocks(t) {
		n += len(b.Text) + len(b.Resource.Text) + len(b.Resource.Blob)
	}
	n += len(r.Result.Structured)
	for k, v := range r.Result.Meta {
		n += len(k) + len(v)
	}
	return n
}

func decodeReply(t testing.TB, out []byte) *reply {
	t.Helper()
	if !json.Valid(out) {
		t.Fatalf("not JSON: %.300s … %s", out, out[max(0, len(out)-200):])
	}
	if bytes.ContainsAny(out, "\n\r") {
		t.Fatal("more than one line")
	}
	var r reply
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// mustCut cuts f and checks what holds for every cut.
func mustCut(t testing.TB, f []byte, l Limits) (*reply, Info) {
	t.Helper()
	out, info := cutIn(t, f, l, kept, 0)
	if out == nil {
		t.Fatalf("not cut: %+v", info)
	}
	for _, size := range []int{1, 7, 4096} {
		if size < 4096 && len(f) > 256<<10 {
			continue
		}
		other, _ := cutIn(t, f, l, kept, size)
		if !bytes.Equal(out, other) {
			i := 0
			for i < min(len(out), len(other)) && out[i] == other[i] {
				i++
			}
			t.Fatalf("pieces of %d bytes give another cut, from byte %d on:\n%.200s\n%.200s", size, i, out[max(0, i-50):], other[max(0, i-50):])
		}
	}
	r := decodeReply(t, out)
	if n := r.textual(t); l.Content > 0 && n > l.Content {
		t.Fatalf("%d textual bytes, limit %d", n, l.Content)
	}
	most := l.Frame
	if most == 0 {
		most = 8 << 20
	}
	if len(out) >= most {
		t.Fatalf("frame of %d bytes, limit %d", len(out), most)
	}
	if !info.Truncated || info.ShownBytes >= info.TotalBytes {
		t.Fatalf("info %+v", info)
	}
	if r.Error != nil {
		if !strings.Contains(r.Error.Message, kept.Handle) {
			t.Fatalf("no handle in the message %.200q", r.Error.Message)
		}
		return r, info
	}
	var meta struct {
		Handle string `json:"handle"`
		Shown  int64  `json:"shown_bytes"`
		Total  int64  `json:"total_bytes"`
	}
	if err := json.Unmarshal(r.Result.Meta["dev.penstock/truncated"], &meta); err != nil {
		t.Fatalf("meta: %v", err)
	}
	if meta.Handle != kept.Handle || meta.Shown != info.ShownBytes || meta.Total != info.TotalBytes {
		t.Fatalf("meta %+v, info %+v", meta, info)
	}
	var texts []string
	for _, b := range r.blocks(t) {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		} else if b.Type == "resource" && b.Resource.Text != "" {
			texts = append(texts, b.Resource.Text)
		}
	}
	if len(texts) == 0 {
		t.Fatal("no text says that the result is cut")
	}
	for _, s := range []string{texts[0], texts[len(texts)-1]} {
		if !strings.Contains(s, "shown ") || !strings.Contains(s, " bytes") || !strings.Contains(s, "penstock_result") || !strings.Contains(s, kept.Handle) {
			t.Fatalf("the first or last text does not say how to go on: %.300q … %q", s, s[max(0, len(s)-300):])
		}
	}
	if !strings.HasPrefix(texts[0], "[penstock: ") || !strings.HasSuffix(texts[len(texts)-1], "]") {
		t.Fatalf("notices: %.100q, %q", texts[0], texts[len(texts)-1][max(0, len(texts[len(texts)-1])-100):])
	}
	return r, info
}

// filler returns n bytes of text of a kind.
func filler(kind string, n int) string {
	unit := map[string]string{
		"lines": "a line of text, number x\n", "unbroken": "x", "quotes": `"\`, "multibyte": "日本語😀é",
		"controls": "\x00\x07\n", "words": "word ",
	}[kind]
	s := strings.Repeat(unit, n/len(unit)+1)[:n]
	return strings.ToValidUTF8(s, "") + strings.Repeat("z", n-len(strings.ToValidUTF8(s, "")))
}

func TestSizes(t *testing.T) {
	const limit = 64 << 10
	for _, kind := range []string{"lines", "unbroken", "quotes", "multibyte", "controls"} {
		for _, size := range []int{0, limit - 1, limit, limit + 1, 3 * limit, 8<<20 - 1, 8 << 20, 8<<20 + 1} {
			if testing.Short() && size > 1<<20 {
				continue
			}
			for _, idLast := range []bool{false, true} {
				if idLast && size > 1<<20 {
					continue // the memory tests have large ones
				}
				t.Run(fmt.Sprintf("%s/%d/%v", kind, size, idLast), func(t *testing.T) {
					text := filler(kind, size)
					f := textFrame(text)
					if idLast {
						f = fmt.Appendf(nil, `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":%s}]},"id":7}`, quote(text))
					}
					l := Limits{Content: limit}
					if size <= limit {
						if out, info := cutIn(t, f, l, kept, 0); out != nil || info.Truncated {
							t.Fatalf("cut: %+v", info)
						}
						return
					}
					r, info := mustCut(t, f, l)
					if string(r.ID) != "7" || len(r.Result.Content) != 1 {
						t.Fatalf("id %s, %d blocks", r.ID, len(r.Result.Content))
					}
					if info.TotalBytes != int64(size) || info.Default != "0" {
						t.Fatalf("info %+v", info)
					}
					if least := map[bool]int64{false: limit * 8 / 10, true: limit / 4}; info.ShownBytes < least[kind == "controls"] {
						t.Errorf("shows only %d of %d bytes", info.ShownBytes, limit)
					}
					// What is shown is the beginning, and the rest is where the notice says.
					shown := r.blocks(t)[0].Text
					_, shown, _ = strings.Cut(shown, "]\n")
					shown = shown[:strings.LastIndex(shown, "\n[penstock: ")]
					if shown != text[:len(shown)] || int64(len(shown)) != info.ShownBytes {
						t.Fatalf("shown %d bytes, info %d", len(shown), info.ShownBytes)
					}
				})
			}
		}
	}
}

func TestKeep(t *testing.T) {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "line %d 日本\n", i)
	}
	text := b.String()
	for _, keep := range []Keep{Head, Tail, HeadAndTail} {
		for _, limit := range []int{4096, 64 << 10} {
			r, info := mustCut(t, textFrame(text), Limits{Content: limit, Keep: keep})
			got := r.blocks(t)[0].Text
			if has := strings.Contains(got, "\nline 0 "); has != (keep != Tail) {
				t.Errorf("keep %d: head %v", keep, has)
			}
			if has := strings.Contains(got, "line 19999 "); has != (keep != Head) {
				t.Errorf("keep %d: tail %v: %q", keep, has, got[len(got)-300:])
			}
			if info.ShownBytes < int64(limit)*7/10 {
				t.Errorf("keep %d: shows only %d of %d", keep, info.ShownBytes, limit)
			}
			if keep == Head {
				continue
			}
			// The range that the notice names is what is left out.
			i := strings.LastIndex(got, `"bytes":[`)
			var from, to int64
			if _, err := fmt.Sscanf(got[i:], `"bytes":[%d,%d]`, &from, &to); err != nil {
				t.Fatalf("%q: %v", got[i:], err)
			}
			missing, _ := readAll(t, textFrame(text), Query{Part: "0", Bytes: &[2]int64{from, to}})
			if int64(len(missing)) != info.TotalBytes-info.ShownBytes {
				t.Errorf("keep %d: %d bytes in the range, %d left out", keep, len(missing), info.TotalBytes-info.ShownBytes)
			}
			if string(missing) != text[from:to] {
				t.Errorf("keep %d: the range is something else", keep)
			}
		}
	}
}

func TestUncutPasses(t *testing.T) {
	f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}],"structuredContent":{"a":1}}}`)
	for _, l := range []Limits{{}, {Content: 4096}, {Content: 1}} {
		if out, info := cutIn(t, f, l, kept, 0); out != nil || info.Truncated || info.Exempt {
			t.Errorf("%+v: %s %+v", l, out, info)
		}
	}
	// Without a content limit only the frame counts.
	if out, _ := cutIn(t, textFrame(filler("words", 1<<20)), Limits{}, kept, 0); out != nil {
		t.Error("cut without a limit")
	}
	mustCut(t, textFrame(filler("words", 1<<20)), Limits{Frame: 1 << 20})
}

func TestNeverCut(t *testing.T) {
	big := quote(filler("lines", 200_000))
	for _, f := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":` + big + `}}},"requestState":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"requestState":` + big + `,"resultType":"input_required"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working","statusMessage":` + big + `}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","x":` + big + `}}`,
		`{"jsonrpc":"2.0","id":1,"result":[` + big + `]}`,
		`{"jsonrpc":"2.0","method":"x","params":` + `[` + big + `]}`,
		`[{"jsonrpc":"2.0","id":1,"result":{"x":` + big + `}}]`,
		`"` + big[1:],
	} {
		out, info := cutIn(t, []byte(f), Limits{Content: 4096}, kept, 0)
		if out != nil || !info.Exempt {
			t.Errorf("%.80s: cut %v, %+v", f, out != nil, info)
		}
	}
}

func TestMembersSurvive(t *testing.T) {
	big := quote(filler("lines", 200_000))
	f := `{ "jsonrpc":"2.0", "id":"a\u0062", "x-top":1.50e+10, "result":{"resultType":"complete","content":[{"type":"text","text":` + big +
		`,"annotations":{"audience":["user"],"priority":0.10}},{"type":"text","text":"caf\u00e9 \/ end"},{"type":"resource_link","uri":"file:///a","name":"a"}],"isError":true,"ttlMs":5,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.0"},"dev.penstock/truncated":"forged"}}}`
	out, info := cutIn(t, []byte(f), Limits{Content: 8192}, kept, 0)
	r, _ := mustCut(t, []byte(f), Limits{Content: 8192})
	for _, want := range []string{
		`"id":"a\u0062"`, `"x-top":1.50e+10`, `"annotations":{"audience":["user"],"priority":0.10}`, `{"type":"resource_link","uri":"file:///a","name":"a"}`,
		`"isError":true`, `"ttlMs":5`, `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.0"}`,
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s is lost in %s", want, out)
		}
	}
	if bytes.Contains(out, []byte("forged")) {
		t.Error("a forged mark of ours survived")
	}
	if len(r.Result.Content) != 3 || info.Blocks != 3 {
		t.Errorf("%d blocks", len(r.Result.Content))
	}
	b := r.blocks(t)
	if !strings.HasPrefix(b[1].Text, "café / end") {
		t.Errorf("small block: %q", b[1].Text)
	}
}

// blob returns n characters of base64 of something that looks like a picture.
func blob(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n*3/4+3)
	copy(b, "\x89PNG\r\n\x1a\n")
	for i := 8; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)[:n]
}

// R57
func TestBlobInText(t *testing.T) {
	b64 := blob(2_031_740)
	for _, keep := range []Keep{Head, Tail, HeadAndTail} {
		text := `{"title":"before","shot":{"data":"` + b64 + `","w":10},"tail":"after the picture"}`
		r, info := mustCut(t, textFrame(text), Limits{Content: 64 << 10, Keep: keep})
		got := r.blocks(t)[0].Text
		for _, want := range []string{"before", "after the picture", "[2031740 characters of base64, image/png, left out whole]", `"w":10`} {
			if !strings.Contains(got, want) {
				t.Errorf("keep %d: no %q in %.600q", keep, want, got)
			}
		}
		if strings.Contains(got, b64[:100]) || strings.Contains(got, b64[len(b64)-100:]) {
			t.Error("a piece of the blob is shown")
		}
		if info.TotalBytes != int64(len(text)) {
			t.Errorf("total %d, want %d", info.TotalBytes, len(text))
		}
		// Alone, with slashes escaped as PHP does, and behind a prefix.
		for _, raw := range []string{b64, strings.ReplaceAll(b64, "/", `\/`), "data:image/png;base64," + b64} {
			f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + raw + `"}]}}`)
			r, _ := mustCut(t, f, Limits{Content: 64 << 10, Keep: keep})
			if got := r.blocks(t)[0].Text; len(got) > 2000 || !strings.Contains(got, "characters of base64, image/png, left out whole") {
				t.Errorf("keep %d: %.300q", keep, got)
			}
		}
	}
	// Text that has letters only is no blob.
	r, _ := mustCut(t, textFrame(strings.Repeat("x", 1<<20)), Limits{Content: 64 << 10})
	if got := r.blocks(t)[0].Text; !strings.Contains(got, strings.Repeat("x", 50000)) {
		t.Errorf("%.300q", got)
	}
}

func TestJSONText(t *testing.T) {
	var items []string
	for i := range 5000 {
		items = append(items, fmt.Sprintf(`{"id": %d, "name": "item \"%d\" [x]", "tags": ["a", "b"]}`, i, i))
	}
	text := "[\n  " + strings.Join(items, ",\n  ") + "\n]\n"
	r, _ := mustCut(t, textFrame(text), Limits{Content: 16 << 10})
	got := r.blocks(t)[0].Text
	_, got, _ = strings.Cut(got, "]\n")
	i := strings.LastIndex(got, "\n[penstock: ")
	var list []map[string]any
	if err := json.Unmarshal([]byte(got[:i]), &list); err != nil {
		t.Fatalf("what is shown does not read: %v: %.200s … %s", err, got, got[i-100:])
	}
	if len(list) < 100 || len(list[len(list)-1]) != 3 || len(list[len(list)-1]["tags"].([]any)) != 2 {
		t.Errorf("%d items, last %v", len(list), list[len(list)-1])
	}
	if want := fmt.Sprintf("%d more of 5000 items are left out", 5000-len(list)); !strings.Contains(got[i:], want) {
		t.Errorf("%q lacks %q", got[i:], want)
	}
	// An object.
	text = `{"total":5000,"items":` + text + `,"done":true}`
	r, _ = mustCut(t, textFrame(text), Limits{Content: 16 << 10})
	got = r.blocks(t)[0].Text
	_, got, _ = strings.Cut(got, "]\n")
	i = strings.LastIndex(got, "\n[penstock: ")
	var obj struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(got[:i]), &obj); err != nil || len(obj.Items) < 100 {
		t.Fatalf("what is shown does not read: %v, %d items", err, len(obj.Items))
	}
	// What only begins like JSON is cut like text.
	text = "[12:00] started\n" + strings.Repeat("[12:01] \"something\" happened {\n", 5000)
	r, info := mustCut(t, textFrame(text), Limits{Content: 16 << 10})
	if !strings.Contains(r.blocks(t)[0].Text, "]\n[12:00] started\n[12:01] \"something\" happened {\n") || info.ShownBytes < 14000 {
		t.Errorf("%.200q", r.blocks(t)[0].Text)
	}
}

func TestManyBlocks(t *testing.T) {
	var b strings.Builder
	total := 0
	b.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"content":[`)
	for i := range 20000 {
		if i > 0 {
			b.WriteByte(',')
		}
		s := fmt.Sprintf("block %d: %s", i, strings.Repeat("x", i%90))
		total += len(s)
		fmt.Fprintf(&b, `{"type":"text","text":%q}`, s)
	}
	b.WriteString(`]}}`)
	r, info := mustCut(t, []byte(b.String()), Limits{Content: 64 << 10})
	blocks := r.blocks(t)
	if len(blocks) < 500 || info.Blocks != 20000 || info.TotalBytes != int64(total) {
		t.Fatalf("%d blocks, %d bytes of %d, info of %d", len(blocks), info.TotalBytes, total, info.Blocks)
	}
	for i, b := range blocks[:len(blocks)-1] {
		if !strings.Contains(b.Text, fmt.Sprintf("block %d: %s", i, strings.Repeat("x", i%90))) {
			t.Fatalf("block %d: %q", i, b.Text)
		}
	}
	if last := blocks[len(blocks)-1].Text; !strings.Contains(last, fmt.Sprintf("%d more content blocks", 20000-len(blocks)+1)) {
		t.Errorf("%q", last)
	}
}

func TestSeveralTexts(t *testing.T) {
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"small"},{"text":%s,"type":"text"},{"type":"text","text":%s},{"type":"resource","resource":{"uri":"file:///x","text":%s,"mimeType":"text/plain"}}]}}`,
		quote(filler("lines", 100_000)), quote(filler("words", 3000)), quote(filler("lines", 500_000)))
	r, info := mustCut(t, f, Limits{Content: 64 << 10})
	b := r.blocks(t)
	if len(b) != 4 || b[3].Type != "resource" || b[3].Resource.URI != "file:///x" {
		t.Fatalf("%d blocks", len(b))
	}
	if !strings.Contains(b[0].Text, "small") || !strings.HasPrefix(b[2].Text, filler("words", 3000)) {
		t.Error("small texts are not whole")
	}
	if len(b[1].Text) < 20000 || len(b[3].Resource.Text) < 20000 {
		t.Errorf("shares %d, %d", len(b[1].Text), len(b[3].Resource.Text))
	}
	if info.Default != "1" {
		t.Errorf("default %q", info.Default)
	}
}

func TestMedia(t *testing.T) {
	img := blob(500_000)
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"data":%q,"mimeType":"image/png","type":"image"},{"type":"text","text":%s},{"type":"audio","data":"AAAA","mimeType":"audio/wav"}]}}`,
		img, quote(filler("lines", 200_000)))
	r, _ := mustCut(t, f, Limits{Content: 16 << 10})
	b := r.blocks(t)
	if len(b) != 3 || b[0].Type != "image" || b[0].Data != img || b[2].Type != "audio" {
		t.Fatal("the image is not whole")
	}
	// Over its limit it is replaced, though no text has to be cut.
	f = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":%q,"mimeType":"image/png"},{"type":"text","text":"hello"}]}}`, img)
	r, info := mustCut(t, f, Limits{Content: 16 << 10, Media: 400_000})
	b = r.blocks(t)
	if len(b) != 2 || b[0].Type != "text" || !strings.Contains(b[0].Text, "image (image/png) of 500000 characters of base64 is left out") || !strings.HasPrefix(b[1].Text, "hello") {
		t.Fatalf("%+v", b)
	}
	if info.Default != "0" || info.TotalBytes != 500_005 || info.ShownBytes != 5 {
		t.Errorf("%+v", info)
	}
	if out, _ := cutIn(t, f, Limits{Content: 16 << 10, Media: 500_000}, kept, 0); out != nil {
		t.Error("an image of the limit is replaced")
	}
	// More images than the frame holds.
	var s strings.Builder
	for i := range 30 {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, `{"type":"image","data":%q,"mimeType":"image/png"}`, img)
	}
	f = []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[` + s.String() + `]}}`)
	r, _ = mustCut(t, f, Limits{Content: 16 << 10, Frame: 8 << 20})
	whole := 0
	for _, b := range r.blocks(t) {
		if b.Type == "image" {
			whole++
		}
	}
	if len(r.blocks(t)) != 30 || whole < 12 || whole > 16 {
		t.Errorf("%d blocks, %d whole", len(r.blocks(t)), whole)
	}
}

func TestResources(t *testing.T) {
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource","resource":{"uri":"file:///pic.bin","mimeType":"application/octet-stream","blob":%q}},{"type":"resource","resource":{"uri":"file:///s","blob":"AAAA"}}]}}`, blob(300_000))
	r, info := mustCut(t, f, Limits{Content: 64 << 10})
	b := r.blocks(t)
	if len(b) != 2 && len(b) != 3 || b[0].Type != "text" || !strings.Contains(b[0].Text, "resource (application/octet-stream) file:///pic.bin of 300000 characters of base64 is left out") {
		t.Fatalf("%+v", b)
	}
	if b[1].Resource.Blob != "AAAA" || info.Default != "0" {
		t.Errorf("%+v %+v", b[1], info)
	}
}

func TestUnknownTypes(t *testing.T) {
	small := `{"type":"x-chart","points":[1,2,3],"text":"keep me"}`
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[%s,{"type":"text","text":%s},{"type":"x-big","text":%s},{"type":"x-list","rows":[%s1]}]}}`,
		small, quote(filler("lines", 100_000)), quote(filler("lines", 50_000)), strings.Repeat("1,", 50_000))
	out, _ := cutIn(t, f, Limits{Content: 16 << 10}, kept, 0)
	r, _ := mustCut(t, f, Limits{Content: 16 << 10})
	if !bytes.Contains(out, []byte(small)) {
		t.Errorf("a small block of unknown type is changed: %.300s", out)
	}
	b := r.blocks(t)
	if len(b) != 4 || b[2].Type != "text" || b[3].Type != "text" || !strings.Contains(b[2].Text, "x-big of 50000 bytes is left out") {
		t.Errorf("%+v", b)
	}
}

func TestErrorResponse(t *testing.T) {
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":%s,"data":{"trace":%s,"list":[%s1]}}}`,
		quote(filler("lines", 100_000)), quote(filler("lines", 300_000)), strings.Repeat("1,", 50_000))
	out, _ := cutIn(t, f, Limits{Content: 16 << 10}, kept, 0)
	r, info := mustCut(t, f, Limits{Content: 16 << 10})
	if !bytes.Contains(out, []byte(`"code":-32000.0`)) {
		t.Errorf("code: %.200s", out)
	}
	var data struct {
		Trace string
		List  []int
	}
	if err := json.Unmarshal(r.Error.Data, &data); err != nil || len(data.Trace) < 100 {
		t.Errorf("data: %v %.200s", err, r.Error.Data)
	}
	if info.Default != "error" {
		t.Errorf("%+v", info)
	}
}

func TestNotKept(t *testing.T) {
	out, _ := cutIn(t, textFrame(filler("lines", 200_000)), Limits{Content: 8192}, Notice{Why: "the disk is full"}, 0)
	r := decodeReply(t, out)
	text := r.blocks(t)[0].Text
	if strings.Count(text, "the rest was not kept (the disk is full); ask the tool for less") != 2 || strings.Contains(text, "penstock_result") {
		t.Errorf("%.300q", text)
	}
	if got := string(r.Result.Meta["dev.penstock/truncated"]); strings.Contains(got, "handle") {
		t.Errorf("meta %s", got)
	}
}

func TestBrokenCharacters(t *testing.T) {
	text := strings.Repeat(`a\ud800b`, 5000) + strings.Repeat("\xff\xfe", 5000) + strings.Repeat(`\u0000`, 5000)
	f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`)
	r, info := mustCut(t, f, Limits{Content: 40_000})
	if got := r.blocks(t)[0].Text; strings.Count(got, "\uFFFD") < 1000 || info.Replaced < 1000 {
		t.Errorf("%d replaced", info.Replaced)
	}
	// 5000 of 5 bytes, 10000 of 3, 5000 of 1.
	if info.TotalBytes != 60_000 {
		t.Errorf("total %d", info.TotalBytes)
	}
	got, _ := readAll(t, f, Query{})
	if len(got) != 60_000 || strings.Count(string(got), "\uFFFD") != 15_000 {
		t.Errorf("view of %d bytes", len(got))
	}
}

func TestDeepNesting(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 250) + quote(filler("lines", 300_000)) + strings.Repeat(`]}`, 250)
	f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":` + deep + `}}`)
	r, _ := mustCut(t, f, Limits{Content: 16 << 10})
	if !bytes.Contains(r.Result.Structured, []byte("a line of text")) {
		t.Errorf("%.300s", r.Result.Structured)
	}
	f = textFrame(deep)
	mustCut(t, f, Limits{Content: 16 << 10})
	f = []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"x","v":` + deep + `}],"x":` + deep + `,"_meta":{"m":` + deep + `}}}`)
	mustCut(t, f, Limits{Content: 16 << 10})
}

func TestBadFrames(t *testing.T) {
	for _, f := range []string{``, `{`, `{"a"`, `{"a":}`, `[1`, `{"a":1}}`, `{"a":1]`, `{,}`, `nope{}`, strings.Repeat("[", 2000)} {
		c := NewCutter(Limits{Content: 4096})
		c.Write([]byte(f))
		if out, _, err := c.Finish(kept); err == nil || out != nil {
			t.Errorf("%.20q: %s, %v", f, out, err)
		}
	}
}
