package bridge

import (
	"io"
	"os"
	"time"

	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// Frames leave in two ways. Whoever put some into a queue calls push, which
// writes as much as the pipe takes at once and waits for nothing: the usual
// case, without a change of goroutine. What the pipe does not take is left to
// the writer of that direction, the goroutine that may wait.

const (
	// hostBatch is the most bytes of small frames that go to the host in one
	// write. A frame is never split over two writes unless the pipe does it.
	hostWrite = 64 << 10
	// serverWrite is the same toward the server: a pipe that takes a byte takes
	// that much whole (PIPE_BUF), so that no call counts as dispatched while
	// all of it still waits.
	serverWrite = 4 << 10
)

// outlet is the writing end of one direction. Guarded by the session's lock,
// except that the one who has set busy owns rest and scratch.
type outlet struct {
	file    *os.File // nil where a write cannot be tried without waiting
	busy    bool     // somebody is writing
	whole   []byte   // what is being written
	rest    []byte   // of it, for the writer to finish
	scratch []byte
	broken  bool
}

func newOutlet(w io.Writer) outlet {
	f, ok := w.(*os.File)
	if !ok || !canTry(f) {
		return outlet{}
	}
	return outlet{file: f}
}

// batch takes frames from q: as many small ones as fit into most bytes, or one
// that is larger. taken is called for each.
func (o *outlet) batch(q *rpc.Queue, most int, taken func(*rpc.Item)) []byte {
	o.scratch = o.scratch[:0]
	for {
		n, ok := q.Peek()
		if !ok || len(o.scratch) > 0 && len(o.scratch)+n > most {
			o.whole = o.scratch
			return o.whole
		}
		it, _ := q.Pop()
		taken(&it)
		if n > most {
			o.whole = it.Data
			return o.whole
		}
		o.scratch = append(o.scratch, it.Data...)
	}
}

// written ends the write of what batch returned, and gives its buffer back.
func (o *outlet) written(p *buffers) {
	if len(o.whole) > 0 && (len(o.scratch) == 0 || &o.whole[0] != &o.scratch[0]) {
		p.release(o.whole)
	}
	o.whole, o.rest, o.busy = nil, nil, false
}

// beforeRead calls push each time its reader has used up what it had, so that
// the frames of one read leave together.
type beforeRead struct {
	r    io.Reader
	push func()
}

func (b *beforeRead) Read(p []byte) (int, error) {
	b.push()
	return b.r.Read(p)
}

// push writes what is queued in both directions as far as that waits for
// nothing.
func (s *Session) push() {
	s.pushHost()
	s.pushServer()
}

func (s *Session) pushHost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.hostOut
	for !o.busy && s.toHost.Ready() {
		if o.file == nil || o.broken {
			wake(s.wakeHost)
			return
		}
		o.busy = true
		data := o.batch(s.toHost, hostWrite, s.leaving)
		s.mu.Unlock()
		n, err := tryWrite(o.file, data)
		s.mu.Lock()
		s.stats.BytesToHost += int64(n)
		if n == len(data) && err == nil {
			o.written(&s.buffers)
			continue
		}
		o.rest = data[n:] // an error shows again when the writer tries
		wake(s.wakeHost)
	}
}

// leaving counts a frame that is on its way to the host.
func (s *Session) leaving(*rpc.Item) { s.stats.FramesToHost++ }

// writeHost finishes what push could not write at once.
func (s *Session) writeHost() {
	o := &s.hostOut
	for {
		s.mu.Lock()
		mine := o.rest != nil || !o.busy && s.toHost.Ready()
		if mine {
			o.busy = true
			if o.rest == nil {
				o.rest = o.batch(s.toHost, hostWrite, s.leaving)
			}
		}
		data, broken, flushing := o.rest, o.broken, s.stats.flushing
		s.mu.Unlock()
		if !mine {
			if flushing {
				wake(s.wakeLife)
			}
			select {
			case <-s.wakeHost:
				continue
			case <-s.ended:
				return
			}
		}
		var n int
		var err error
		if !broken {
			n, err = s.out.Write(data)
		}
		s.mu.Lock()
		s.stats.BytesToHost += int64(n)
		o.written(&s.buffers)
		first := err != nil && !o.broken
		o.broken = o.broken || err != nil
		s.mu.Unlock()
		if first {
			close(s.hostGone)
		}
	}
}

func (s *Session) pushServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.server
	if g == nil {
		if s.calls.Len() > 0 {
			wake(s.wakeLife)
		}
		return
	}
	for o := &g.stdin; !o.busy && !o.broken && s.toServer.Ready(); {
		if o.file == nil || !writable(o.file) {
			wake(s.wakeServer)
			return
		}
		o.busy = true
		data := o.batch(s.toServer, serverWrite, func(it *rpc.Item) { s.dispatch(it, g) })
		s.mu.Unlock()
		n, err := tryWrite(o.file, data)
		s.mu.Lock()
		s.stats.BytesToServer += int64(n)
		if n == len(data) && err == nil {
			o.written(&s.buffers)
			continue
		}
		o.rest = data[n:]
		wake(s.wakeServer)
	}
}

// writeServer finishes what push could not write at once, to whichever process
// the server is. A frame is taken from the queue only when the pipe takes a
// byte: a call is dispatched exactly from its first one, and until then a
// cancellation overtakes it or takes it back.
func (s *Session) writeServer() {
	for {
		s.mu.Lock()
		g := s.server
		var data []byte
		mine, finish := false, false
		if g != nil && !g.stdin.broken {
			data = g.stdin.rest
			mine = data != nil || !g.stdin.busy && s.toServer.Ready()
			finish = !mine && !g.stdin.busy && s.closing && s.toServer.Len() == 0
		}
		if mine {
			g.stdin.busy = true
		}
		s.mu.Unlock()
		if finish {
			g.ch.CloseStdin()
			s.brokenServer(g)
			continue
		}
		if !mine {
			select {
			case <-s.wakeServer:
				continue
			case <-s.ended:
				return
			}
		}
		var n int
		err := error(nil)
		if data == nil {
			if err = waitWritable(g.ch.Stdin()); err == nil {
				s.mu.Lock()
				if s.server == g {
					data = g.stdin.batch(s.toServer, serverWrite, func(it *rpc.Item) { s.dispatch(it, g) })
				}
				s.mu.Unlock()
			}
		}
		if err == nil && len(data) > 0 {
			n, err = g.ch.Stdin().Write(data)
		}
		s.mu.Lock()
		s.stats.BytesToServer += int64(n)
		g.stdin.written(&s.buffers)
		s.mu.Unlock()
		if err != nil {
			s.brokenServer(g)
			s.mu.Lock()
			g.deaf = true
			s.mu.Unlock()
			wake(s.wakeLife)
		}
	}
}

// brokenServer notes that g takes nothing more.
func (s *Session) brokenServer(g *generation) {
	s.mu.Lock()
	g.stdin.broken = true
	s.mu.Unlock()
}

// dispatch notes that a frame is being handed to the server.
func (s *Session) dispatch(it *rpc.Item, g *generation) {
	s.stats.FramesToServer++
	switch o := it.Owner.(type) {
	case *request:
		s.dispatchCall(o, g, time.Now())
	case *batch:
		now := time.Now()
		for i, r := range o.owner {
			if r != nil && !o.gone[i] {
				r.batch = nil
				s.dispatchCall(r, g, now)
			}
		}
		o.data = nil // its calls may stay open long
	}
}

func (s *Session) dispatchCall(r *request, g *generation, now time.Time) {
	if r.State != call.Authorized {
		return
	}
	r.gen, r.stderr = g, g.stderr.Seen()
	g.used, g.greeted = true, g.greeted || r.Method == "initialize"
	s.to(r, call.Dispatched, now, "")
	wait := now.Sub(r.At[call.Authorized])
	s.stats.DispatchWait += wait
	s.stats.DispatchWaitMax = max(s.stats.DispatchWaitMax, wait)
}
