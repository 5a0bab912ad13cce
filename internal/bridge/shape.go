package bridge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/result"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// Answers that are too large are cut, and kept whole by the desk, on the
// goroutine that reads the server and outside the lock: it is work of a known
// length, and waits for nobody. Only where the desk falls behind is the next
// read put off, for as long as the desk takes bytes at all.

const (
	// deskPatience is how long a desk may take nothing of a result before what was
	// to be kept is lost.
	deskPatience = 50 * time.Millisecond
	// deskStart is the same while the desk is being started.
	deskStart = time.Second
	// readTimeout bounds a call of the continuation tool.
	readTimeout = 30 * time.Second
	// storePiece is how much is handed to the desk at a time.
	storePiece = 256 << 10
)

// shaping is one answer on its way through the cutter and to the desk.
type shaping struct {
	cut   *result.Cutter
	put   *link.Put // nil: not kept
	list  result.List
	tried bool // the desk has been there
}

// shape begins the shaping of an answer to r, which is nil where that is not
// known yet. Content is the content limit; 0 for the one of r.
func (s *Session) shape(r *request, content int) *shaping {
	s.mu.Lock()
	l := s.limits(r) // the schema is set at the end, when r is known for sure
	desk := s.desk()
	s.mu.Unlock()
	if content > 0 {
		l.Content = content
	}
	sh := &shaping{cut: result.NewCutter(l), list: l.List}
	if desk != nil {
		sh.put = desk.NewPut()
	}
	return sh
}

// write takes the next bytes of the answer.
func (sh *shaping) write(piece []byte) {
	sh.cut.Write(piece) // what is not JSON shows at the end
	for sh.put != nil && len(piece) > 0 {
		n := min(len(piece), storePiece)
		sh.put.Write(piece[:n])
		piece = piece[n:]
		wait := deskPatience
		if !sh.tried {
			wait = deskStart
		}
		sh.put.Pace(wait)
		sh.tried = true
	}
}

func (sh *shaping) abort() {
	if sh.put != nil {
		sh.put.Abort()
	}
}

// finishShape ends the shaping of the answer to r and returns the frame for the
// host, nil if it is to be sent as it came.
func (s *Session) finishShape(sh *shaping, r *request) ([]byte, error) {
	s.mu.Lock()
	n := result.Notice{Tool: s.tools.own}
	sh.cut.SetSchema(s.tools.of(r).outputSchema())
	info := link.Info{Tool: r.Tool, Call: r.ID()}
	s.mu.Unlock()
	switch {
	case sh.put == nil:
		n.Why = "this session keeps no results"
	case sh.put.Err() != nil:
		n.Why = sh.put.Err().Error()
	default:
		n.Handle, n.Kept = sh.put.Handle(), true
	}
	cut, found, err := sh.cut.Finish(n)
	if err != nil || cut == nil {
		sh.abort()
		return nil, err
	}
	info.Part = found.Default
	if sh.put != nil {
		sh.put.Commit(info)
	}
	s.mu.Lock()
	s.stats.Cut++
	if n.Kept {
		s.stats.Kept++
		r.account.keep(n.Handle)
	} else {
		s.stats.NotKept++
	}
	s.stats.CutBytes += found.TotalBytes - found.ShownBytes
	s.mu.Unlock()
	return cut, nil
}

// oversized takes the bytes of a frame over the wire limit.
func (g *generation) oversized(s *Session, piece []byte) {
	if !s.c.Spill || g.unkept {
		return
	}
	if g.shaping == nil {
		s.mu.Lock()
		only := s.onlyCall()
		content := 0
		if s.limits(only).Content == 0 { // over the wire limit it is cut all the same
			content = s.unlimited()
		}
		s.mu.Unlock()
		g.shaping = s.shape(only, content)
	}
	g.shaping.write(piece)
}

// onlyCall returns the one open call that is dispatched, nil if there are more.
func (s *Session) onlyCall() (only *request) {
	for _, r := range s.calls.All {
		if r.State == call.Dispatched {
			if only != nil {
				return nil
			}
			only = r
		}
	}
	return only
}

// unlimited is the content limit of what must be cut although nothing limits
// it.
func (s *Session) unlimited() int { return min(64<<10, s.c.WireLimit/4) }

// limits are those of the answer to r, which may be nil. Content is 0 where it
// is not cut. It is called with the lock held.
//
// What the settings say of a tool comes first, then what the tool asks for, then
// what holds for the session. It is not known which tool a task ran.
func (s *Session) limits(r *request) result.Limits {
	l := result.Limits{Content: s.c.ContentLimit, Media: s.c.MediaLimit, Frame: s.c.WireLimit, Keep: s.c.Keep}
	if r == nil {
		return l
	}
	l.List = lists[r.Method]
	if r.Method != "tools/call" {
		return l
	}
	t, rule := s.tools.of(r), s.rule(r)
	switch {
	case rule.Content > 0:
		l.Content = rule.Content
	case rule.Content < 0:
		l.Content = 0
	case l.Content > 0 && t.content > 0:
		l.Content = t.content
	}
	if rule.Media > 0 {
		l.Media = rule.Media
	}
	if rule.Keep != nil {
		l.Keep = *rule.Keep
	}
	return l
}

// rule returns what the settings say of the tool that r calls.
func (s *Session) rule(r *request) Rule {
	if s.c.Rule == nil || r.Method != "tools/call" {
		return Rule{}
	}
	return s.c.Rule(r.Tool)
}

var lists = map[string]result.List{"resources/read": result.Contents, "prompts/get": result.Messages}

// cuts reports whether answers to r may be cut.
func (s *Session) cuts(r *request) bool {
	switch r.Method {
	case "tools/call", "tasks/result":
		return true
	case "prompts/get", "resources/read":
		return s.c.CutAll
	}
	return false
}

// large is an answer that may have to be cut, or found no room.
type large struct {
	r    *request
	data []byte // borrowed from the frame's reader, or ours
	over bool   // it is long enough to be over a limit
}

// mayCut reports whether an answer is long enough to be over a limit. It is
// called with the lock held.
func (s *Session) mayCut(r *request, data []byte) bool {
	if !s.cuts(r) {
		return false
	}
	l := s.limits(r)
	if l.Content == 0 && s.rule(r).Media == 0 {
		return false
	}
	return l.Content > 0 && len(data) > l.Content || l.Media > 0 && len(data) > l.Media
}

// deliver cuts an answer that is over the content limit and queues what is left
// of it. It is called without the lock.
func (s *Session) deliver(a *large) {
	cut := false
	if a.over {
		sh := s.shape(a.r, 0)
		sh.write(a.data)
		if short, err := s.finishShape(sh, a.r); err == nil && short != nil {
			a.data, cut = short, true
		}
	}
	s.offer(a, cut)
}

// endOversize ends an answer over the wire limit that was cut while it came. It
// is called without the lock.
func (s *Session) endOversize(g *generation, f frame.Frame) {
	sh, unkept := g.shaping, g.unkept
	g.shaping, g.unkept = nil, false
	if sh == nil {
		return
	}
	if unkept {
		sh.abort()
		return
	}
	s.mu.Lock()
	var r *request
	switch id := rpc.MakeID(f.ID); {
	case s.server != g:
	case f.Reason != "":
		s.malformed(id, f.Reason)
	default:
		r = s.finish(id)
	}
	s.shaping = r
	if r != nil {
		s.recordSize(r, f.Size)
	}
	s.mu.Unlock()
	if r == nil {
		sh.abort()
		return
	}
	short, err := s.finishShape(sh, r)
	if err != nil || short == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer(r, fmt.Sprintf("The server answered with %d bytes, more than the wire limit, in a form that cannot be cut, so the answer was dropped. The call itself ran: do not repeat it as it is.", f.Size))
		return
	}
	s.offer(&large{r: r, data: short}, true)
}

// offer queues an answer. One that finds no room is kept by the desk and
// answered by its handle, and only if that fails by a small error.
func (s *Session) offer(a *large, cut bool) {
	s.mu.Lock()
	s.shaping = nil
	s.recordCut(a, cut)
	if a.r.unwanted { // cancelled meanwhile
		s.stats.CancelledDelivery++
		s.recordDelivery(a.r, false)
		s.mu.Unlock()
		return
	}
	if s.toHost.Offer(rpc.Item{Data: line(a.data), Owner: a.r}) {
		s.mu.Unlock()
		return
	}
	s.stats.Overload++
	s.mu.Unlock()
	if s.c.Spill && s.cuts(a.r) && !cut {
		sh := s.shape(a.r, result.MinContent)
		sh.write(a.data)
		if small, err := s.finishShape(sh, a.r); err == nil && small != nil {
			s.mu.Lock()
			s.recordCut(&large{r: a.r, data: small}, true)
			ok := s.toHost.OfferSmall(rpc.Item{Data: line(small), Owner: a.r})
			s.mu.Unlock()
			if ok {
				return
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(a.r, fmt.Sprintf("The server answered with %d bytes, but this host was not reading and what waits for it is full, so the answer was dropped. The call itself ran: do not repeat it blindly.", len(a.data)))
}

// readResult answers a call of the continuation tool. The desk is asked on a
// goroutine of its own, which the host's cancellation ends.
func (s *Session) readResult(r *request, args []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	r.cancelRead = cancel
	args = append([]byte(nil), args...)
	desk := s.desk()
	s.reads.Go(func() {
		defer cancel()
		page, err := s.readPage(ctx, desk, args)
		s.locked(func() {
			if r.State.Terminal() {
				return // cancelled, or timed out
			}
			s.calls.Close(r.id)
			r.account.own(err != nil)
			s.end(r, call.Finished, "")
			if !s.toHost.OfferSmall(rpc.Item{Data: ownResult(r, page, err), Owner: r}) {
				s.recordDelivery(r, false)
			}
		})
	})
}

func (s *Session) readPage(ctx context.Context, desk *link.Client, args []byte) ([]byte, error) {
	most := s.c.ContentLimit
	if most == 0 {
		most = s.unlimited()
	}
	handle, _, err := result.ParseArguments(args, most)
	if err != nil {
		return nil, err
	}
	return desk.Read(ctx, handle, args)
}

// ownResult makes the answer to a call of the continuation tool: the page as
// text, since hosts show that, and as structured content.
func ownResult(r *request, page []byte, err error) []byte {
	text, next := "", ""
	if err != nil {
		text = "Nothing was read: " + err.Error() + "."
	} else {
		text, next = pageText(page)
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), r.id...)
	b = append(b, `,"result":{"content":[{"type":"text","text":`...)
	b = frame.Quote(b, text)
	b = append(b, '}')
	if next != "" { // for hosts that show the texts only
		b = append(b, `,{"type":"text","text":`...)
		b = frame.Quote(b, fmt.Sprintf("[penstock: there is more; go on with cursor %q]", next))
		b = append(b, '}')
	}
	if err == nil {
		b = append(b, `],"structuredContent":`...)
		b = append(b, page...)
	} else {
		b = append(b, `],"isError":true`...)
	}
	if r.modern {
		b = append(b, `,"resultType":"complete"`...)
	}
	return append(b, "}}\n"...)
}

// pageText returns the text of a page and the cursor of the next, "" if there is
// none.
func pageText(page []byte) (text, next string) {
	for name, v := range frame.Members(page) {
		switch raw := name.In(page); {
		case frame.Is(raw, "text"):
			text = frame.Unquote(v.Span.In(page))
		case frame.Is(raw, "nextCursor"):
			next = frame.Unquote(v.Span.In(page))
		}
	}
	return text, next
}

// resultURI is what resources of kept results begin with.
const resultURI = "penstock://result/"

// readResource answers resources/read of a kept result with its first page.
func (s *Session) readResource(r *request, uri string) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	r.cancelRead = cancel
	desk := s.desk()
	s.reads.Go(func() {
		defer cancel()
		handle := strings.TrimPrefix(uri, resultURI)
		args := append(frame.Quote([]byte(`{"handle":`), handle), '}')
		page, err := s.readPage(ctx, desk, args)
		s.locked(func() {
			if r.State.Terminal() {
				return
			}
			s.calls.Close(r.id)
			r.account.own(err != nil)
			s.end(r, call.Finished, "")
			if err != nil {
				s.toHost.OfferSmall(rpc.Item{Data: refuse(r.id, "Nothing was read: "+err.Error()+"."), Owner: r})
				return
			}
			text, next := pageText(page)
			if next != "" {
				text += fmt.Sprintf("\n[penstock: there is more; go on with the tool %s and cursor %q]", s.tools.own, next)
			}
			b := append([]byte(`{"jsonrpc":"2.0","id":`), r.id...)
			b = append(b, `,"result":{"contents":[{"uri":`...)
			b = frame.Quote(b, uri)
			b = append(b, `,"mimeType":"text/plain","text":`...)
			b = frame.Quote(b, text)
			b = append(b, "}]"...)
			if r.modern {
				b = append(b, `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`...)
			}
			s.toHost.OfferSmall(rpc.Item{Data: append(b, "}}\n"...), Owner: r})
		})
	})
}
