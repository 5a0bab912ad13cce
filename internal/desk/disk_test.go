package desk

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// gate is a shelf whose disk can be stopped.
type gate struct {
	memory
	mu   sync.Mutex
	shut chan struct{} // closed when the disk answers again; nil while it does
	slow time.Duration // what a write takes
}

func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// pass waits while the disk is stopped.
func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
	time.Sleep(g.slow)
}

func (g *gate) create(handle string) (writer, error) {
	w, err := g.memory.create(handle)
	return gateWriter{g, w}, err
}

func (g *gate) open(handle string) (reader, error) {
	g.pass()
	return g.memory.open(handle)
}

type gateWriter struct {
	g *gate
	writer
}

func (w gateWriter) Write(b []byte) (int, error) {
	w.g.pass()
	return w.writer.Write(b)
}

// TestStuckDisk stops the disk under a put: that one fails in time, what needs
// no disk goes on, and all is well again when the disk answers.
func TestStuckDisk(t *testing.T) {
	g := new(gate)
	d := local(t, Config{stall: 200 * time.Millisecond, memory: 1 << 30, open: func(Config) shelf { return g }})
	t.Cleanup(g.reopen)
	c := connect(t, d, link.Bridge, "s1")
	before := keep(t, c, text(1000))
	g.stop()
	p := c.NewPut()
	p.Write(text(3 << 20)) // more than the window
	p.Commit(link.Info{})
	wantCode(t, p.Wait(deadline(t)), link.CodeDisk, "did not answer for 200ms")

	if s, err := c.Status(deadline(t)); err != nil || s.Results.Lost != 1 || s.Results.Writing != 1 {
		t.Errorf("status: %+v, %v", s.Results, err)
	}
	if page, err := connect(t, d, link.Person, "").List(deadline(t), ""); err != nil || len(page.Entries) != 1 {
		t.Errorf("list: %+v, %v", page, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Read(ctx, before, args(before))
	wantCode(t, err, link.CodeBusy, "in time")
	_, err = c.Read(deadline(t), p.Handle(), args(p.Handle()))
	wantCode(t, err, link.CodeLost, "the disk did not answer")

	// Every place is taken by something that hangs: the next is told so.
	puts := make([]*link.Put, maxPuts+3)
	for i := range puts {
		puts[i] = c.NewPut()
		puts[i].Write(text(1000))
		puts[i].Commit(link.Info{})
	}
	for i, p := range puts {
		if err := p.Wait(deadline(t)); err == nil {
			t.Errorf("put %d is kept", i)
		}
	}
	g.reopen()
	waitFor(t, "nothing hangs any more", func() bool {
		s, err := c.Status(deadline(t))
		return err == nil && s.Results.Writing == 0 && s.Results.Bytes == 1000
	})
	keep(t, c, text(1000))
	if _, err := c.Read(deadline(t), before, args(before)); err != nil {
		t.Error(err)
	}
}

// TestSlowDisk has a disk that is slower than the source: the put fails at once
// when the buffer is full, and the source never waits for it.
func TestSlowDisk(t *testing.T) {
	g := &gate{slow: 50 * time.Millisecond}
	d := local(t, Config{memory: 1 << 30, open: func(Config) shelf { return g }})
	c := connect(t, d, link.Bridge, "s1")
	keep(t, c, text(1000))
	p := c.NewPut()
	n, chunk := 0, text(64<<10)
	for ; p.Err() == nil && n < 1<<30; n += len(chunk) {
		p.Write(chunk)
	}
	var e *link.Error
	if !errors.As(p.Err(), &e) || e.Code != link.CodeLost {
		t.Fatalf("%d bytes were taken: %v", n, p.Err())
	}
	if n < 4<<20 {
		t.Errorf("the put failed after %d bytes, though the buffer holds 4 MiB", n)
	}
	waitFor(t, "the desk has given it up", func() bool {
		s, err := c.Status(deadline(t))
		return err == nil && s.Results.Writing == 0 && s.Results.Bytes == 1000
	})
	keep(t, c, text(1000))
}

// TestNoDisk keeps results in memory, and no more than fits.
func TestNoDisk(t *testing.T) {
	d := local(t, Config{memory: 1 << 20, open: func(Config) shelf { return new(memory) }})
	c := connect(t, d, link.Bridge, "s1")
	h := keep(t, c, text(600<<10))
	if s, _ := c.Status(deadline(t)); s.Place != "memory" || s.Results.Quota != 1<<20 {
		t.Errorf("status: %+v", s)
	}
	keep(t, c, text(600<<10))
	_, err := c.Read(deadline(t), h, args(h))
	wantCode(t, err, link.CodeEvicted, "made room")
	p := c.NewPut()
	p.Write(text(1<<20 + 1))
	p.Commit(link.Info{})
	wantCode(t, p.Wait(deadline(t)), link.CodeLost, "larger than")
}

// refusing is a shelf whose disk says no after some bytes.
type refusing struct {
	memory
	room int
	err  error
}

func (r *refusing) create(handle string) (writer, error) {
	if r.room == 0 {
		return nil, &fs.PathError{Op: "open", Path: "/somewhere/secret", Err: r.err}
	}
	w, err := r.memory.create(handle)
	return &refusingWriter{r, w, 0}, err
}

type refusingWriter struct {
	r *refusing
	writer
	n int
}

func (w *refusingWriter) Write(b []byte) (int, error) {
	if w.n += len(b); w.n > w.r.room {
		return 0, &fs.PathError{Op: "write", Path: "/somewhere/secret", Err: w.r.err}
	}
	return w.writer.Write(b)
}

// TestRefusingDisk checks that the reason is told, without a path, and that
// nothing stays counted.
func TestRefusingDisk(t *testing.T) {
	for _, tt := range []struct {
		room int
		err  error
		says string
	}{
		{1 << 10, syscall.ENOSPC, "the disk is full"},
		{0, syscall.EROFS, "the disk is read-only"},
		{0, syscall.EACCES, "may not be written"},
		{1 << 10, syscall.EIO, "reports an error"},
		{1 << 10, errors.New("strange"), "write: strange"},
	} {
		d := local(t, Config{memory: 1 << 30, open: func(Config) shelf { return &refusing{room: tt.room, err: tt.err} }})
		c := connect(t, d, link.Bridge, "s1")
		p := slowly(t, c, text(4<<20))
		err := p.Wait(deadline(t))
		wantCode(t, err, link.CodeDisk, tt.says)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("shows a path: %v", err)
		}
		waitFor(t, "nothing is counted", func() bool {
			s, err := c.Status(deadline(t))
			return err == nil && s.Results.Writing == 0 && s.Results.Bytes == 0 && s.Results.Lost == 1
		})
	}
}
