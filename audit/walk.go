package audit

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// A damageError says where a strand is not what its writer made.
type damageError struct {
	segment int
	offset  int64 // -1 if it is about the segment as such
	text    string
}

func (e *damageError) Error() string {
	if e.offset < 0 {
		return fmt.Sprintf("segment %d: %s", e.segment, e.text)
	}
	return fmt.Sprintf("segment %d at byte %d: %s", e.segment, e.offset, e.text)
}

// Record is one record of a log. Body is valid until the next one is given.
type Record struct {
	Position
	Body      []byte
	Gap       *Gap    // of the log's own gap records
	Abandoned *uint64 // of the log's own: the leaf of the intent for which nothing was done
}

// walk reads one strand. The fields before the blank line say how; the others
// are what it found.
type walk struct {
	root     *os.Root
	id       ID
	signer   []byte // nil: the one that segment 0 names
	origin   string // "" for any
	heads    []state
	keys     *Identities
	allSigs  bool
	allowed  func(set [32]byte) bool // nil for any
	from     int                     // first segment
	onRecord func(*Record) error
	progress func(n int64)

	state      state // committed
	end        string
	segments   int
	sealed     int64 // RECORD frames committed
	read       int64 // of them opened
	commits    int64
	bytes      int64
	torn       int64 // bytes after the last COMMIT
	prepared   bool  // the last segment has no byte yet
	superseded map[int]int64
	keyless    []int // segments without a key file
	locked     []int // segments that no identity opens
	strange    []string
}

// run reads the strand. A *damageError says that it is not intact, any other
// error that it could not be read; onRecord's error is returned as it is.
func (w *walk) run() error {
	n, keyFiles, err := w.list()
	if err != nil {
		return err
	}
	w.segments = n
	if n == 0 {
		return nil
	}
	h, err := w.peek(w.from)
	for k := w.from; k < n; k++ {
		if err != nil {
			if _, ok := errors.AsType[*damageError](err); !ok {
				return err
			}
			if k < n-1 {
				return err
			}
			return w.unbegun(k, err)
		}
		if k == w.from && k > 0 {
			w.state = state{h.first, h.prev}
		}
		next, nextErr := (*header)(nil), error(nil)
		if k+1 < n {
			next, nextErr = w.peek(k + 1)
			if nextErr != nil {
				next = nil
			}
		}
		if err := w.segment(k, h, next); err != nil {
			return err
		}
		h, err = next, nextErr
	}
	for k := range keyFiles {
		if k > n { // n itself may be a rotation that had not begun
			w.strange = append(w.strange, fmt.Sprintf("%06d.key.age", k))
		}
	}
	return nil
}

// list returns how many segments there are; none may be missing.
func (w *walk) list() (n int, keyFiles map[int]bool, err error) {
	d, err := w.root.Open(strandDir(w.id))
	if err != nil {
		return 0, nil, err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return 0, nil, err
	}
	segs, keyFiles := map[int]bool{}, map[int]bool{}
	top := -1
	for _, name := range names {
		var k int
		num, ext, _ := strings.Cut(name, ".")
		if _, err := fmt.Sscanf(num, "%d", &k); err != nil || fmt.Sprintf("%06d", k) != num {
			ext = ""
		}
		switch {
		case ext == "seg":
			segs[k] = true
			top = max(top, k)
		case ext == "key.age":
			keyFiles[k] = true
		case name == nameLive:
		default:
			w.strange = append(w.strange, name)
		}
	}
	for k := range top + 1 {
		if !segs[k] && k >= w.from {
			return 0, nil, &damageError{k, -1, "is missing"}
		}
	}
	return top + 1, keyFiles, nil
}

func (w *walk) open(k int) (*os.File, int64, error) {
	f, size, err := openRegular(w.root, segmentName(w.id, k), maxSegment)
	if ir, ok := errors.AsType[*irregularError](err); ok {
		return nil, 0, &damageError{k, -1, "is " + ir.what}
	}
	return f, size, err
}

// peek reads the start of a segment: HEADER and the COMMIT behind it. It is a
// *damageError if they are not there, whole and signed.
func (w *walk) peek(k int) (*header, error) {
	f, _, err := w.open(k)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bad := func(format string, args ...any) (*header, error) {
		return nil, &damageError{k, 0, fmt.Sprintf(format, args...)}
	}
	s := &scanner{r: f, buf: make([]byte, 4<<10)}
	frame, err := s.next()
	if re, ok := errors.AsType[readError](err); ok {
		return nil, re
	} else if err != nil {
		return bad("no header: %v", err)
	}
	if frame[0] != frameHeader {
		return bad("starts with a frame of type %#02x, not with a header", frame[0])
	}
	h, err := parseHeader(frame[frameHead:])
	if err != nil {
		return bad("header: %v", err)
	}
	st := state{h.first, h.prev}.link(frame)
	if frame, err = s.next(); err != nil || frame[0] != frameCommit {
		if re, ok := errors.AsType[readError](err); ok {
			return nil, re
		}
		return bad("the header is not committed")
	}
	if w.signer == nil && k == 0 {
		w.signer = h.signer[:]
	}
	at, sig := parseCommit(frame[frameHead:])
	if w.signer == nil || at != st || !ed25519.Verify(w.signer, st.commitMessage(w.id), sig) {
		return bad("the header's COMMIT does not match")
	}
	return h, nil
}

// unbegun judges the last segment, which has no valid start: its writer died
// before it had written one, or somebody changed it.
func (w *walk) unbegun(k int, why error) error {
	f, size, err := w.open(k)
	if err != nil {
		return err
	}
	defer f.Close()
	if size == 0 {
		w.prepared = true
		return nil
	}
	_, hit, err := newScanner(f).rest(w.genuine)
	if err != nil {
		return err
	}
	if hit {
		return fmt.Errorf("%w, and signed frames follow", why)
	}
	w.torn += size
	w.bytes += size
	return nil
}

// genuine reports whether a frame is a COMMIT of this strand's writer.
func (w *walk) genuine(frame []byte) bool {
	st, sig := parseCommit(frame[frameHead:])
	return w.signer != nil && ed25519.Verify(w.signer, st.commitMessage(w.id), sig)
}

// segment reads one segment whose start peek has seen.
func (w *walk) segment(k int, h, next *header) error {
	f, size, err := w.open(k)
	if err != nil {
		return err
	}
	defer f.Close()
	g := &segmentWalk{walk: w, k: k, h: h, next: next, pend: w.state}
	if err := g.begin(); err != nil {
		return err
	}
	g.s = newScanner(&countReader{f, w.progress})
	return g.run(size)
}

type countReader struct {
	r io.Reader
	f func(int64)
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.f != nil {
		c.f(int64(n))
	}
	return n, err
}

// segmentWalk is the reading of one segment. What is pending counts only once a
// COMMIT covers it.
type segmentWalk struct {
	*walk
	k        int
	h, next  *header
	s        *scanner
	keyed    bool
	secret   [32]byte
	keys     ratchet
	pend     state
	pendEnd  string
	pendErr  error // of a record that does not open
	pendAt   int64
	records  []Record
	arena    []byte
	nRecords int64
	frames   int
	last     state  // of the last COMMIT
	lastSig  []byte // nil if none, or already verified
	lastAt   int64
	after    int64 // offset after the last COMMIT
}

func (g *segmentWalk) damage(offset int64, format string, args ...any) error {
	return &damageError{g.k, offset, fmt.Sprintf(format, args...)}
}

// begin checks what the header says against what is known.
func (g *segmentWalk) begin() error {
	h := g.h
	switch {
	case h.strand != g.id:
		return g.damage(0, "belongs to strand %s", h.strand)
	case h.segment != g.k:
		return g.damage(0, "is segment %d under another number", h.segment)
	case h.first != g.state.n || h.prev != g.state.c:
		return g.damage(0, "does not go on where the segment before ends")
	case string(h.signer[:]) != string(g.signer):
		return g.damage(0, "is signed by another key than the strand's")
	case g.origin != "" && h.origin != g.origin:
		return g.damage(0, "belongs to the log %.60q", h.origin)
	case g.allowed != nil && !g.allowed(h.recipients):
		return g.damage(0, "is sealed to a set of recipients that the spine does not know")
	}
	file, err := readRegular(g.root, keyFileName(g.id, g.k), maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		g.keyless = append(g.keyless, g.k)
		return nil
	} else if ir, ok := errors.AsType[*irregularError](err); ok {
		return g.damage(-1, "its key file is %s", ir.what)
	} else if err != nil {
		return err
	}
	if sha(file) != h.keyFile {
		return g.damage(-1, "its key file is another one")
	}
	if g.walk.keys == nil {
		return nil
	}
	g.secret, err = g.walk.keys.openKey(g.id, g.k, file)
	switch {
	case errors.Is(err, ErrNoIdentity):
		g.locked = append(g.locked, g.k)
		return nil
	case err != nil:
		return g.damage(-1, "%v", err)
	case keyCommit(g.secret) != h.keyCommit:
		return g.damage(-1, "its key is not the one that its header commits to")
	}
	g.keyed = true
	return nil
}

func (g *segmentWalk) run(size int64) error {
	for {
		at := g.s.off
		frame, err := g.s.next()
		if err != nil {
			return g.stop(at, size, err)
		}
		g.frames++
		done, err := g.frame(at, frame)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		// The next segment goes on from here.
		if err := g.verifyLast(); err != nil {
			return err
		}
		if g.end == endClose {
			return g.damage(g.after, "segment %d follows although the strand was closed", g.k+1)
		}
		if rest := size - g.after; rest > 0 {
			if g.end != "" {
				return g.damage(g.after, "%d bytes after END", rest)
			}
			if g.superseded == nil {
				g.superseded = make(map[int]int64)
			}
			g.superseded[g.k] = rest
			g.bytes += rest
		}
		g.end = ""
		return nil
	}
}

// stop judges a segment whose frames end at offset at.
func (g *segmentWalk) stop(at, size int64, err error) error {
	if re, ok := errors.AsType[readError](err); ok {
		return re
	}
	if err2 := g.verifyLast(); err2 != nil {
		return err2
	}
	torn := g.s.off - g.after
	if err != io.EOF {
		n, hit, err2 := g.s.rest(g.genuine)
		if err2 != nil {
			return err2
		}
		if hit {
			return g.damage(at, "%v; signed frames follow", err)
		}
		torn += n
	}
	switch {
	case g.next != nil:
		return g.damage(g.after, "segment %d does not go on from here", g.k+1)
	case torn > 0 && g.end != "":
		return g.damage(g.after, "%d bytes after END", torn)
	case torn == 0 && err != io.EOF:
		return g.damage(at, "%v", err)
	}
	g.torn += torn
	g.bytes += torn
	return nil
}

// frame takes one frame. done says that the next segment begins here.
func (g *segmentWalk) frame(at int64, frame []byte) (done bool, err error) {
	typ := frame[0]
	if (typ == frameHeader) != (g.frames == 1) {
		return false, g.damage(at, "a header where none belongs")
	}
	if g.frames == 2 && typ != frameCommit {
		return false, g.damage(at, "the header is not committed")
	}
	if g.pendEnd != "" && typ != frameCommit || g.end != "" {
		return false, g.damage(at, "a frame after END")
	}
	if typ == frameCommit {
		return g.commit(at, frame)
	}
	before := g.pend
	g.pend = g.pend.link(frame)
	for len(g.heads) > 0 && g.heads[0].n <= g.pend.n {
		if g.heads[0].n == g.pend.n && g.heads[0].c != g.pend.c {
			return false, g.damage(at, "is not what the spine says: at %d leaves the chain has another value", g.pend.n)
		}
		g.heads = g.heads[1:]
	}
	switch typ {
	case frameHeader:
		if g.keyed {
			g.keys = newRatchet(g.secret, g.pend.c)
		}
	case frameEnd:
		if e := string(frame[frameHead:]); e == endRotate || e == endClose {
			g.pendEnd = e
		} else {
			return false, g.damage(at, "END %.20q", e)
		}
	case frameRecord:
		g.nRecords++
		if g.keyed {
			g.unseal(at, before, frame)
		}
	}
	return false, nil
}

// unseal opens a record. Its errors count only once it is committed.
func (g *segmentWalk) unseal(at int64, before state, frame []byte) {
	rk := g.keys.next()
	if g.pendErr != nil {
		return
	}
	n := len(g.arena)
	arena, err := openRecord(g.arena, rk, before.c, frame)
	var r Record
	if err == nil {
		g.arena = arena
		r = Record{Position: Position{g.id, g.k, before.n}, Body: arena[n:len(arena):len(arena)]}
		if err = checkBody(r.Body); err == nil {
			r.Gap, r.Abandoned, err = parseOwn(r.Body)
		}
	}
	if err != nil {
		g.pendErr, g.pendAt = err, at
		return
	}
	g.records = append(g.records, r)
}

func (g *segmentWalk) commit(at int64, frame []byte) (done bool, err error) {
	st, sig := parseCommit(frame[frameHead:])
	switch {
	case st != g.pend:
		return false, g.damage(at, "COMMIT does not match the frames before it")
	case st.n == g.state.n:
		return false, g.damage(at, "COMMIT without a frame before it")
	case g.pendErr != nil:
		return false, g.damage(g.pendAt, "%v", g.pendErr)
	}
	g.last, g.lastSig, g.lastAt = st, append(g.lastSig[:0], sig...), at
	if g.allSigs {
		if err := g.verifyLast(); err != nil {
			return false, err
		}
	}
	g.state, g.end = st, g.pendEnd
	g.sealed += g.nRecords
	g.nRecords = 0
	g.commits++
	g.bytes += at + int64(len(frame)) - g.after
	g.after = at + int64(len(frame))
	for i := range g.records {
		g.read++
		if g.onRecord != nil {
			if err := g.onRecord(&g.records[i]); err != nil {
				return false, err
			}
		}
	}
	g.records, g.arena = g.records[:0], g.arena[:0]
	if g.next == nil {
		return false, nil
	}
	if g.next.first < st.n {
		return false, g.damage(at, "segment %d does not go on from here", g.k+1)
	}
	return g.next.first == st.n && g.next.prev == st.c, nil
}

// verifyLast checks the signature of the last COMMIT; the chain makes those
// before it redundant.
func (g *segmentWalk) verifyLast() error {
	if len(g.lastSig) == 0 {
		return nil
	}
	if !ed25519.Verify(g.signer, g.last.commitMessage(g.id), g.lastSig) {
		return g.damage(g.lastAt, "the signature of a COMMIT is wrong")
	}
	g.lastSig = g.lastSig[:0]
	return nil
}
