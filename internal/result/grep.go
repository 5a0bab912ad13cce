package result

import (
	"bytes"
	"context"
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
	full bool

	before  []grepped // the last lines, for context
	owed    int       // lines of context that follow the last match
	printed int64     // up to which offset lines have been shown
	end     int64     // where the search stopped
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

	// buf holds the view from base on; start is a stream that stands there.
	buf := make([]byte, 0, grepWindow+chunkSize)
	start, base := s, s.view
	midLine := c.Mid // base is inside a line
	eof := false
	for {
		for !eof && len(buf) < grepWindow {
			var got []byte
			if got, eof, err = s.fill(ctx, buf, min(chunkSize, grepWindow-len(buf))); err != nil {
				return Page{}, err
			}
			if len(got) == len(buf) && !eof {
				break
			}
			buf = got
		}
		// The lines of buf, and of the last one what is there if it is too long.
		n := bytes.LastIndexByte(buf, '\n') + 1
		if eof {
			n = len(buf)
		}
		long := n == 0
		use := n
		if long {
			use = len(buf)
		}
		done := g.window(buf[:use], base, midLine, long)
		if long {
			// What may begin a match stays.
			done = min(done, max(0, len(buf)-grepOverlap))
			for done > 0 && !utf8.RuneStart(buf[done]) {
				done--
			}
		}
		if g.full || eof && done == len(buf) {
			page.Bytes[1] = base + int64(done)
			if g.full {
				if _, _, err := start.fill(ctx, nil, done); err != nil {
					return Page{}, err
				}
				g.c.Tail = g.owed
				g.c.Mid = done > 0 && buf[done-1] != '\n' || done == 0 && midLine
				page.Next = g.c.seal(&start, key)
			} else {
				page.End, page.TotalBytes = true, base+int64(done)
			}
			page.Text = string(g.out)
			return page, nil
		}
		midLine = long
		if _, _, err := start.fill(ctx, make([]byte, 0, done), done); err != nil {
			return Page{}, err
		}
		base += int64(done)
		buf = buf[:copy(buf, buf[done:])]
	}
}

// window searches b, which stands at base of the view, and returns up to where
// it got. partial is set if b is a piece of one line.
func (g *grepper) window(b []byte, base int64, midLine, partial bool) int {
	i := 0
	for i < len(b) {
		if g.owed == 0 && len(g.lit) > 0 {
			k := bytes.Index(b[i:], g.lit)
			if k < 0 {
				g.pass(b[i:], base+int64(i))
				return len(b)
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
			g.full = true
			return i
		}
		if end <= len(b) && end > i && b[end-1] == '\n' {
			g.c.Line++
		}
		i = end
	}
	return i
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

// line searches one line. It reports false if its match does not fit.
func (g *grepper) line(line []byte, at int64, mid, partial bool) bool {
	if len(line) <= grepLine && !mid && !partial {
		if !g.re.Match(line) {
			return g.other(line, at)
		}
		return g.print(line, 0, at, true)
	}
	// Of a long line, what is around each match.
	any := false
	for from := 0; from <= len(line); {
		m := g.re.FindIndex(line[from:])
		if m == nil {
			break
		}
		lo, hi := from+m[0], from+m[1]
		from = max(hi, lo+1)
		if mid && lo == 0 || partial && hi == len(line) || at+int64(lo) < g.printed {
			// Not sure, or known: the neighbouring window tells.
			if lo == hi && lo > 0 {
				break
			}
			continue
		}
		any = true
		a, z := max(0, lo-grepLine/4), min(len(line), lo+grepLine*3/4)
		for a > 0 && !utf8.RuneStart(line[a]) {
			a--
		}
		z = a + cutText(line[a:], z-a)
		if !g.print(line[a:z], a, at+int64(a), true) {
			return false
		}
		g.printed = at + int64(max(hi, z))
		from = max(from, z)
	}
	if !any && !partial {
		return g.other(line[:cutText(line, grepLine)], at)
	}
	return true
}

// other shows a line that does not match, if it is context, or remembers it.
func (g *grepper) other(line []byte, at int64) bool {
	if g.owed > 0 {
		g.owed--
		return g.print(line, 0, at, false)
	}
	g.remember(line, at)
	return true
}

// print shows a piece of a line, with the context before it if it is a match.
func (g *grepper) print(text []byte, _ int, at int64, match bool) bool {
	had := len(g.out)
	if match {
		for _, b := range g.before {
			g.format(b.line, b.at, b.text, '-')
		}
	}
	sep := byte('-')
	if match {
		sep = ':'
	}
	g.format(g.c.Line, at, text, sep)
	if len(g.out) > g.most && had > 0 {
		g.out = g.out[:had]
		return false
	}
	if len(g.out) > g.most {
		g.out = g.out[:boundary(g.out, g.most)]
	}
	if match {
		g.before = g.before[:0]
		g.owed = g.c.Context
	}
	return true
}

func (g *grepper) format(line, at int64, text []byte, sep byte) {
	g.out = strconv.AppendInt(g.out, line+1, 10)
	g.out = append(g.out, sep)
	g.out = strconv.AppendInt(g.out, at, 10)
	g.out = append(g.out, sep)
	g.out = append(append(g.out, text...), '\n')
}
