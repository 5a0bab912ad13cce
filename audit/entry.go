package audit

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Kinds of spine entries. "redact" is reserved.
const (
	kindOpen       = "open"
	kindHead       = "head"
	kindClose      = "close"
	kindOrphan     = "orphan"
	kindPrune      = "prune"
	kindShred      = "shred"
	kindRecipients = "recipients"
	kindClock      = "clock"
	kindEpoch      = "epoch"
	kindLoss       = "loss"
)

const maxEntry = 4096

// entry is one line of business of the spine. Which fields count depends on the
// kind.
type entry struct {
	kind     string
	strand   ID
	time     int64    // unix seconds
	hash     [32]byte // open: signer; recipients: the set
	boot     [32]byte // open
	at       state    // head, close, orphan, prune
	segment  int      // shred
	word     string   // shred: reason; loss: what
	old, new int64    // clock
	since    int64    // loss
	oldVKey  string   // epoch
	vkey     string   // epoch: the new one
}

func (e *entry) marshal() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\nstrand %s\ntime %d\n", magic, e.kind, e.strand, e.time)
	switch e.kind {
	case kindOpen:
		fmt.Fprintf(&b, "signer %s\nboot %x\n", b64.EncodeToString(e.hash[:]), e.boot)
	case kindHead, kindClose, kindOrphan, kindPrune:
		fmt.Fprintf(&b, "size %d\nhead %s\n", e.at.n, b64.EncodeToString(e.at.c[:]))
	case kindShred:
		fmt.Fprintf(&b, "segment %d\nreason %s\n", e.segment, e.word)
	case kindRecipients:
		fmt.Fprintf(&b, "hash %s\n", b64.EncodeToString(e.hash[:]))
	case kindClock:
		fmt.Fprintf(&b, "old %d\nnew %d\n", e.old, e.new)
	case kindEpoch:
		fmt.Fprintf(&b, "old %s\nvkey %s\n", e.oldVKey, e.vkey)
	case kindLoss:
		fmt.Fprintf(&b, "what %s\nsince %d\n", e.word, e.since)
	default:
		panic("audit: entry of kind " + e.kind)
	}
	return []byte(b.String())
}

// parseEntry reads an entry. What parses marshals to the same bytes.
func parseEntry(raw []byte) (*entry, error) {
	if len(raw) > maxEntry {
		return nil, fmt.Errorf("entry of %d bytes", len(raw))
	}
	l := &lines{rest: string(raw)}
	first := l.line()
	kind, ok := strings.CutPrefix(first, magic)
	if !ok {
		return nil, fmt.Errorf("unknown entry %.60q", first)
	}
	e := &entry{kind: kind, strand: l.id("strand"), time: int64(l.number("time"))}
	switch kind {
	case kindOpen:
		e.hash = l.hash("signer")
		boot := l.value("boot")
		if n, err := hex.Decode(e.boot[:], []byte(boot[:min(len(boot), 64)])); err != nil || n != 32 || hex.EncodeToString(e.boot[:]) != boot {
			l.fail("boot %.80q is not 32 bytes of hex", boot)
		}
	case kindHead, kindClose, kindOrphan, kindPrune:
		e.at.n = l.number("size")
		e.at.c = l.hash("head")
	case kindShred:
		e.segment = int(l.number("segment"))
		e.word = l.value("reason")
		if err := word(e.word); err != nil {
			l.fail("%v", err)
		}
		if e.segment > maxSegments {
			l.fail("segment number %d is over the limit", e.segment)
		}
	case kindRecipients:
		e.hash = l.hash("hash")
	case kindClock:
		e.old = int64(l.number("old"))
		e.new = int64(l.number("new"))
	case kindEpoch:
		e.oldVKey = l.value("old")
		e.vkey = l.value("vkey")
	case kindLoss:
		e.word = l.value("what")
		if err := word(e.word); err != nil {
			l.fail("%v", err)
		}
		e.since = int64(l.number("since"))
	default:
		return nil, fmt.Errorf("unknown entry kind %.40q", kind)
	}
	if err := l.done(); err != nil {
		return nil, fmt.Errorf("%s entry: %w", kind, err)
	}
	return e, nil
}

// appendEntry appends an entry behind its length.
func appendEntry(dst, raw []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(raw)))
	return append(dst, raw...)
}

// readEntry reads what appendEntry wrote into buf, which must hold maxEntry
// bytes. The error is io.EOF at the end, io.ErrUnexpectedEOF within an entry.
func readEntry(r io.Reader, buf []byte) ([]byte, error) {
	var l [2]byte
	if _, err := io.ReadFull(r, l[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(l[:]))
	if n == 0 || n > maxEntry {
		return nil, fmt.Errorf("entry of %d bytes", n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf[:n], nil
}
