package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// client is one connection. Its reading goroutine handles frames and waits for
// nothing but the next one.
type client struct {
	d     *desk
	conn  *link.Conn
	ctx   context.Context // ends with the connection
	leave context.CancelFunc

	mu       sync.Mutex
	hello    link.HelloHead // zero until greeted
	owner    [32]byte
	since    time.Time
	out      []answer
	outBytes int
	news     chan struct{} // tells the writer
	puts     map[uint32]*put
	requests map[uint32]*request
	last     uint32 // highest id so far
}

// answer is a frame to write.
type answer struct {
	kind link.Kind
	id   uint32
	head []byte
	body []byte
	sent chan struct{} // closed when it was written; nil if nobody asks
}

// request is one that is being answered.
type request struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	credit int // of an export
	more   chan struct{}
}

func newClient(d *desk, nc net.Conn) *client {
	c := &client{
		d: d, conn: link.NewConn(nc), news: make(chan struct{}, 1),
		puts: make(map[uint32]*put), requests: make(map[uint32]*request),
	}
	// Not of d.ctx: a desk that is ending still lets puts finish.
	c.ctx, c.leave = context.WithCancel(context.WithoutCancel(d.ctx))
	return c
}

func (c *client) greeted() (link.HelloHead, time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello, c.since, !c.since.IsZero()
}

// refuse says why the connection ends.
func (c *client) refuse(e *link.Error) {
	if head, err := json.Marshal(e); err == nil {
		c.conn.Write(link.Fail, 0, head, time.Second)
	}
}

func (c *client) serve() error {
	defer c.leave()
	hello, err := c.conn.Greet(c.d.hello(), false)
	if err != nil {
		return err
	}
	if hello.Who != link.Bridge && hello.Who != link.Person || hello.Who == link.Bridge && (hello.Session == "" || len(hello.Secret) < 16) {
		e := link.Errorf(link.CodeRefused, "the first frame does not say who this is")
		c.refuse(e)
		return e
	}
	c.mu.Lock()
	c.hello, c.owner, c.since = hello, hello.Owner(), c.d.cfg.now()
	c.mu.Unlock()

	var writer sync.WaitGroup
	writer.Go(c.write)
	err = c.read()
	if errors.Is(err, link.ErrProtocol) {
		// The writer may hold the connection; what it does not take any more
		// is not needed.
		c.leave()
		writer.Wait()
		c.refuse(link.AsError(err, link.CodeRefused))
	}
	c.leave()
	c.conn.Close()
	writer.Wait()
	c.mu.Lock()
	puts := c.puts
	c.puts = nil
	c.mu.Unlock()
	for _, p := range puts {
		p.abort()
	}
	return err
}

// read handles frames until the connection ends.
func (c *client) read() error {
	alloc := func(kind link.Kind, _ uint32, n int) []byte {
		if kind == link.Data {
			return c.d.pool.get()[:n]
		}
		return make([]byte, n)
	}
	for {
		f, err := c.conn.Read(alloc)
		if err != nil {
			c.d.pool.put(f.Body)
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

func (c *client) handle(f link.Frame) error {
	c.mu.Lock()
	p, r := c.puts[f.ID], c.requests[f.ID]
	c.mu.Unlock()
	switch f.Kind {
	case link.Request:
		return c.request(f)
	case link.Data:
		if p == nil {
			c.d.pool.put(f.Body) // it has failed, and the client does not know yet
			return nil
		}
		return p.data(f.Body)
	case link.End:
		if p == nil {
			return nil
		}
		var info link.Info
		if err := json.Unmarshal(f.Head, &info); err != nil {
			return fmt.Errorf("%w: end of a put: %v", link.ErrProtocol, err)
		}
		return p.finish(info)
	case link.Cancel:
		if p != nil {
			p.abort()
		}
		if r != nil {
			r.cancel()
		}
	case link.Credit:
		if r != nil {
			r.grant(link.CreditOf(f))
		}
	default:
		return fmt.Errorf("%w: a %s frame from a client", link.ErrProtocol, f.Kind)
	}
	return nil
}

// request begins to answer one.
func (c *client) request(f link.Frame) error {
	var head link.RequestHead
	if err := json.Unmarshal(f.Head, &head); err != nil {
		return fmt.Errorf("%w: request: %v", link.ErrProtocol, err)
	}
	c.mu.Lock()
	if f.ID <= c.last {
		c.mu.Unlock()
		return fmt.Errorf("%w: request %d after %d", link.ErrProtocol, f.ID, c.last)
	}
	c.last = f.ID
	puts, requests := len(c.puts), len(c.requests)
	c.mu.Unlock()

	person := c.hello.Who == link.Person
	var work func(context.Context, *request) ([]byte, error)
	switch head.Op {
	case link.OpPut:
		switch {
		case person:
			c.fail(f.ID, link.Errorf(link.CodeRefused, "only a session keeps results"))
		case !link.ValidHandle(head.Handle):
			c.fail(f.ID, link.Errorf(link.CodeRefused, "%.40q is not a handle", head.Handle))
		case puts >= maxWaiting:
			c.fail(f.ID, link.Errorf(link.CodeBusy, "%d results of this session are being written already", puts))
		default:
			c.startPut(f.ID, head.Handle)
		}
		return nil
	case link.OpRead:
		work = func(ctx context.Context, _ *request) ([]byte, error) { return c.readPage(ctx, head) }
	case link.OpStatus:
		work = func(ctx context.Context, _ *request) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			c.d.store.wait(ctx) // a disk that does not answer is part of the status
			return json.Marshal(c.d.status())
		}
	case link.OpList, link.OpExport, link.OpStop:
		if !person {
			c.fail(f.ID, link.Errorf(link.CodeRefused, "a session may not ask for %q", head.Op))
			return nil
		}
		work = func(ctx context.Context, r *request) ([]byte, error) {
			switch head.Op {
			case link.OpList:
				page, err := c.d.store.list(ctx, head.After)
				if err != nil {
					return nil, err
				}
				return json.Marshal(page)
			case link.OpExport:
				return nil, c.export(ctx, r, f.ID, head)
			}
			c.d.cfg.Log.Info("asked to stop", "by", c.hello.PID)
			return nil, nil
		}
	default:
		c.fail(f.ID, link.Errorf(link.CodeRefused, "this desk (%s) knows no operation %.40q", c.d.cfg.Build, string(head.Op)))
		return nil
	}
	if requests >= maxRequests {
		c.fail(f.ID, link.Errorf(link.CodeBusy, "%d requests of this client are being answered already", requests))
		return nil
	}

	timeout := requestTimeout
	if head.TimeoutMS > 0 {
		timeout = min(time.Duration(head.TimeoutMS)*time.Millisecond, 10*time.Minute)
	}
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	if head.Op == link.OpExport {
		cancel()
		ctx, cancel = context.WithCancel(c.ctx) // as long as somebody takes it
	}
	r := &request{cancel: cancel, more: make(chan struct{}, 1)}
	c.mu.Lock()
	c.requests[f.ID] = r
	c.mu.Unlock()
	c.d.wg.Go(func() {
		defer cancel()
		body, err := work(ctx, r)
		c.mu.Lock()
		delete(c.requests, f.ID)
		c.mu.Unlock()
		switch {
		case err != nil:
			c.fail(f.ID, link.AsError(err, link.CodeDisk))
		case len(body) > link.MaxBody:
			c.fail(f.ID, link.Errorf(link.CodeQuery, "the answer is too long; ask for less"))
		default:
			a := answer{kind: link.Reply, id: f.ID, body: body, sent: make(chan struct{})}
			c.send(a)
			if head.Op == link.OpStop {
				select {
				case <-a.sent:
				case <-c.ctx.Done():
				}
				c.d.end(errStop)
			}
		}
	})
	return nil
}

// fail answers a request or a put with no.
func (c *client) fail(id uint32, e *link.Error) {
	if len(e.Message) > 8<<10 {
		e = &link.Error{Code: e.Code, Message: e.Message[:8<<10] + "…"}
	}
	head, err := json.Marshal(e)
	if err != nil {
		panic("desk: " + err.Error()) // two strings
	}
	c.send(answer{kind: link.Fail, id: id, head: head})
}

// send queues a frame. A client that lets too many bytes pile up is cut off.
func (c *client) send(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.outBytes += len(a.head) + len(a.body) + 64
	if c.outBytes > maxOut {
		c.d.cfg.Log.Warn("a client takes no answers", "session", c.hello.Session)
		c.leave()
		c.conn.Close()
		return
	}
	c.out = append(c.out, a)
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// write sends what is queued until the connection ends.
func (c *client) write() {
	for {
		c.mu.Lock()
		out := c.out
		c.out = nil
		c.mu.Unlock()
		for _, a := range out {
			var body [][]byte
			if len(a.body) > 0 {
				body = [][]byte{a.body}
			}
			err := c.conn.Write(a.kind, a.id, a.head, writeTimeout, body...)
			c.mu.Lock()
			c.outBytes -= len(a.head) + len(a.body) + 64
			c.mu.Unlock()
			if err != nil {
				c.conn.Close() // ends the reading
				return
			}
			if a.sent != nil {
				close(a.sent)
			}
		}
		if len(out) > 0 {
			continue
		}
		select {
		case <-c.news:
		case <-c.ctx.Done():
			return
		}
	}
}

func (r *request) grant(n int) {
	r.mu.Lock()
	r.credit = min(r.credit+n, 4*window)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// readPage answers penstock_result.
func (c *client) readPage(ctx context.Context, head link.RequestHead) ([]byte, error) {
	e, src, err := c.find(ctx, head.Handle, c.d.readSlots)
	if err != nil {
		return nil, err
	}
	return answerWithin(ctx, func() ([]byte, error) {
		defer src.done()
		return readPage(ctx, src, e, head.Args, head.Most)
	})
}

// export sends a view as Data frames.
func (c *client) export(ctx context.Context, r *request, id uint32, head link.RequestHead) error {
	e, src, err := c.find(ctx, head.Handle, c.d.exportSlots)
	if err != nil {
		return err
	}
	_, err = answerWithin(ctx, func() ([]byte, error) {
		defer src.done()
		return nil, writeView(ctx, &stream{ctx, c, r, id}, src, e, head.Part)
	})
	return err
}

// answerWithin runs f, which reads the disk, and returns what it returns or, if
// the disk does not answer in time, that. f goes on then and keeps its slot.
func answerWithin(ctx context.Context, f func() ([]byte, error)) ([]byte, error) {
	type outcome struct {
		b   []byte
		err error
	}
	ch := make(chan outcome, 1)
	go func() {
		b, err := f()
		ch <- outcome{b, err}
	}()
	select {
	case o := <-ch:
		return o.b, o.err
	case <-ctx.Done():
		// The view may have ended just so, with a better reason.
		select {
		case o := <-ch:
			return o.b, o.err
		case <-time.After(100 * time.Millisecond):
			return nil, link.Errorf(link.CodeBusy, "the disk did not answer in time")
		}
	}
}

// source is a kept result being read.
type source struct {
	io.ReaderAt
	done func() // closes it and gives the slot back
}

// find opens a result that this client may read.
func (c *client) find(ctx context.Context, handle string, slots chan struct{}) (*entry, source, error) {
	var owner *[32]byte
	if c.hello.Who == link.Bridge {
		owner = &c.owner
	}
	e, err := c.d.store.find(ctx, handle, owner)
	if err != nil {
		return nil, source{}, err
	}
	if err := slot(ctx, slots); err != nil {
		return nil, source{}, err
	}
	type opened struct {
		r   reader
		err error
	}
	ch := make(chan opened, 1)
	go func() {
		r, err := c.d.store.shelf.open(handle)
		ch <- opened{r, err}
	}()
	select {
	case o := <-ch:
		if o.err != nil {
			<-slots
			return nil, source{}, c.d.store.vanished(e, o.err)
		}
		return e, source{o.r, func() { o.r.Close(); <-slots }}, nil
	case <-ctx.Done():
		go func() { // the slot is free when the disk has answered
			if o := <-ch; o.err == nil {
				o.r.Close()
			}
			<-slots
		}()
		return nil, source{}, link.Errorf(link.CodeBusy, "the disk did not answer in time")
	}
}

// stream writes Data frames as the client grants room for them.
type stream struct {
	ctx context.Context
	c   *client
	r   *request
	id  uint32
}

func (s *stream) Write(b []byte) (int, error) {
	n := 0
	for len(b) > 0 {
		s.r.mu.Lock()
		m := min(len(b), s.r.credit, link.MaxChunk)
		s.r.credit -= m
		s.r.mu.Unlock()
		if m > 0 {
			s.c.send(answer{kind: link.Data, id: s.id, body: bytes.Clone(b[:m])})
			b, n = b[m:], n+m
			continue
		}
		select {
		case <-s.r.more:
		case <-s.ctx.Done():
			return n, errGone
		}
	}
	return n, nil
}
