package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// -update makes testdata anew. The log in it is a promise: later releases
// verify it as it is, so it is made anew only while the format is not released.
var update = flag.Bool("update", false, "make testdata/log and testdata/tamper.json anew")

// frozen says what a verifier of testdata/log must know from elsewhere.
type frozen struct {
	Identities [2]string         `json:"identities"` // daily and recovery; made for this file only
	VKeys      map[string]string `json:"vkeys"`      // old and new: before and after the epoch
	Anchors    map[string]string `json:"anchors"`
	Cases      []tamperCase      `json:"cases"`
}

// tamperCase is one way to change testdata/log, and what a verifier must say.
type tamperCase struct {
	Case    int        `json:"case"` // number of the case in the list that every build must cover
	Name    string     `json:"name"`
	Ops     []tamperOp `json:"ops,omitempty"`
	VKey    string     `json:"vkey,omitempty"`
	Anchors []string   `json:"anchors,omitempty"`
	Keyed   int        `json:"keyed,omitempty"` // 1 and 2: with that identity
	Accept  bool       `json:"accept,omitempty"`
	Want    int        `json:"want"` // exit code
	Text    string     `json:"text,omitempty"`
}

// tamperOp changes one file. Paths are relative to the log.
type tamperOp struct {
	Op   string `json:"op"` // splice, remove, copy, write, truncate, symlink, link, fifo
	File string `json:"file"`
	To   string `json:"to,omitempty"`
	At   int64  `json:"at,omitempty"`
	Cut  int64  `json:"cut,omitempty"`
	Data []byte `json:"data,omitempty"`
	Size int64  `json:"size,omitempty"`
}

func (o tamperOp) do(dir string) error {
	path, to := filepath.Join(dir, o.File), filepath.Join(dir, o.To)
	switch o.Op {
	case "splice":
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(append(b[:o.At:o.At], o.Data...), b[o.At+o.Cut:]...), 0o600)
	case "remove":
		return os.RemoveAll(path)
	case "copy":
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o600)
	case "write":
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, o.Data, 0o600)
	case "truncate":
		return os.Truncate(path, o.Size)
	case "symlink":
		return errors.Join(os.Rename(path, path+".real"), os.Symlink(filepath.Base(path)+".real", path))
	case "link":
		return os.Link(path, to)
	case "fifo":
		return errors.Join(os.Remove(path), makeFIFO(path))
	}
	return fmt.Errorf("unknown op %q", o.Op)
}

func readFrozen(t testing.TB) *frozen {
	t.Helper()
	b, err := os.ReadFile("testdata/tamper.json")
	must(t, err)
	var f frozen
	must(t, json.Unmarshal(b, &f))
	return &f
}

// makeFrozen makes testdata/log: two strands, a rotation, a part that was given
// up, a torn tail, an orphan, an epoch, a shred.
func makeFrozen(t *testing.T) {
	l := newTestLog(t)
	recovery, recoveryPub, err := NewIdentity(true)
	must(t, err)
	l.recipients, err = ParseRecipients(l.recipients.Strings()[0] + "\n" + recoveryPub)
	must(t, err)
	f := &frozen{Identities: [2]string{l.identity, recovery}, VKeys: map[string]string{}, Anchors: map[string]string{}}
	disk := newSwitchboard()
	w := l.open(func(c *Config) { c.Disk, c.SegmentBytes = newHookDisk(t, l.dir, disk.hook), 1300 })
	f.VKeys["old"] = l.vkey()
	call(t, w, "a1")
	call(t, w, "a2")
	call(t, w, "a3")
	call(t, w, "a4")
	kept, err := w.Append([]byte(`{"v":1,"k":"note","call":"kept"}`), Written)
	must(t, err)
	_, err = kept.Wait(context.Background())
	must(t, err)
	disk.set("sync", syscall.EIO)
	again, err := w.Intent(intentBody("a5"), Durable)
	must(t, err)
	for w.Stats().Err == nil {
	}
	disk.set("sync", nil)
	w.mu.Lock()
	w.probeAt = w.opStart // at once
	w.mu.Unlock()
	signal(w.wake)
	_, err = again.Wait(context.Background())
	must(t, err)
	must(t, again.Terminal(outcomeBody("a5")))
	l.close(w)
	f.Anchors["first"] = string(l.anchor())
	old := snapshot(t, l.dir)

	s := l.spine()
	fork := copyLog(t, l.dir) // with the old node key
	_, err = s.RotateKey(context.Background())
	must(t, err)
	f.VKeys["new"] = l.vkey()
	w2 := l.open(nil)
	call(t, w2, "b1")
	i, err := w2.Intent(intentBody("b2"), Durable)
	must(t, err)
	_, err = i.Wait(context.Background())
	must(t, err)
	settle(t, w2)
	dead := copyLog(t, l.dir) // as if it died here
	l.close(w2)
	l.dir = dead
	seg := filepath.Join(dead, segmentName(w2.id, 0))
	b, err := os.ReadFile(seg)
	must(t, err)
	must(t, os.WriteFile(seg, append(b, 2, 0, 0, 0, 0, 0, 0, 80, 1, 2, 3), 0o600))
	s = l.spine()
	_, err = s.Sweep(context.Background())
	must(t, err)
	must(t, s.Shred(context.Background(), w.id, []int{0}, "test"))
	f.Anchors["last"] = string(l.anchor())
	f.Cases = makeCases(t, l, f, w, w2, old, fork)

	must(t, os.RemoveAll("testdata/log"))
	for _, name := range []string{nameNodeKey, nameLock, nameStrands + "/" + w.id.String() + "/live", nameStrands + "/" + w2.id.String() + "/live"} {
		must(t, os.Remove(filepath.Join(l.dir, name)))
	}
	must(t, os.CopyFS("testdata/log", os.DirFS(l.dir)))
	out, err := json.MarshalIndent(f, "", " ")
	must(t, err)
	must(t, os.WriteFile("testdata/tamper.json", append(out, '\n'), 0o644))
}

// snapshot returns ops that put a log as it is now in the place of another.
func snapshot(t testing.TB, dir string) []tamperOp {
	t.Helper()
	ops := []tamperOp{{Op: "remove", File: "strands"}, {Op: "remove", File: "spine"}}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "live" || d.Name() == "lock" || d.Name() == nameNodeKey {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		ops = append(ops, tamperOp{Op: "write", File: filepath.ToSlash(name), Data: b})
		return err
	}))
	return ops
}

// framesOf returns the frames of a segment and where they begin.
func framesOf(t testing.TB, path string) (frames [][]byte, at []int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	s := newScanner(bytes.NewReader(b))
	for {
		off := s.off
		f, err := s.next()
		if err != nil {
			return frames, at
		}
		frames, at = append(frames, bytes.Clone(f)), append(at, off)
	}
}

func makeCases(t *testing.T, l *testLog, f *frozen, a, b *Writer, old []tamperOp, fork string) []tamperCase {
	must2 := func(err error) { t.Helper(); must(t, err) }
	last := a.next - 1
	seg := func(k int) string { return segmentName(a.id, k) }
	path := func(name string) string { return filepath.Join(l.dir, name) }
	f1, at1 := framesOf(t, path(seg(1)))
	fl, atl := framesOf(t, path(seg(last)))
	n := len(fl)
	size := func(name string) int64 {
		st, err := os.Stat(path(name))
		must2(err)
		return st.Size()
	}
	flip := func(name string, at int64) tamperOp {
		data, err := os.ReadFile(path(name))
		must2(err)
		return tamperOp{Op: "splice", File: name, At: at, Cut: 1, Data: []byte{data[at] ^ 4}}
	}
	splice := func(name string, at, cut int64, data ...byte) tamperOp {
		return tamperOp{Op: "splice", File: name, At: at, Cut: cut, Data: data}
	}
	one := func(op tamperOp) []tamperOp { return []tamperOp{op} }
	var rec int // index of a RECORD of segment 1 with a COMMIT and another RECORD behind it
	for rec = 0; f1[rec][0] != frameRecord; rec++ {
	}
	next := rec + 1
	for f1[next][0] != frameRecord {
		next++
	}
	entries, err := os.ReadFile(path(nameEntries))
	must2(err)
	last2 := []string{"first", "last"}
	cases := []tamperCase{
		{0, "as it is", nil, "old", last2, 1, true, 0, ""},
		{0, "as it is, newer key pinned", nil, "new", last2, 0, true, 0, ""},
		{0, "unpinned", nil, "", last2, 1, true, 10, ""},
		{0, "unanchored", nil, "old", nil, 1, true, 10, "none met"},
		{26, "shredded without wish", nil, "old", last2, 1, false, 20, "shredded, as recorded"},
		{34, "the other identity", nil, "old", last2, 2, true, 0, ""},
		{1, "flip in ciphertext", one(flip(seg(1), at1[rec]+20)), "old", last2, 0, true, 30, "COMMIT does not match"},
		{2, "flip in header", one(flip(seg(1), 60)), "old", last2, 0, true, 30, ""},
		{3, "flip in the last signature", one(flip(seg(last), atl[n-1]+60)), "old", last2, 0, true, 30, "signature"},
		{6, "drop a record", one(splice(seg(1), at1[rec], int64(len(f1[rec])))), "old", last2, 0, true, 30, ""},
		{7, "reorder records", []tamperOp{splice(seg(1), at1[next], int64(len(f1[next])), f1[rec]...), splice(seg(1), at1[rec], int64(len(f1[rec])), f1[next]...)}, "old", last2, 0, true, 30, ""},
		{8, "duplicate a record", one(splice(seg(1), at1[rec], 0, f1[rec]...)), "old", last2, 0, true, 30, ""},
		{9, "truncate at a commit", one(tamperOp{Op: "truncate", File: seg(last), Size: atl[n-2]}), "old", last2, 0, true, 30, "was cut"},
		{10, "truncate within a frame", one(tamperOp{Op: "truncate", File: seg(last), Size: atl[n-1] + 9}), "old", last2, 0, true, 30, ""},
		{11, "delete the last segment", one(tamperOp{Op: "remove", File: seg(last)}), "old", last2, 0, true, 30, "was cut"},
		{11, "delete a middle segment", one(tamperOp{Op: "remove", File: seg(1)}), "old", last2, 0, true, 30, "is missing"},
		{12, "delete a strand", one(tamperOp{Op: "remove", File: strandDir(a.id)}), "old", last2, 0, true, 30, "folder is missing"},
		{13, "duplicate a segment under the next number", one(tamperOp{Op: "copy", File: seg(last), To: seg(last + 1)}), "old", last2, 0, true, 30, ""},
		{14, "a segment of the other strand", one(tamperOp{Op: "copy", File: segmentName(b.id, 0), To: seg(1)}), "old", last2, 0, true, 30, ""},
		{16, "swap key files", one(tamperOp{Op: "copy", File: keyFileName(a.id, last), To: keyFileName(a.id, 1)}), "old", last2, 0, true, 30, "key file"},
		{17, "flip in the spine", one(flip(nameEntries, 100)), "old", last2, 0, true, 30, ""},
		{17, "flip in the checkpoint", one(flip(nameCheckpoint, 40)), "old", last2, 0, true, 30, ""},
		{18, "cut the spine", one(tamperOp{Op: "truncate", File: nameEntries, Size: size(nameEntries) - 100}), "old", last2, 0, true, 30, "was cut"},
		{18, "remove the spine", one(tamperOp{Op: "remove", File: "spine"}), "old", last2, 0, true, 30, ""},
		{21, "replay of the old state, no anchor", old, "old", nil, 1, true, 10, ""},
		{21, "replay of the old state, old anchor", old, "old", []string{"first"}, 1, true, 0, ""},
		{21, "replay of the old state, newest anchor", old, "old", last2, 0, true, 30, "rolled back"},
		{24, "the last COMMIT removed", one(splice(seg(last), atl[n-1], int64(len(fl[n-1])))), "old", last2, 0, true, 30, ""},
		{24, "an older COMMIT moved to the end", []tamperOp{splice(seg(last), atl[n-1], int64(len(fl[n-1])), fl[1]...)}, "old", last2, 0, true, 30, "COMMIT does not match"},
		{25, "END removed", one(splice(seg(last), atl[n-2], int64(len(fl[n-2])))), "old", last2, 0, true, 30, ""},
		{25, "a stub over END", one(splice(seg(last), atl[n-2], 1, frameStub)), "old", last2, 0, true, 30, "reserved"},
		{25, "a stub over HEADER", one(splice(seg(last), 0, 1, frameStub)), "old", last2, 0, true, 30, ""},
		{26, "a key file removed", one(tamperOp{Op: "remove", File: keyFileName(a.id, 1)}), "old", last2, 0, true, 30, "no entry says"},
		{29, "an entry past the checkpoint", one(splice(nameEntries, int64(len(entries)), 0, appendEntry(nil, (&entry{kind: kindLoss, word: "x", time: 1 << 40}).marshal())...)), "old", last2, 1, true, 0, "not covered"},
		{29, "half an entry past the checkpoint", one(splice(nameEntries, int64(len(entries)), 0, 1, 0, 'p')), "old", last2, 1, true, 0, "not covered"},
		{31, "oversized length", one(splice(seg(1), at1[rec]+4, 4, 0, 0x10, 0, 1)), "old", last2, 0, true, 30, ""},
		{31, "length overflow", one(splice(seg(1), at1[rec]+4, 4, 0xff, 0xff, 0xff, 0xff)), "old", last2, 0, true, 30, ""},
		{31, "length beyond the end", one(splice(seg(last), atl[n-1]+4, 4, 0, 0, 0, 105)), "old", last2, 0, true, 30, ""},
		{31, "reserved bits", one(splice(seg(1), at1[rec]+1, 1, 1)), "old", last2, 0, true, 30, "reserved bits"},
		{31, "unknown type", one(splice(seg(1), at1[rec], 1, 7)), "old", last2, 0, true, 30, "unknown frame type"},
		{31, "2 GiB", one(tamperOp{Op: "truncate", File: seg(last), Size: 2 << 30}), "old", last2, 0, true, 30, "over the limit"},
		{31, "a symlink for a segment", one(tamperOp{Op: "symlink", File: seg(last)}), "old", last2, 0, true, 30, "not a regular file"},
		{31, "a FIFO for a segment", one(tamperOp{Op: "fifo", File: seg(last)}), "old", last2, 0, true, 30, "not a regular file"},
		{31, "a hard link to a segment", one(tamperOp{Op: "link", File: seg(last), To: "again"}), "old", last2, 0, true, 30, "hard link"},
		{31, "bytes after END", one(splice(seg(last), size(seg(last)), 0, 0)), "old", last2, 0, true, 30, "after END"},
		{0, "epoch checkpoint removed", one(tamperOp{Op: "remove", File: epochName(newViewOf(t, entries).epochs[0].size)}), "old", last2, 0, true, 30, "node key"},
		{0, "flip in the torn tail", one(flip(segmentName(b.id, 0), size(segmentName(b.id, 0))-1)), "old", last2, 1, true, 0, ""},
	}

	// Those that need keys that nobody should have.
	other := newTestLog(t)
	ow := other.open(nil)
	call(t, ow, "x")
	other.close(ow)
	otherOps := snapshot(t, other.dir)
	strand := []tamperOp{}
	for _, op := range otherOps {
		if strings.HasPrefix(op.File, "strands/") {
			strand = append(strand, op)
		}
	}
	cp, err := os.ReadFile(filepath.Join(l.dir, nameCheckpoint))
	must2(err)
	thief, err := newNodeKey(strings.Split(string(cp), "\n")[0])
	must2(err)
	text, _, _ := strings.Cut(string(cp), "\n\n")
	forged, err := note.Sign(&note.Note{Text: text + "\n"}, thief.signer)
	must2(err)
	st, _ := parseCommit(fl[n-1][frameHead:])
	foreign := st.appendCommit(nil, a.id, b.key)
	cases = append(cases,
		tamperCase{15, "a strand of another log", strand[1:], "old", last2, 0, true, 30, "not in the spine"},
		tamperCase{19, "checkpoint by another key", []tamperOp{{Op: "write", File: nameCheckpoint, Data: forged}, {Op: "write", File: nameNodeVKey, Data: []byte(thief.vkey)}}, "old", last2, 0, true, 30, "not signed"},
		tamperCase{19, "checkpoint by another key, unpinned", []tamperOp{{Op: "write", File: nameCheckpoint, Data: forged}, {Op: "write", File: nameNodeVKey, Data: []byte(thief.vkey)}}, "", nil, 0, true, 30, ""},
		tamperCase{20, "another log, its own signer", otherOps, "old", nil, 0, true, 30, ""},
		tamperCase{20, "another log, unpinned", otherOps, "", nil, 0, true, 10, "NOT pinned"},
		tamperCase{23, "a COMMIT by the other strand's key", one(splice(seg(last), atl[n-1], int64(len(fl[n-1])), foreign...)), "old", last2, 0, true, 30, "signature"},
	)
	forkLog := &testLog{t: t, dir: fork, recipients: l.recipients}
	fw := forkLog.open(nil)
	forkLog.close(fw)
	f.Anchors["fork"] = string(forkLog.anchor()) // shorter than the original
	w3 := forkLog.open(nil)
	forkLog.close(w3) // longer
	forkOps := snapshot(t, fork)
	cases = append(cases,
		tamperCase{22, "a fork, older anchor", forkOps, "old", []string{"first"}, 0, true, 0, ""},
		tamperCase{22, "a fork, anchor of the other history", forkOps, "old", []string{"last"}, 0, true, 30, ""},
		tamperCase{22, "the anchor of a fork", nil, "old", []string{"fork"}, 0, true, 30, "another history"},
	)
	// 32: a signature by somebody unknown is ignored, in front and behind; a
	// checkpoint of another origin is not.
	witness, err := newNodeKey("witness.example/w")
	must2(err)
	wn, err := note.Sign(&note.Note{Text: text + "\n"}, witness.signer)
	must2(err)
	_, line, _ := strings.Cut(string(wn), "\n\n")
	f.Anchors["cosigned"] = text + "\n\n" + line + strings.SplitN(string(cp), "\n\n", 2)[1] + line
	f.Anchors["witness only"] = string(wn)
	f.Anchors["other"] = string(other.anchor())
	cases = append(cases,
		tamperCase{32, "a cosignature by an unknown witness", nil, "old", []string{"cosigned"}, 0, true, 0, ""},
		tamperCase{32, "signed by an unknown witness only", nil, "old", []string{"witness only"}, 0, true, 30, "anchor 1"},
		tamperCase{32, "an anchor of another origin", nil, "old", []string{"other"}, 0, true, 30, "anchor 1"},
	)
	return append(cases, worlds(t, f)...)
}

func newViewOf(t testing.TB, entries []byte) *view {
	t.Helper()
	v := newView(true)
	for r, buf := bytes.NewReader(entries), make([]byte, maxEntry); r.Len() > 0; {
		raw, err := readEntry(r, buf)
		must(t, err)
		must(t, v.add(raw))
	}
	return v
}

// worlds are logs of their own whose writer or spine misbehaved.
func worlds(t *testing.T, f *frozen) (cases []tamperCase) {
	ids, err := ParseIdentities([]byte(f.Identities[0]), nil)
	must(t, err)
	fresh := func() *testLog {
		l := newTestLog(t)
		l.identity, l.ids = f.Identities[0], ids
		l.recipients = publicOf(t, f.Identities[0])
		return l
	}
	add := func(c int, name string, l *testLog, keyed, want int, text string) {
		cases = append(cases, tamperCase{Case: c, Name: name, Ops: snapshot(t, l.dir), Keyed: keyed, Want: want, Text: text})
	}

	l := fresh()
	w := l.open(nil)
	_, stranger, err := NewIdentity(true)
	must(t, err)
	both, err := ParseRecipients(l.recipients.Strings()[0] + "\n" + stranger)
	must(t, err)
	w.mu.Lock()
	w.recipients, w.rotate = both, true // the spine is not told
	w.mu.Unlock()
	call(t, w, "c")
	l.close(w)
	add(27, "a recipient that the spine does not know", l, 0, 30, "set of recipients")

	for _, honest := range []bool{true, false} {
		l = fresh()
		w = l.open(nil)
		l.close(w)
		s := l.spine()
		must(t, s.locked(context.Background(), func() error {
			must(t, s.refresh())
			s.view.last = 1 << 40 // as if the last entry were from the future
			e := &entry{kind: kindClock, old: 1 << 40, new: 1 << 20, time: 1 << 20}
			b, err := os.ReadFile(filepath.Join(l.dir, nameEntries))
			must(t, err)
			v := newViewOf(t, b)
			future := &entry{kind: kindLoss, word: "x", time: 1 << 40}
			now := &entry{kind: kindLoss, word: "x", time: 1 << 20}
			list := []*entry{future, e, now}
			if !honest {
				list = []*entry{future, now}
			}
			for _, e := range list {
				raw := e.marshal()
				v.tree.add(raw)
				b = appendEntry(b, raw)
			}
			must(t, os.WriteFile(filepath.Join(l.dir, nameEntries), b, 0o600))
			cp := checkpoint{s.key.verifier.Name(), v.tree.size, v.tree.root()}
			msg, err := cp.sign(s.key.signer)
			must(t, err)
			return replace(s.root, nameCheckpoint, msg)
		}))
		if honest {
			add(28, "the clock went back, as recorded", l, 0, 20, "clock went back")
		} else {
			add(28, "the clock went back in silence", l, 0, 30, "clock went back")
		}
	}

	// Case 33: the header is honest about the key file, and it holds another
	// secret than the one that the header commits to.
	l = fresh()
	w = l.open(nil)
	l.close(w)
	reseal(t, l, w)
	add(33, "another secret in the key file, without the key", l, 0, 10, "")
	add(33, "another secret in the key file", l, 1, 30, "commits to")
	return cases
}

func publicOf(t testing.TB, identity string) *Recipients {
	t.Helper()
	r, err := recipientOf(identity)
	must(t, err)
	out, err := ParseRecipients(r)
	must(t, err)
	return out
}

// reseal writes a strand of one segment anew, with the strand's own key and a
// key file that holds another secret, and makes the spine agree.
func reseal(t testing.TB, l *testLog, w *Writer) {
	t.Helper()
	_, file, err := l.recipients.sealKey(w.id, 0)
	must(t, err)
	seg := filepath.Join(l.dir, segmentName(w.id, 0))
	frames, _ := framesOf(t, seg)
	h, err := parseHeader(frames[0][frameHead:])
	must(t, err)
	h.keyFile = sha(file)
	var st state
	out := appendFrame(nil, frameHeader, h.marshal())
	st = st.link(out)
	out = st.appendCommit(out, w.id, w.key)
	first := st
	end := appendFrame(nil, frameEnd, []byte(endClose))
	st = st.link(end)
	out = st.appendCommit(append(out, end...), w.id, w.key)
	must(t, os.WriteFile(seg, out, 0o600))
	must(t, os.WriteFile(filepath.Join(l.dir, keyFileName(w.id, 0)), file, 0o600))
	b, err := os.ReadFile(filepath.Join(l.dir, nameEntries))
	must(t, err)
	var tr tree
	var list []byte
	for r, buf := bytes.NewReader(b), make([]byte, maxEntry); r.Len() > 0; {
		raw, err := readEntry(r, buf)
		must(t, err)
		e, err := parseEntry(raw)
		must(t, err)
		switch e.kind {
		case kindHead:
			e.at = first
		case kindClose:
			e.at = st
		}
		tr.add(e.marshal())
		list = appendEntry(list, e.marshal())
	}
	must(t, os.WriteFile(filepath.Join(l.dir, nameEntries), list, 0o600))
	k, err := os.ReadFile(filepath.Join(l.dir, nameNodeKey))
	must(t, err)
	key, err := parseNodeKey(strings.TrimSpace(string(k)))
	must(t, err)
	cp := checkpoint{key.verifier.Name(), tr.size, tr.root()}
	msg, err := cp.sign(key.signer)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(l.dir, nameCheckpoint), msg, 0o600))
}

// TestFrozenLog verifies the log of an earlier release, and each way to change
// it.
func TestFrozenLog(t *testing.T) {
	if *update {
		makeFrozen(t)
	}
	f := readFrozen(t)
	seen := map[int]bool{}
	for _, c := range f.Cases {
		seen[c.Case] = true
		t.Run(fmt.Sprintf("%d %s", c.Case, c.Name), func(t *testing.T) {
			dir := copyLog(t, "testdata/log")
			for _, op := range c.Ops {
				must(t, op.do(dir))
			}
			opt := VerifyOptions{VKey: f.VKeys[c.VKey], AcceptDisposed: c.Accept}
			for _, a := range c.Anchors {
				opt.Anchors = append(opt.Anchors, []byte(f.Anchors[a]))
			}
			if c.Keyed > 0 {
				var err error
				opt.Identities, err = ParseIdentities([]byte(f.Identities[c.Keyed-1]), nil)
				must(t, err)
			}
			r, err := Verify(context.Background(), dir, opt)
			must(t, err)
			wantVerdict(t, r, Verdict(c.Want/10), c.Text)
			if r.Verdict.ExitCode() != c.Want {
				t.Errorf("exit %d, want %d", r.Verdict.ExitCode(), c.Want)
			}
		})
	}
	// 4, 5 and 30 are tests of their own.
	for n := 1; n <= 34; n++ {
		if !seen[n] && n != 4 && n != 5 && n != 30 {
			t.Errorf("no case %d", n)
		}
	}
}

// TestFrozenLogLifecycle judges the calls of the frozen log: one of them never
// got its outcome.
func TestFrozenLogLifecycle(t *testing.T) {
	f := readFrozen(t)
	ids, err := ParseIdentities([]byte(f.Identities[0]), nil)
	must(t, err)
	r, err := Verify(context.Background(), "testdata/log", VerifyOptions{VKey: f.VKeys["old"], Identities: ids, Classify: classify, AcceptDisposed: true,
		Anchors: [][]byte{[]byte(f.Anchors["last"])}})
	must(t, err)
	wantVerdict(t, r, Incomplete, "1 calls have an intent and no outcome: b2")
}
