package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// The edge agrees with the library's tree at every size.
func TestTreeAgreesWithTlog(t *testing.T) {
	var tr tree
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range indexes {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for n := int64(0); n < 300; n++ {
		want, err := tlog.TreeHash(n, reader)
		must(t, err)
		if n > 0 && want != tr.root() {
			t.Fatalf("root of size %d differs", n)
		}
		entry := fmt.Appendf(nil, "entry %d", n)
		hs, err := tlog.StoredHashes(n, entry, reader)
		must(t, err)
		stored = append(stored, hs...)
		tr.add(entry)
	}
}

func lossEntry(n int) *entry { return &entry{kind: kindLoss, word: "test", since: int64(n)} }

func (l *testLog) append(s *Spine, list ...*entry) error {
	return s.update(context.Background(), func(*view) ([]*entry, error) { return list, nil })
}

// Spines in several processes share a folder; so do several in this one.
func TestSpinesShareAFolder(t *testing.T) {
	l := newTestLog(t)
	var wg sync.WaitGroup
	for range 4 {
		s := l.spine()
		wg.Go(func() {
			for i := range 20 {
				if err := l.append(s, lossEntry(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r := l.verify(nil); r.Entries != 80 {
		t.Errorf("%d entries, want 80", r.Entries)
	}
}

func TestSpineLockIsBounded(t *testing.T) {
	l := newTestLog(t)
	s := l.spine()
	f, err := os.Open(filepath.Join(l.dir, nameLock))
	must(t, err)
	defer f.Close()
	if ok, err := tryLock(f, false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	wantErr(t, s.update(ctx, func(*view) ([]*entry, error) { return nil, nil }), ErrLocked)
}

// A spine whose writer died at any byte goes on; what was signed stays.
func TestSpineCutAnywhere(t *testing.T) {
	l := newTestLog(t)
	s := l.spine()
	must(t, l.append(s, lossEntry(1)))
	entries, cp := filepath.Join(l.dir, nameEntries), filepath.Join(l.dir, nameCheckpoint)
	before, err := os.ReadFile(entries)
	must(t, err)
	oldCP, err := os.ReadFile(cp)
	must(t, err)
	must(t, l.append(s, lossEntry(2)))
	after, err := os.ReadFile(entries)
	must(t, err)
	for n := len(before); n <= len(after); n++ {
		// The entry was being written; the checkpoint, or its temporary file,
		// was not replaced yet.
		must(t, os.WriteFile(entries, after[:n], 0o600))
		must(t, os.WriteFile(cp, oldCP, 0o600))
		must(t, os.WriteFile(cp+".tmp", oldCP[:n%len(oldCP)], 0o600))
		if r := l.verify(nil); r.Verdict > Incomplete || r.Entries != 1 {
			t.Fatalf("cut at %d: %v, %d entries", n, r.Verdict, r.Entries)
		}
		s := l.spine()
		must(t, l.append(s, lossEntry(3)))
		want := uint64(2)
		if n == len(after) {
			want = 3 // the whole entry is covered now
		}
		if r := l.verify(nil); r.Verdict > Incomplete || r.Entries != want {
			t.Fatalf("cut at %d, appended: %v, %d entries", n, r.Verdict, r.Entries)
		}
		must(t, s.Close())
	}
}

func TestSpineRefusesToGoBack(t *testing.T) {
	l := newTestLog(t)
	s := l.spine()
	must(t, l.append(s, lossEntry(1)))
	old := copyLog(t, l.dir)
	must(t, l.append(s, lossEntry(2)))
	must(t, os.RemoveAll(filepath.Join(l.dir, "spine")))
	must(t, os.CopyFS(filepath.Join(l.dir, "spine"), os.DirFS(filepath.Join(old, "spine"))))
	wantErr(t, l.append(s, lossEntry(3)), ErrSpine)
	// Another process cannot know. It goes on, and is a fork.
	must(t, l.append(l.spine(), lossEntry(4)))
	wantErr(t, l.append(s, lossEntry(5)), ErrSpine)

	must(t, os.WriteFile(filepath.Join(l.dir, nameEntries), []byte("x"), 0o600))
	_, err := OpenSpine(context.Background(), l.dir, false)
	wantErr(t, err, ErrSpine)
}

// A change of the node key that is cut short anywhere is done or undone.
func TestEpochCutShort(t *testing.T) {
	l := newTestLog(t)
	s := l.spine()
	must(t, l.append(s, lossEntry(1)))
	old := l.vkey()
	before := copyLog(t, l.dir)
	vkey, err := s.RotateKey(context.Background())
	must(t, err)
	if vkey == old || vkey != l.vkey() || vkey != s.VKey() {
		t.Error("the key did not change")
	}
	must(t, l.append(s, lossEntry(2)))
	for _, pin := range []string{old, vkey} {
		wantVerdict(t, l.verify(func(o *VerifyOptions) { o.VKey = pin }), Incomplete, "(pinned)")
	}
	name := filepath.Join(l.dir, epochName(2))
	both, err := os.ReadFile(name)
	must(t, err)
	cp, _, err := openCheckpoint(both, s.key.verifier)
	must(t, err)
	alone, err := cp.sign(s.key.signer)
	must(t, err)
	must(t, os.WriteFile(name, alone, 0o600))
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.VKey = old }), Failed, "not signed by both keys")
	must(t, os.WriteFile(name, both, 0o600))
	other := newTestLog(t)
	other.spine()
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.VKey = other.vkey() }), Failed, "never signed by the pinned key")

	// What was on the disk at each point, made again from before.
	key := func(dir string) *nodeKey {
		b, err := os.ReadFile(filepath.Join(dir, nameNodeKey))
		must(t, err)
		k, err := parseNodeKey(string(trimLF(b)))
		must(t, err)
		return k
	}
	next, err := newNodeKey(key(before).verifier.Name())
	must(t, err)
	for _, point := range []string{"next key", "entry", "checkpoint", "epoch", "vkey", "key"} {
		dir := copyLog(t, before)
		l := &testLog{t: t, dir: dir}
		s := l.spine()
		must(t, replace(s.root, nameNextKey, []byte(next.skey+"\n")))
		e := &entry{kind: kindEpoch, oldVKey: s.key.vkey, vkey: next.vkey}
		switch point {
		case "entry":
			b, err := os.ReadFile(filepath.Join(dir, nameEntries))
			must(t, err)
			e.time = time.Now().Unix()
			must(t, os.WriteFile(filepath.Join(dir, nameEntries), appendEntry(b, e.marshal()), 0o600))
		case "checkpoint", "epoch", "vkey", "key":
			msg, err := s.append([]*entry{e}, s.key.signer, next.signer)
			must(t, err)
			if point != "checkpoint" {
				must(t, replace(s.root, epochName(s.view.tree.size), msg))
			}
			if point == "vkey" || point == "key" {
				must(t, replace(s.root, nameNodeVKey, []byte(next.vkey+"\n")))
			}
			if point == "key" {
				must(t, replace(s.root, nameNodeKey, []byte(next.skey+"\n")))
			}
		}
		must(t, s.Close())
		s2 := l.spine()
		must(t, l.append(s2, lossEntry(3)))
		want := old
		if point != "next key" && point != "entry" {
			want = next.vkey
		}
		if s2.VKey() != want || l.vkey() != want {
			t.Errorf("%s: key %s, want %s", point, s2.VKey(), want)
		}
		if _, err := os.Stat(filepath.Join(dir, nameNextKey)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the next key is still there", point)
		}
		wantVerdict(t, l.verify(func(o *VerifyOptions) { o.VKey = old }), Incomplete, "(pinned)")
	}
}

func TestFolderRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, 0o777))
	if _, err := OpenSpine(context.Background(), dir, false); err == nil {
		t.Error("a folder that others can write to was taken")
	}
	must(t, os.WriteFile(dir+"2", nil, 0o600))
	if _, err := OpenSpine(context.Background(), dir+"2", false); err == nil {
		t.Error("a file was taken for a folder")
	}
	must(t, os.Symlink(t.TempDir(), dir+"3"))
	if _, err := OpenSpine(context.Background(), dir+"3", false); err == nil {
		t.Error("a symlink was taken for a folder")
	}
}

func TestNothingToVerify(t *testing.T) {
	_, err := Verify(context.Background(), t.TempDir(), VerifyOptions{})
	wantErr(t, err, ErrNoLog)
	_, err = Verify(context.Background(), filepath.Join(t.TempDir(), "none"), VerifyOptions{})
	wantErr(t, err, os.ErrNotExist)
	l := smallLog(t)
	if _, err = Verify(context.Background(), l.dir, VerifyOptions{Anchors: [][]byte{[]byte("nonsense")}}); err == nil {
		t.Error("nonsense was taken for an anchor")
	}
	if _, err = Verify(context.Background(), l.dir, VerifyOptions{VKey: "nonsense"}); err == nil {
		t.Error("nonsense was taken for a key")
	}
}

func TestOldAnchorIsNotFresh(t *testing.T) {
	l := smallLog(t)
	check := func(now time.Time) *Report {
		return l.verify(func(o *VerifyOptions) {
			o.VKey, o.Anchors, o.MaxAge, o.Now = l.vkey(), [][]byte{l.anchor()}, time.Hour, now
		})
	}
	wantVerdict(t, check(time.Now()), Verified, "")
	wantVerdict(t, check(time.Now().Add(2*time.Hour)), Unanchored, "older than 1h0m0s")
}
