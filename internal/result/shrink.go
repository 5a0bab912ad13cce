package result

import (
	"slices"
	"strconv"
)

// strFloor is the length below which strings are not shortened before the
// tails of arrays are dropped.
const strFloor = 256

// shrink keeps a shortened copy of one JSON value: whole while it fits, then
// with fewer items in its arrays and with shorter strings. The copy is JSON
// without white space; names, numbers and what is left of strings keep their
// bytes. Members of objects are never dropped, so that what is required stays.
//
// Set budget, and feed it as the sink of a walker.
type shrink struct {
	budget int
	least  int64 // an inner array that is cut to fewer items goes with the item around it
	level  int   // most bytes of one string; 0: not lowered yet

	out   []byte
	comma bool
	stack []shrinkArray // the open containers
	strs  []shrinkStr   // the strings of out longer than strFloor, or cut
	cuts  []arrayCut    // the arrays that lost items
	nstr  int           // strings that are cut
	size  int64         // bytes of the whole value without white space
	sizeC bool          // comma, for size

	cur       int // where the current string begins in out, after its quote
	curTotal  int64
	inStr     bool
	inAtom    bool
	nameAt    int // where the last name begins in out, and comma before it
	nameComma bool
	skipping  bool  // inside an item that is dropped
	skipTo    int   // until len(stack) is this again
	squeezed  bool  // strings and arrays are emptied
	broken    bool  // even so it does not fit; out is gone
	itemsKept int64 // of the value itself, once it has ended, if it is an array

	// Of an earlier pass over what is now shortened again, by offset.
	priorStr   map[int]int64
	priorArray map[int]int64
}

type shrinkArray struct {
	array       bool
	full        bool
	at          int // of the container in out
	item        int // where the last item begins in out
	itemComma   bool
	kept, total int64
	most        int    // an item that reaches beyond is too much; never more than that of the container around
	name        string // the last name of an object, for pointers
	prior       int64
	mark        int // len(strs), len(cuts) at the last item
	markCuts    int
}

type shrinkStr struct {
	from, to int // inside of the quotes, in out
	total    int64
}

// arrayCut says that an array lost items.
type arrayCut struct {
	at          int // of its bracket
	pointer     string
	kept, total int64
}

func (s *shrink) cut() bool { return s.nstr > 0 || len(s.cuts) > 0 || s.broken }

// value prepares for a value and reports whether it is to be kept.
func (s *shrink) value() bool {
	if s.sizeC {
		s.size++
		s.sizeC = false
	}
	if s.skipping || s.broken {
		return false
	}
	if len(s.stack) == 0 {
		return true
	}
	top := &s.stack[len(s.stack)-1]
	if !top.array {
		return true
	}
	top.total++
	if top.full || s.squeezed {
		top.full = true
		s.skipping, s.skipTo = true, len(s.stack)
		return false
	}
	top.item, top.itemComma = len(s.out), s.comma
	top.mark, top.markCuts = len(s.strs), len(s.cuts)
	if s.comma {
		s.out = append(s.out, ',')
		s.comma = false
	}
	return true
}

// done notes that a value has ended.
func (s *shrink) done() {
	s.sizeC = true
	if s.skipping {
		if len(s.stack) == s.skipTo {
			s.skipping = false
		}
		return
	}
	if s.broken {
		return
	}
	s.comma = true
	s.check()
	if s.skipping {
		// check dropped the item that has just ended, or one around it.
		if len(s.stack) == s.skipTo {
			s.skipping = false
		}
		return
	}
	if len(s.stack) > 0 {
		s.stack[len(s.stack)-1].kept++
	}
}

// over reports whether what is kept is too much, here or for an array around.
func (s *shrink) over() bool {
	if len(s.out) > s.budget {
		return true
	}
	if len(s.stack) == 0 || len(s.out) <= s.stack[len(s.stack)-1].most {
		return false // the innermost has the least
	}
	for i := range s.stack {
		if f := &s.stack[i]; f.array && f.kept > 0 && len(s.out) > f.most {
			return true
		}
	}
	return false
}

// check makes room if what is kept is too much.
func (s *shrink) check() {
	if s.broken || s.skipping || !s.over() {
		return
	}
	if s.level == 0 {
		s.level = s.budget
	}
	for i := len(s.stack) - 1; i >= 0; i-- {
		f := &s.stack[i]
		if !f.array || f.kept == 0 || len(s.out) <= min(f.most, s.budget) {
			continue
		}
		// Of a few long items a piece of each says more than the first one.
		for f.kept < fewItems && s.lower() && len(s.out) > min(f.most, s.budget) {
		}
		if len(s.out) > min(f.most, s.budget) {
			s.rollback(i)
		}
		return
	}
	for len(s.out) > s.budget && s.lower() {
	}
	if len(s.out) > s.budget && !s.squeezed {
		s.squeezed = true
		if s.inStr {
			s.out = s.out[:s.cur]
		}
	}
	if len(s.out) > 2*s.budget+1024 {
		s.broken, s.out, s.strs, s.cuts = true, nil, nil, nil
	}
}

// fewItems is how many items of an array are kept with shorter strings rather
// than dropped.
const fewItems = 8

// lower shortens the strings a little. It reports false if there are no long
// ones.
func (s *shrink) lower() bool {
	if s.level <= strFloor || len(s.strs) == 0 && !(s.inStr && len(s.out)-s.cur > strFloor) {
		return false
	}
	s.level -= s.level/8 + 1
	s.shorten(max(s.level, strFloor))
	return true
}

// rollback drops the current item of the array at stack[i] and those to come.
func (s *shrink) rollback(i int) {
	f := &s.stack[i]
	s.out = s.out[:f.item]
	s.comma = f.itemComma
	for _, t := range s.strs[f.mark:] {
		if int64(t.to-t.from) < t.total {
			s.nstr--
		}
	}
	s.strs, s.cuts = s.strs[:f.mark], s.cuts[:f.markCuts]
	f.full = true
	s.inStr, s.inAtom = false, false
	s.skipping, s.skipTo = true, i+1
}

// shorten cuts all strings to n bytes.
func (s *shrink) shorten(n int) {
	w := 0 // s.out[:w] is done
	r := 0 // s.out[r:] is to come
	s.nstr = 0
	move := func(to int) {
		d := copy(s.out[w:], s.out[r:to])
		w, r = w+d, to
	}
	fix := make([]int, 0, 2*len(s.strs)) // old ends and how much was lost by then
	for i := range s.strs {
		t := &s.strs[i]
		end := t.to
		if end-t.from > n {
			end = t.from + len(wholeUnits(s.out[t.from:t.from+n]))
		}
		move(end)
		lost := r - w
		from := t.from - lost
		r = t.to
		fix = append(fix, t.to, r-w)
		t.from, t.to = from, w
		if int64(t.to-t.from) < t.total {
			s.nstr++
		}
	}
	if s.inStr && len(s.out)-s.cur > n {
		move(s.cur + len(wholeUnits(s.out[s.cur:s.cur+n])))
		r = len(s.out)
		fix = append(fix, len(s.out)+1, r-w)
	} else {
		move(len(s.out))
	}
	s.out = s.out[:w]
	moved := func(at int) int {
		lost := 0
		for i := 0; i < len(fix) && fix[i] <= at; i += 2 {
			lost = fix[i+1]
		}
		return at - lost
	}
	for i := range s.stack {
		s.stack[i].at, s.stack[i].item = moved(s.stack[i].at), moved(s.stack[i].item)
	}
	for i := range s.cuts {
		s.cuts[i].at = moved(s.cuts[i].at)
	}
	s.cur, s.nameAt = moved(s.cur), moved(s.nameAt)
}

func (s *shrink) open(c byte, at int64) {
	keep := s.value()
	s.size++
	f := shrinkArray{array: c == '[', at: len(s.out), prior: s.priorArray[int(at)]}
	if keep {
		s.out = append(s.out, c)
		// Siblings that follow need room too, those of the containers around as
		// well: an array of few long arrays keeps some of each.
		if f.most = s.budget; len(s.stack) > 0 {
			f.most = s.stack[len(s.stack)-1].most
			f.most -= max(0, f.most-len(s.out)) / 8
		}
	}
	s.stack = append(s.stack, f)
	s.comma = false
	s.sizeC = false
	s.check()
}

func (s *shrink) close(c byte, _ int64) {
	s.size++
	f := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	if len(s.stack) == 0 {
		s.itemsKept = f.kept
	}
	if !s.skipping && !s.broken {
		s.out = append(s.out, c)
		total := max(f.total, f.prior)
		if f.array && f.kept < min(total, s.least) && s.drop() {
			s.done()
			return
		}
		if f.array && f.kept < total {
			s.cuts = append(s.cuts, arrayCut{at: f.at, pointer: s.pointer(), kept: f.kept, total: total})
			if len(s.cuts) > maxCuts {
				s.cuts = s.cuts[:maxCuts]
			}
		}
	}
	s.done()
}

// drop drops the item around what has just been closed, of the innermost array
// that keeps another one, and reports whether there is one.
func (s *shrink) drop() bool {
	for i := len(s.stack) - 1; i >= 0; i-- {
		if f := &s.stack[i]; f.array && f.kept > 0 {
			s.rollback(i)
			return true
		}
	}
	return false
}

// maxCuts is how many shortened arrays are told apart.
const maxCuts = 64

func (s *shrink) name(raw []byte, long int, _ int64) {
	if s.sizeC {
		s.size++
		s.sizeC = false
	}
	s.size += int64(len(raw)+long) + 1
	if s.skipping || s.broken {
		return
	}
	if raw == nil {
		// It can neither be kept nor dropped.
		s.broken, s.out, s.strs, s.cuts = true, nil, nil, nil
		return
	}
	s.nameAt, s.nameComma = len(s.out), s.comma
	if s.comma {
		s.out = append(s.out, ',')
		s.comma = false
	}
	s.out = append(append(s.out, raw...), ':')
	s.stack[len(s.stack)-1].name = string(raw[1 : len(raw)-1][:min(len(raw)-2, 64)])
	s.check()
}

func (s *shrink) text(p []byte, at int64, start, end bool) {
	if start {
		if s.value() {
			s.out = append(s.out, '"')
			s.inStr, s.cur, s.curTotal = true, len(s.out), 0
		}
		s.size += 2
	}
	s.size += int64(len(p))
	if s.inStr {
		s.curTotal += int64(len(p))
		most := s.budget + 1
		if s.level > 0 {
			most = max(s.level, strFloor)
		}
		if s.squeezed {
			most = 0
		}
		if room := most - (len(s.out) - s.cur); room > 0 {
			s.out = append(s.out, p[:min(room, len(p))]...)
			s.check()
		}
	}
	if !end {
		return
	}
	if s.inStr {
		s.inStr = false
		total := max(s.curTotal, s.priorStr[int(at)])
		if int64(len(s.out)-s.cur) < s.curTotal {
			s.out = s.out[:s.cur+len(wholeUnits(s.out[s.cur:]))]
		}
		if n := int64(len(s.out) - s.cur); n < total || n > strFloor {
			s.strs = append(s.strs, shrinkStr{s.cur, len(s.out), total})
			if n < total {
				s.nstr++
			}
		}
		s.out = append(s.out, '"')
	}
	s.done()
}

func (s *shrink) atom(p []byte, _ int64, start, end bool) {
	keep := !s.skipping && !s.broken
	if start {
		keep = s.value()
	}
	s.inAtom = keep && !end
	s.size += int64(len(p))
	if keep {
		s.out = append(s.out, p...)
		s.check()
	}
	if end {
		s.done()
	}
}

// pointer returns the JSON pointer of the container that has just been closed.
func (s *shrink) pointer() string {
	var b []byte
	for i := range s.stack {
		b = append(b, '/')
		if f := &s.stack[i]; f.array {
			b = strconv.AppendInt(b, f.total-1, 10)
		} else {
			b = append(b, f.name...)
		}
	}
	return string(b)
}

// finish ends a value that may be incomplete: what cannot be closed is dropped.
func (s *shrink) finish() {
	if s.broken || len(s.stack) == 0 {
		return
	}
	// An item that is not whole goes, the outermost one if there are others
	// before it.
	for i := range s.stack {
		dropping := s.skipping && s.skipTo == i+1
		if f := &s.stack[i]; f.array && (f.kept > 0 || dropping) {
			if !dropping && f.total > f.kept {
				s.rollback(i)
			}
			s.stack = s.stack[:i+1]
			break
		}
	}
	if s.inStr {
		s.out = append(s.out[:s.cur+len(wholeUnits(s.out[s.cur:]))], '"')
		s.strs = append(s.strs, shrinkStr{s.cur, len(s.out) - 1, s.curTotal + 1})
		s.nstr++
		s.inStr = false
	} else if n := len(s.out); !s.skipping && (s.inAtom || n > 0 && s.out[n-1] == ':') {
		if f := &s.stack[len(s.stack)-1]; f.array {
			s.out = s.out[:f.item]
		} else {
			s.out = s.out[:s.nameAt]
		}
	}
	s.skipping = false
	for i := len(s.stack) - 1; i >= 0; i-- {
		if s.stack[i].array {
			s.out = append(s.out, ']')
		} else {
			s.out = append(s.out, '}')
		}
	}
	s.stack = nil
}

// again shortens what s has kept further, to budget. Inner arrays of fewer than
// least items that lost some are not kept.
func (s *shrink) again(budget int, least int64) *shrink {
	t := &shrink{budget: budget, least: least, priorStr: map[int]int64{}, priorArray: map[int]int64{}}
	if s.broken {
		t.broken, t.size = true, s.size
		return t
	}
	for _, x := range s.strs {
		t.priorStr[x.from-1] = x.total
	}
	for _, c := range s.cuts {
		t.priorArray[c.at] = c.total
	}
	w := walker{to: t}
	w.feed(s.out)
	w.finish()
	t.size = s.size
	return t
}

// render returns the copy, with a mark behind each string that is cut if marks
// is set.
func (s *shrink) render(marks bool) []byte {
	if !marks || s.nstr == 0 {
		return slices.Clone(s.out)
	}
	var out []byte
	at := 0
	for _, x := range s.strs {
		n := int64(x.to - x.from)
		if n >= x.total {
			continue
		}
		out = append(out, s.out[at:x.to]...)
		out = append(out, "… ["...)
		out = strconv.AppendInt(out, x.total-n, 10)
		out = append(out, " more bytes]"...)
		at = x.to
	}
	return append(out, s.out[at:]...)
}
