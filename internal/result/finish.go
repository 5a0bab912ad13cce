package result

import (
	"slices"
	"strconv"

	"github.com/penstock-dev/penstock/frame"
)

// Info says what a Cutter found and did.
type Info struct {
	// Truncated is whether something was cut or replaced; only then is there a
	// frame. ShownBytes and TotalBytes are the sums over Parts.
	Truncated              bool
	ShownBytes, TotalBytes int64
	Parts                  []Part
	// Default is the name of the part that was cut, "" if none was: the first
	// text, else "structured", else whatever was replaced.
	Default string
	// Exempt is set if the response may not be cut: it asks for input, is a
	// task, or has no result that could be.
	Exempt bool
	// Failed is set if the structured result could not be shortened so that it
	// stays valid and was left out.
	Failed bool
	// Replaced is how many broken characters became U+FFFD in what was cut.
	Replaced int64
	// Blocks is how many content blocks there were.
	Blocks int
}

// Part is one part of a result.
type Part struct {
	// Name is what a Query calls it: the index of a content block,
	// "structured" or "error".
	Name         string
	Shown, Total int64
	Cut          bool // shortened, replaced or left out
}

// Finish ends the frame. If nothing has to be cut, or may be, it returns no
// frame: the one that was written is to be sent as it is. Otherwise it returns
// the shorter one, on one line, without a line ending: the members outside of
// the result and all values that need no change keep their bytes; white space
// between tokens is left out.
//
// The error says that what was written is not one JSON text.
func (c *Cutter) Finish(n Notice) ([]byte, Info, error) {
	if err := c.w.finish(); err != nil {
		return nil, Info{}, err
	}
	info := Info{Blocks: c.nblocks}
	kind := string(c.kind)
	info.Exempt = kind != "" && kind != "complete" || c.task && c.nblocks == 0 || !c.result && c.fail == nil
	if info.Exempt || !c.Over() {
		return nil, info, nil
	}
	p := &plan{c: c, n: n, room: c.l.most() - c.opaque - len(n.CallJSON) - 256}
	var out []byte
	for range 16 {
		out = p.render()
		over := c.measure(out)
		if over <= 0 || p.room <= 0 {
			break
		}
		p.room = max(0, p.room-over-p.room/64)
	}
	p.info.Exempt, p.info.Blocks = false, c.nblocks
	return out, p.info, nil
}

// measure returns by how much out is over the limits.
func (c *Cutter) measure(out []byte) int {
	over := len(out) - c.l.Frame + 1
	if c.l.Content > 0 {
		m := NewCutter(Limits{Frame: c.l.Frame, List: c.l.List})
		m.Write(out)
		over = max(over, int(m.textual)-c.l.Content)
	}
	return over
}

// plan makes one attempt at a shorter frame.
type plan struct {
	c    *Cutter
	n    Notice
	room int // textual bytes, without opaque members

	without bool // the structured result is left out
	failed  bool // and the tool has a schema that asks for it
	info    Info
}

// piece is a content block that is to be written.
type piece struct {
	b       *block  // this, with its texts from here:
	text    []shown // one for each hole of b
	own     *shown  // else a text block of our own
	instead *block  // in place of this; nil if it is for none
}

// shown is one text that is to be written.
type shown struct {
	verbatim []byte // inside of the string, as it came
	text     []byte // else decoded
	note     string // behind it
}

func (p *plan) render() []byte {
	p.without, p.failed = false, false
	out, ok := p.attempt()
	if !ok {
		p.without, p.failed = true, p.c.l.Schema != nil
		out, _ = p.attempt()
	}
	return out
}

func (p *plan) attempt() ([]byte, bool) {
	c := p.c
	p.info = Info{Truncated: true, Failed: p.failed}
	room := p.room
	var structured []byte
	if s := c.structured; s != nil && !p.without {
		used, cut, ok := p.structure(s, room)
		if !ok {
			return nil, false
		}
		structured = used
		room -= len(used)
		p.part(Part{Name: "structured", Shown: shownOf(s, used, cut), Total: s.size, Cut: cut})
	} else if s != nil {
		p.part(Part{Name: "structured", Total: s.size, Cut: true})
	}
	if c.fail != nil {
		return p.failure(room), true
	}
	pieces := p.blocks(max(0, room))
	p.notices(&pieces)

	e := &emit{most: 1 << 40}
	e.open('{')
	for i := range c.top {
		m := &c.top[i]
		switch {
		case m.kind == isResult:
			e.name(m.name, 0)
			p.writeResult(e, pieces, structured)
		case !m.em.gone:
			e.name(m.name, 0)
			e.put(m.em.buf...)
			e.comma = true
		}
	}
	e.close('}')
	return e.buf, true
}

// share is how much of room the structured result gets.
func (p *plan) share(room int) int {
	s := p.c.structured.size
	var need int64
	for _, l := range p.c.texts {
		need += l.total
	}
	need += p.c.lost
	share := max(int64(room)/2, int64(room)-need)
	if s <= int64(room)*3/4 {
		share = s
	}
	if p.c.l.Schema != nil {
		share = min(share, maxChecked)
	}
	return int(max(0, min(share, s)))
}

// structure shortens the structured result to room bytes so that it is valid.
func (p *plan) structure(s *shrink, room int) (out []byte, cut, ok bool) {
	share := p.share(room)
	if !s.cut() && s.size <= int64(share) {
		return s.out, false, true
	}
	if s.broken {
		return nil, true, false
	}
	// A schema may ask for some items in every array: rather fewer arrays then.
	for _, least := range []int64{0, 4, 16} {
		t := s.again(share, least)
		if len(t.out) > share {
			// What cannot be dropped takes more than its share.
			if share = room * 3 / 4; p.c.l.Schema != nil {
				share = min(share, maxChecked)
			}
			t = s.again(share, least)
		}
		if t.broken || len(t.out) > share {
			break
		}
		for _, marks := range []bool{true, false} {
			if out = t.render(marks); p.c.l.Schema.Valid(out) {
				return out, t.cut(), true
			}
		}
	}
	return nil, true, false
}

func shownOf(s *shrink, out []byte, cut bool) int64 {
	if !cut {
		return s.size
	}
	return min(int64(len(out)), s.size-1)
}

func (p *plan) part(x Part) {
	p.info.ShownBytes += x.Shown
	p.info.TotalBytes += x.Total
	p.info.Parts = append(p.info.Parts, x)
	if !x.Cut {
		return
	}
	if p.info.Default == "" || p.info.Default == "structured" {
		p.info.Default = x.Name
	}
}

// blocks renders the content blocks within room bytes.
func (p *plan) blocks(room int) []piece {
	c := p.c
	floor := min(1024, room/4)
	keep, used := 0, 0
	for _, b := range c.blocks {
		if used += p.cost(b, floor); used > room && keep > 0 {
			break
		}
		keep++
	}
	blocks := c.blocks[:keep]
	// The highest level at which everything fits.
	lo, hi := 0, room
	for lo < hi {
		mid := (lo + hi + 1) / 2
		used := 0
		for _, b := range blocks {
			used += p.cost(b, mid)
		}
		if used <= room {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	var out []piece
	for _, b := range blocks {
		out = append(out, p.block(b, lo, room))
	}
	if gone := c.nblocks - keep; gone > 0 {
		size := c.lost
		for _, b := range c.blocks[keep:] {
			size += b.opaque()
			for _, h := range b.holes {
				if h.text != nil {
					size += h.text.total
				} else {
					size += h.data.size
				}
			}
		}
		name := strconv.Itoa(keep)
		p.part(Part{Name: name, Total: size, Cut: true})
		out = append(out, piece{own: &shown{text: p.n.merged(gone, keep, size)}})
	}
	return out
}

// cost is about how many textual bytes b takes if its texts are cut to level.
func (p *plan) cost(b *block, level int) int {
	n := b.opaque()
	for _, h := range b.holes {
		switch {
		case h.text != nil && b.known():
			n += min(h.text.total, int64(level))
		case h.text != nil:
			n += min(h.text.total, placeholderSize)
		case !b.media():
			n += min(h.data.size, placeholderSize)
		case h.data.gone:
			n += placeholderSize
		}
	}
	return int(n)
}

// placeholderSize is about what a placeholder takes.
const placeholderSize = 256

func (p *plan) block(b *block, level, room int) piece {
	name := strconv.Itoa(b.index)
	part := Part{Name: name}
	for _, h := range b.holes {
		if h.text != nil {
			part.Total += h.text.total
		} else {
			part.Total += h.data.size
		}
	}
	if len(b.holes) == 0 {
		part.Total = b.em.size
	}
	// What cannot be shortened is whole or replaced.
	replace := b.em.gone
	for _, h := range b.holes {
		switch {
		case h.data != nil && h.data.gone, h.data != nil && !b.media() && h.data.size > int64(max(room/4, level)):
			replace = true
		case h.text != nil && !b.known() && (!h.text.intact() || h.text.total > int64(room/4)):
			replace = true
		}
	}
	if replace {
		part.Cut = true
		p.part(part)
		return piece{own: &shown{text: p.n.replaced(b, part.Total)}, instead: b}
	}
	out := piece{b: b}
	for _, h := range b.holes {
		if h.data != nil {
			out.text = append(out.text, shown{verbatim: h.data.buf})
			part.Shown += h.data.size
			continue
		}
		if h.text.intact() && (h.text.total <= int64(level) || !b.known()) {
			out.text = append(out.text, shown{verbatim: h.text.head})
			part.Shown += h.text.total
			continue
		}
		cut := cutLeaf(h.text, level, p.c.l.Keep)
		part.Cut = true
		part.Shown += cut.shown
		p.info.Replaced += int64(cut.replaced)
		out.text = append(out.text, shown{text: cut.text, note: p.n.after(name, &cut, h.text.total)})
	}
	if len(b.holes) == 0 {
		part.Shown = part.Total
	}
	p.part(part)
	return out
}

// notices puts what the first and the last text must say into pieces.
func (p *plan) notices(pieces *[]piece) {
	var first, last *shown
	for i := range *pieces {
		x := &(*pieces)[i]
		if x.own != nil {
			if first == nil {
				first = x.own
			}
			last = x.own
		}
		if x.b == nil || !x.b.known() {
			continue
		}
		for j, h := range x.b.holes {
			if h.text == nil {
				continue
			}
			if first == nil {
				first = &x.text[j]
			}
			last = &x.text[j]
		}
	}
	if last == nil {
		x := piece{own: &shown{}}
		*pieces = append(*pieces, x)
		first, last = x.own, x.own
	}
	head := p.n.before(&p.info, p.c)
	tail := last.note
	if tail == "" {
		tail = p.n.end(&p.info)
	}
	if first.verbatim != nil {
		first.text, _, _ = decode(nil, first.verbatim, len(first.verbatim)*3, true)
		first.verbatim = nil
	}
	alone := first == last && len(first.text) == 0
	if !alone {
		head += "\n"
	}
	first.text = append([]byte(head), first.text...)
	if last.verbatim != nil {
		last.text, _, _ = decode(nil, last.verbatim, len(last.verbatim)*3, true)
		last.verbatim = nil
	}
	if !alone {
		last.note = tail
	}
}

func (p *plan) writeResult(e *emit, pieces []piece, structured []byte) {
	c := p.c
	e.open('{')
	content, meta, flag := false, false, false
	for i := range c.res {
		m := &c.res[i]
		switch m.kind {
		case isContent:
			content = true
			e.name(m.name, 0)
			p.writeBlocks(e, pieces)
			pieces = nil
		case isStructured:
			if structured == nil {
				continue
			}
			e.name(m.name, 0)
			e.put(structured...)
			e.comma = true
		case isMeta:
			if !meta {
				meta = true
				e.name(m.name, 0)
				p.writeMeta(e)
			}
		case isErrorFlag:
			flag = true
			e.name(m.name, 0)
			if p.failed {
				e.puts("true")
			} else {
				e.put(m.em.buf...)
			}
			e.comma = true
		default:
			if !m.em.gone {
				e.name(m.name, 0)
				e.put(m.em.buf...)
				e.comma = true
			}
		}
	}
	if !content {
		e.name([]byte(`"`+c.l.List.name()+`"`), 0)
		p.writeBlocks(e, pieces)
	}
	if p.failed && !flag {
		e.name([]byte(`"isError"`), 0)
		e.puts("true")
		e.comma = true
	}
	if !meta {
		e.name([]byte(`"_meta"`), 0)
		p.writeMeta(e)
	}
	e.close('}')
}

// noticeURI is that of a text of ours among the contents of a resource.
const noticeURI = "penstock://notice"

func (p *plan) writeBlocks(e *emit, pieces []piece) {
	e.open('[')
	for _, x := range pieces {
		e.sep()
		if x.own != nil {
			switch p.c.l.List {
			case Content:
				e.puts(`{"type":"text","text":`)
				x.own.write(e)
				e.put('}')
			case Contents:
				uri := []byte(noticeURI)
				if x.instead != nil && len(x.instead.uri) > 0 && len(x.instead.uri) < mostRemembered {
					uri = x.instead.uri
				}
				e.puts(`{"uri":"`)
				e.put(uri...)
				e.puts(`","mimeType":"text/plain","text":`)
				x.own.write(e)
				e.put('}')
			case Messages:
				e.puts(`{"role":"user","content":{"type":"text","text":`)
				x.own.write(e)
				e.puts("}}")
			}
		} else {
			at := 0
			for i, h := range x.b.holes {
				e.put(x.b.em.buf[at:h.at]...)
				at = h.at
				x.text[i].write(e)
			}
			e.put(x.b.em.buf[at:]...)
		}
		e.comma = true
	}
	e.close(']')
}

func (s *shown) write(e *emit) {
	switch {
	case s.text != nil || s.verbatim == nil:
		e.put(frame.Quote(nil, string(s.text)+s.note)...)
	case s.note != "":
		e.put('"')
		e.put(s.verbatim...)
		q := frame.Quote(nil, s.note)
		e.put(q[1:]...)
	default:
		e.put('"')
		e.put(s.verbatim...)
		e.put('"')
	}
}

const (
	metaKey = "dev.penstock/truncated"
	callKey = "dev.penstock/call"
)

func (p *plan) writeMeta(e *emit) {
	e.open('{')
	for i := range p.c.meta {
		m := &p.c.meta[i]
		if m.em.gone || frame.Is(m.name, metaKey) || len(p.n.CallJSON) > 0 && frame.Is(m.name, callKey) {
			continue
		}
		e.name(m.name, 0)
		e.put(m.em.buf...)
		e.comma = true
	}
	e.name([]byte(`"`+metaKey+`"`), 0)
	e.put(p.n.meta(p.info.ShownBytes, p.info.TotalBytes)...)
	e.comma = true
	if len(p.n.CallJSON) > 0 {
		e.name([]byte(`"`+callKey+`"`), 0)
		e.put(p.n.CallJSON...)
		e.comma = true
	}
	e.close('}')
}

// failure renders a response that has an error.
func (p *plan) failure(room int) []byte {
	c := p.c
	message := shown{}
	var data []byte
	part := Part{Name: "error"}
	if s := c.data; s != nil {
		part.Total += s.size
		var need int64
		if c.message != nil {
			need = c.message.total
		}
		share := int(min(s.size, max(int64(room)/2, int64(room)-need)))
		if !s.cut() && s.size <= int64(share) {
			data, part.Shown = s.out, s.size
		} else if t := s.again(max(share, 64), 0); !t.broken {
			data = t.render(true)
			part.Shown = shownOf(s, data, true)
		}
		room -= len(data)
	}
	if l := c.message; l != nil {
		part.Total += l.total
		if l.intact() && l.total <= int64(room) {
			message.verbatim = slices.Clone(l.head)
			part.Shown += l.total
		} else {
			cut := cutLeaf(l, max(0, room), Head)
			message.text = cut.text
			part.Shown += cut.shown
			p.info.Replaced += int64(cut.replaced)
		}
	}
	part.Cut = true
	p.part(part)
	message.note = "\n" + p.n.failure(&p.info)

	e := &emit{most: 1 << 40}
	e.open('{')
	for i := range c.top {
		m := &c.top[i]
		if m.kind != isFailure {
			if !m.em.gone {
				e.name(m.name, 0)
				e.put(m.em.buf...)
				e.comma = true
			}
			continue
		}
		e.name(m.name, 0)
		e.open('{')
		for j := range c.fail {
			f := &c.fail[j]
			switch f.kind {
			case isMessage:
				e.name(f.name, 0)
				message.write(e)
				e.comma = true
			case isData:
				if data != nil {
					e.name(f.name, 0)
					e.put(data...)
					e.comma = true
				}
			default:
				if !f.em.gone {
					e.name(f.name, 0)
					e.put(f.em.buf...)
					e.comma = true
				}
			}
		}
		e.close('}')
	}
	e.close('}')
	return e.buf
}
