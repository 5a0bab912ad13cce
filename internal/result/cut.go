package result

import (
	"slices"

	"github.com/penstock-dev/penstock/frame"
)

// Keep is which end of a text is shown when it is cut.
type Keep uint8

const (
	Head Keep = iota
	Tail
	HeadAndTail
)

// Limits are those of one tool.
type Limits struct {
	// Content is the most bytes of everything textual that a host may show a
	// model, all parts and our notices together: texts, structuredContent,
	// embedded resources, _meta, the message and data of an error. 0 is no
	// limit; less than MinContent counts as MinContent.
	Content int
	// Media is the most bytes of the data of one image or audio block, which is
	// kept whole or replaced. 0 means Frame.
	Media int
	// Frame is the most bytes of the frame that is made, 8 MiB if 0. A response
	// that is longer is shortened even if it is within the other limits.
	Frame int
	// Keep is which end of a text is shown.
	Keep Keep
	// List is what the response is made of: it depends on the method that it
	// answers.
	List List
	// Schema is the output schema of the tool, nil if it has none.
	Schema *Schema
}

// List names the array whose elements are the parts of a result.
type List uint8

const (
	Content  List = iota // of tools/call: content blocks
	Contents             // of resources/read: texts and blobs, each with its URI
	Messages             // of prompts/get: content blocks, each with a role
)

func (l List) name() string {
	return [...]string{"content", "contents", "messages"}[l]
}

// MinContent is the least content limit: notices need room too.
const MinContent = 2 << 10

// Cutter takes one JSON-RPC response as it arrives and keeps what a shorter
// one needs, in memory bounded by its Limits: about 5 times Content, and the
// images that are kept whole. The response must be JSON that passed a
// [frame.Scanner]; how it is cut into pieces makes no difference.
//
// Write the whole frame, without its line ending, then call Finish.
type Cutter struct {
	l     Limits
	w     walker
	bytes int64
	batch bool // or something else that is no object

	ctx  []cutCtx
	mode cutMode
	deep int   // open containers of an opaque or shrunk value
	em   *emit // where an opaque value goes
	sh   *shrink
	str  strTo
	lf   *leaf
	md   *media
	last []byte // the last name, quotes included; empty if it was too long

	top, res, fail, meta []member
	message              *leaf
	structured, data     *shrink

	blocks   []*block
	block    *block // the current one
	scratch  block
	nblocks  int
	lost     int64 // bytes of the blocks that are not in blocks
	level    int   // most bytes that a leaf keeps
	texts    []*leaf
	opaque   int // bytes of opaque members that are kept
	lits     int // bytes of blocks without their texts
	nmedia   int // bytes of media that are kept
	mediaCut bool

	textual int64 // everything textual that has ended
	isError bool
	kind    []byte // resultType
	task    bool
	listed  bool   // the array of parts has come
	small   []byte // value of the current short string or atom
	result  bool   // the response has a result
}

type cutCtx uint8

const (
	cTop cutCtx = iota
	cResult
	cContent
	cBlock
	cMessage
	cInner // the content of a message
	cResource
	cError
	cMeta
)

type cutMode uint8

const (
	mStructure cutMode = iota
	mOpaque
	mShrink
)

type strTo uint8

const (
	toNothing strTo = iota
	toOpaque
	toShrink
	toLeaf
	toMedia
)

// member is one of an object that is taken apart.
type member struct {
	name []byte // quotes included
	kind memberKind
	em   emit
}

type memberKind uint8

const (
	isOpaque memberKind = iota
	isResult
	isFailure
	isContent
	isStructured
	isMeta
	isMessage
	isData
	isErrorFlag
)

// NewCutter returns a Cutter for one response.
func NewCutter(l Limits) *Cutter {
	if l.Frame <= 0 {
		l.Frame = 8 << 20
	}
	if l.Media <= 0 || l.Media > l.Frame {
		l.Media = l.Frame
	}
	if l.Content > 0 {
		l.Content = min(max(l.Content, MinContent), l.Frame/2)
	}
	c := &Cutter{l: l, level: l.most()}
	c.w.to = c
	return c
}

// most is the most textual bytes that can be shown.
func (l *Limits) most() int {
	if l.Content > 0 {
		return l.Content
	}
	return l.Frame / 2
}

// Write takes the next piece of the frame. Its error says that the frame is
// not JSON, and stays.
func (c *Cutter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	n, err := c.w.feed(p)
	return n, err
}

// Over reports whether, from what has been written, something must be cut.
func (c *Cutter) Over() bool {
	if c.l.Content > 0 && c.textual > int64(c.l.Content) {
		return true
	}
	return c.mediaCut || c.bytes > int64(c.l.Frame)
}

func (c *Cutter) in() cutCtx { return c.ctx[len(c.ctx)-1] }

func (c *Cutter) open(b byte, at int64) {
	switch c.mode {
	case mOpaque:
		c.em.open(b)
		c.deep++
		return
	case mShrink:
		c.sh.open(b, at)
		c.deep++
		return
	}
	if len(c.ctx) == 0 {
		c.ctx = append(c.ctx, cTop)
		if b != '{' {
			// A batch: no business of ours.
			c.mode, c.deep, c.em, c.batch = mOpaque, 1, &emit{}, true
		}
		return
	}
	switch c.in() {
	case cTop:
		switch {
		case b == '{' && c.is("result"):
			c.result = true
			c.top = append(c.top, member{name: c.name1(), kind: isResult})
			c.ctx = append(c.ctx, cResult)
			return
		case b == '{' && c.is("error"):
			c.top = append(c.top, member{name: c.name1(), kind: isFailure})
			c.ctx = append(c.ctx, cError)
			return
		}
	case cResult:
		switch {
		case len(c.res) >= frame.MaxNames:
		case b == '[' && c.is(c.l.List.name()) && !c.listed:
			c.listed = true
			c.res = append(c.res, member{name: c.name1(), kind: isContent})
			c.ctx = append(c.ctx, cContent)
			return
		case b == '{' && c.is("_meta"):
			c.res = append(c.res, member{name: c.name1(), kind: isMeta})
			c.ctx = append(c.ctx, cMeta)
			return
		}
	case cContent:
		if b == '{' {
			c.newBlock()
			c.block.em.open(b)
			in := cBlock
			switch c.l.List {
			case Contents:
				c.block.typ = []byte("resource")
			case Messages:
				in = cMessage
			}
			c.ctx = append(c.ctx, in)
			return
		}
	case cMessage:
		if b == '{' && c.is("content") {
			c.enter(b, cInner)
			return
		}
	case cBlock, cInner:
		if b == '{' && c.is("resource") && c.l.List != Contents {
			c.enter(b, cResource)
			return
		}
	}
	c.route()
	c.deep = 1
	if c.mode == mShrink {
		c.sh.open(b, at)
	} else {
		c.em.open(b)
	}
}

// enter begins an object inside of a block whose texts may be cut too.
func (c *Cutter) enter(b byte, in cutCtx) {
	c.block.em.name(c.last, 0)
	c.block.em.open(b)
	c.ctx = append(c.ctx, in)
}

func (c *Cutter) close(b byte, at int64) {
	switch c.mode {
	case mOpaque:
		c.em.close(b)
		if c.deep--; c.deep == 0 {
			c.endOpaque()
		}
		return
	case mShrink:
		c.sh.close(b, at)
		if c.deep--; c.deep == 0 {
			c.endShrink()
		}
		return
	}
	in := c.in()
	c.ctx = c.ctx[:len(c.ctx)-1]
	switch in {
	case cBlock, cMessage:
		c.block.em.close(b)
		c.endBlock()
	case cInner, cResource:
		c.block.em.close(b)
	}
}

func (c *Cutter) name(raw []byte, long int, at int64) {
	switch c.mode {
	case mOpaque:
		c.em.name(raw, long)
		return
	case mShrink:
		c.sh.name(raw, long, at)
		return
	}
	c.last = append(c.last[:0], raw...)
	if raw == nil {
		c.textual += int64(long)
	}
}

func (c *Cutter) is(name string) bool { return frame.Is(c.last, name) }

func (c *Cutter) name1() []byte { return slices.Clone(c.last) }

// route sets where the value that begins goes: mode and sh or em. It is called
// for every value that has no text of its own.
func (c *Cutter) route() {
	c.small = c.small[:0]
	to := func(list *[]member, kind memberKind, most int) {
		m := member{kind: kind, em: emit{most: max(0, most), gone: len(c.last) == 0}}
		if m.em.most > 0 {
			m.name = c.name1()
		}
		*list = append(*list, m)
		c.mode, c.em = mOpaque, &(*list)[len(*list)-1].em
	}
	switch c.in() {
	case cTop:
		if c.is("result") {
			c.task = true // no object: nothing that we know
		}
		to(&c.top, isOpaque, 4<<10)
	case cResult:
		switch {
		case len(c.res) >= frame.MaxNames:
			to(&c.res, isOpaque, 0)
		case c.is("structuredContent"):
			c.res = append(c.res, member{name: c.name1(), kind: isStructured})
			c.structured = &shrink{budget: c.l.most()}
			c.mode, c.sh = mShrink, c.structured
		case c.is("isError"):
			to(&c.res, isErrorFlag, 16)
		default:
			if c.is("task") || c.is("inputRequests") {
				c.task = true
			}
			to(&c.res, isOpaque, c.l.most()/8-c.opaque)
		}
	case cError:
		if c.is("data") && c.data == nil {
			c.fail = append(c.fail, member{name: c.name1(), kind: isData})
			c.data = &shrink{budget: c.l.most()}
			c.mode, c.sh = mShrink, c.data
			return
		}
		to(&c.fail, isOpaque, c.l.most()/8-c.opaque)
	case cMeta:
		to(&c.meta, isOpaque, c.l.most()/8-c.opaque)
	case cContent:
		c.newBlock()
		c.mode, c.em = mOpaque, &c.block.em
	case cBlock, cMessage, cInner, cResource:
		var raw []byte
		if len(c.last) > 0 {
			raw = c.last
		}
		c.block.em.name(raw, 0)
		c.mode, c.em = mOpaque, &c.block.em
	}
}

func (c *Cutter) endOpaque() {
	c.mode = mStructure
	if c.batch {
		return
	}
	switch c.in() {
	case cContent:
		c.endBlock()
	case cBlock, cMessage, cInner, cResource:
		b := c.block
		if c.em == &b.em {
			switch {
			case (c.in() == cBlock && c.l.List == Content || c.in() == cInner) && c.is("type"):
				b.typ = slices.Clone(c.small)
			case c.is("mimeType"):
				b.mime = slices.Clone(c.small)
			case c.is("uri"):
				b.uri = slices.Clone(c.small)
			}
		}
	default:
		c.endMember()
	}
}

// endMember ends an opaque member. One that is too long is forgotten.
func (c *Cutter) endMember() {
	in, size, gone := c.in(), c.em.size+int64(len(c.last)), c.em.gone
	list := &c.top
	switch in {
	case cResult:
		list = &c.res
	case cError:
		list = &c.fail
	case cMeta:
		list = &c.meta
	}
	if gone {
		*list = (*list)[:len(*list)-1]
	}
	switch {
	case in == cResult && c.is("isError"):
		c.isError = string(c.small) == "true"
	case in == cResult && c.is("resultType"):
		c.kind = slices.Clone(c.small)
	case in == cTop:
	default:
		c.textual += size
		if !gone {
			c.opaque += int(size)
		}
	}
}

func (c *Cutter) endShrink() {
	c.mode = mStructure
	c.textual += c.sh.size
}

func (c *Cutter) text(p []byte, at int64, start, end bool) {
	if start {
		c.startText()
	}
	if c.mode != mStructure && c.deep > 0 || c.str == toOpaque || c.str == toShrink {
		if c.mode == mShrink {
			c.sh.text(p, at, start, end)
		} else {
			c.remember(p)
			c.em.text(p, start, end)
		}
	} else if c.str == toLeaf {
		c.lf.write(p)
	} else if c.str == toMedia {
		c.md.write(p)
	}
	if !end {
		return
	}
	to := c.str
	c.str = toNothing
	switch to {
	case toOpaque:
		c.endOpaque()
	case toShrink:
		c.endShrink()
	case toLeaf:
		c.lf.end()
		c.textual += c.lf.total
		if c.lf.headCap > 0 {
			c.fit()
		}
	case toMedia:
		c.endMedia()
	}
}

// startText decides where a string goes.
func (c *Cutter) startText() {
	c.small = c.small[:0]
	if c.mode != mStructure {
		return
	}
	if len(c.ctx) == 0 {
		c.ctx = append(c.ctx, cTop)
		c.mode, c.em, c.str, c.batch = mOpaque, &emit{}, toOpaque, true
		return
	}
	switch in := c.in(); {
	case (in == cBlock || in == cInner || in == cResource) && c.is("text"):
		c.lf, c.str = c.newLeaf(), toLeaf
		c.hole(hole{text: c.lf, resource: in == cResource})
		return
	case (in == cBlock || in == cInner) && c.is("data") && c.l.List != Contents,
		(in == cResource || in == cBlock && c.l.List == Contents) && c.is("blob"):
		c.md, c.str = &media{most: c.l.Media}, toMedia
		if c.is("blob") {
			c.md.most = c.l.most()
		}
		if c.block.dropped {
			c.md.most = 0
		}
		c.hole(hole{data: c.md, resource: in == cResource})
		return
	case in == cError && c.is("message") && c.message == nil:
		c.fail = append(c.fail, member{name: c.name1(), kind: isMessage})
		c.message = c.newLeaf()
		c.lf, c.str = c.message, toLeaf
		return
	}
	c.deep = 0
	c.route()
	c.str = toOpaque
	if c.mode == mShrink {
		c.str = toShrink
	}
}

func (c *Cutter) hole(h hole) {
	e := &c.block.em
	e.name(c.last, 0)
	h.at = len(e.buf)
	e.comma = true
	c.block.holes = append(c.block.holes, h)
}

// mostRemembered is the most bytes of a value that is looked at.
const mostRemembered = 256

// remember keeps short values that are looked at.
func (c *Cutter) remember(p []byte) {
	if len(c.small) < mostRemembered {
		c.small = append(c.small, p[:min(len(p), mostRemembered-len(c.small))]...)
	}
}

func (c *Cutter) atom(p []byte, at int64, start, end bool) {
	single := c.str == toOpaque || c.str == toShrink
	if start && c.mode == mStructure {
		if len(c.ctx) == 0 {
			c.ctx = append(c.ctx, cTop)
			c.mode, c.em, c.batch = mOpaque, &emit{}, true
		} else {
			c.route()
		}
		c.deep = 0
		c.str, single = toOpaque, true
		if c.mode == mShrink {
			c.str = toShrink
		}
	}
	if c.mode == mShrink {
		c.sh.atom(p, at, start, end)
	} else {
		c.remember(p)
		c.em.atom(p, start, end)
	}
	if end && single {
		c.str = toNothing
		if c.mode == mShrink {
			c.endShrink()
		} else {
			c.endOpaque()
		}
	}
}
