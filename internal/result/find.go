package result

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/penstock-dev/penstock/frame"
)

// finder finds a part of a stored response. Set part and most.
type finder struct {
	w    walker
	part string // "" for the default: the first text longer than most
	most int64
	want int // index of the block, -1 if none is wanted

	depth   int
	last    []byte
	in      [7]finderCtx // of the containers around, by depth
	list    List
	index   int    // of the current block
	block   int64  // where it begins
	blockS  bool   // it has a text
	name    string // of the value that is being measured
	opened  int64  // where that begins
	pieces  int64  // bytes of the current string or atom
	openAt  int
	found   bool
	mode    viewMode
	off     int64
	picked  string
	second  bool // a fallback was noted
	fbMode  viewMode
	fbOff   int64
	fbPart  string
	nblocks int
}

type finderCtx uint8

const (
	fOther finderCtx = iota
	fTop
	fResult
	fContent
	fBlock
	fMessage // the content of a message
	fResource
)

func (f *finder) here() finderCtx {
	if f.depth == 0 || f.depth >= len(f.in) {
		return fOther
	}
	return f.in[f.depth]
}

func (f *finder) is(name string) bool { return frame.Is(f.last, name) }

// take ends the search.
func (f *finder) take(part string, mode viewMode, off int64) {
	f.found, f.picked, f.mode, f.off = true, part, mode, off
	f.w.stop = true
}

// candidate notes a textual part that begins.
func (f *finder) candidate(part string, mode viewMode, off int64) {
	if f.part != "" {
		return
	}
	if !f.second {
		f.second, f.fbPart, f.fbMode, f.fbOff = true, part, mode, off
	}
	f.name, f.opened, f.openAt = part, off, f.depth
	f.mode = mode
}

// value handles a value that begins at off, and returns the context inside of
// it.
func (f *finder) value(c byte, off int64) finderCtx {
	switch f.here() {
	case fTop:
		if c == '{' && f.is("result") {
			return fResult
		}
		if f.is("error") {
			if f.part == "error" || f.part == "" {
				f.take("error", modeValue, off)
			}
		}
	case fResult:
		if c == '[' && f.is(f.list.name()) {
			return fContent
		}
		if f.is("structuredContent") {
			if f.part == "structured" {
				f.take("structured", modeValue, off)
			}
			f.candidate("structured", modeValue, off)
		}
	case fContent:
		f.index = f.nblocks
		f.nblocks++
		f.block, f.blockS = off, false
		if c == '{' {
			return fBlock
		}
		if f.want == f.index {
			f.take(f.part, modeValue, off)
		}
	case fBlock:
		if c == '{' && f.is("resource") {
			return fResource
		}
		if c == '{' && f.list == Messages && f.is("content") {
			return fMessage
		}
		if c == '"' && (f.is("text") || f.is("data") || f.list == Contents && f.is("blob")) {
			f.leaf(off, f.is("text"))
		}
	case fMessage:
		if c == '{' && f.is("resource") {
			return fResource
		}
		if c == '"' && (f.is("text") || f.is("data")) {
			f.leaf(off, f.is("text"))
		}
	case fResource:
		if c == '"' && (f.is("text") || f.is("blob")) {
			f.leaf(off, f.is("text"))
		}
	}
	return fOther
}

func (f *finder) leaf(off int64, text bool) {
	if f.blockS {
		return
	}
	f.blockS = true
	if f.want == f.index {
		f.take(f.part, modeString, off+1)
	} else if text {
		f.candidate(strconv.Itoa(f.index), modeString, off+1)
	}
}

func (f *finder) measured(n int64, end bool) {
	if f.name == "" {
		return
	}
	if n > f.most {
		f.take(f.name, f.mode, f.opened)
	} else if end {
		f.name = ""
	}
}

func (f *finder) open(c byte, at int64) {
	ctx := fOther
	if f.depth == 0 {
		if c == '{' {
			ctx = fTop
		}
	} else {
		ctx = f.value(c, at)
	}
	f.depth++
	if f.depth < len(f.in) {
		f.in[f.depth] = ctx
	}
}

func (f *finder) close(_ byte, at int64) {
	here := f.here()
	f.depth--
	if here == fBlock && f.want == f.index && !f.blockS {
		f.take(f.part, modeValue, f.block)
	}
	if f.name != "" {
		f.measured(at+1-f.opened, f.depth == f.openAt)
	}
}

func (f *finder) name_(raw []byte) { f.last = append(f.last[:0], raw...) }

type finderSink struct{ *finder }

func (f finderSink) name(raw []byte, _ int, _ int64) { f.name_(raw) }

func (f *finder) text(p []byte, at int64, start, end bool) {
	if start && f.depth > 0 {
		f.value('"', at)
	}
	f.piece(p, at, start, end)
}

func (f *finder) atom(p []byte, at int64, start, end bool) {
	if start && f.depth > 0 {
		f.value('0', at)
	}
	f.piece(p, at, start, end)
}

func (f *finder) piece(p []byte, at int64, start, end bool) {
	if start {
		f.pieces = 0
	}
	f.pieces += int64(len(p))
	f.measured(at+f.pieces-f.opened, end && f.depth == f.openAt)
}

// find returns a stream of the part and its name.
func find(ctx context.Context, src io.ReaderAt, size int64, part string, most int64) (stream, string, error) {
	s := stream{src: src, size: size, buf: &chunk{}}
	if part == "raw" {
		return s, part, nil
	}
	want := -1
	if part != "" && part != "structured" && part != "error" {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || strconv.Itoa(n) != part {
			return s, part, badQuery(`part must be the index of a content block, "structured", "error" or "raw", not %q`, clip(part, 40))
		}
		want = n
	}
	var f *finder
	var err error
	// What a tool answers has content; what it holds by other names counts only
	// where there is none.
	for _, list := range []List{Content, Contents, Messages} {
		f = &finder{part: part, most: most, want: want, list: list}
		f.w.to = finderSink{f}
		s := stream{src: src, size: size, buf: s.buf}
		err = walkStream(ctx, &s, &f.w)
		if !f.found && f.second {
			f.found, f.picked, f.mode, f.off = true, f.fbPart, f.fbMode, f.fbOff
		}
		if err != nil || f.found || f.nblocks > 0 || part == "structured" || part == "error" {
			break
		}
	}
	switch {
	case f.found:
		return stream{src: src, size: size, mode: f.mode, at: place{Off: f.off}, buf: s.buf}, f.picked, nil
	case err != nil:
		return s, part, err
	case part == "":
		return stream{src: src, size: size, buf: s.buf}, "raw", nil
	case part == "structured":
		return s, part, badQuery(`this result has no structured content; leave out "part" or use an index`)
	case part == "error":
		return s, part, badQuery(`this result is no error; leave out "part"`)
	case f.nblocks == 0:
		return s, part, badQuery(`this result has no content blocks; use "part":"raw"`)
	}
	return s, part, badQuery("this result has %d content blocks, the first is 0: there is no block %s", f.nblocks, clip(part, 40))
}

// walkStream feeds w with the view of s until a sink stops it.
func walkStream(ctx context.Context, s *stream, w *walker) error {
	var b []byte
	for !w.stop {
		var err error
		if s.mode == modeString {
			b, err = s.read(ctx, b[:0], chunkSize)
		} else {
			// No need to copy.
			if err = ctx.Err(); err == nil {
				if b, err = s.buf.bytes(s.src, s.at.Off); err == nil && len(b) == 0 {
					err = io.EOF
				}
				s.at.Off += int64(len(b))
			}
		}
		if err == io.EOF {
			return w.finish()
		}
		if err != nil {
			return err
		}
		if _, err = w.feed(b); err != nil || w.err != nil {
			return w.err
		}
	}
	return nil
}

// pointerFinder finds the value that a JSON pointer names.
type pointerFinder struct {
	w      walker
	tokens []string
	on     int // tokens that matched
	depth  int
	array  []bool
	last   []byte
	names  []string // of the innermost object on the path
	items  int
	found  bool
	mode   viewMode
	off    int64
	reason string
}

func (f *pointerFinder) value(c byte, off int64) {
	if f.depth > 0 {
		if f.depth != f.on+1 {
			return
		}
		if f.array[f.depth] {
			f.items++
			if f.tokens[f.on] != strconv.Itoa(f.items-1) {
				return
			}
		} else if !frame.Is(f.last, f.tokens[f.on]) {
			return
		}
		f.on++
	}
	if f.on == len(f.tokens) {
		f.found, f.mode, f.off = true, modeValue, off
		if c == '"' {
			f.mode, f.off = modeString, off+1
		}
		f.w.stop = true
		return
	}
	switch c {
	case '{', '[':
		f.names, f.items = f.names[:0], 0
	default:
		if strings.IndexByte(`"-0123456789tfn`, c) < 0 {
			f.w.err, f.w.stop = errJSON, true
			return
		}
		what := map[byte]string{'"': "a string", 't': "true", 'f': "false", 'n': "null"}[c]
		if what == "" {
			what = "a number"
		}
		f.fail(f.path(f.on) + " is " + what + ", which has no members")
	}
}

func (f *pointerFinder) path(n int) string {
	if n == 0 {
		return "the whole value"
	}
	return strconv.Quote(clip("/"+strings.Join(f.tokens[:n], "/"), 200))
}

func (f *pointerFinder) fail(reason string) {
	f.reason = reason
	f.w.stop = true
}

func (f *pointerFinder) open(c byte, at int64) {
	f.value(c, at)
	f.depth++
	for len(f.array) <= f.depth {
		f.array = append(f.array, false)
	}
	f.array[f.depth] = c == '['
}

func (f *pointerFinder) close(byte, int64) {
	if f.depth == f.on+1 && !f.found && f.reason == "" {
		token := strconv.Quote(clip(f.tokens[f.on], 100))
		if f.array[f.depth] {
			f.fail(f.path(f.on) + " is an array of " + strconv.Itoa(f.items) + " items, and has no item " + token)
		} else {
			f.fail(f.path(f.on) + " has no member " + token + "; it has " + strings.Join(f.names, ", "))
		}
	}
	f.depth--
}

func (f *pointerFinder) name(raw []byte, _ int, _ int64) {
	if f.depth != f.on+1 {
		return
	}
	f.last = append(f.last[:0], raw...)
	if len(f.names) < 12 && raw != nil {
		f.names = append(f.names, clip(string(raw), 60))
	}
}

func (f *pointerFinder) text(_ []byte, at int64, start, _ bool) {
	if start {
		f.value('"', at)
	}
}

func (f *pointerFinder) atom(p []byte, at int64, start, _ bool) {
	if start {
		c := byte('0')
		if len(p) > 0 {
			c = p[0]
		}
		f.value(c, at)
	}
}

// findPointer returns a stream of the value that pointer names in the view s.
func findPointer(ctx context.Context, s stream, part, pointer string) (stream, error) {
	if pointer != "" && pointer[0] != '/' {
		return s, badQuery(`pointer must be a JSON pointer such as "/items/0/name", not %q`, clip(pointer, 60))
	}
	f := &pointerFinder{}
	if pointer != "" {
		for _, t := range strings.Split(pointer[1:], "/") {
			f.tokens = append(f.tokens, strings.NewReplacer("~1", "/", "~0", "~").Replace(t))
		}
	}
	base := s
	if s.mode == modeString {
		base = stream{src: newLayer(ctx, s), size: -1, buf: &chunk{}}
	}
	t := base
	f.w.to = f
	f.w.off = base.at.Off
	err := walkStream(ctx, &t, &f.w)
	switch {
	case f.found:
		base.mode, base.at, base.view, base.size = f.mode, place{Off: f.off}, 0, s.size
		if s.mode == modeString {
			base.size = -1
		}
		return base, nil
	case f.reason != "":
		return s, badQuery("pointer: %s", f.reason)
	case err == errJSON || err == errDepth:
		hint := ""
		if part != "structured" {
			hint = `; try "part":"structured"`
		}
		return s, badQuery("part %s is no JSON, a pointer cannot be used on it%s", part, hint)
	case err != nil:
		return s, err
	}
	return s, badQuery("pointer: nothing found")
}
