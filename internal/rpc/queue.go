package rpc

// Class says what a queue may do with an item that does not fit.
type Class uint8

const (
	// Must is a message that is only ever refused, never dropped: an answer,
	// a request, a cancellation.
	Must Class = iota
	// Drop is a notification that may be lost, oldest first.
	Drop
	// Coalesce is a notification of which the last one of its Key says all.
	Coalesce
)

// Item is a frame that waits to be written.
type Item struct {
	Data   []byte // owned by the queue, its line feed included
	Class  Class
	Urgent bool // goes before what is not
	Key    string
	// Held points to whether the item, and what is behind it, must wait; nil if
	// it need not.
	Held *bool
	// Owner is what the frame belongs to, such as a call, for Remove; nil if
	// nothing.
	Owner any
}

// itemCost is what an item is charged besides its bytes.
const itemCost = 128

// reserve is what a queue holds beyond its bound for answers of our own, each
// at most maxSmall bytes: refusals and failures must fit when nothing else does.
const (
	reserve  = 1 << 20
	maxSmall = 8 << 10
)

// Dropped counts what the overload rule of a queue did.
type Dropped struct {
	Oldest    int64 `json:"dropped_oldest"` // notifications dropped to make room
	Coalesced int64 `json:"coalesced"`      // notifications replaced by a later one
	Refused   int64 `json:"refused"`        // items that did not fit
}

// Room is what several queues hold together, in bytes. Guarded like them.
type Room struct{ Max, used int }

// Queue holds frames in order, bounded in bytes and entries, urgent ones first.
// Nothing here waits: an item that does not fit is refused at once, and the
// caller applies the rule for its kind. A Queue is a plain value guarded by the
// lock of the session that owns it. Create it with [NewQueue].
type Queue struct {
	room               *Room
	maxBytes, maxItems int
	bytes, small       int // charged against maxBytes and room, and against reserve
	urgent, normal     []entry
	Dropped            Dropped
	HighWater          int // most bytes held
	// Hold keeps back all but urgent items, as while a restarted server is
	// told its past.
	Hold bool
}

type entry struct {
	Item
	small bool
}

// NewQueue returns an empty queue for maxItems frames of maxBytes together, which
// it takes from room. Frames are charged their bytes and a little more.
func NewQueue(room *Room, maxBytes, maxItems int) *Queue {
	return &Queue{room: room, maxBytes: maxBytes, maxItems: maxItems}
}

// Len returns the number of items, those held back included.
func (q *Queue) Len() int { return len(q.urgent) + len(q.normal) }

// Bytes returns what the items are charged.
func (q *Queue) Bytes() int { return q.bytes + q.small }

// Offer adds it, or reports false if there is no room. Notifications make room:
// a later one of the same key takes the place of an earlier one, and the oldest
// that may be dropped goes first.
func (q *Queue) Offer(it Item) bool {
	if it.Class == Coalesce && q.coalesce(it) {
		return true
	}
	cost := cap(it.Data) + itemCost // a buffer is held whole
	for !q.fits(cost) || q.Len() >= q.maxItems {
		if cost > q.maxBytes || !q.dropOldest() {
			q.Dropped.Refused++
			return false
		}
	}
	q.charge(cost)
	q.push(entry{Item: it})
	return true
}

func (q *Queue) fits(cost int) bool {
	return q.bytes+cost <= q.maxBytes && q.room.used+cost <= q.room.Max
}

func (q *Queue) charge(cost int) {
	q.bytes += cost
	q.room.used += cost
}

// OfferSmall adds a small answer of our own, from the reserve where the queue
// is full. It reports false if that is used up too: then the peer asks without
// ever reading answers.
func (q *Queue) OfferSmall(it Item) bool {
	cost := cap(it.Data) + itemCost
	if cost > maxSmall || q.small+cost > reserve {
		return q.Offer(it)
	}
	q.small += cost
	q.push(entry{Item: it, small: true})
	return true
}

func (q *Queue) push(e entry) {
	if e.Urgent {
		q.urgent = append(q.urgent, e)
	} else {
		q.normal = append(q.normal, e)
	}
	q.HighWater = max(q.HighWater, q.Bytes())
}

func (q *Queue) coalesce(it Item) bool {
	for i := range q.normal {
		old := &q.normal[i]
		if old.Class == Coalesce && old.Key == it.Key {
			grow := cap(it.Data) - cap(old.Data)
			if !q.fits(grow) {
				return false
			}
			q.charge(grow)
			old.Data = it.Data
			q.Dropped.Coalesced++
			return true
		}
	}
	return false
}

func (q *Queue) dropOldest() bool {
	for i := range q.normal {
		if q.normal[i].Class != Must {
			q.Dropped.Oldest++
			q.cut(&q.normal, i)
			return true
		}
	}
	return false
}

// Peek returns the bytes of the item that Pop would return, and reports whether
// there is one.
func (q *Queue) Peek() (n int, ok bool) {
	switch {
	case len(q.urgent) > 0:
		return len(q.urgent[0].Data), true
	case q.normalReady():
		return len(q.normal[0].Data), true
	}
	return 0, false
}

// Pop takes the next item, and reports false if there is none that may go.
func (q *Queue) Pop() (Item, bool) {
	list := &q.urgent
	if len(*list) == 0 {
		if list = &q.normal; !q.normalReady() {
			return Item{}, false
		}
	}
	it := (*list)[0].Item
	q.cut(list, 0)
	return it, true
}

// Ready reports whether Pop would return an item.
func (q *Queue) Ready() bool { return len(q.urgent) > 0 || q.normalReady() }

func (q *Queue) normalReady() bool {
	return !q.Hold && len(q.normal) > 0 && (q.normal[0].Held == nil || !*q.normal[0].Held)
}

// Remove drops every item for which match reports true and returns how many.
func (q *Queue) Remove(match func(*Item) bool) (n int) {
	for _, list := range []*[]entry{&q.urgent, &q.normal} {
		for i := 0; i < len(*list); {
			if match(&(*list)[i].Item) {
				q.cut(list, i)
				n++
			} else {
				i++
			}
		}
	}
	return n
}

// Find returns the first item for which match reports true, for a look. Its
// Data must not be changed except by [Queue.Replace].
func (q *Queue) Find(match func(*Item) bool) *Item {
	for _, list := range [][]entry{q.urgent, q.normal} {
		for i := range list {
			if match(&list[i].Item) {
				return &list[i].Item
			}
		}
	}
	return nil
}

// Replace gives an item that Find returned shorter bytes.
func (q *Queue) Replace(it *Item, data []byte) {
	q.charge(cap(data) - cap(it.Data))
	it.Data = data
}

// Clear drops everything.
func (q *Queue) Clear() { q.Remove(func(*Item) bool { return true }) }

func (q *Queue) cut(list *[]entry, i int) {
	e := (*list)[i]
	if cost := cap(e.Data) + itemCost; e.small {
		q.small -= cost
	} else {
		q.charge(-cost)
	}
	if i == 0 { // the common case keeps its array, but not what it held
		(*list)[0] = entry{}
		*list = (*list)[1:]
		if len(*list) == 0 {
			*list = nil
		}
		return
	}
	copy((*list)[i:], (*list)[i+1:])
	(*list)[len(*list)-1] = entry{}
	*list = (*list)[:len(*list)-1]
}
