package desk

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-dev/penstock/internal/link"
)

// store knows what is kept. Its methods return without touching a disk; what
// must be removed from one is left to a goroutine that does nothing else.
type store struct {
	cfg      Config
	ready    chan struct{} // closed when shelf is known and entries are loaded
	shelf    shelf         // set before ready is closed
	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{} // closed when keep has ended
	news     chan struct{} // tells keep of things to remove or to expire

	mu      sync.Mutex
	entries map[string]*entry
	order   []*entry            // oldest first
	pending map[string]*pending // being written
	bytes   int64               // of entries and pending
	owned   map[[32]byte]int64  // the same by owner
	graves  map[string]grave    // what is not kept any more, as long as it is remembered
	gone    []string            // keys of graves, oldest first
	doomed  []string            // to be removed from the shelf
	next    time.Time           // nothing expires before
	counts  link.Results
}

// entry is one kept result. It does not change.
type entry struct {
	link.Entry
	owner [32]byte
	key   []byte // authenticates cursors into it
}

// pending is a result that is being written.
type pending struct {
	hello link.HelloHead
	owner [32]byte
	bytes int64
	kept  bool
	done  chan struct{} // closed when it is kept or lost
}

// grave says what became of a result.
type grave struct {
	owner [32]byte
	err   *link.Error
}

const (
	maxGraves = 4096
	listPage  = 1000
	// settle is the least time between two looks for what has expired.
	settle = time.Second
	// lookAgain is the most, for a clock that is set.
	lookAgain = time.Hour
	// maxEntries and maxName bound the memory of the index, whatever the sizes
	// of results and the names that servers choose.
	maxEntries = 16384
	maxName    = 256
)

// newStore returns at once; what is on the disk is looked at in the background.
func newStore(cfg Config) *store {
	s := &store{
		cfg: cfg, ready: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}, 1),
		entries: make(map[string]*entry), pending: make(map[string]*pending), owned: make(map[[32]byte]int64), graves: make(map[string]grave),
	}
	go s.keep()
	return s
}

// keep loads what is there and from then on removes what is to go.
func (s *store) keep() {
	defer close(s.done)
	shelf := s.cfg.open(s.cfg)
	found := shelf.recover()
	s.mu.Lock()
	s.shelf = shelf
	if _, ok := shelf.(*memory); ok {
		s.cfg.Quota = min(s.cfg.Quota, s.cfg.memory)
		s.cfg.SessionQuota = min(s.cfg.SessionQuota, s.cfg.memory)
	}
	for _, e := range found {
		s.entries[e.Handle] = e
		s.order = append(s.order, e)
		s.count(e.owner, e.Bytes)
	}
	slices.SortStableFunc(s.order, func(a, b *entry) int { return a.Stored.Compare(b.Stored.Time) })
	s.shrink()
	s.mu.Unlock()
	close(s.ready)
	for {
		var doomed []string
		s.mu.Lock()
		next := s.expire()
		doomed, s.doomed = s.doomed, nil
		s.mu.Unlock()
		for _, h := range doomed {
			if err := shelf.remove(h); err != nil {
				s.cfg.Log.Warn("a result that is over could not be removed", "handle", h, "err", err)
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.news:
		case <-s.stop:
			timer.Stop()
			shelf.close()
			return
		}
		timer.Stop()
	}
}

func (s *store) close() {
	s.stopOnce.Do(func() { close(s.stop) })
	<-s.done
}

func (s *store) poke() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// wait waits until what is on the disk is known.
func (s *store) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	default:
	}
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return link.Errorf(link.CodeBusy, "the disk that results are kept on does not answer")
	}
}

// expire drops what is over and returns when to look again. mu is held.
func (s *store) expire() time.Duration {
	now := s.cfg.now()
	if now.Before(s.next) {
		return max(settle, min(s.next.Sub(now), lookAgain))
	}
	s.next = now.Add(lookAgain)
	for _, e := range slices.Clone(s.order) {
		if e.Expires.After(now) {
			s.next = earlier(s.next, e.Expires.Time)
			continue
		}
		s.counts.Expired++
		s.drop(e, link.Errorf(link.CodeExpired, "this result expired at %s; results are kept for %v", e.Expires.UTC().Format(time.RFC3339), e.Expires.Sub(e.Stored.Time).Round(time.Second)))
	}
	return max(settle, s.next.Sub(now))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// shrink makes what is kept fit its bounds. mu is held.
func (s *store) shrink() {
	for len(s.order) > 0 && (s.bytes > s.cfg.Quota || len(s.order) > s.cfg.entries) {
		s.evict(s.order[0])
	}
}

func (s *store) evict(e *entry) {
	s.counts.Evicted++
	s.drop(e, link.Errorf(link.CodeEvicted, "this result made room for newer ones at %s; results.quota and results.session_quota say how much is kept", s.cfg.now().UTC().Format(time.RFC3339)))
}

// drop takes an entry out. mu is held.
func (s *store) drop(e *entry, why *link.Error) {
	delete(s.entries, e.Handle)
	s.order = slices.DeleteFunc(s.order, func(o *entry) bool { return o == e })
	s.count(e.owner, -e.Bytes)
	s.bury(e.Handle, e.owner, why)
	s.doomed = append(s.doomed, e.Handle)
	s.poke()
}

// bury remembers why a result is not there. mu is held.
func (s *store) bury(handle string, owner [32]byte, why *link.Error) {
	if _, ok := s.graves[handle]; !ok {
		if len(s.gone) >= maxGraves {
			delete(s.graves, s.gone[0])
			s.gone = slices.Delete(s.gone, 0, 1)
		}
		s.gone = append(s.gone, handle)
	}
	s.graves[handle] = grave{owner, why}
}

// count adds to the sums. mu is held.
func (s *store) count(owner [32]byte, n int64) {
	s.bytes += n
	if s.owned[owner] += n; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}

// begin announces a result.
func (s *store) begin(handle string, owner [32]byte, hello link.HelloHead) *link.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, kept := s.entries[handle]
	_, dead := s.graves[handle]
	if kept || dead || s.pending[handle] != nil {
		return link.Errorf(link.CodeRefused, "the handle is taken")
	}
	s.pending[handle] = &pending{hello: hello, owner: owner, done: make(chan struct{})}
	return nil
}

// reserve makes room for n more bytes of a result that is being written, where
// need be in place of the oldest: of the same session if that has its share, of
// all if everything is full.
func (s *store) reserve(handle string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[handle]
	if p == nil {
		return errAborted
	}
	if p.bytes+n > s.cfg.SessionQuota {
		return link.Errorf(link.CodeLost, "it is larger than what one session may keep (results.session_quota, %d bytes)", s.cfg.SessionQuota)
	}
	for s.owned[p.owner]+n > s.cfg.SessionQuota {
		i := slices.IndexFunc(s.order, func(e *entry) bool { return e.owner == p.owner })
		if i < 0 {
			return link.Errorf(link.CodeLost, "results that this session is storing at the moment fill what it may keep (results.session_quota, %d bytes)", s.cfg.SessionQuota)
		}
		s.evict(s.order[i])
	}
	for s.bytes+n > s.cfg.Quota {
		if len(s.order) == 0 {
			return link.Errorf(link.CodeLost, "results that are being stored at the moment fill what may be kept (results.quota, %d bytes)", s.cfg.Quota)
		}
		s.evict(s.order[0])
	}
	p.bytes += n
	s.count(p.owner, n)
	return nil
}

// seal makes the entry of a result that is complete, and the description that
// the shelf keeps of it.
func (s *store) seal(handle string, info link.Info) (*entry, []byte, error) {
	s.mu.Lock()
	p := s.pending[handle]
	s.mu.Unlock()
	if p == nil {
		return nil, nil, errAborted
	}
	now := s.cfg.now().UTC().Truncate(time.Millisecond)
	e := &entry{
		Entry: link.Entry{
			Handle: handle, Session: clip(p.hello.Session), Server: clip(p.hello.Server),
			Tool: clip(info.Tool), Call: clip(info.Call), Part: clip(info.Part),
			Bytes: p.bytes, Stored: link.Time{Time: now}, Expires: link.Time{Time: now.Add(s.cfg.Expire)},
		},
		owner: p.owner,
		key:   make([]byte, 32),
	}
	rand.Read(e.key)
	meta, err := e.marshal()
	return e, meta, err
}

func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName-len("…")], "") + "…"
}

// add makes a result known that is on the shelf.
func (s *store) add(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[e.Handle] = e
	s.order = append(s.order, e)
	s.next = earlier(s.next, e.Expires.Time)
	s.counts.Stored++
	s.shrink()
	if p := s.pending[e.Handle]; p != nil {
		p.kept = true
	}
	s.poke() // it may expire before what keep waits for
}

// discard removes a result that is on the shelf but was given up just before.
func (s *store) discard(handle string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doomed = append(s.doomed, handle)
	s.poke()
}

// fail records why a result will not be kept. Its bytes count until forget.
func (s *store) fail(handle string, why *link.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[handle]
	if p == nil {
		return
	}
	if why != errAborted {
		s.counts.Lost++
		s.counts.Why = why.Message
	}
	s.bury(handle, p.owner, link.Errorf(link.CodeLost, "the rest of this result was not kept: %s", why.Message))
	p.end()
}

func (p *pending) end() {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
}

// forget ends a put: what was written of it is either an entry or gone.
func (s *store) forget(handle string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[handle]
	if p == nil {
		return
	}
	if !p.kept {
		s.count(p.owner, -p.bytes)
	}
	delete(s.pending, handle)
	p.end()
}

// find returns a kept result. A nil owner may read all. It waits for one that
// is still being written.
func (s *store) find(ctx context.Context, handle string, owner *[32]byte) (*entry, error) {
	if !link.ValidHandle(handle) {
		return nil, link.Errorf(link.CodeQuery, "%.60q is not a handle: one has 26 letters and digits, as the notice of the cut result shows it", handle)
	}
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	foreign := func(of [32]byte) bool { return owner != nil && subtle.ConstantTimeCompare(owner[:], of[:]) != 1 }
	for {
		s.mu.Lock()
		s.expire()
		e, p := s.entries[handle], s.pending[handle]
		g, dead := s.graves[handle]
		s.mu.Unlock()
		switch {
		case e != nil && !foreign(e.owner):
			return e, nil
		case e == nil && dead && !foreign(g.owner):
			return nil, g.err
		case e == nil && !dead && p != nil && !foreign(p.owner):
			select {
			case <-p.done:
				continue
			case <-ctx.Done():
				return nil, link.Errorf(link.CodeBusy, "this result is still being stored; ask again in a moment")
			}
		case e != nil || dead || p != nil:
			return nil, link.Errorf(link.CodeForeign, "this result belongs to another session, and only that one can read it")
		}
		return nil, link.Errorf(link.CodeUnknown, "no result with this handle is kept; it may have expired or made room for newer ones")
	}
}

// vanished handles an entry whose file cannot be opened.
func (s *store) vanished(e *entry, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return diskError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.Handle] == e {
		s.drop(e, link.Errorf(link.CodeLost, "the file of this result was removed by somebody else"))
	}
	if g, ok := s.graves[e.Handle]; ok {
		return g.err
	}
	return diskError(err)
}

// list returns one page of what is kept, oldest first.
func (s *store) list(ctx context.Context, after string) (link.ListPage, error) {
	page := link.ListPage{Entries: []link.Entry{}}
	if err := s.wait(ctx); err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	byHandle := slices.SortedFunc(slices.Values(s.order), func(a, b *entry) int { return strings.Compare(a.Handle, b.Handle) })
	for _, e := range byHandle {
		if e.Handle <= after {
			continue
		}
		if len(page.Entries) == listPage {
			page.Next = page.Entries[listPage-1].Handle
			break
		}
		page.Entries = append(page.Entries, e.Entry)
	}
	return page, nil
}

// results returns the counts and where results are kept.
func (s *store) results() (link.Results, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.counts
	r.Count, r.Bytes, r.Quota = len(s.entries), s.bytes, s.cfg.Quota
	if s.shelf == nil {
		return r, ""
	}
	return r, s.shelf.place()
}

// description is the form of an entry on the shelf.
type description struct {
	V int `json:"v"`
	link.Entry
	Owner []byte `json:"owner"`
	Key   []byte `json:"key"`
}

const maxDescription = 128 << 10

func (e *entry) marshal() ([]byte, error) {
	return json.Marshal(description{1, e.Entry, e.owner[:], e.key})
}

// parseDescription is the reverse of marshal. It refuses what marshal does not
// write.
func parseDescription(handle string, b []byte) (*entry, error) {
	var d description
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, err
	}
	if d.V != 1 || d.Handle != handle || len(d.Owner) != 32 || len(d.Key) != 32 || d.Bytes < 0 || dec.More() {
		return nil, fmt.Errorf("description of %s: not version 1, or damaged", handle)
	}
	return &entry{d.Entry, [32]byte(d.Owner), d.Key}, nil
}
