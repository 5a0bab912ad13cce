package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/frame"
)

func seeds() [][]byte {
	big := quote(filler("lines", 6000))
	return [][]byte{
		textFrame(filler("lines", 5000)),
		textFrame(filler("quotes", 5000)),
		textFrame(`{"a":"` + blob(20_000) + `"}`),
		textFrame(`[` + strings.Repeat(`{"a":[1,2,"x"]},`, 500) + `1]`),
		[]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":` + big + `}],"structuredContent":{"a":[` + strings.Repeat(`{"b":`+quote("some text")+`},`, 300) + `1],"c":` + big + `}}}`),
		[]byte(`{"jsonrpc":"2.0","result":{"content":[{"type":"image","data":"` + blob(5000) + `"},{"resource":{"text":` + big + `,"blob":"AAAA"}},{"type":"x","text":` + big + `},1,"x",[]],"_meta":{"a":` + big + `},"isError":true},"id":"x"}`),
		[]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":` + big + `,"data":[` + big + `]}}`),
		[]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[` + strings.Repeat(`{"type":"text","text":"\ud800\ud83d\ude00\u0000"},`, 400) + `{}]}}`),
	}
}

// FuzzCut: of every response that is JSON a cut is JSON on one line within the
// limits, and does not depend on how the response was cut into pieces.
func FuzzCut(f *testing.F) {
	for i, s := range seeds() {
		f.Add(s, uint16(100*i+1), uint8(i))
	}
	schema := parseSchema(f, `{"type":"object","properties":{"a":{"type":"array","minItems":1}},"required":["a"]}`)
	f.Fuzz(func(t *testing.T, b []byte, size uint16, how uint8) {
		l := Limits{Content: MinContent, Media: 3000, Frame: 1 << 20, Keep: Keep(how % 3)}
		if how&4 != 0 {
			l.Schema = schema
		}
		n := Notice{Handle: "r_0123456789abcdef", Kept: how&8 != 0, Why: "x"}
		c := NewCutter(l)
		c.Write(b)
		out, info, err := c.Finish(n)
		if !json.Valid(b) {
			return
		}
		if head, ferr := frame.Parse(b); ferr != nil || head.Duplicate != "" {
			return // what package frame refuses never gets here
		}
		if err != nil {
			t.Fatal(err)
		}
		d := NewCutter(l)
		for p := range chunks(b, int(size)%97+1) {
			d.Write(p)
		}
		other, otherInfo, err := d.Finish(n)
		if err != nil || !bytes.Equal(out, other) || fmt.Sprint(info) != fmt.Sprint(otherInfo) {
			t.Fatalf("pieces matter:\n%s\n%s", out, other)
		}
		if out == nil {
			if info.Truncated {
				t.Fatal("truncated, but no frame")
			}
			return
		}
		if !json.Valid(out) || bytes.IndexByte(out, '\n') >= 0 {
			t.Fatalf("not JSON on a line: %s", out)
		}
		m := NewCutter(Limits{Frame: l.Frame})
		m.Write(out)
		if m.textual > int64(l.Content) {
			t.Fatalf("%d textual bytes of %d: %s", m.textual, l.Content, out)
		}
		if _, _, err := m.Finish(n); err != nil {
			t.Fatal(err)
		}
		if _, err := frame.Parse(out); err != nil {
			t.Fatal(err)
		}
		if info.ShownBytes > info.TotalBytes || info.ShownBytes < 0 {
			t.Fatalf("%+v", info)
		}
	})
}

// FuzzRead: a query ends, in pages that join to one that is as large as all of
// them, or is refused.
func FuzzRead(f *testing.F) {
	for i, s := range seeds() {
		f.Add(s, "0", "/a/0/b", "x[a-z]", int64(i*100), int64(i*1000), uint8(i))
		f.Add(s, "structured", "", "", int64(0), int64(1)<<40, uint8(i+100))
	}
	f.Fuzz(func(t *testing.T, b []byte, part, pointer, pattern string, from, to int64, how uint8) {
		q := Query{Part: part}
		if how&1 != 0 {
			q.Pointer = &pointer
		}
		switch how >> 1 & 3 {
		case 1:
			q.Bytes = &[2]int64{from, to}
		case 2:
			q.Lines = &[2]int64{from, to}
		case 3:
			q.Grep, q.Context = pattern, int(how>>5)
		}
		q.Max = 1 << 20
		ctx := context.Background()
		whole, err := Read(ctx, bytes.NewReader(b), int64(len(b)), testKey, q)
		var bad *QueryError
		if err != nil {
			if !errors.As(err, &bad) {
				t.Fatal(err)
			}
			return
		}
		if len(whole.Text) > q.Max || !whole.End {
			return
		}
		q.Max = 16 + int(how)
		var joined []byte
		for range 2*len(whole.Text) + 100 {
			p, err := Read(ctx, bytes.NewReader(b), int64(len(b)), testKey, q)
			if err != nil {
				if q.Cursor == "" && q.Part == "" {
					return // the default part depends on Max
				}
				t.Fatal(err)
			}
			if len(p.Text) > q.Max {
				t.Fatalf("%d bytes of %d", len(p.Text), q.Max)
			}
			joined = append(joined, p.Text...)
			if p.End {
				if q.Grep == "" && how>>1&3 != 3 && part != "" && string(joined) != whole.Text {
					t.Fatalf("pages join to %q, whole is %q", joined, whole.Text)
				}
				return
			}
			q = Query{Cursor: p.Next, Max: q.Max}
		}
		t.Fatal("does not end")
	})
}

// FuzzDecode: decoding in steps of any room is decoding at once.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`a\ud83d\ude00\ud800\u00e9é`+"\xff\xf0\x9f"), uint8(4))
	f.Fuzz(func(t *testing.T, b []byte, room uint8) {
		if !json.Valid(slices.Concat([]byte{'"'}, b, []byte{'"'})) {
			return
		}
		whole, n, bad := decode(nil, b, 6*len(b)+6, true)
		if n != len(b) {
			t.Fatalf("%d of %d", n, len(b))
		}
		l := &leaf{headCap: 1 << 20}
		for p := range chunks(b, int(room)%7+1) {
			l.write(p)
		}
		l.end()
		if l.total != int64(len(whole)) || l.replaced != int64(bad) {
			t.Fatalf("%d bytes, %d broken; want %d, %d", l.total, l.replaced, len(whole), bad)
		}
		var out []byte
		for at := 0; at < len(b); {
			var k int
			had := len(out)
			out, k, _ = decode(out, b[at:], int(room)%9+4, true)
			if k == 0 || len(out)-had > int(room)%9+4 {
				t.Fatalf("%d bytes for %d", k, len(out)-had)
			}
			at += k
		}
		if !bytes.Equal(out, whole) {
			t.Fatalf("%q, want %q", out, whole)
		}
	})
}
