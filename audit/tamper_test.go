package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// flips runs f for bits of a file: one in every stride bytes, all in the long form.
func flips(t *testing.T, path string, f func(what string)) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	for i := range data {
		for bit := range 8 {
			if !thorough && (i%stride != 0 || bit != i/stride%8) {
				continue
			}
			data[i] ^= 1 << bit
			must(t, os.WriteFile(path, data, 0o600))
			f(fmt.Sprintf("%s byte %d bit %d", filepath.Base(path), i, bit))
			data[i] ^= 1 << bit
		}
	}
	must(t, os.WriteFile(path, data, 0o600))
}

// smallLog is a closed strand of one call.
func smallLog(t *testing.T) *testLog {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "c")
	l.close(w)
	return l
}

// thorough is set where every bit is flipped, not one in a few bytes.
var thorough = false

const stride = 5

func TestEveryFlipFails(t *testing.T) {
	l := smallLog(t)
	strand := l.strandPath()
	for _, path := range []string{
		filepath.Join(strand, "000000.seg"), filepath.Join(strand, "000000.key.age"),
		filepath.Join(l.dir, nameEntries), filepath.Join(l.dir, nameCheckpoint),
	} {
		n := 0
		flips(t, path, func(what string) {
			n++
			r, err := Verify(context.Background(), l.dir, VerifyOptions{AllSignatures: true})
			must(t, err)
			if r.Verdict != Failed {
				t.Errorf("%s: %v", what, r.Verdict)
			}
		})
		t.Logf("%s: %d flips", filepath.Base(path), n)
	}
	l.want(Unanchored, "1 closed")
}

func TestEveryTruncationFails(t *testing.T) {
	l := smallLog(t)
	strand := l.strandPath()
	for _, path := range []string{filepath.Join(strand, "000000.seg"), filepath.Join(strand, "000000.key.age"), filepath.Join(l.dir, nameEntries), filepath.Join(l.dir, nameCheckpoint)} {
		data, err := os.ReadFile(path)
		must(t, err)
		for n := range data {
			if !thorough && n%stride != 0 {
				continue
			}
			must(t, os.WriteFile(path, data[:n], 0o600))
			r, err := Verify(context.Background(), l.dir, VerifyOptions{})
			must(t, err)
			if r.Verdict != Failed {
				t.Errorf("%s cut to %d of %d bytes: %v", filepath.Base(path), n, len(data), r.Verdict)
			}
		}
		must(t, os.WriteFile(path, data, 0o600))
	}
	l.want(Unanchored, "1 closed")
}

// A strand whose writer died is cut at every byte behind its last head: it must
// never pass as closed, nor as whole unless it ends at a commit.
func TestEveryTruncationOfAnOpenStrand(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "c")
	settle(t, w)
	dir := copyLog(t, l.dir) // as if it were killed here
	l.close(w)
	path := filepath.Join(dir, nameStrands, w.id.String(), "000000.seg")
	data, err := os.ReadFile(path)
	must(t, err)
	whole := 0
	for n := range data {
		must(t, os.WriteFile(path, data[:n], 0o600))
		r, err := Verify(context.Background(), dir, VerifyOptions{})
		must(t, err)
		switch r.Verdict {
		case Failed, Incomplete:
		case Unanchored:
			whole++
		default:
			t.Errorf("cut to %d bytes: %v", n, r.Verdict)
		}
		if r.Closed > 0 {
			t.Errorf("cut to %d bytes, it passes as closed", n)
		}
	}
	if whole == 0 || whole > 4 {
		t.Errorf("%d cuts pass as whole, want one for each commit", whole)
	}
}

// Whoever has the strand's key can write another strand; the spine has seen the
// first.
func TestHeadsBindAnOpenStrand(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	settle(t, w)
	dir := copyLog(t, l.dir)
	l.close(w)
	path := filepath.Join(dir, segmentName(w.id, 0))
	frames, _ := framesOf(t, path)
	h, err := parseHeader(frames[0][frameHead:])
	must(t, err)
	h.created++
	frame := appendFrame(nil, frameHeader, h.marshal())
	must(t, os.WriteFile(path, state{}.link(frame).appendCommit(frame, w.id, w.key), 0o600))
	r, err := Verify(context.Background(), dir, VerifyOptions{})
	must(t, err)
	wantVerdict(t, r, Failed, "is not what the spine says")
}
