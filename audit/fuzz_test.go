package audit

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// What parses re-encodes to the same bytes; on error every result is nil.
func FuzzHeader(f *testing.F) {
	f.Add((&header{origin: "o"}).marshal())
	f.Add([]byte("penstock-audit/v1 segment\nstrand 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if (h == nil) != (err != nil) {
			t.Fatal(h, err)
		}
		if err == nil && !bytes.Equal(h.marshal(), b) {
			t.Errorf("%q re-encodes as %q", b, h.marshal())
		}
	})
}

func FuzzEntry(f *testing.F) {
	for _, e := range []*entry{{kind: kindOpen}, {kind: kindHead, at: state{n: 3}}, {kind: kindShred, word: "a"}, {kind: kindRecipients}, {kind: kindClock},
		{kind: kindEpoch, oldVKey: "a", vkey: "b"}, {kind: kindLoss, word: "b"}} {
		f.Add(e.marshal())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEntry(b)
		if (e == nil) != (err != nil) {
			t.Fatal(e, err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(e.marshal(), b) {
			t.Errorf("%q re-encodes as %q", b, e.marshal())
		}
		got, err := readEntry(iotest.OneByteReader(bytes.NewReader(appendEntry(nil, b))), make([]byte, maxEntry))
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%q reads as %q, %v", b, got, err)
		}
		v := newView(true)
		if v.add(b) != nil && (v.tree.size != 0 || len(v.strands) != 0) {
			t.Error("an entry that was refused left something behind")
		}
	})
}

// The scanner gives the same frames whatever the reads, and what it gives is
// what it got.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, frameHeader, []byte("x")), frameEnd, []byte(endClose)), 3)
	f.Add(state{n: 1}.appendCommit(nil, ID{}, make([]byte, 64)), 1)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		read := func(r io.Reader, size int) (out []byte, frames int, left int64, last error) {
			s := &scanner{r: r, buf: make([]byte, size)}
			for {
				fr, err := s.next()
				if err != nil {
					n, _, err2 := s.rest(func([]byte) bool { return false })
					if err2 != nil {
						t.Fatal(err2)
					}
					return out, frames, n, err
				}
				frames++
				out = append(out, fr...)
			}
		}
		a, n, left, err := read(bytes.NewReader(b), 128<<10)
		a2, n2, left2, err2 := read(iotest.OneByteReader(bytes.NewReader(b)), 8+max(step, 0)%64)
		if !bytes.Equal(a, a2) || n != n2 || err.Error() != err2.Error() || left != left2 {
			t.Errorf("%d frames, %v, %d left; in other reads %d, %v, %d", n, err, left, n2, err2, left2)
		}
		if !bytes.HasPrefix(b, a) || int64(len(a))+left != int64(len(b)) {
			t.Errorf("%d bytes of frames and %d left of %d", len(a), left, len(b))
		}
		if err == io.EOF && left != 0 {
			t.Error("EOF with bytes left")
		}
	})
}

// A body that is taken is JSON to everybody, and holds no name twice.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,-0.5e+7,"\u00e9",null,true,false,{}]}`, `{"a":1,"\u0061":2}`, `{"a" : 1 , "b":[ ]}`, `{"k":"log.gap"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkBody(b) != nil {
			return
		}
		if !json.Valid(b) || b[0] != '{' || bytes.ContainsAny(b, "\n\r") {
			t.Errorf("%q was taken", b)
		}
		d := json.NewDecoder(bytes.NewReader(b))
		var stack []map[string]bool // nil for arrays
		name := false
		for {
			tok, err := d.Token()
			if err != nil {
				break
			}
			top := len(stack) - 1
			if s, ok := tok.(string); ok && top >= 0 && stack[top] != nil && name {
				if stack[top][s] {
					t.Errorf("%q holds %q twice", b, s)
				}
				stack[top][s] = true
				name = false
				continue
			}
			switch tok {
			case json.Delim('{'):
				stack = append(stack, map[string]bool{})
			case json.Delim('['):
				stack = append(stack, nil)
			case json.Delim('}'), json.Delim(']'):
				stack = stack[:top]
			}
			top = len(stack) - 1
			name = top >= 0 && stack[top] != nil
		}
		rk, c := [32]byte{1}, [32]byte{2}
		frame := appendRecord(nil, rk, c, b)
		if len(frame) != recordLen(len(b)) {
			t.Errorf("%d bytes, want %d", len(frame), recordLen(len(b)))
		}
		got, err := openRecord(nil, rk, c, frame)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("opens as %q, %v", got, err)
		}
		parseOwn(b)
	})
}

// A checkpoint that opens is what was signed.
func FuzzCheckpoint(f *testing.F) {
	k, err := newNodeKey("o")
	must(f, err)
	msg, err := (&checkpoint{"o", 3, [32]byte{1}}).sign(k.signer)
	must(f, err)
	f.Add(msg)
	f.Fuzz(func(t *testing.T, b []byte) {
		cp, _, err := openCheckpoint(b, k.verifier)
		if (cp == nil) != (err != nil) {
			t.Fatal(cp, err)
		}
		if err == nil && (cp.origin != "o" || cp.size != 3 || cp.root != [32]byte{1}) {
			t.Errorf("forged: %+v", cp)
		}
		anchorSize(b)
	})
}

func TestOwnRecordsRoundTrip(t *testing.T) {
	for _, body := range []string{`{"v":1,"k":"log.gap","class":"intent","count":0,"first":"x","last":"y","why":""}`, `{"v":1,"k":"log.x"}`,
		`{"v":1,"k":"log.abandoned"}`, `{"v":1,"k":"log.gap","class":"x","count":1}`, `{"v":1,"k":"log.abandoned","leaf":1,"more":1}`} {
		if g, a, err := parseOwn([]byte(body)); err == nil || g != nil || a != nil {
			t.Errorf("%s: %v %v %v", body, g, a, err)
		}
	}
	_, leaf, err := parseOwn(abandonedBody(7))
	must(t, err)
	if leaf == nil || *leaf != 7 {
		t.Error(leaf)
	}
	if n := len(Gap{Class: ClassDiagnostic, Count: 1 << 40, Why: tidy(strings.Repeat("\"<\x00é", 64))}.body()); n > 256 {
		t.Errorf("a gap record takes %d bytes, more than is kept for it", n)
	}
}
