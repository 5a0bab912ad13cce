package link

import (
	"encoding/binary"
	"slices"
)

// MaxRecord is the most bytes of a record.
const MaxRecord = 64 << 10

// Class says how much a record matters where not all can be kept. The values
// are those of package audit.
type Class uint8

const (
	Intent     Class = iota // somebody may wait for it before acting
	Terminal                // how something ended; room is kept for it
	Diagnostic              // dropped first
	classes
)

// Level says when a record counts as taken. The values are those of package
// audit.
type Level uint8

const (
	Written Level = iota // it survives the death of all processes
	Durable              // and that of the machine
	levels
)

// Bounds of the records that wait. What only terminal records may use is enough
// for the ends of all calls that a session can have open.
const (
	maxRecords     = 1024
	maxRecordBytes = 2 << 20
	maxEnds        = 4096
	maxEndBytes    = 16 << 20
)

// Receipt tells what became of a record.
type Receipt struct {
	done chan struct{}
	err  error // valid once done is closed
}

// Done is closed when the record was taken, or will not be.
func (r *Receipt) Done() <-chan struct{} { return r.done }

// Err says why the record was not taken, an [*Error]; nil if it was. It is valid
// once Done is closed.
func (r *Receipt) Err() error { return r.err }

func (r *Receipt) finish(err *Error) {
	if err != nil {
		r.err = err
	}
	close(r.done)
}

// record is one that the desk has not taken.
type record struct {
	id   uint32
	body []byte // with class and level in front
	r    *Receipt
}

// records are what the desk has not taken, oldest first. Guarded by the
// client's mu.
type records struct {
	list  []record
	sent  int // of list, over this connection
	bytes int
}

// Record hands a record over, whose class says what happens when the desk does
// not keep up, and whose level when it counts as taken. It takes over body and
// never waits: what is not acknowledged when the connection breaks is sent again
// to the next desk, in order, for as long as the bounds allow; the desk knows a
// repeat by the session and the sequence in the body. What does not fit gets a
// receipt that is done.
func (c *Client) Record(body []byte, class Class, level Level) *Receipt {
	r := &Receipt{done: make(chan struct{})}
	if c == nil {
		r.finish(errNoDesk)
		return r
	}
	if len(body) == 0 || len(body) > MaxRecord || class >= classes || level >= levels {
		r.finish(Errorf(CodeRefused, "no record: %d bytes, class %d, level %d", len(body), class, level))
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.records
	count, size := maxRecords, maxRecordBytes
	if class == Terminal {
		count, size = maxEnds, maxEndBytes
	}
	switch {
	case c.closing:
		r.finish(Errorf(CodeUnavailable, "the session is ending"))
	case len(k.list) >= count || k.bytes+len(body) > size:
		r.finish(Errorf(CodeBusy, "%d records wait for the desk already", len(k.list)))
	default:
		b := append(make([]byte, 0, recordHead+len(body)), byte(class), byte(level))
		k.list = append(k.list, record{c.newID(), append(b, body...), r})
		k.bytes += len(body) + recordHead
		c.poke()
	}
	return r
}

// next returns the next record to send.
func (k *records) next() (outgoing, bool) {
	if k.sent == len(k.list) {
		return outgoing{}, false
	}
	rec := k.list[k.sent]
	k.sent++
	return outgoing{Record, rec.id, nil, rec.body}, true
}

// end forgets a record that was answered and reports whether it was there.
func (k *records) end(id uint32, err *Error) bool {
	i := slices.IndexFunc(k.list[:k.sent], func(r record) bool { return r.id == id })
	if i < 0 {
		return false
	}
	rec := k.list[i]
	rec.r.finish(err)
	k.bytes -= len(rec.body)
	k.sent--
	if i == 0 { // nearly always
		k.list[0] = record{}
		k.list = k.list[1:]
	} else {
		k.list = slices.Delete(k.list, i, i+1)
	}
	if len(k.list) == 0 {
		k.list = nil
	}
	return true
}

// fail gives all of them up.
func (k *records) fail(err *Error) {
	for _, rec := range k.list {
		rec.r.finish(err)
	}
	*k = records{}
}

// ParseRecord takes the body of a Record frame apart. The result shares its
// memory.
func ParseRecord(f Frame) (body []byte, class Class, level Level, err error) {
	class, level = Class(f.Body[0]), Level(f.Body[1])
	if class >= classes || level >= levels {
		return nil, 0, 0, Errorf(CodeRefused, "no record: class %d, level %d", class, level)
	}
	return f.Body[recordHead:], class, level, nil
}

// TakenBody returns the body of a Taken frame for some of ids, and the rest.
func TakenBody(ids []uint32) (body []byte, rest []uint32) {
	n := min(len(ids), maxTaken)
	for _, id := range ids[:n] {
		body = binary.BigEndian.AppendUint32(body, id)
	}
	return body, ids[n:]
}

func takenIDs(b []byte) []uint32 {
	ids := make([]uint32, 0, len(b)/4)
	for ; len(b) > 0; b = b[4:] {
		ids = append(ids, binary.BigEndian.Uint32(b))
	}
	return ids
}
