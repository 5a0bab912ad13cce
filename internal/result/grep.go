package result

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strconv"
	"unicode/utf8"
)

const (
	maxContext = 20
	maxPattern = 1000

	// A line is searched whole up to grepWindow bytes; a longer one in windows
	// that overlap by grepOverlap, so that a match of up to so many bytes is
	// found wherever it stands.
	grepWindow  = 256 << 10
	grepOverlap = 4 << 10
	// grepLine is how much of a line is shown.
	grepLine = 400
)

// grepper searches the lines of a view.
type grepper struct {
	re   *regexp.Regexp
	lit  []byte
	c    cursor
	most int
	out  []byte

	before  []grepped // the last lines, for context
	owed    int       // lines of context that follow the last match
	printed int64     // up to which offset lines have been shown
	stop    int64     // where the next page begins, if this one is full
}

type grepped struct {
	line, at int64
	text     []byte
}

func grep(ctx context.Context, s stream, key []byte, c cursor, most int) (Page, error) {
	if len(c.Grep) > maxPattern {
		return Page{}, badQuery("the pattern is longer than %d bytes", maxPattern)
	}
	re, err := regexp.Compile(c.Grep)
	if err != nil {
		return Page{}, badQuery("grep is no regular expression of the RE2 syntax: %v", err)
	}
	g := &grepper{re: re, c: c, most: most, owed: c.Tail, printed: s.view}
	lit, _ := re.LiteralPrefix()
	g.lit = []byte(lit)
	page := Page{Bytes: [2]int64{s.view, s.view}, TotalBytes: -1}
	if s.mode == modeAll {
		page.TotalBytes = s.size
	}

	// buf holds the view from base on; starts has streams to begin again with,
	// the first of which stands at base or before.
	buf := make([]byte, 0, grepWindow+chunkSize)
	starts, base := []stream{s}, s.view
	midLine := c.Mid // base is inside a line
	eof, late := false, false
	for {
		for !eof && len(buf) < grepWindow {
			if starts[len(starts)-1].view != s.view {
				starts = append(starts, s)
			}
			had := len(buf)
			if buf, eof, err = s.fill(ctx, buf, min(chunkSize, grepWindow-had)); err != nil {
				if !errors.Is(err, context.DeadlineExceeded) || base == page.Bytes[0] {
					return Page{}, err
				}
				// What has been searched counts; the next page goes on there.
				late = true
				g.full(len(g.out), base, midLine)
				if len(g.before) > 0 {
					g.stop, g.c.Mid, g.c.Line = g.before[0].at, false, g.before[0].line
				}
				break
			}
			if len(buf) == had {
				break
			}
		}
		// The lines of buf, and of one that is too long what is there.
		n := bytes.LastIndexByte(buf, '\n') + 1
		if eof {
			n = len(buf)
		}
		long := n == 0 && !eof
		if long {
			n = len(buf)
		}
		full := late || g.window(buf[:n], base, midLine, long)
		switch {
		case full:
			for len(starts) > 1 && starts[1].view <= g.stop {
				starts = starts[1:]
			}
			start := starts[0]
			if _, _, err := start.fill(context.WithoutCancel(ctx), nil, int(g.stop-start.view)); err != nil {
				return Page{}, err
			}
			page.Next = g.c.seal(&start, key)
			page.Bytes[1] = g.stop
		case eof:
			page.End, page.TotalBytes = true, base+int64(len(buf))
			page.Bytes[1] = page.TotalBytes
		}
		if full || eof {
			page.Text = string(g.out)
			return page, nil
		}
		if long {
			// What may begin a match stays.
			n = max(1, n-grepOverlap)
			for !utf8.RuneStart(buf[n]) {
				n--
			}
		}
		midLine = long
		base += int64(n)
		first := base
		if len(g.before) > 0 {
			first = min(first, g.before[0].at)
		}
		for len(starts) > 1 && starts[1].view <= first {
			starts = starts[:copy(starts, starts[1:])]
		}
		buf = buf[:copy(buf, buf[n:])]
	}
}

// window searches b, which stands at base of the view: whole lines, or a piece
// of one. It reports whether the page is full; then the next one begins at
// g.stop, and g.c is what its cursor needs.
func (g *grepper) window(b []byte, base int64, midLine, partial bool) bool {
	for i := 0; i < len(b); {
		if g.owed == 0 && len(g.lit) > 0 {
			k := bytes.Index(b[i:], g.lit)
			if k < 0 {
				g.pass(b[i:], base+int64(i))
				return false
			}
			// On to the line of the hit.
			from := bytes.LastIndexByte(b[i:i+k], '\n') + 1
			g.pass(b[i:i+from], base+int64(i))
			i += from
		}
		end := len(b)
		if k := bytes.IndexByte(b[i:], '\n'); k >= 0 {
			end = i + k + 1
		}
		line := bytes.TrimSuffix(b[i:end], []byte{'\n'})
		if !g.line(line, base+int64(i), midLine && i == 0, partial) {
			return true
		}
		if b[end-1] == '\n' {
			g.c.Line++
		}
		i = end
	}
	return false
}

// pass goes over lines that hold no match.
func (g *grepper) pass(b []byte, at int64) {
	if g.c.Context > 0 {
		tail := b
		for n, i := 0, len(b); i > 0; n++ {
			if n == g.c.Context {
				tail = b[i:]
				break
			}
			i = bytes.LastIndexByte(b[:i-1], '\n') + 1
		}
		skipped := b[:len(b)-len(tail)]
		g.c.Line += int64(bytes.Count(skipped, []byte{'\n'}))
		at += int64(len(skipped))
		for len(tail) > 0 {
			k := bytes.IndexByte(tail, '\n')
			if k < 0 {
				break
			}
			g.remember(tail[:k], at)
			g.c.Line++
			at += int64(k + 1)
			tail = tail[k+1:]
		}
		return
	}
	g.c.Line += int64(bytes.Count(b, []byte{'\n'}))
}

func (g *grepper) remember(line []byte, at int64) {
	if g.c.Context == 0 {
		return
	}
	if len(g.before) == g.c.Context {
		g.before = append(g.before[:0], g.before[1:]...)
	}
	g.before = append(g.before, grepped{g.c.Line, at, bytes.Clone(line[:cutText(line, grepLine)])})
}

// line searches one line, or a piece of it: mid if it does not begin it,
// partial if it may not end it. It reports false if the page is full.
func (g *grepper) line(line []byte, at int64, mid, partial bool) bool {
	if len(line) <= grepLine && !mid && !partial {
		if !g.re.Match(line) {
			return g.other(line, at)
		}
		return g.match(line, at, at, false)
	}
	// Of a long line, what is around each match.
	any := false
	for from := 0; ; {
		found := g.re.FindAllIndex(line[from:], maxFound)
		for _, m := range found {
			lo, hi := from+m[0], from+m[1]
			if mid && lo == 0 || partial && hi == len(line) || at+int64(lo) < g.printed {
				continue // unsure or known: the window before or after tells
			}
			any = true
			a, z := max(0, lo-grepLine/4), min(len(line), lo+grepLine*3/4)
			for a > 0 && !utf8.RuneStart(line[a]) {
				a--
			}
			z = a + cutText(line[a:], z-a)
			// The next page must see what is before the match.
			resume := max(lo-1, 0)
			for resume > 0 && !utf8.RuneStart(line[resume]) {
				resume--
			}
			if !g.match(line[a:z], at+int64(a), at+int64(resume), mid || resume > 0) {
				return false
			}
			g.printed = at + int64(max(hi, z))
		}
		if len(found) < maxFound {
			break
		}
		from += found[len(found)-1][1]
	}
	if !any && !partial {
		return g.other(line[:cutText(line, grepLine)], at)
	}
	return true
}

// maxFound is how many matches of a long line are looked up at a time.
const maxFound = 4096

// other shows a line that does not match, if it is context, or remembers it.
func (g *grepper) other(line []byte, at int64) bool {
	if g.owed == 0 {
		g.remember(line, at)
		return true
	}
	had := len(g.out)
	g.format(g.c.Line, at, line, '-')
	if len(g.out) > g.most && had > 0 {
		return g.full(had, at, false)
	}
	g.out = g.out[:boundary(g.out, g.most)]
	g.owed--
	return true
}

// match shows what is around a match, with the context before it. If it does
// not fit, the next page begins at resume.
func (g *grepper) match(text []byte, at, resume int64, mid bool) bool {
	had := len(g.out)
	for _, b := range g.before {
		g.format(b.line, b.at, b.text, '-')
	}
	g.format(g.c.Line, at, text, ':')
	if len(g.out) > g.most && had > 0 {
		if len(g.before) > 0 {
			resume, mid, g.c.Line = g.before[0].at, false, g.before[0].line
		}
		return g.full(had, resume, mid)
	}
	g.out = g.out[:boundary(g.out, g.most)]
	g.before = g.before[:0]
	g.owed = g.c.Context
	return true
}

// full ends the page at had bytes of output.
func (g *grepper) full(had int, resume int64, mid bool) bool {
	g.out = g.out[:had]
	g.stop, g.c.Mid, g.c.Tail = resume, mid, g.owed
	return false
}

func (g *grepper) format(line, at int64, text []byte, sep byte) {
	g.out = strconv.AppendInt(g.out, line+1, 10)
	g.out = append(g.out, sep)
	g.out = strconv.AppendInt(g.out, at, 10)
	g.out = append(g.out, sep)
	g.out = append(append(g.out, text...), '\n')
}
