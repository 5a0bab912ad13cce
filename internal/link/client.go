package link

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Options say which desk a client talks to and for whom.
type Options struct {
	Home    string // folder of the desk; "" if there is none, then only Private is used
	Who     Who    // zero means Bridge
	Session string // id of the session, of a Bridge
	Server  string // name of the MCP server, for people
	Build   string // of this program, for people

	// Start starts the desk that all share; nil means that it is not to be
	// started. It returns when it has been tried, and need not know whether
	// another one was faster.
	Start func(context.Context) error

	// Private starts a desk for this client alone, where the shared one cannot
	// be reached; nil means that there is none. Closing the connection ends it.
	Private func(context.Context) (net.Conn, error)

	Page   int          // most bytes of text in one page of a Read; zero means 64 KiB
	Buffer int          // most bytes that wait to be sent; zero means 4 MiB
	Log    *slog.Logger // nil is silent
}

// Bounds of a client.
const (
	defaultBuffer = 4 << 20
	blockSize     = 64 << 10
	maxQueue      = 256              // requests that wait to be sent
	maxLost       = 1024             // reasons that are remembered
	writeTimeout  = 10 * time.Second // after which a desk that takes nothing counts as gone
	ackTimeout    = 30 * time.Second // for the acknowledgement of a put
	findTimeout   = 10 * time.Second // for finding or starting the shared desk
	firstBackoff  = 200 * time.Millisecond
	lastBackoff   = 10 * time.Second

	// exportWindow is how much of an export may be on its way.
	exportWindow = 1 << 20
)

// Client is one end of the link. Its methods may be used concurrently, and a
// nil *Client is one without a desk: puts fail and reads say why.
type Client struct {
	o       Options
	hello   HelloHead
	stop    context.CancelFunc
	done    chan struct{} // closed when the last goroutine has ended
	wake    chan struct{} // tells the sender to look again
	drained chan struct{} // tells Pace that blocks came back

	mu      sync.Mutex
	nextID  uint32
	queue   []outgoing       // what to send before anything of a put
	puts    []*Put           // those with something left to send, served in turn
	begun   map[uint32]*Put  // those that the desk knows of and has not answered
	calls   map[uint32]*call // requests without an answer
	used    int              // blocks in use
	free    [][]byte         // blocks to use again
	lost    map[string]*Error
	losts   []string // keys of lost, oldest first
	down    *Error   // why there is no connection and none in sight; nil while there is hope
	desk    HelloHead
	up      bool // a connection stands
	private bool
	closing bool
	idle    chan struct{} // closed when closing and no put is left
}

// outgoing is a frame to send. Of the connection that it was made for, unless
// it is a request that may be sent again.
type outgoing struct {
	kind Kind
	id   uint32
	head []byte
	body []byte
}

// call is a request that waits for its answer.
type call struct {
	id     uint32
	head   []byte // to send again; nil if it must not be
	sent   bool
	chunks [][]byte // of an export, not taken yet
	news   chan struct{}
	reply  Frame
	err    *Error
	over   bool // reply or err is there
}

// Dial returns a client at once; finding and, if need be, starting a desk goes
// on in the background, as does finding it again when it has gone. Close must
// be called.
func Dial(o Options) *Client {
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	if o.Who == "" {
		o.Who = Bridge
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		o:       o,
		stop:    cancel,
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		drained: make(chan struct{}, 1),
		begun:   make(map[uint32]*Put),
		calls:   make(map[uint32]*call),
		lost:    make(map[string]*Error),
		idle:    make(chan struct{}),
	}
	c.hello = HelloHead{Build: o.Build, PID: os.Getpid(), Who: o.Who, Session: o.Session, Server: o.Server}
	if o.Who == Bridge {
		c.hello.Secret = rand.Text()
	}
	go c.run(ctx)
	return c
}

// Close waits for the puts that were committed to be acknowledged, or for ctx,
// gives up what is left and joins everything that Dial started.
func (c *Client) Close(ctx context.Context) {
	if c == nil {
		return
	}
	c.mu.Lock()
	if !c.closing {
		c.closing = true
		for _, p := range c.open() {
			if !p.ended {
				p.fail(Errorf(CodeLost, "the session ended before the result was complete"))
			}
		}
		c.checkIdle()
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-c.done:
	case <-ctx.Done():
	}
	c.stop()
	<-c.done
}

// open returns the puts that are not over. mu is held.
func (c *Client) open() []*Put {
	ps := slices.Clone(c.puts)
	for _, p := range c.begun {
		if !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	return slices.DeleteFunc(ps, func(p *Put) bool { return p.over })
}

// checkIdle ends the wait of Close. mu is held.
func (c *Client) checkIdle() {
	if !c.closing || len(c.open()) > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// Desk returns what the desk said of itself, and whether it is private; false
// while there is no connection.
func (c *Client) Desk() (desk HelloHead, private, ok bool) {
	if c == nil {
		return HelloHead{}, false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.desk, c.private, c.up
}

// Read returns one page of a kept result, the structuredContent of an answer to
// penstock_result. args are the whole arguments of that call, and handle the one
// in them. An [*Error] says why there is no page.
func (c *Client) Read(ctx context.Context, handle string, args json.RawMessage) (json.RawMessage, error) {
	if c != nil {
		if err := c.awaitPut(ctx, handle); err != nil {
			return nil, err
		}
	}
	if err := c.knownLost(handle); err != nil {
		return nil, err
	}
	f, err := c.do(ctx, RequestHead{Op: OpRead, Handle: handle, Args: args, Most: c.page()}, true)
	return f.Body, err
}

// awaitPut waits for the end of a put of this client whose result is asked for:
// requests overtake results on their way to the desk.
func (c *Client) awaitPut(ctx context.Context, handle string) error {
	c.mu.Lock()
	var put *Put
	for _, p := range c.puts {
		if p.handle == handle {
			put = p
		}
	}
	for _, p := range c.begun {
		if p.handle == handle {
			put = p
		}
	}
	c.mu.Unlock()
	if put == nil {
		return nil
	}
	select {
	case <-put.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) page() int {
	if c == nil {
		return 0
	}
	return c.o.Page
}

// knownLost returns why a result was not kept, nil if it may have been.
func (c *Client) knownLost(handle string) error {
	if c == nil {
		return errNoDesk
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.lost[handle]; e != nil {
		return e
	}
	return nil
}

var errNoDesk = Errorf(CodeUnavailable, "nothing is kept in this session, since it has no desk")

// List returns one page of what is kept, for a Person. after is "" or the Next
// of the page before.
func (c *Client) List(ctx context.Context, after string) (page ListPage, err error) {
	f, err := c.do(ctx, RequestHead{Op: OpList, After: after}, true)
	if err == nil {
		err = json.Unmarshal(f.Body, &page)
	}
	return page, err
}

// Status returns what the desk says of itself.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	f, err := c.do(ctx, RequestHead{Op: OpStatus}, true)
	if err == nil {
		err = json.Unmarshal(f.Body, &s)
	}
	return s, err
}

// Stop asks the desk to end, for a Person. It returns when the desk has said
// that it will.
func (c *Client) Stop(ctx context.Context) error {
	_, err := c.do(ctx, RequestHead{Op: OpStop}, false)
	return err
}

// Export writes a whole view of a kept result to w, for a Person: a part as
// penstock_result names it, or "raw" for the message as it came. It returns
// the bytes written.
func (c *Client) Export(ctx context.Context, handle, part string, w io.Writer) (int64, error) {
	k, err := c.begin(RequestHead{Op: OpExport, Handle: handle, Part: part}, false)
	if err != nil {
		return 0, err
	}
	defer c.end(k)
	c.grant(k, exportWindow)
	var n int64
	for {
		c.mu.Lock()
		chunks, over := k.chunks, k.over
		k.chunks = nil
		c.mu.Unlock()
		for _, chunk := range chunks {
			m, err := w.Write(chunk)
			n += int64(m)
			if err != nil {
				return n, err
			}
			c.grant(k, len(chunk))
		}
		if over && len(chunks) == 0 {
			if k.err != nil {
				return n, k.err
			}
			return n, nil
		}
		if len(chunks) > 0 {
			continue
		}
		select {
		case <-k.news:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
}

func (c *Client) grant(k *call, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, outgoing{Credit, k.id, nil, CreditBody(n)})
	c.poke()
}

// do sends a request and waits for its answer.
func (c *Client) do(ctx context.Context, head RequestHead, again bool) (Frame, error) {
	if d, ok := ctx.Deadline(); ok {
		head.TimeoutMS = max(1, time.Until(d).Milliseconds())
	}
	k, err := c.begin(head, again)
	if err != nil {
		return Frame{}, err
	}
	defer c.end(k)
	for {
		c.mu.Lock()
		over := k.over
		c.mu.Unlock()
		if over {
			if k.err != nil {
				return Frame{}, k.err
			}
			return k.reply, nil
		}
		select {
		case <-k.news:
		case <-ctx.Done():
			return Frame{}, Errorf(CodeBusy, "the desk did not answer in time (%v)", ctx.Err())
		}
	}
}

// begin puts a request into the queue. again says that it may be sent once
// more if the connection breaks before the answer.
func (c *Client) begin(head RequestHead, again bool) (*call, error) {
	if c == nil {
		return nil, errNoDesk
	}
	b, err := json.Marshal(head)
	if err != nil || len(b) > MaxHead {
		return nil, Errorf(CodeQuery, "the arguments are too long or no JSON (%d bytes)", len(head.Args))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.down != nil:
		return nil, c.down
	case c.closing:
		return nil, Errorf(CodeUnavailable, "the session is ending")
	case len(c.calls) >= maxQueue:
		return nil, Errorf(CodeBusy, "%d requests wait for the desk already", len(c.calls))
	}
	k := &call{id: c.newID(), news: make(chan struct{}, 1)}
	if again {
		k.head = b
	}
	c.calls[k.id] = k
	c.queue = append(c.queue, outgoing{Request, k.id, b, nil})
	c.poke()
	return k, nil
}

// end forgets a request and tells the desk if it was not answered.
func (c *Client) end(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.id)
	if !k.over {
		// A request that was not sent yet need not be.
		n := len(c.queue)
		c.queue = slices.DeleteFunc(c.queue, func(o outgoing) bool { return o.id == k.id && o.kind == Request })
		if n == len(c.queue) {
			c.queue = append(c.queue, outgoing{Cancel, k.id, nil, nil})
		}
		c.poke()
	}
}

func (c *Client) newID() uint32 {
	c.nextID++
	if c.nextID == 0 {
		c.nextID = 1
	}
	return c.nextID
}

// poke wakes the sender.
func (c *Client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// tell wakes whoever waits for the call.
func (k *call) tell() {
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// run finds a desk, serves the connection, and begins again when it breaks.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	backoff := firstBackoff
	for ctx.Err() == nil {
		conn, desk, err := c.find(ctx)
		switch {
		case err == nil:
			c.setUp(desk)
			since := time.Now()
			err = c.serve(ctx, conn)
			c.setDown(nil)
			c.o.Log.Info("the connection to the desk has ended", "err", err)
			if time.Since(since) > lastBackoff {
				backoff = firstBackoff
			}
		case ctx.Err() == nil:
			c.o.Log.Warn("no desk", "err", err)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
				err = Errorf(CodeAbsent, "no desk is running")
			}
			c.setDown(AsError(err, CodeUnavailable))
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, lastBackoff)
	}
	c.setDown(Errorf(CodeUnavailable, "the session has ended"))
}

func (c *Client) setUp(desk HelloHead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up, c.down, c.desk = true, nil, desk
}

// setDown marks the end of a connection, or with a reason, that there is none
// in sight.
func (c *Client) setDown(why *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up, c.down = false, why
	// Frames of the connection that is gone mean nothing to the next.
	c.queue = slices.DeleteFunc(c.queue, func(o outgoing) bool { return o.kind != Request })
	for _, p := range c.open() {
		switch {
		case p.begun:
			p.begun = false // nobody to cancel it with
			p.fail(Errorf(CodeLost, "the desk went away while the result was handed over"))
		case why != nil:
			p.fail(Errorf(CodeLost, "%s", why.Message))
		}
	}
	clear(c.begun)
	for _, k := range c.calls {
		switch {
		case k.over:
		case why != nil:
			k.finish(Frame{}, why)
		case k.sent && k.head == nil:
			k.finish(Frame{}, Errorf(CodeUnavailable, "the desk went away before it answered"))
		case k.sent:
			k.sent = false
			c.queue = append(c.queue, outgoing{Request, k.id, k.head, nil})
		}
	}
	c.checkIdle()
}

func (k *call) finish(f Frame, err *Error) {
	k.reply, k.err, k.over = f, err, true
	k.tell()
}

// serve moves frames until the connection breaks or ctx ends.
func (c *Client) serve(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	sent := make(chan error, 1)
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		err := c.send(ctx, conn)
		cancel() // ends the reading too
		sent <- err
	}()
	err := c.receive(conn)
	cancel()
	sendErr := <-sent
	if unhook() {
		conn.Close()
	}
	if errors.Is(err, net.ErrClosed) && sendErr != nil {
		return sendErr
	}
	return err
}

// receive handles the desk's frames.
func (c *Client) receive(conn *Conn) error {
	for {
		f, err := conn.Read(nil)
		if err != nil {
			return err
		}
		if f.Kind == Fail && f.ID == 0 {
			return failure(f)
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

func (c *Client) handle(f Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.begun[f.ID]; p != nil {
		switch f.Kind {
		case Credit:
			p.credit += CreditOf(f)
			c.poke()
		case Reply:
			delete(c.begun, f.ID)
			delete(c.lost, p.handle) // it took its time, but is kept
			p.finish(nil)
		case Fail:
			delete(c.begun, f.ID)
			p.begun = false // nothing to cancel
			p.fail(failure(f))
		default:
			return fmt.Errorf("%w: a %s frame for a put", ErrProtocol, f.Kind)
		}
		return nil
	}
	k := c.calls[f.ID]
	if k == nil || k.over {
		return nil // given up meanwhile
	}
	switch f.Kind {
	case Data:
		k.chunks = append(k.chunks, f.Body)
		k.tell()
	case Reply:
		k.finish(f, nil)
	case Fail:
		k.finish(f, failure(f))
	default:
		return fmt.Errorf("%w: a %s frame for a request", ErrProtocol, f.Kind)
	}
	return nil
}

// send writes what there is to send.
func (c *Client) send(ctx context.Context, conn *Conn) error {
	for {
		c.mu.Lock()
		o, blocks, ok := c.next()
		c.mu.Unlock()
		if !ok {
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		var err error
		if len(blocks) > 0 {
			err = conn.Write(Data, o.id, nil, writeTimeout, blocks...)
			c.mu.Lock()
			c.release(blocks)
			c.mu.Unlock()
		} else {
			err = conn.Write(o.kind, o.id, o.head, writeTimeout, o.body)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the desk takes nothing: %w", err)
		}
	}
}

// next returns what to send: a frame, or blocks of a put. mu is held.
func (c *Client) next() (outgoing, [][]byte, bool) {
	if len(c.queue) > 0 {
		o := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		if k := c.calls[o.id]; k != nil && o.kind == Request {
			k.sent = true
		}
		return o, nil, true
	}
	for range len(c.puts) {
		p := c.puts[0]
		c.puts = append(c.puts[1:], p) // its turn comes again after the others'
		o, blocks, ok := p.next()
		if p.sentAll() {
			c.puts = slices.DeleteFunc(c.puts, func(q *Put) bool { return q == p })
		}
		if ok {
			return o, blocks, true
		}
	}
	c.checkIdle()
	return outgoing{}, nil, false
}

// block returns an empty block, nil if the buffer is full. mu is held.
func (c *Client) block() []byte {
	if c.used >= c.blocks() {
		return nil
	}
	c.used++
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b[:0]
	}
	return make([]byte, 0, blockSize)
}

// blocks is how many blocks there may be.
func (c *Client) blocks() int { return max(1, c.o.Buffer/blockSize) }

// release takes blocks back. mu is held.
func (c *Client) release(blocks [][]byte) {
	for _, b := range blocks {
		c.used--
		c.free = append(c.free, b[:0])
	}
	if c.used == 0 && len(c.puts) == 0 && len(c.begun) == 0 {
		c.free = nil // a session that is quiet again holds no memory
	}
	select {
	case c.drained <- struct{}{}:
	default:
	}
}
