// Package desk is the background half of Penstock: one process a user that
// keeps what must outlive a session or must not depend on its disk. Now that is
// the results store; records, approvals and the registry of sessions come
// beside it.
//
// [Run] is the desk that all sessions share, with its place, its lock and its
// socket; [Start] starts it in a process of its own. [ServeConn] is the same
// desk for one session alone, which [Private] starts. The protocol and its
// client are in package link, the views of a result in package result.
//
// The promise: a client can cost the desk no more than its bounds, a disk that
// is slow, full, read-only or frozen costs the results that it concerns and
// nothing else, and a session reads no other session's results.
//
// It refuses to keep anything in the clear that nobody asked to keep, to show a
// path, and to run for another user.
package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// Config is the settings of a desk. The zero value keeps results in memory.
type Config struct {
	Home  string // folder of everything; "" for none
	Build string // of this program, for people

	Quota        int64         // bytes of all results; zero means 4 GiB
	SessionQuota int64         // bytes of one session's; zero means half of Quota
	Expire       time.Duration // how long a result is kept; zero means 24 h
	Idle         time.Duration // without a client, after which the desk leaves; zero means 1 min

	Log *slog.Logger // nil is silent

	private bool             // serves one session, see ServeConn
	memory  int64            // bytes of results in memory, where there is no disk; zero means 16 MiB
	entries int              // most results; zero means maxEntries
	stall   time.Duration    // after which a disk counts as not answering; zero means 5 s
	now     func() time.Time // wall clock; nil means time.Now
	open    func(Config) shelf
}

// Bounds of a desk.
const (
	maxClients  = 256 // connections
	maxPuts     = 12  // results that are written at the same time
	maxWaiting  = 64  // puts of one client, being written or waiting to be
	maxRequests = 32  // of one client at the same time
	maxReads    = 16  // reads of the disk at the same time
	maxExports  = 4
	maxOut      = 16 << 20 // bytes of answers that a client has not taken
	window      = 1 << 20  // bytes of a put on their way

	requestTimeout = time.Minute      // of a request that names none
	writeTimeout   = 30 * time.Second // for a client to take a frame
	stopGrace      = 5 * time.Second  // for puts to end when the desk does
)

func (c Config) withDefaults() Config {
	if c.Quota <= 0 {
		c.Quota = 4 << 30
	}
	if c.SessionQuota <= 0 {
		c.SessionQuota = c.Quota / 2
	}
	c.SessionQuota = min(c.SessionQuota, c.Quota)
	if c.Expire <= 0 {
		c.Expire = 24 * time.Hour
	}
	if c.Idle <= 0 {
		c.Idle = time.Minute
	}
	if c.memory <= 0 {
		c.memory = 16 << 20
	}
	if c.entries <= 0 {
		c.entries = maxEntries
	}
	if c.stall <= 0 {
		c.stall = 5 * time.Second
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.open == nil {
		c.open = openShelf
	}
	return c
}

// desk serves clients from one store.
type desk struct {
	cfg     Config
	store   *store
	pool    pool
	started time.Time
	ctx     context.Context // ends when the desk does; bounds what it does for clients
	end     context.CancelCauseFunc
	wg      sync.WaitGroup // everything that serves clients

	putSlots, readSlots, exportSlots chan struct{}

	mu      sync.Mutex
	clients map[*client]struct{}
	writing int // puts that have a slot or wait for one
	idle    *time.Timer
}

// The ways for a desk to end without an error.
var (
	errIdle = errors.New("idle")
	errStop = errors.New("asked to stop")
)

func newDesk(ctx context.Context, cfg Config) *desk {
	cfg = cfg.withDefaults()
	d := &desk{
		cfg: cfg, started: cfg.now(), clients: make(map[*client]struct{}),
		putSlots: make(chan struct{}, maxPuts), readSlots: make(chan struct{}, maxReads), exportSlots: make(chan struct{}, maxExports),
	}
	d.ctx, d.end = context.WithCancelCause(ctx)
	d.store = newStore(cfg)
	return d
}

// Serve answers the clients of l until ctx ends, one of them asks the desk to
// stop, or there has been none for cfg.Idle. It closes l and, within seconds,
// ends what it does for clients; a nil error says that it ended as meant. What
// is stuck on a disk that does not answer is left behind: the process is to
// end next.
func Serve(ctx context.Context, l net.Listener, cfg Config) error {
	d := newDesk(ctx, cfg)
	d.idle = time.AfterFunc(d.cfg.Idle, d.leaveIfIdle)
	defer d.idle.Stop()
	unhook := context.AfterFunc(d.ctx, func() { l.Close() })
	defer unhook()
	var failed error
	for {
		nc, err := l.Accept()
		if err != nil {
			if d.ctx.Err() == nil && tooManyFiles(err) {
				// Clients that leave make room again.
				select {
				case <-time.After(100 * time.Millisecond):
					continue
				case <-d.ctx.Done():
				}
			}
			if d.ctx.Err() == nil {
				failed = err
			}
			break
		}
		d.wg.Go(func() { d.serve(nc) })
	}
	d.shutdown()
	return failed
}

// ServeConn is [Serve] for one client that is connected already. It ends with
// the connection, and what it kept goes with it.
func ServeConn(ctx context.Context, nc net.Conn, cfg Config) error {
	cfg.private = true
	d := newDesk(ctx, cfg)
	d.wg.Go(func() { d.serve(nc); d.end(errStop) })
	<-d.ctx.Done()
	d.shutdown()
	return nil
}

// shutdown ends everything.
func (d *desk) shutdown() {
	d.end(errStop)
	// Results that are nearly whole get a moment.
	deadline := time.Now().Add(stopGrace)
	for d.busy() && time.Now().Before(deadline) && !d.cfg.private {
		time.Sleep(10 * time.Millisecond)
	}
	d.mu.Lock()
	for c := range d.clients {
		c.conn.Close()
	}
	d.mu.Unlock()
	within(stopGrace, d.wg.Wait)
	within(stopGrace, d.store.close)
}

// within waits for f, no longer than t. After that f is left to itself, which
// only a disk that does not answer makes happen.
func within(t time.Duration, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(t):
	}
}

func (d *desk) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writing > 0
}

// serve is one connection from its first byte to its last.
func (d *desk) serve(nc net.Conn) {
	defer nc.Close()
	// Nobody but who started it reaches a private desk.
	if err := link.CheckPeer(nc); err != nil && !d.cfg.private {
		d.cfg.Log.Warn("refused a connection", "err", err)
		return
	}
	c := newClient(d, nc)
	d.mu.Lock()
	full := len(d.clients) >= maxClients
	if !full {
		d.clients[c] = struct{}{}
		if d.idle != nil {
			d.idle.Stop()
		}
	}
	d.mu.Unlock()
	if full {
		c.conn.Greet(d.hello(), false)
		c.refuse(link.Errorf(link.CodeBusy, "the desk has %d clients already", maxClients))
		return
	}
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.clients, c)
		if len(d.clients) == 0 && d.idle != nil {
			d.idle.Reset(d.cfg.Idle)
		}
	}()
	if err := c.serve(); err != nil {
		d.cfg.Log.Info("a connection has ended", "err", err, "session", c.hello.Session)
	}
}

// leaveIfIdle ends the desk if there is still no client. What is kept stays on
// the disk: the next desk serves it, and removes what has expired by then.
func (d *desk) leaveIfIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clients) == 0 {
		d.end(errIdle)
	}
}

func (d *desk) hello() link.HelloHead {
	return link.HelloHead{Build: d.cfg.Build, PID: os.Getpid()}
}

// status is what `penstock desk status` shows.
func (d *desk) status() link.Status {
	s := link.Status{
		PID: os.Getpid(), Build: d.cfg.Build, Version: link.Version, Started: link.Time{Time: d.started},
		Private: d.cfg.private, Sessions: []link.Session{},
	}
	s.Results, s.Place = d.store.results()
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Results.Writing = d.writing
	for c := range d.clients {
		if h, since, ok := c.greeted(); ok && h.Who == link.Bridge {
			s.Sessions = append(s.Sessions, link.Session{ID: h.Session, Server: h.Server, PID: h.PID, Since: link.Time{Time: since}})
		}
	}
	return s
}

// slot takes one of slots, waiting until ctx ends.
func slot(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return link.Errorf(link.CodeBusy, "the desk does %d such things already, or its disk does not answer", cap(slots))
	}
}

// pool holds buffers for the bodies of Data frames.
type pool struct {
	mu   sync.Mutex
	free [][]byte
}

func (p *pool) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b[:0]
	}
	return make([]byte, 0, link.MaxChunk)
}

func (p *pool) put(b []byte) {
	if cap(b) < link.MaxChunk {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < 16 {
		p.free = append(p.free, b[:0])
	}
}

// errGone is what work for a client that has left ends with.
var errGone = fmt.Errorf("the client has gone: %w", context.Canceled)
