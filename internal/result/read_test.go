package result

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

var testKey = []byte("0123456789abcdef0123456789abcdef")

// readAll joins the pages of a query and checks what each of them says.
func readAll(t *testing.T, frame []byte, q Query) (text []byte, pages int) {
	t.Helper()
	most := q.Max
	for {
		p, err := Read(context.Background(), bytes.NewReader(frame), int64(len(frame)), testKey, q)
		if err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		if most > 0 && len(p.Text) > most {
			t.Fatalf("page %d has %d bytes, most is %d", pages, len(p.Text), most)
		}
		text = append(text, p.Text...)
		pages++
		if p.End != (p.Next == "") {
			t.Fatalf("page %d: end is %v, next %q", pages, p.End, p.Next)
		}
		if p.End {
			return text, pages
		}
		if p.Text == "" && q.Grep == "" && q.Cursor == "" {
			t.Fatalf("page %d is empty", pages)
		}
		q = Query{Cursor: p.Next, Max: most}
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func textFrame(text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":%s}]}}`, quote(text))
}

func TestPagesJoin(t *testing.T) {
	texts := map[string]string{
		"empty":     "",
		"short":     "one line",
		"lines":     strings.Repeat("a line of text\n", 20000),
		"unbroken":  strings.Repeat("x", 300_000),
		"multibyte": strings.Repeat("日本語テキスト😀", 9000),
		"quotes":    strings.Repeat("\"\\\"\t", 60000),
		"controls":  strings.Repeat("\x00\x01\x1f\n", 30000),
	}
	for name, text := range texts {
		for _, most := range []int{17, 1000, 64 << 10} {
			if most == 17 && len(text) > 20000 {
				text = text[:20000]
				text = strings.ToValidUTF8(text, "")
			}
			t.Run(fmt.Sprintf("%s/%d", name, most), func(t *testing.T) {
				f := textFrame(text)
				got, _ := readAll(t, f, Query{Part: "0", Max: most})
				if sha256.Sum256(got) != sha256.Sum256([]byte(text)) {
					t.Fatalf("pages of %d bytes do not join to the text of %d", len(got), len(text))
				}
				raw, _ := readAll(t, f, Query{Part: "raw", Max: most})
				if !bytes.Equal(raw, f) {
					t.Fatal("pages of raw do not join")
				}
				var view bytes.Buffer
				n, err := View(context.Background(), &view, bytes.NewReader(f), int64(len(f)), "0")
				if err != nil || n != int64(len(text)) || view.String() != text {
					t.Fatalf("View: %d bytes, %v", n, err)
				}
			})
		}
	}
}
