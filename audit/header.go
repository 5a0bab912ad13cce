package audit

import (
	"crypto/ed25519"
	"fmt"
	"strings"
)

// header is the first frame of a segment.
type header struct {
	strand     ID
	segment    int
	first      uint64
	prev       [32]byte
	signer     [ed25519.PublicKeySize]byte
	keyCommit  [32]byte
	keyFile    [32]byte
	recipients [32]byte
	origin     string
	created    int64 // unix seconds
}

func (h *header) marshal() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, magic+"segment\nstrand %s\nsegment %d\nfirst %d\nprev %s\nsigner %s\nkey-commit %s\nkey-file %s\nrecipients %s\norigin %s\ncreated %d\n",
		h.strand, h.segment, h.first, b64.EncodeToString(h.prev[:]), b64.EncodeToString(h.signer[:]), b64.EncodeToString(h.keyCommit[:]),
		b64.EncodeToString(h.keyFile[:]), b64.EncodeToString(h.recipients[:]), h.origin, h.created)
	return []byte(b.String())
}

// parseHeader reads the payload of a HEADER. What parses marshals to the same
// bytes.
func parseHeader(payload []byte) (*header, error) {
	l := &lines{rest: string(payload)}
	if first := l.line(); l.err == nil && first != magic+"segment" {
		return nil, fmt.Errorf("unknown header %.60q", first)
	}
	h := &header{
		strand:     l.id("strand"),
		segment:    int(l.number("segment")),
		first:      l.number("first"),
		prev:       l.hash("prev"),
		signer:     l.hash("signer"),
		keyCommit:  l.hash("key-commit"),
		keyFile:    l.hash("key-file"),
		recipients: l.hash("recipients"),
		origin:     l.value("origin"),
		created:    int64(l.number("created")),
	}
	if err := l.done(); err != nil {
		return nil, err
	}
	if h.segment > maxSegments {
		return nil, fmt.Errorf("segment number %d is over the limit", h.segment)
	}
	return h, nil
}
