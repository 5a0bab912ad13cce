package frame_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/frame"
)

// FuzzReader: the pieces in which a stream arrives make no difference, a
// message is one, and what is written is read.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		ping + "\r\n\n" + ping, "log " + ping + "\n{bad\n" + ping + "\n", padded(200) + "\n" + ping, "\xEF\xBB\xBF\xEF\xBB\n" + ping,
		`{"jsonrpc":"2.0","id":1,"result":"` + "\xff\u2028\xf0\x9f" + `"}` + "\n", strings.Repeat("x\n", 40), `{"result":"` + strings.Repeat("y", 300) + `","id":1}`,
		"[" + ping + "]\n" + strings.Repeat(" ", 130) + "\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		o := frame.Options{Limit: 100, Noise: 300, Discard: 2000, EscapeSeparators: n&1 != 0}
		whole, err := events(bytes.NewReader(b), o)
		cut, cutErr := events(&pieces{b, int(n%32) + 1}, o)
		end := func(e error) bool { return e == io.EOF }
		if end(err) != end(cutErr) {
			t.Fatalf("%q: %v whole, %v in pieces", b, err, cutErr)
		}
		if end(err) && strings.Join(whole, "\n") != strings.Join(cut, "\n") {
			t.Fatalf("%q:\n whole  %q\n pieces %q", b, whole, cut)
		}
		var out bytes.Buffer
		w := frame.NewWriter(&out)
		var want []string
		for _, e := range whole {
			data, ok := strings.CutPrefix(e, "message ")
			if !ok {
				continue
			}
			if err := w.WriteFrame([]byte(data)); err != nil || len(data) > o.Limit {
				t.Fatalf("%q: %v", data, err)
			}
			want = append(want, e)
		}
		if got, err := events(&out, o); err != io.EOF || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q: written and read again %q, %v", want, got, err)
		}
	})
}

// pieces reads n bytes at a time.
type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.b)
	p.b = p.b[n:]
	return n, nil
}
