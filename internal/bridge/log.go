package bridge

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	logQueue   = 256 << 10        // bytes that wait for our stderr
	maxLine    = 8 << 10          // longer lines of a server are broken
	sayEvery   = 10 * time.Second // the same kind of diagnostic, once in
	closeWait  = 250 * time.Millisecond
	noiseShown = 200     // bytes of a line that is no message
	maxSaid    = 1 << 10 // bytes of a diagnostic of our own
)

// logger writes to our stderr, which hosts keep as the server's log: the
// server's stderr, what it wrote to stdout without being a message, and our own
// diagnostics, each line labelled. Nobody waits for it: what does not fit into
// its queue, or into the bytes of a minute, is dropped and counted.
type logger struct {
	w         io.Writer
	name      string
	perMinute int
	wakeup    chan struct{}
	quit      chan struct{}
	done      chan struct{}

	mu      sync.Mutex // guards all below
	queue   []byte
	partial []byte // the unfinished last line of stderr
	window  time.Time
	used    int   // bytes forwarded in the window
	dropped int64 // bytes dropped since the last notice
	total   int64 // bytes dropped in all
	said    map[string]*said
}

type said struct {
	at    time.Time
	times int
}

func newLogger(w io.Writer, name string, perMinute int) *logger {
	l := &logger{
		w: w, name: name, perMinute: perMinute, said: map[string]*said{},
		wakeup: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// stderr takes a chunk of the server's stderr.
func (l *logger) stderr(chunk []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(chunk) > 0 {
		i := bytes.IndexByte(chunk, '\n')
		if i < 0 {
			room := maxLine - len(l.partial)
			if len(chunk) < room {
				l.partial = append(l.partial, chunk...)
				return
			}
			i = room - 1
			l.partial = append(l.partial, chunk[:i+1]...)
		} else if len(l.partial)+i > maxLine {
			i = maxLine - len(l.partial) - 1
			l.partial = append(l.partial, chunk[:i+1]...)
		} else {
			l.partial = append(l.partial, chunk[:i]...)
		}
		chunk = chunk[i+1:]
		l.forward("["+l.name+"] ", l.partial)
		l.partial = l.partial[:0]
	}
}

// noise takes a line of stdout that is no message.
func (l *logger) noise(line []byte, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(line) > noiseShown {
		line = line[:noiseShown]
	}
	if len(reason) > noiseShown {
		reason = reason[:noiseShown]
	}
	l.forward("["+l.name+" stdout noise, "+reason+"] ", printable(line))
}

// printable replaces what could disturb a terminal.
func printable(b []byte) []byte {
	return []byte(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '.'
		}
		return r
	}, strings.ToValidUTF8(string(b), "\uFFFD")))
}

// forward queues one line within the budget of the minute.
func (l *logger) forward(label string, line []byte) {
	n := len(label) + len(line) + 1
	if now := time.Now(); now.Sub(l.window) >= time.Minute {
		l.window, l.used = now, 0
	}
	if l.used+n > l.perMinute || len(l.queue)+n > logQueue {
		l.dropped += int64(n)
		l.total += int64(n)
		return
	}
	l.notice()
	l.used += n
	l.push(label, line)
}

// notice says how much was dropped before what follows.
func (l *logger) notice() {
	if l.dropped > 0 {
		l.push("[penstock] ", fmt.Appendf(nil, "%d bytes of this log were dropped: more than %d a minute, or read too slowly", l.dropped, l.perMinute))
		l.dropped = 0
	}
}

func (l *logger) push(label string, line []byte) {
	l.queue = append(append(append(l.queue, label...), line...), '\n')
	wake(l.wakeup)
}

// say writes a diagnostic of our own, at most one of a kind in a while; what
// was held back is summed up in the next.
func (l *logger) say(kind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, now := l.said[kind], time.Now()
	if k == nil {
		k = &said{}
		l.said[kind] = k
	}
	if now.Sub(k.at) < sayEvery {
		k.times++
		return
	}
	if k.times > 0 {
		text += fmt.Sprintf(" (and %d more like it since)", k.times)
	}
	k.at, k.times = now, 0
	if len(text) > maxSaid {
		text = text[:maxSaid]
	}
	if len(l.queue) < 2*logQueue {
		l.push("[penstock "+l.name+"] ", printable([]byte(text)))
	}
}

func (l *logger) run() {
	defer close(l.done)
	for {
		l.mu.Lock()
		out := l.queue
		l.queue = nil
		l.mu.Unlock()
		if len(out) > 0 {
			l.w.Write(out) // an error has nobody to go to
			continue
		}
		select {
		case <-l.wakeup:
		case <-l.quit:
			l.mu.Lock()
			out := l.queue // it may have come with the order to quit
			l.queue = nil
			l.mu.Unlock()
			l.w.Write(out)
			return
		}
	}
}

// close writes what is left. If our stderr takes nothing, it is left behind
// after a moment, blocked in the write until the process ends.
func (l *logger) close() {
	l.mu.Lock()
	if len(l.partial) > 0 {
		l.forward("["+l.name+"] ", l.partial)
		l.partial = nil
	}
	for _, k := range l.said {
		if k.times > 0 {
			l.push("[penstock "+l.name+"] ", fmt.Appendf(nil, "%d more diagnostics of one kind were held back", k.times))
			k.times = 0
		}
	}
	l.notice()
	l.mu.Unlock()
	close(l.quit)
	select {
	case <-l.done:
	case <-time.After(closeWait):
	}
}
