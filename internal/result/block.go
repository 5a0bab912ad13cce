package result

import "slices"

// block is one element of content.
type block struct {
	index   int
	em      emit // its JSON, without the texts that stand in holes
	holes   []hole
	typ     []byte
	mime    []byte
	uri     []byte
	dropped bool
}

// hole is where a text or data stands in a block, at an offset of em.buf.
type hole struct {
	at       int
	resource bool // inside of a resource
	text     *leaf
	data     *media
}

// media is a string that is kept whole or not at all.
type media struct {
	buf   []byte
	most  int
	size  int64
	first []byte // its beginning
	gone  bool
}

func (m *media) write(p []byte) {
	m.size += int64(len(p))
	if len(m.first) < 16 {
		m.first = append(m.first, p[:min(len(p), 16-len(m.first))]...)
	}
	switch {
	case m.gone:
	case m.size > int64(m.most):
		m.buf, m.gone = nil, true
	default:
		m.buf = append(m.buf, p...)
	}
}

// emit writes a value as JSON without white space, until it is longer than
// most; then it only counts.
type emit struct {
	buf   []byte
	most  int
	size  int64
	comma bool
	gone  bool
}

func (e *emit) put(p ...byte) {
	e.size += int64(len(p))
	switch {
	case e.gone:
	case e.size > int64(e.most):
		e.buf, e.gone = nil, true
	default:
		e.buf = append(e.buf, p...)
	}
}

func (e *emit) puts(s string) { e.put([]byte(s)...) }

func (e *emit) sep() {
	if e.comma {
		e.put(',')
	}
	e.comma = false
}

func (e *emit) open(c byte)  { e.sep(); e.put(c) }
func (e *emit) close(c byte) { e.put(c); e.comma = true }

func (e *emit) name(raw []byte, long int) {
	e.sep()
	if raw == nil {
		e.size += int64(long)
		e.buf, e.gone = nil, true
		return
	}
	e.put(raw...)
	e.put(':')
}

func (e *emit) text(p []byte, start, end bool) {
	if start {
		e.sep()
		e.put('"')
	}
	e.put(p...)
	if end {
		e.put('"')
		e.comma = true
	}
}

func (e *emit) atom(p []byte, start, end bool) {
	if start {
		e.sep()
	}
	e.put(p...)
	if end {
		e.comma = true
	}
}

// maxBlocks is the most blocks that are kept.
func (l *Limits) maxBlocks() int { return min(max(l.most()/64, 64), 1024) }

func (c *Cutter) newBlock() {
	if c.block = (&block{index: c.nblocks}); c.nblocks >= c.l.maxBlocks() || len(c.blocks) < c.nblocks {
		c.scratch = block{index: c.nblocks, dropped: true, holes: c.scratch.holes[:0]}
		c.block = &c.scratch
	}
	c.block.em.most = max(0, c.l.most()/2)
	if c.block.dropped {
		c.block.em.most = 0
	}
	c.nblocks++
}

func (c *Cutter) newLeaf() *leaf {
	l := &leaf{}
	if c.block == nil || !c.block.dropped || c.in() == cError {
		l.headCap, l.tailCap = c.caps()
		c.texts = append(c.texts, l)
	}
	return l
}

func (c *Cutter) caps() (head, tail int) {
	switch c.l.Keep {
	case Tail:
		return c.level, c.level
	case HeadAndTail:
		return c.level, c.level / 2
	}
	return c.level, 0
}

// fit lowers the level until what all texts keep fits. It is called between
// texts only, so that the outcome depends on nothing but the frame.
func (c *Cutter) fit() {
	for {
		held := 0
		for _, l := range c.texts {
			held += l.headLen + len(l.tail)
		}
		if held <= 2*c.l.most() || c.level <= 256 {
			return
		}
		c.level -= c.level / 4
		head, tail := c.caps()
		for _, l := range c.texts {
			l.relimit(head, tail)
		}
	}
}

func (c *Cutter) endMedia() {
	m := c.md
	if !m.gone && c.nmedia+len(m.buf) > c.l.Frame-2*c.l.most()-64<<10 && c.nmedia+len(m.buf) > c.l.Frame/4 {
		m.buf, m.gone = nil, true
	}
	c.nmedia += len(m.buf)
}

// media reports whether the data of the block is media, which has its own
// limit.
func (b *block) media() bool { return string(b.typ) == "image" || string(b.typ) == "audio" }

// known reports whether the block is of a type whose texts may be cut.
func (b *block) known() bool { return string(b.typ) == "text" || string(b.typ) == "resource" }

// opaque is how many textual bytes the block has besides its texts: what is
// left of its JSON without the usual shell.
func (b *block) opaque() int64 {
	shell := int64(len(`{"type":"","text":}`) + len(b.typ))
	return max(0, b.em.size-shell)
}

func (c *Cutter) endBlock() {
	b := c.block
	size := b.opaque()
	for _, h := range b.holes {
		switch {
		case h.data == nil:
		case b.media():
			if h.data.gone {
				c.mediaCut = true
			}
		default:
			c.textual += h.data.size
			size += h.data.size
		}
		if h.text != nil {
			size += h.text.total
		}
	}
	c.textual += b.opaque()
	if b.dropped {
		c.lost += size
		return
	}
	if c.lits += len(b.em.buf) + 128; c.lits > max(c.l.most(), 256<<10) && len(c.blocks) > 0 {
		// Its texts leave with it.
		for _, h := range b.holes {
			if h.text != nil {
				c.texts = slices.DeleteFunc(c.texts, func(l *leaf) bool { return l == h.text })
			}
		}
		c.lost += size
		return
	}
	c.blocks = append(c.blocks, b)
}
