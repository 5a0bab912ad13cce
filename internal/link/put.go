package link

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Put hands one result over to the desk while it comes in. It is for one
// goroutine, except Done, Err and Wait. None but Wait blocks, ever: if the desk
// is slow, frozen or gone, the put fails at once and says why, and what was to
// be kept is lost. End every put with Commit or Abort.
type Put struct {
	c      *Client
	handle string
	done   chan struct{} // closed when over

	// Guarded by c.mu.
	id     uint32
	blocks [][]byte // not sent yet
	begun  bool     // the desk knows of it, on the connection that stands
	credit int      // bytes that the desk takes
	ended  bool     // committed
	head   []byte   // of the End
	asked  bool     // the End was sent
	over   bool     // acknowledged, failed or aborted
	err    *Error
	ack    *time.Timer // gives up the wait for the acknowledgement
	sent   int64
}

// NewPut begins a put. It costs nothing until bytes are written.
func (c *Client) NewPut() *Put {
	p := &Put{c: c, handle: NewHandle(), done: make(chan struct{})}
	if c == nil {
		p.err, p.over = errNoDesk, true
		close(p.done)
		return p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.id = c.newID()
	switch {
	case c.down != nil:
		p.fail(Errorf(CodeLost, "%s", c.down.Message))
	case c.closing:
		p.fail(Errorf(CodeLost, "the session is ending"))
	default:
		c.puts = append(c.puts, p)
	}
	return p
}

// Handle returns the name under which the result can be read once it is kept.
// It is known from the start, so that an answer may name it before the desk
// has acknowledged anything; a Read says if that has failed.
func (p *Put) Handle() string { return p.handle }

// Write copies chunk into the send buffer. It never blocks and never fails:
// after the put has failed, which [Put.Err] tells, it does nothing.
func (p *Put) Write(chunk []byte) (int, error) {
	if p.c == nil {
		return len(chunk), nil
	}
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(chunk)
	for len(chunk) > 0 && !p.over && !p.ended {
		last := len(p.blocks) - 1
		if last < 0 || len(p.blocks[last]) == cap(p.blocks[last]) {
			b := c.block()
			if b == nil {
				p.fail(c.tooSlow())
				break
			}
			p.blocks = append(p.blocks, b)
			last++
		}
		b := p.blocks[last]
		m := min(len(chunk), cap(b)-len(b))
		p.blocks[last] = append(b, chunk[:m]...)
		chunk = chunk[m:]
	}
	c.poke()
	return n, nil
}

// tooSlow says why the buffer is full.
func (c *Client) tooSlow() *Error {
	if !c.up {
		return Errorf(CodeLost, "the desk was not there yet when it came")
	}
	return Errorf(CodeLost, "the desk, or the disk it writes to, was too slow for it")
}

// Commit ends the put and asks the desk to keep the result. It returns nil if
// nothing is wrong so far; Wait tells how it ends.
func (p *Put) Commit(info Info) error {
	if p.c == nil {
		return p.err
	}
	head, err := json.Marshal(info)
	if err != nil || len(head) > MaxHead {
		// Names of tools come from servers and may be anything.
		head, _ = json.Marshal(Info{Call: info.Call, Part: info.Part})
	}
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.over && !p.ended {
		p.ended, p.head = true, head
		p.ack = time.AfterFunc(ackTimeout, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			p.fail(Errorf(CodeLost, "the desk did not acknowledge the result within %v", ackTimeout))
		})
		c.poke()
	}
	return p.errLocked()
}

// Abort gives the put up; nothing is kept. After Commit it does nothing.
func (p *Put) Abort() {
	if p.c == nil {
		return
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if !p.over && !p.ended {
		p.finish(Errorf(CodeLost, "given up"))
		p.c.poke()
	}
}

// Err returns an [*Error] once the put has failed, else nil.
func (p *Put) Err() error {
	if p.c == nil {
		return p.err
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.errLocked()
}

func (p *Put) errLocked() error {
	if p.err != nil {
		return p.err
	}
	return nil
}

// Done is closed when the put is over: kept, failed or aborted.
func (p *Put) Done() <-chan struct{} { return p.done }

// Wait waits for the end of a put that was committed and returns how it ended,
// or the error of ctx.
func (p *Put) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail ends the put with a reason that reads of its handle will give. c.mu is
// held.
func (p *Put) fail(err *Error) {
	if p.over {
		return
	}
	c := p.c
	p.finish(err)
	c.o.Log.Warn("a result is not kept", "handle", p.handle, "why", err.Message)
	if len(c.losts) >= maxLost {
		delete(c.lost, c.losts[0])
		c.losts = slices.Delete(c.losts, 0, 1)
	}
	c.lost[p.handle] = Errorf(CodeLost, "the rest of this result was not kept: %s", err.Message)
	c.losts = append(c.losts, p.handle)
	c.poke()
}

// finish makes the put over. c.mu is held.
func (p *Put) finish(err *Error) {
	if p.over {
		return
	}
	p.over, p.err = true, err
	if p.ack != nil {
		p.ack.Stop()
	}
	p.c.release(p.blocks)
	p.blocks = nil
	close(p.done)
	p.c.checkIdle()
}

// next returns what to send of the put. c.mu is held.
func (p *Put) next() (outgoing, [][]byte, bool) {
	switch {
	case p.over:
		if p.begun {
			p.begun = false
			delete(p.c.begun, p.id)
			p.c.release(nil)
			return outgoing{Cancel, p.id, nil, nil}, nil, true
		}
	case !p.begun && (len(p.blocks) > 0 || p.ended):
		head, err := json.Marshal(RequestHead{Op: OpPut, Handle: p.handle})
		if err != nil {
			panic("link: " + err.Error()) // made of plain strings
		}
		p.begun = true
		p.c.begun[p.id] = p
		return outgoing{Request, p.id, head, nil}, nil, true
	case len(p.blocks) > 0:
		n, k := 0, 0
		for k < len(p.blocks) && n+len(p.blocks[k]) <= min(p.credit, MaxChunk) {
			n += len(p.blocks[k])
			k++
		}
		if k > 0 {
			blocks := slices.Clone(p.blocks[:k])
			p.blocks = slices.Delete(p.blocks, 0, k)
			p.credit -= n
			p.sent += int64(n)
			return outgoing{Data, p.id, nil, nil}, blocks, true
		}
	case p.ended && !p.asked:
		p.asked = true
		return outgoing{End, p.id, p.head, nil}, nil, true
	}
	return outgoing{}, nil, false
}

// sentAll reports whether the sender is done with the put. c.mu is held.
func (p *Put) sentAll() bool { return p.asked || p.over && !p.begun }

// Pace waits, if more than half of the send buffer is in use, until it is a
// quarter or the put is over, but no longer than most, and returns how long it
// has waited. It is for a
// source that may be held back for a moment in favour of a result that is kept:
// without it whatever outruns the desk by the size of the buffer is lost. Who
// calls it keeps the account of how much waiting there may be in all.
func (p *Put) Pace(most time.Duration) time.Duration {
	if p.c == nil {
		return 0
	}
	c := p.c
	c.mu.Lock()
	enough := p.over || 2*c.used <= c.blocks()
	c.mu.Unlock()
	if enough || most <= 0 {
		return 0 // nearly always, and then without looking at the clock
	}
	start := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case <-c.drained:
		case <-p.done:
			return time.Since(start)
		case <-timer.C:
			return time.Since(start)
		}
		c.mu.Lock()
		enough := p.over || 4*c.used <= c.blocks()
		c.mu.Unlock()
		if enough {
			return time.Since(start)
		}
	}
}
