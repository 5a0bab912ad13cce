package audit

import (
	"crypto/sha256"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the right edge of an RFC 6962 tree: enough to append to it and to
// know its root, in memory that grows with the logarithm of its size. (tlog
// wants all hashes stored.)
type tree struct {
	size uint64
	edge []tlog.Hash // roots of the complete subtrees, largest first
}

func (t *tree) add(entry []byte) {
	h := tlog.RecordHash(entry)
	for s := t.size; s&1 == 1; s >>= 1 {
		last := len(t.edge) - 1
		h = tlog.NodeHash(t.edge[last], h)
		t.edge = t.edge[:last]
	}
	t.edge = append(t.edge, h)
	t.size++
}

func (t *tree) root() [32]byte {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	h := t.edge[len(t.edge)-1]
	for i := len(t.edge) - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.edge[i], h)
	}
	return h
}
