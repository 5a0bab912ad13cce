package bridge

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/penstock-dev/penstock/frame"
	"github.com/penstock-dev/penstock/internal/call"
	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/rpc"
)

// Every call is recorded: an intent before anything is done for it, the moment
// at which it was dispatched, and one outcome that says what was observed. The
// intents of calls that may have effects are awaited before their frame may
// leave its queue; nothing else waits for a record. Records are made under the
// session's lock, so that their sequence is the order of what they tell.

// Class says how much a record matters where not all can be kept. The values are
// those of package audit.
type Class uint8

const (
	Intent     Class = iota // may be awaited
	Terminal                // of an end; its room is kept from the intent on
	Diagnostic              // dropped first
)

// Level says when a record counts as taken. The values are those of package
// audit.
type Level uint8

const (
	Written Level = iota // it survives the death of all processes
	Durable              // and that of the machine
)

// Receipt tells when a record was taken.
type Receipt interface {
	Done() <-chan struct{} // closed when it was, or will not be
	Err() error            // why it was not; valid once Done is closed
}

// Recorder takes the records of a session, in order.
type Recorder interface {
	// Record takes over body. It never waits. What it cannot take it says by a
	// receipt that is done.
	Record(body []byte, class Class, level Level) Receipt
}

// Records are the settings of what is recorded. The zero value records nothing.
type Records struct {
	// Recorder returns the recorder of the session, given the client that Desk
	// returned, which may be nil. It is called once, at the start.
	Recorder func(sessionID string, desk *link.Client) Recorder

	// Refuse answers a call whose intent was not taken within RecordWait as not
	// dispatched. Without it the call goes on and is counted.
	Refuse     bool
	RecordWait time.Duration // zero means 50ms, or 1s with Refuse
	Preview    int           // most bytes shown of arguments; zero means 2 KiB
	Masker     call.Masker   // what is hidden there
	Build      string        // of this program
}

const (
	observeWait = 50 * time.Millisecond
	refuseWait  = time.Second
	maxPreview  = 2 << 10
	// deliveryWait is how long the outcome of an answered call waits to hear
	// whether the host took the answer.
	deliveryWait = time.Second
	// recordsWait bounds the end of a session whose records are not taken.
	recordsWait = 400 * time.Millisecond

	maxDigests = 4096 // tools whose definition is remembered
	maxCause   = 256
	maxTarget  = 512
	maxLeft    = 32 // descendants that are named
)

// records is what a session keeps for its records. Guarded by its lock.
type records struct {
	to      Recorder
	c       Records
	began   time.Time
	seq     uint64
	waiting []waiting             // intents without a receipt, oldest first
	wake    chan struct{}         // capacity 1: something else is to be waited for
	open    map[*request]struct{} // ended, with the outcome to be recorded
	lookAt  time.Time             // when to look at open next; zero: not at all
	leaving []*request            // whose answers are in the write that goes on
	digests map[string]string     // of tool definitions, by name
	lost    call.Gap              // intents since the last gap record

	unrecorded, overdue int64
	sent, active        int64 // calls dispatched so far, and of those without an end
	last                *call.Exit
	debug               time.Time // a debug window lasts until then
}

// waiting is an intent whose receipt has not come.
type waiting struct {
	receipt Receipt
	r       *request // to be released; nil if nobody waits
	at      time.Time
}

// beginRecords starts the records of the session.
func (s *Session) beginRecords() {
	if s.c.Recorder == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.c.Recorder(s.id, s.desk())
	if to == nil {
		return
	}
	c := s.c.Records
	if c.RecordWait == 0 {
		c.RecordWait = observeWait
		if c.Refuse {
			c.RecordWait = refuseWait
		}
	}
	if c.Preview == 0 {
		c.Preview = maxPreview
	}
	s.records = &records{
		to: to, c: c, began: time.Now(), wake: make(chan struct{}, 1),
		open: map[*request]struct{}{}, digests: map[string]string{},
	}
	policy := "observe"
	if c.Refuse {
		policy = "refuse"
	}
	s.record(&call.Record{Kind: call.SessionStart, Start: &call.Start{
		Server: s.c.Name, Command: c.Masker.Command(s.c.Args), PID: os.Getpid(), Host: os.Getppid(), OnFailure: policy, Build: c.Build,
	}}, Diagnostic)
}

// record numbers a record and hands it over. It is called with the lock held.
func (s *Session) record(r *call.Record, class Class) Receipt {
	k := s.records
	now := time.Now()
	k.seq++
	r.V, r.Session, r.Seq, r.Time, r.Mono = call.Version, s.id, k.seq, call.At(now), k.mono(now)
	return k.to.Record(r.Marshal(), class, Written)
}

func (k *records) mono(t time.Time) int64 { return max(0, t.Sub(k.began).Milliseconds()) }

func (k *records) debugging() bool { return !k.debug.IsZero() && time.Now().Before(k.debug) }

// Debug begins a debug window that lasts until then, or ends it if that is past.
// Records made in it say so.
func (s *Session) Debug(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return
	}
	s.records.debug = until
	s.record(&call.Record{Kind: call.Debug, Window: &call.Window{On: s.records.debugging(), Until: call.At(until)}}, Terminal)
}

// awaits reports whether the intent of r must be recorded before r is sent.
func (s *Session) awaits(r *request) bool {
	switch r.Method {
	case "tools/call", "prompts/get", "resources/read":
		return !s.ownTool(r)
	}
	return false
}

// intend records the intent of a call. e is nil where only its id could be read.
func (s *Session) intend(r *request, e *rpc.Envelope, awaited bool) {
	k := s.records
	if k == nil {
		return
	}
	a := &account{}
	a.out.RPC, a.out.Given, a.out.StreamEnd = call.RPCNone, call.GivenNothing, call.StreamNone
	a.out.Debug = k.debugging()
	r.account = a
	in := &call.Intent{
		Action: call.Clip(r.Method, maxTarget), Server: s.c.Name, Tool: call.Clip(r.Tool, maxTarget), Target: call.Clip(r.Tool, maxTarget),
		RequestID: call.Clip(string(r.id), 128), Decision: "allow", DecidedBy: "default",
		Received: call.At(r.At[call.Received]), ReceivedMono: k.mono(r.At[call.Received]), Debug: a.out.Debug,
	}
	if in.Action == "" {
		in.Action = "unreadable"
	}
	if e != nil {
		a.out.BytesIn = int64(len(e.Data))
		in.BytesIn = a.out.BytesIn
		in.Arguments = k.c.Masker.Arguments(e.In(e.Arguments), k.c.Preview)
		if r.Method == "tools/call" {
			in.ToolHash = k.digests[r.Tool]
		} else if e.URI.Kind == frame.String {
			in.Target = call.Clip(k.c.Masker.Text(call.Clip(frame.Unquote(e.In(e.URI)), 2*maxTarget)), maxTarget)
		}
		if e.Refusal != "" {
			in.Decision, in.DecidedBy, in.Rule = "deny", "penstock", call.Clip(e.Refusal, maxCause)
		}
	}
	now := time.Now()
	receipt := s.record(&call.Record{Kind: call.CallIntent, CallID: r.ID(), Intent: in}, Intent)
	if awaited {
		a.receipt = receipt
	}
	if isDone(receipt) && len(k.waiting) == 0 && (!awaited || receipt.Err() == nil) {
		a.receipt = nil
		s.taken(receipt, now)
		return
	}
	w := waiting{receipt: receipt, at: now}
	if awaited {
		w.r = r
	}
	k.waiting = append(k.waiting, w)
	if awaited || len(k.waiting) == 1 {
		wake(k.wake)
	}
}

func isDone(r Receipt) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// hold returns what the frame of r must wait for, nil if for nothing.
func (s *Session) hold(r *request) *bool {
	if a := r.account; a != nil && a.receipt != nil {
		a.held = true
		return &a.held
	}
	return nil
}

func (s *Session) holdBatch(b *batch) *bool {
	for _, r := range b.owner {
		if r != nil && r.account != nil && r.account.receipt != nil {
			r.account.held = true
			b.waiting++
		}
	}
	if b.held = b.waiting > 0; b.held {
		return &b.held
	}
	return nil
}

// release lets a call go on whose intent was awaited.
func (s *Session) release(r *request) {
	a := r.account
	a.receipt = nil
	if !a.held {
		return
	}
	a.held = false
	if b := r.batch; b != nil {
		b.waiting--
		b.held = b.waiting > 0
	}
}

// awaitRecords waits for receipts, for the deadlines of those who wait for
// them, and for outcomes to be recorded: one goroutine for all calls.
func (s *Session) awaitRecords() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		head, next := s.sweep(time.Now())
		s.mu.Unlock()
		s.push()
		timer.Reset(next)
		select {
		case <-head:
		case <-timer.C:
		case <-s.records.wake:
		case <-s.ended:
			return
		}
	}
}

// sweep does what is due, and returns the receipt to wait for next, nil if none,
// and for how long at most.
func (s *Session) sweep(now time.Time) (head <-chan struct{}, wait time.Duration) {
	k := s.records
	for len(k.waiting) > 0 && isDone(k.waiting[0].receipt) {
		w := k.waiting[0]
		k.waiting[0] = waiting{}
		if k.waiting = k.waiting[1:]; len(k.waiting) == 0 {
			k.waiting = nil
		}
		s.taken(w.receipt, w.at)
		s.settled(w.r, w.receipt.Err())
	}
	wait = time.Hour
	for i := range k.waiting {
		w := &k.waiting[i]
		if w.r == nil {
			continue
		}
		if left := w.at.Add(k.c.RecordWait).Sub(now); left > 0 && !isDone(w.receipt) {
			wait = left
			break
		}
		r := w.r
		w.r = nil // its receipt is still of interest
		if isDone(w.receipt) {
			s.settled(r, w.receipt.Err())
			continue
		}
		if r.account.receipt != nil {
			k.overdue++
		}
		s.settled(r, errOverdue)
	}
	if !k.lookAt.IsZero() {
		if !k.lookAt.After(now) {
			s.look(now)
		}
		if !k.lookAt.IsZero() {
			wait = min(wait, k.lookAt.Sub(now))
		}
	}
	if len(k.waiting) > 0 {
		head = k.waiting[0].receipt.Done()
	}
	return head, wait
}

// look records outcomes that have waited long enough to hear of their delivery.
func (s *Session) look(now time.Time) {
	k := s.records
	k.lookAt = time.Time{}
	for r := range k.open {
		switch due := r.account.ended.Add(deliveryWait); {
		case r.account.awaits != nil:
		case !due.After(now):
			s.recordOutcome(r)
		case k.lookAt.IsZero() || due.Before(k.lookAt):
			k.lookAt = due
		}
	}
}

var errOverdue = errors.New("the audit log did not take the record in time")

// settled ends the wait for an intent.
func (s *Session) settled(r *request, err error) {
	if r == nil || r.account.receipt == nil {
		return
	}
	if err == nil || !s.records.c.Refuse || r.State != call.Authorized {
		s.release(r)
		return
	}
	s.unsend(r)
	s.release(r)
	s.fail(r, call.FailedBeforeDispatch, "not recorded", "This session refuses calls that are not recorded, and "+err.Error()+". "+notSent+" See penstock status.", facts{})
}

// taken counts intents that were lost, and tells of them once records are taken
// again.
func (s *Session) taken(receipt Receipt, at time.Time) {
	k := s.records
	err := receipt.Err()
	if err == nil {
		s.recordGap()
		return
	}
	k.unrecorded++
	if k.lost.Count == 0 {
		k.lost.First = call.At(at)
		k.lost.Reason = call.Clip(err.Error(), maxCause)
		s.log.say("records", "calls go unrecorded: "+err.Error())
	}
	k.lost.Count++
	k.lost.Last = call.At(at)
}

func (s *Session) recordGap() {
	k := s.records
	if k.lost.Count == 0 {
		return
	}
	gap := k.lost
	k.lost = call.Gap{}
	s.record(&call.Record{Kind: call.SessionGap, Gap: &gap}, Terminal)
}

// endRecords tells of what is left of the session, and of its end, and waits a
// moment for the desk.
func (s *Session) endRecords(ctx context.Context, why string) {
	if s.records != nil {
		s.mu.Lock()
		s.lastRecords(ctx, why)
		s.mu.Unlock()
	}
	s.closeDesk()
}

func (s *Session) lastRecords(ctx context.Context, why string) {
	k := s.records
	for _, r := range s.calls.All {
		switch {
		case r.State.Terminal():
		case r.State.AfterDispatch():
			s.end(r, call.OutcomeUnknown, "the session ended")
		default:
			s.end(r, call.FailedBeforeDispatch, "the session ended")
		}
	}
	for _, r := range k.leaving { // cut off within a write: nobody knows
		delete(k.open, r)
		s.recordOutcome(r)
	}
	for r := range k.open {
		r.account.awaits = nil
		s.recordDelivery(r, false)
	}
	for _, w := range k.waiting {
		if isDone(w.receipt) {
			s.taken(w.receipt, w.at)
		}
	}
	s.recordGap()
	if why == "" {
		why = s.whyEnded(ctx)
	}
	end := &call.End{
		Reason: call.Clip(why, maxCause), Exit: k.last, Calls: map[string]int64{}, Starts: s.stats.Starts,
		Unrecorded: k.unrecorded, Overdue: k.overdue,
	}
	for state, n := range s.stats.states {
		end.Calls[state.String()] = n
	}
	s.record(&call.Record{Kind: call.SessionEnd, End: end}, Terminal)
}

// whyEnded says in words of ours what ended the session.
func (s *Session) whyEnded(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return "penstock was asked to stop"
	case isClosed(s.hostGone):
		return "the host takes nothing more"
	case s.stats.HostOverrun:
		return "the host sends requests and reads no answers"
	case s.start.gaveUp != "":
		return s.start.gaveUp
	case isClosed(s.hostEOF):
		return "the host has gone"
	}
	return "the server ended"
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
