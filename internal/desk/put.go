package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// put is a result that is being received and written. The connection's reader
// fills the queue; a goroutine of its own empties it onto the disk, so that a
// disk that hangs holds nothing else.
type put struct {
	c      *client
	id     uint32
	handle string
	news   chan struct{} // tells run to look

	mu    sync.Mutex
	queue [][]byte // not written yet
	room  int      // bytes that the client may still send
	info  *link.Info
	err   *link.Error // why it ended before its end, nil while it has not
	over  bool        // answered, or nobody waits for an answer
}

var errAborted = link.Errorf(link.CodeLost, "given up by the session")

func (c *client) startPut(id uint32, handle string) {
	p := &put{c: c, id: id, handle: handle, news: make(chan struct{}, 1)}
	if err := c.d.store.begin(handle, c.owner, c.hello); err != nil {
		c.fail(id, err)
		return
	}
	c.mu.Lock()
	c.puts[id] = p
	c.mu.Unlock()
	c.d.mu.Lock()
	c.d.writing++
	c.d.mu.Unlock()
	c.d.wg.Go(func() {
		defer func() {
			c.d.mu.Lock()
			c.d.writing--
			c.d.mu.Unlock()
		}()
		p.run()
	})
}

// data takes the body of a Data frame.
func (p *put) data(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		p.c.d.pool.put(b)
		return nil
	}
	if len(b) > p.room || p.info != nil {
		return fmt.Errorf("%w: %d bytes of a put with room for %d", link.ErrProtocol, len(b), p.room)
	}
	p.room -= len(b)
	// Small pieces are put together, so that the window bounds the memory.
	if last := len(p.queue) - 1; last >= 0 && len(p.queue[last])+len(b) <= cap(p.queue[last]) {
		p.queue[last] = append(p.queue[last], b...)
		p.c.d.pool.put(b)
	} else {
		p.queue = append(p.queue, b)
	}
	p.tell()
	return nil
}

// finish takes the End.
func (p *put) finish(info link.Info) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info != nil {
		return fmt.Errorf("%w: a put ends twice", link.ErrProtocol)
	}
	p.info = &info
	p.tell()
	return nil
}

func (p *put) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// abort ends the put without an answer.
func (p *put) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop(errAborted)
}

// stop makes the put over with a reason, once, and reports whether it did.
// mu is held.
func (p *put) stop(err *link.Error) bool {
	if p.over {
		return false
	}
	p.over, p.err = true, err
	for _, b := range p.queue {
		p.c.d.pool.put(b)
	}
	p.queue = nil
	p.tell()
	p.c.d.store.fail(p.handle, err)
	p.c.mu.Lock()
	delete(p.c.puts, p.id)
	p.c.mu.Unlock()
	return true
}

// fail ends the put with an answer.
func (p *put) fail(err *link.Error) {
	p.mu.Lock()
	failed := p.stop(err)
	p.mu.Unlock()
	if failed {
		p.c.d.cfg.Log.Warn("a result is not kept", "session", p.c.hello.Session, "why", err.Message)
		p.c.fail(p.id, err)
	}
}

// allow lets the client send n more bytes.
func (p *put) allow(n int) {
	p.mu.Lock()
	p.room += n
	p.mu.Unlock()
	p.c.send(answer{kind: link.Credit, id: p.id, body: link.CreditBody(n)})
}

// run writes the result.
func (p *put) run() {
	d := p.c.d
	defer d.store.forget(p.handle)
	ctx, cancel := context.WithTimeout(p.c.ctx, d.cfg.stall)
	defer cancel()
	if err := d.store.wait(ctx); err != nil {
		p.fail(link.AsError(err, link.CodeBusy))
		return
	}
	if err := slot(ctx, d.putSlots); err != nil {
		p.fail(link.AsError(err, link.CodeBusy))
		return
	}
	defer func() { <-d.putSlots }()

	// The client is told in time, though a call that hangs in the kernel
	// cannot be called back. The slot stays taken until it returns.
	stall := time.AfterFunc(time.Hour, func() {
		p.fail(link.Errorf(link.CodeDisk, "the disk did not answer for %v", d.cfg.stall))
	})
	stall.Stop()
	disk := func(f func() error) error {
		stall.Reset(d.cfg.stall)
		defer stall.Stop()
		return f()
	}

	var w writer
	defer func() {
		if w != nil {
			w.Abort()
		}
	}()
	if err := disk(func() (err error) { w, err = d.store.shelf.create(p.handle); return err }); err != nil {
		w = nil
		p.fail(diskError(err))
		return
	}
	p.allow(window)
	owed := 0
	for {
		b, info, over := p.take()
		switch {
		case over:
			return
		case b != nil:
			n := len(b)
			err := d.store.reserve(p.handle, int64(n))
			if err == nil {
				err = disk(func() error { _, err := w.Write(b); return err })
			}
			d.pool.put(b)
			if err != nil {
				p.fail(diskError(err))
				return
			}
			// In larger pieces, since each wakes the client; what is held back
			// never keeps it from sending.
			if owed += n; owed >= window/4 {
				p.allow(owed)
				owed = 0
			}
		case info != nil:
			e, meta, err := d.store.seal(p.handle, *info)
			if err == nil {
				err = disk(func() error { return w.Commit(meta) })
			}
			if err != nil {
				p.fail(diskError(err))
				return
			}
			w = nil
			// Known before it is acknowledged, so that a read that follows
			// finds it.
			if p.done() {
				d.store.add(e)
				p.c.send(answer{kind: link.Reply, id: p.id})
			} else {
				d.store.discard(p.handle)
			}
			return
		default:
			<-p.news // also told by abort, and so by the end of the connection
		}
	}
}

// take returns the next buffer to write, or the end of the result.
func (p *put) take() (b []byte, info *link.Info, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, nil, true
	}
	if len(p.queue) > 0 {
		b = p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		return b, nil, false
	}
	return nil, p.info, false
}

// done makes the put over as kept, and reports false if it was given up before.
func (p *put) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over = true
	p.c.mu.Lock()
	delete(p.c.puts, p.id)
	p.c.mu.Unlock()
	return true
}

// diskError words what a disk says.
func diskError(err error) *link.Error {
	if e := (*link.Error)(nil); errors.As(err, &e) {
		return e
	}
	return link.Errorf(link.CodeDisk, "%s", diskReason(err))
}
