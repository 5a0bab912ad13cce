package frame

import "sync/atomic"

// Stats counts what a [Reader] has read.
type Stats struct {
	Bytes          int64 // read from the stream
	Frames         int64 // messages returned
	LargestFrame   int64 // bytes of the largest
	Blank          int64 // empty or white lines passed over
	CR             int64 // lines of any kind that ended in CR LF
	BOM            int64 // byte order marks passed over
	Violations     int64 // lines that were no message
	ViolationBytes int64 // bytes of these
	Oversize       int64 // lines over the limit
	OversizeBytes  int64 // bytes of these, growing while one is thrown away
	Replaced       int64 // invalid UTF-8 sequences replaced in messages
	Escaped        int64 // raw U+2028 and U+2029 escaped in messages
}

type counters struct {
	bytes, frames, largest, blank, cr, bom                                 atomic.Int64
	violations, violationBytes, oversize, oversizeBytes, replaced, escaped atomic.Int64
}

// Stats returns the counts so far. Any goroutine may call it at any time.
func (r *Reader) Stats() Stats {
	c := &r.stats
	return Stats{
		Bytes: c.bytes.Load(), Frames: c.frames.Load(), LargestFrame: c.largest.Load(),
		Blank: c.blank.Load(), CR: c.cr.Load(), BOM: c.bom.Load(),
		Violations: c.violations.Load(), ViolationBytes: c.violationBytes.Load(),
		Oversize: c.oversize.Load(), OversizeBytes: c.oversizeBytes.Load(),
		Replaced: c.replaced.Load(), Escaped: c.escaped.Load(),
	}
}
