package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Defaults of [Config].
const (
	DefaultDeadline   = time.Second
	DefaultSyncAfter  = 200 * time.Millisecond
	DefaultLazyAfter  = 5 * time.Second
	DefaultHeadEvery  = time.Minute
	DefaultMaxRecords = 1024
	DefaultMaxBytes   = 4 << 20
	DefaultMaxOpen    = 256
	DefaultSlotBytes  = 4 << 10
	DefaultSegment    = 16 << 20
)

const (
	rotateLeaves = 65536
	rotateAfter  = 24 * time.Hour
	headLeaves   = 1024
	probeEvery   = 5 * time.Second
	roomStep     = 2 << 20 // room is asked for in steps of so many bytes
	maxBatch     = 1 << 20
	gapEvery     = time.Second
	breakAfter   = 3 // timeouts in a row
)

// Config says where and how to write. Only Dir is needed.
type Config struct {
	// Dir is the log's folder. It is made if it is missing.
	Dir string
	// AllowNetwork allows Dir to lie on a network file system.
	AllowNetwork bool
	// Recipients can read what is written. Nil means those of the log's list.
	Recipients *Recipients

	// Deadline bounds every wait for a record. Zero means 1s.
	Deadline time.Duration
	// SyncAfter is how long what was written stays without a sync where nobody
	// waits for one. Zero means 200ms.
	SyncAfter time.Duration
	// LazyAfter is how long diagnostics wait for company. Zero means 5s.
	LazyAfter time.Duration
	// HeadEvery is how often new records are made known to the spine. Zero
	// means one minute. 1,024 records do it too.
	HeadEvery time.Duration

	// MaxRecords and MaxBytes bound what is held in memory: records queued, not
	// yet synced, or with a slot. Zero means 1,024 and 4 MiB.
	MaxRecords int
	MaxBytes   int64
	// MaxOpen bounds the slots. Zero means 256.
	MaxOpen int
	// SlotBytes is the most bytes of the body of a terminal record. Zero means
	// 4,096.
	SlotBytes int
	// SegmentBytes is the size at which a segment is ended. Zero means 16 MiB.
	SegmentBytes int64
	// Reserve is how many bytes of room are kept on the disk besides those of
	// slots. Records beyond it are refused, so zero means what a full queue
	// takes: 5.25 MiB with the other defaults.
	Reserve int64

	// Disk is where the strand's files go. Nil means Dir.
	Disk Disk
	// Log gets what a person should know. Nil is silent.
	Log *slog.Logger
}

func (c *Config) defaults() {
	def(&c.Deadline, DefaultDeadline)
	def(&c.SyncAfter, DefaultSyncAfter)
	def(&c.LazyAfter, DefaultLazyAfter)
	def(&c.HeadEvery, DefaultHeadEvery)
	def(&c.MaxRecords, DefaultMaxRecords)
	def(&c.MaxBytes, DefaultMaxBytes)
	def(&c.MaxOpen, DefaultMaxOpen)
	def(&c.SlotBytes, DefaultSlotBytes)
	def(&c.SegmentBytes, DefaultSegment)
	def(&c.Reserve, c.MaxBytes+int64(c.MaxRecords)*(recordCost(0)+abandonCost))
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.SegmentBytes = min(c.SegmentBytes, maxSegment/2)
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Errors of a Writer. Their scope is that record, but for ErrClosed.
var (
	// ErrFull says that the bounds of the queue or the room on the disk do not
	// allow another record.
	ErrFull = errors.New("the audit log has no room")
	// ErrBroken says that the disk failed and is not back yet.
	ErrBroken = errors.New("the audit log cannot be written")
	// ErrDeadline says that the record was not where it should be in time. It
	// may arrive there later.
	ErrDeadline = errors.New("the audit log did not take the record in time")
	// ErrClosed says that the Writer was closed.
	ErrClosed = errors.New("the audit log was closed")
)

// A LossError says that records were accepted and could not be kept.
type LossError struct {
	Records int   // terminal and other records that nobody waited for
	Err     error // what stood in the way
}

func (e *LossError) Error() string {
	return fmt.Sprintf("%d audit records were lost: %v", e.Records, e.Err)
}

func (e *LossError) Unwrap() error { return e.Err }

// Position is where a record stands. After a failed sync a record that was only
// written may move to the next segment.
type Position struct {
	Strand  ID     `json:"strand"`
	Segment int    `json:"segment"`
	Leaf    uint64 `json:"leaf"` // counted over the strand from 0, headers included
}

// Stats is what a Writer counted since it was opened.
type Stats struct {
	Records, Commits, Syncs, Segments int64
	Bytes                             int64 // written to segments
	Refused                           int64 // intents
	Dropped                           int64 // diagnostics, and terminal records without a slot
	Unrecorded                        int64 // told by [Writer.Missed]
	Timeouts                          int64
	Queued, Open                      int   // now: records in memory, slots
	Room                              int64 // now: bytes on the disk that are kept for records
	Err                               error // now: why the breaker is open, or nil
	SpineErr                          error // why the last head did not reach the spine, or nil
}

// Writer appends records to a strand of its own. Its methods are safe for
// concurrent use. Only Wait and Close wait, and only as long as they say. The
// owner closes it.
type Writer struct {
	cfg    Config
	disk   Disk
	id     ID
	key    ed25519.PrivateKey
	spine  *Spine
	origin string

	bodies  sync.Pool       // of *[]byte: copies of bodies that were synced
	wake    chan struct{}   // cap 1: there is something to do
	synced  chan syncResult // cap 1: of the sync in flight
	done    chan struct{}   // closed when the writing goroutine is through
	headNow chan struct{}   // cap 1: the spine should know
	stop    chan struct{}   // closed to end the spine goroutine
	spineOK chan struct{}   // closed when it has ended

	mu         sync.Mutex
	recipients *Recipients // guarded by mu
	queue      []*item     // guarded by mu; accepted, not written
	held       []*item     // guarded by mu; written, not synced: kept to be written again
	writing    int         // guarded by mu; items between queue and held
	bytes      int64       // guarded by mu; memory of queue, held and slots
	cost       int64       // guarded by mu; bytes on the disk that queue will take
	kept       int64       // guarded by mu; bytes on the disk promised to slots, abandonments, gaps and END
	open       int         // guarded by mu; slots
	waiting    int         // guarded by mu; Durable items in held
	urgent     int         // guarded by mu; Written items with a waiter in queue
	prompt     int         // guarded by mu; items in queue that are no diagnostics
	room       int64       // guarded by mu; bytes on the disk past what was written
	gaps       [numClasses]Gap
	broken     error     // guarded by mu; the breaker
	timeouts   int       // guarded by mu; in a row
	opStart    time.Time // guarded by mu; since when the writing goroutine is at the disk
	syncStart  time.Time // guarded by mu; since when a sync runs
	roomErr    error     // guarded by mu; why there is no more room, or nil
	rotate     bool      // guarded by mu; asked for
	closing    bool      // guarded by mu
	lazySince  time.Time // guarded by mu; of the oldest diagnostic in queue
	closeErr   error     // guarded by mu; valid once done is closed
	durable    state     // guarded by mu; of the last COMMIT synced
	headed     uint64    // guarded by mu; leaves that the spine knows
	losses     []*entry  // guarded by mu; for the spine
	stats      Stats     // guarded by mu

	// Only of the writing goroutine.
	live     *os.File
	seg      *segment // nil while the disk is broken
	next     int      // number of the next segment
	syncing  bool
	unsynced time.Time // of the oldest write since the last sync; zero if none
	lazy     bool      // nothing but diagnostics since the last sync
	probeAt  time.Time // when to try the disk again
	roomAt   time.Time // when to ask for more room again
	lastGap  time.Time
	buf      []byte
}

// item is a record on its way.
type item struct {
	class Class
	level Level
	body  []byte
	buf   *[]byte // backs body; from the pool, nil if it is not
	of    *item   // an abandoned record: of that intent
	cost  int64
	at    time.Time
	done  chan struct{} // closed when level is reached; nil if nobody waits
	err   error         // valid once done is closed
	right bool          // guarded by mu; holds abandonCost of kept
	stage stage         // guarded by mu
	where Position      // guarded by mu; valid from stageHeld on
}

type stage int

const (
	stageQueued stage = iota
	stageWriting
	stageHeld
	stageGone
)

type syncResult struct {
	upTo  int // items of held that it covers
	state state
	err   error
}

// recordCost is the most that a body of n bytes takes on the disk: alone in its
// commit.
func recordCost(n int) int64 { return int64(recordLen(n) + frameHead + commitLen) }

var (
	// abandonCost is kept for each intent until nobody waits for it.
	abandonCost = recordCost(len(abandonedBody(1<<62)) + 8)
	gapCost     = recordCost(256)
)

// Open makes a strand of its own in the log and makes it known to the spine,
// which waits for the disk, until ctx ends at the latest.
func Open(ctx context.Context, cfg Config) (*Writer, error) {
	cfg.defaults()
	type result struct {
		w   *Writer
		err error
	}
	out := make(chan result)
	go func() {
		w, err := open(ctx, cfg)
		select {
		case out <- result{w, err}:
		case <-ctx.Done():
			// Nobody wants it any more; what was opened ends as an orphan does.
			if w != nil {
				w.release()
			}
		}
	}()
	select {
	case r := <-out:
		if r.err != nil {
			return nil, r.err
		}
		r.w.run()
		return r.w, nil
	case <-ctx.Done():
		// The goroutine above may stay behind in a disk that does not answer:
		// the kernel gives no way to call it back.
		return nil, fmt.Errorf("open audit log: %w", ErrDeadline)
	}
}

func open(ctx context.Context, cfg Config) (w *Writer, err error) {
	spine, err := OpenSpine(ctx, cfg.Dir, cfg.AllowNetwork)
	if err != nil {
		return nil, err
	}
	w = &Writer{
		kept: int64(numClasses)*gapCost + int64(endLen),
		cfg:  cfg, disk: cfg.Disk, spine: spine, origin: spine.origin(), recipients: cfg.Recipients,
		wake: make(chan struct{}, 1), synced: make(chan syncResult, 1), done: make(chan struct{}),
		headNow: make(chan struct{}, 1), stop: make(chan struct{}), spineOK: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			w.release()
			w = nil
		}
	}()
	if w.disk == nil {
		w.disk = osDisk{spine.root}
	}
	if w.recipients == nil {
		if w.recipients, err = spine.recipients(); err != nil {
			return w, err
		}
	}
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return w, err
	}
	w.key = priv
	rand.Read(w.id[:])
	if err := w.lockLive(); err != nil {
		return w, err
	}
	if err := syncDir(spine.root, nameStrands); err != nil {
		return w, err
	}
	if err := w.newSegment(); err != nil {
		return w, err
	}
	set := w.recipients.Hash()
	err = spine.update(ctx, func(v *view) (list []*entry, err error) {
		if v.set != set {
			list = append(list, &entry{kind: kindRecipients, hash: set})
		}
		return append(list, &entry{kind: kindOpen, strand: w.id, hash: [32]byte(pub), boot: bootHash()},
			&entry{kind: kindHead, strand: w.id, at: w.durable}), nil
	})
	w.headed = w.durable.n
	return w, err
}

// lockLive takes the lock that says that this strand's writer lives.
func (w *Writer) lockLive() error {
	if w.live != nil {
		a, err1 := w.live.Stat()
		b, err2 := w.spine.root.Lstat(liveName(w.id))
		if err1 == nil && err2 == nil && os.SameFile(a, b) {
			return nil
		}
		w.live.Close()
	}
	// The folder may have been removed under a writer that goes on.
	if err := w.spine.root.Mkdir(strandDir(w.id), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := w.spine.root.OpenFile(liveName(w.id), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	w.live = f
	for range 100 { // a verifier may look at it for a moment
		if ok, err := tryLock(f, false); ok || err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ErrLocked
}

func (w *Writer) release() {
	if w.seg != nil {
		w.seg.file.Close()
	}
	if w.live != nil {
		w.live.Close()
	}
	w.spine.Close()
}

func (w *Writer) run() {
	go w.scribe()
	go w.herald()
}

// Strand returns the id of the strand.
func (w *Writer) Strand() ID { return w.id }

// Spine returns the spine of the log. It is closed with the Writer.
func (w *Writer) Spine() *Spine { return w.spine }

// Stats returns the counters.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Queued, s.Open, s.Room = w.pending(), w.open, w.room
	s.Err = w.refusal(Durable, time.Now())
	return s
}

// pending returns how many records are in memory. mu is held.
func (w *Writer) pending() int { return len(w.queue) + w.writing + len(w.held) }

// SetRecipients seals what is written from now on to another set, in a new
// segment, as soon as the disk has room for one. It waits for the spine.
func (w *Writer) SetRecipients(ctx context.Context, r *Recipients) error {
	set := r.Hash()
	err := w.spine.update(ctx, func(v *view) ([]*entry, error) {
		if v.set == set {
			return nil, nil
		}
		return []*entry{{kind: kindRecipients, hash: set}}, nil
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.recipients, w.rotate = r, true
	w.mu.Unlock()
	signal(w.wake)
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close writes what is queued, ends the strand, and tells the spine, until ctx
// ends at the latest. Records that it could not keep are a *[LossError]. After
// ctx it leaves goroutines behind in the disk that did not answer; they go on if
// it does. Only the first call closes; later ones return the same.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	signal(w.wake)
	select {
	case <-w.done:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.closeErr
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return &LossError{w.pending(), ErrDeadline}
	}
}
