package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// VerifyOptions says against what a log is judged. The zero value checks only
// that its files agree with each other.
type VerifyOptions struct {
	// VKey is the node's verifier key, known from elsewhere. Without it the one
	// in the log is believed, and the verdict is [Unanchored] at best.
	VKey string
	// Anchors are signed checkpoints that were kept elsewhere. Without one the
	// verdict is [Unanchored] at best.
	Anchors [][]byte
	// MaxAge, if not 0, is how old the newest spine entry that an anchor covers
	// may be; beyond it the verdict is [Unanchored] at best.
	MaxAge time.Duration
	// Recipients, if not nil, is the set that the newest segments must be
	// sealed to.
	Recipients *Recipients
	// AcceptDisposed says that contents which were shredded or pruned, and
	// recorded as such, are wished to be gone.
	AcceptDisposed bool
	// AllSignatures checks the signature of every commit instead of the last
	// of each segment, which the chain makes sufficient: slower, and finds
	// damage more exactly.
	AllSignatures bool

	// Identities open the records. Nil means that contents are not read.
	Identities *Identities
	// Classify, if not nil, lets the lifecycles of calls be judged.
	Classify Classifier
	// OnRecord, if not nil, gets every record that was opened, in the order of
	// each strand. Its error ends the verification.
	OnRecord func(*Record) error

	// Progress, if not nil, is called now and then.
	Progress func(done, total int64)
	// Now is the time that MaxAge counts from. Zero means now.
	Now time.Time
}

// ErrNoLog says that there is no log in the folder.
var ErrNoLog = errors.New("no audit log here")

// Verify judges the log in dir. It needs no lock, no key and no permission to
// write; a live log verifies too, and so does a copy. The error is about what
// could not be read, or options that make no sense; whatever is wrong with the
// log is in the report.
func Verify(ctx context.Context, dir string, opt VerifyOptions) (*Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	v := &verifier{ctx: ctx, root: root, opt: opt, report: &Report{Findings: []Finding{}, Signatures: "the last of each segment"}}
	if opt.AllSignatures {
		v.report.Signatures = "all"
	}
	if opt.Now.IsZero() {
		v.opt.Now = time.Now()
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	return v.report, nil
}

type verifier struct {
	ctx    context.Context
	root   *os.Root
	opt    VerifyOptions
	report *Report
	spine  *spineState
	judge  *judge
	hidden bool // some contents cannot be read
	// doubts are checks that a spine which is newer than the one that was read
	// at first may resolve: the log may be live.
	doubts      []func(v *view)
	done, total int64
}

func (v *verifier) run() error {
	r := v.report
	var pinned string
	if v.opt.VKey != "" {
		k, err := parseVKey(v.opt.VKey)
		if err != nil {
			return err
		}
		pinned = strings.TrimSpace(v.opt.VKey)
		r.Origin = k.Name()
	}
	// Strands before the spine: a strand that has records is in the spine by
	// the time it is read.
	ids, other, err := listStrands(v.root)
	if err != nil {
		return err
	}
	if _, err := v.root.Lstat("spine"); errors.Is(err, fs.ErrNotExist) && len(ids) == 0 {
		return ErrNoLog
	}
	r.Pinned = pinned != ""
	r.Keyed = v.opt.Identities != nil
	want := map[uint64]bool{}
	for i, a := range v.opt.Anchors {
		size, err := anchorSize(a)
		if err != nil {
			return fmt.Errorf("anchor %d: %w", i+1, err)
		}
		want[size] = true
	}
	v.spine, err = readSpine(v.root, pinned, want)
	if se, ok := errors.AsType[*spineError](err); ok {
		if unborn, err := v.unborn(ids); err != nil {
			return err
		} else if unborn {
			return ErrNoLog
		}
		r.add(Failed, nil, "%s; strands were not checked", se.text)
		r.Strands = len(ids)
		r.Signatures = "none"
		return nil
	} else if err != nil {
		return err
	}
	r.Origin, r.Signer, r.Entries = v.spine.cp.origin, v.spine.signer, v.spine.cp.size
	if v.spine.extra > 0 {
		r.add(Verified, nil, "%d bytes of the spine are not covered by its checkpoint yet", v.spine.extra)
	}
	v.anchors()
	v.policy()
	for _, name := range other {
		r.add(Verified, nil, "%s/%.80q is not part of the log", nameStrands, name)
	}
	if v.opt.Classify != nil && r.Keyed {
		v.judge = newJudge(v.opt.Classify)
	}
	if v.opt.Progress != nil {
		v.total = v.size(ids)
	}
	here := map[ID]bool{}
	for _, id := range ids {
		here[id] = true
	}
	for _, id := range v.spine.view.order {
		if err := v.strand(id, here[id]); err != nil {
			return err
		}
		delete(here, id)
	}
	for _, id := range ids {
		if here[id] {
			if err := v.stranger(id); err != nil {
				return err
			}
		}
	}
	if err := v.resolve(pinned); err != nil {
		return err
	}
	if v.judge != nil {
		v.judge.end(r, v.hidden)
	}
	for _, l := range v.spine.view.losses {
		id := l.strand
		r.add(Incomplete, &id, "its writer noticed at %s: %s", time.Unix(l.time, 0).UTC().Format(time.RFC3339), l.what)
	}
	if n := v.spine.view.clocks; n > 0 {
		r.add(Verified, nil, "the clock went back %d times, as recorded", n)
	}
	if r.Verdict < Unanchored {
		switch {
		case !r.Pinned:
			r.Verdict = Unanchored
		case r.Anchors == 0:
			r.Verdict = Unanchored
		case v.opt.MaxAge > 0 && v.opt.Now.Sub(*r.AnchorTime) > v.opt.MaxAge:
			r.add(Unanchored, nil, "the newest anchor is older than %s", v.opt.MaxAge)
		}
	}
	return nil
}

// unborn reports whether the log's first writer died before it was through with
// opening: nothing was signed yet, and there is no record.
func (v *verifier) unborn(ids []ID) (bool, error) {
	if _, err := v.root.Lstat(nameCheckpoint); !errors.Is(err, fs.ErrNotExist) || len(v.opt.Anchors) > 0 {
		return false, nil
	}
	for _, id := range ids {
		w := &walk{root: v.root, id: id}
		if err := w.run(); err != nil || w.sealed > 0 || w.end != "" {
			if _, ok := errors.AsType[*damageError](err); ok || errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return false, err
		}
	}
	return true, nil
}

// anchorSize returns the size that a checkpoint claims.
func anchorSize(msg []byte) (uint64, error) {
	_, text, ok := strings.Cut(string(msg), "\n")
	l := &lines{rest: "size " + text}
	n := l.number("size")
	if !ok || l.err != nil {
		return 0, errors.New("is not a checkpoint")
	}
	return n, nil
}

// anchors compares the spine with what others kept of it.
func (v *verifier) anchors() {
	r := v.report
	var by []note.Verifier
	for _, k := range v.spine.keys {
		if n, err := parseVKey(k); err == nil {
			by = append(by, n)
		}
	}
	for i, msg := range v.opt.Anchors {
		cp, _, err := openCheckpoint(msg, by...)
		switch {
		case err != nil:
			r.add(Failed, nil, "anchor %d: %v", i+1, err)
		case cp.origin != v.spine.cp.origin:
			r.add(Failed, nil, "anchor %d is of another log (%.60q)", i+1, cp.origin)
		case cp.size > v.spine.cp.size:
			r.add(Failed, nil, "anchor %d covers %d spine entries, and there are %d: the log was rolled back", i+1, cp.size, v.spine.cp.size)
		case cp.root != v.spine.roots[cp.size]:
			r.add(Failed, nil, "anchor %d has another history of the first %d spine entries", i+1, cp.size)
		default:
			r.Anchors++
			if cp.size >= r.AnchorSize {
				t := time.Unix(v.spine.times[cp.size], 0)
				r.AnchorSize, r.AnchorTime = cp.size, &t
			}
		}
	}
}

// policy compares the recipients with those that the caller expects.
func (v *verifier) policy() {
	set := v.opt.Recipients
	if set == nil {
		return
	}
	v.report.Policy = true
	if set.Hash() != v.spine.view.set {
		v.report.add(Failed, nil, "the log is sealed to another set of recipients than expected")
	}
}

func (v *verifier) size(ids []ID) (n int64) {
	for _, id := range ids {
		d, err := v.root.Open(strandDir(id))
		if err != nil {
			continue
		}
		list, _ := d.ReadDir(-1)
		d.Close()
		for _, e := range list {
			if st, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".seg") {
				n += st.Size()
			}
		}
	}
	return n
}

func (v *verifier) newWalk(id ID) *walk {
	w := &walk{root: v.root, id: id, origin: v.spine.cp.origin, keys: v.opt.Identities, allSigs: v.opt.AllSignatures}
	w.onRecord = func(r *Record) error {
		if v.judge != nil {
			v.judge.record(r)
		}
		if v.opt.OnRecord != nil {
			return v.opt.OnRecord(r)
		}
		return nil
	}
	w.progress = func(n int64) {
		v.done += n
		if v.opt.Progress != nil {
			v.opt.Progress(v.done, max(v.total, v.done))
		}
	}
	return w
}

// strand judges a strand that the spine knows.
func (v *verifier) strand(id ID, here bool) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	r, s := v.report, v.spine.view.strands[id]
	if s.pruned {
		r.Pruned++
		if here {
			r.add(Verified, &id, "was pruned, and its folder is still there")
		}
		v.hidden = true
		return nil
	}
	r.Strands++
	if !here {
		v.doubts = append(v.doubts, func(now *view) {
			if now.strands[id].pruned {
				r.Pruned++
				v.hidden = true
				return
			}
			r.add(Failed, &id, "its folder is missing")
		})
		return nil
	}
	w := v.newWalk(id)
	w.signer, w.heads = s.signer[:], slices.Clone(s.heads)
	w.allowed = func(set [32]byte) bool { _, ok := v.spine.view.sets[set]; return ok }
	live := isLive(v.root, id)
	if v.judge != nil {
		v.judge.strands[id] = live
	}
	err := w.run()
	if de, ok := errors.AsType[*damageError](err); ok {
		if _, err := v.root.Lstat(strandDir(id)); errors.Is(err, fs.ErrNotExist) {
			return v.strand(id, false) // pruned just now, or removed
		}
		r.add(Failed, &id, "%v", de)
		v.hidden = true
		return nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return v.strand(id, false)
	} else if err != nil {
		return err
	}
	v.count(w)
	v.ends(id, s, w, live)
	v.contents(id, w)
	return nil
}

func (v *verifier) count(w *walk) {
	r := v.report
	r.Segments += w.segments
	r.Leaves += w.state.n
	r.Records += w.sealed
	r.Opened += w.read
	r.Bytes += w.bytes
	if r.Keyed {
		r.Sealed += w.sealed - w.read
	}
}

// ends compares where a strand ends with where it should.
func (v *verifier) ends(id ID, s *strandView, w *walk, live bool) {
	r := v.report
	if w.state.n < s.last.n {
		r.add(Failed, &id, "was cut: the spine saw %d leaves, %d are there", s.last.n, w.state.n)
		return
	}
	if s.end == "" || w.state.n > s.last.n {
		r.Uncovered += w.state.n - s.last.n
	}
	for _, k := range sortedKeys(w.superseded) {
		r.add(Verified, &id, "%d bytes of segment %d were given up by its writer and written again", w.superseded[k], k)
	}
	for _, name := range w.strange {
		r.add(Verified, &id, "%.80q is not part of the log", name)
	}
	switch {
	case s.end == kindClose:
		r.Closed++
		if w.end != endClose || w.state != s.last || w.torn > 0 {
			r.add(Failed, &id, "was closed at %d leaves, and does not end there", s.last.n)
		}
	case s.end == kindOrphan:
		r.Orphaned++
		if w.state != s.last {
			r.add(Failed, &id, "went on after its writer had died")
		} else if w.torn > 0 {
			r.add(Verified, &id, "its writer died while writing; %d bytes behind its last commit are not read", w.torn)
		} else {
			r.add(Verified, &id, "its writer died")
		}
	case live:
		r.Live++
	case w.end == endClose:
		r.Unended++
		r.add(Verified, &id, "was closed, which the spine does not say yet")
	case w.torn > 0:
		r.Unended++
		r.add(Incomplete, &id, "ends in %d bytes that its writer never committed", w.torn)
	default:
		r.Unended++
		r.add(Verified, &id, "was not closed: its writer died, or the copy was made while it wrote")
	}
}

// contents judges what cannot be read.
func (v *verifier) contents(id ID, w *walk) {
	r := v.report
	if len(w.keyless) > 0 {
		v.hidden = true
		keyless := w.keyless
		v.doubts = append(v.doubts, func(now *view) {
			var unexplained []int
			for _, k := range keyless {
				if _, ok := now.strands[id].shreds[k]; !ok {
					unexplained = append(unexplained, k)
				} else {
					r.Shredded++
				}
			}
			if len(unexplained) > 0 {
				r.add(Failed, &id, "the key files of segments %s are missing, and no entry says that they were shredded", some(unexplained))
			}
			if n := len(keyless) - len(unexplained); n > 0 {
				verdict := Incomplete
				if v.opt.AcceptDisposed {
					verdict = Verified
				}
				r.add(verdict, &id, "the contents of %d segments were shredded, as recorded", n)
			}
		})
	}
	if len(w.locked) > 0 {
		v.hidden = true
		r.add(Incomplete, &id, "segments %s are sealed to other identities than those given", some(w.locked))
	}
}

// stranger judges a strand that the spine does not know.
func (v *verifier) stranger(id ID) error {
	w := v.newWalk(id)
	w.keys, w.onRecord = nil, nil
	err := w.run()
	if _, damaged := errors.AsType[*damageError](err); err != nil && !damaged && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && w.sealed == 0 && w.end == "" {
		v.report.add(Verified, &id, "its writer died before it was opened; it has no record")
		return nil
	}
	v.doubts = append(v.doubts, func(now *view) {
		if s := now.strands[id]; s != nil {
			v.report.add(Verified, &id, "was opened during the verification and not checked")
			return
		}
		v.report.Strands++
		v.report.add(Failed, &id, "is not in the spine: it belongs to another log, or the spine was cut")
	})
	return nil
}

// resolve judges the doubts by the spine as it is now, if there are any.
func (v *verifier) resolve(pinned string) error {
	now := v.spine.view
	if len(v.doubts) > 0 {
		again, err := readSpine(v.root, pinned, map[uint64]bool{v.spine.cp.size: true})
		if _, ok := errors.AsType[*spineError](err); ok {
			v.report.add(Failed, nil, "the spine changed during the verification: %v", err)
		} else if err != nil {
			return err
		} else if again.roots[v.spine.cp.size] != v.spine.cp.root {
			v.report.add(Failed, nil, "the spine was rewritten during the verification")
		} else {
			now = again.view
		}
	}
	for _, f := range v.doubts {
		f(now)
	}
	if n := v.report.Pruned; n > 0 && !v.opt.AcceptDisposed {
		v.report.add(Incomplete, nil, "%d strands were pruned, as recorded", n)
	}
	return nil
}

// isLive reports whether a strand's writer holds its lock.
func isLive(root *os.Root, id ID) bool {
	st, err := root.Lstat(liveName(id))
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	f, err := root.OpenFile(liveName(id), os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	ok, err := tryLock(f, true)
	return err == nil && !ok
}

func sortedKeys[V any](m map[int]V) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// some lists the first few.
func some[T any](list []T) string {
	var b strings.Builder
	for i, x := range list {
		if i == 5 {
			fmt.Fprintf(&b, " and %d more", len(list)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.80s", fmt.Sprint(x))
	}
	return b.String()
}
