package audit

import (
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	commitLen = 8 + 32 + ed25519.SignatureSize
	padTo     = 64
)

// state is where a strand is: n leaves, whose chain value is c.
type state struct {
	n uint64
	c [32]byte
}

// link returns the state after the leaf frame.
func (s state) link(frame []byte) state {
	h := tlog.RecordHash(frame)
	if s.n > 0 {
		h = tlog.NodeHash(s.c, h)
	}
	return state{s.n + 1, h}
}

// commitMessage is what a COMMIT signs.
func (s state) commitMessage(id ID) []byte {
	m := make([]byte, 0, 80)
	m = append(m, magic+"commit\n"...)
	m = append(m, id[:]...)
	m = binary.BigEndian.AppendUint64(m, s.n)
	return append(m, s.c[:]...)
}

func (s state) appendCommit(dst []byte, id ID, key ed25519.PrivateKey) []byte {
	dst = appendHead(dst, frameCommit, commitLen)
	dst = binary.BigEndian.AppendUint64(dst, s.n)
	dst = append(dst, s.c[:]...)
	return append(dst, ed25519.Sign(key, s.commitMessage(id))...)
}

// parseCommit reads the payload of a COMMIT, whose length checkHead checked.
func parseCommit(payload []byte) (s state, sig []byte) {
	s.n = binary.BigEndian.Uint64(payload)
	copy(s.c[:], payload[8:])
	return s, payload[8+32:]
}

func kdf(secret, salt []byte, info string) (out [32]byte) {
	b, err := hkdf.Key(sha256.New, secret, salt, info, 32)
	if err != nil {
		panic("audit: " + err.Error()) // only for lengths that are constants here
	}
	return [32]byte(b)
}

// keyCommit binds a segment to its secret.
func keyCommit(secret [32]byte) [32]byte {
	return kdf(secret[:], nil, magic+"key-commit")
}

// ratchet makes the single-use keys of a segment's records. Each step forgets
// what came before, as far as Go lets a program forget.
type ratchet struct{ ck [32]byte }

func newRatchet(secret [32]byte, c [32]byte) ratchet {
	return ratchet{kdf(secret[:], c[:], magic+"chain-key")}
}

func (r *ratchet) next() (rk [32]byte) {
	b, err := hkdf.Expand(sha256.New, r.ck[:], magic+"record-key", 64)
	if err != nil {
		panic("audit: " + err.Error())
	}
	copy(r.ck[:], b)
	return [32]byte(b[32:])
}

func aead(key [32]byte) cipher.AEAD {
	a, err := chacha20poly1305.New(key[:])
	if err != nil {
		panic("audit: " + err.Error())
	}
	return a
}

// The nonce is fixed since each key seals one record.
var nonce [chacha20poly1305.NonceSize]byte

// padded returns the length of the plaintext of a body of n bytes.
func padded(n int) int { return (n + 1 + padTo - 1) / padTo * padTo }

// recordLen returns the length of the frame of a body of n bytes.
func recordLen(n int) int { return frameHead + padded(n) + chacha20poly1305.Overhead }

// appendRecord seals body into a RECORD frame that follows chain value c.
func appendRecord(dst []byte, rk, c [32]byte, body []byte) []byte {
	plain := padded(len(body))
	at := len(dst)
	dst = appendHead(dst, frameRecord, plain+chacha20poly1305.Overhead)
	var aad [32 + frameHead]byte
	copy(aad[:], c[:])
	copy(aad[32:], dst[at:])
	at = len(dst)
	dst = append(dst, body...)
	dst = append(dst, '\n')
	for len(dst) < at+plain {
		dst = append(dst, 0)
	}
	return aead(rk).Seal(dst[:at], nonce[:], dst[at:], aad[:])
}

// errSealed says nothing about why, so that it cannot be used to learn.
var errSealed = errors.New("record does not open")

// openRecord appends the body of a RECORD frame to dst.
func openRecord(dst []byte, rk, c [32]byte, frame []byte) ([]byte, error) {
	var aad [32 + frameHead]byte
	copy(aad[:], c[:])
	copy(aad[32:], frame[:frameHead])
	at := len(dst)
	dst, err := aead(rk).Open(dst, nonce[:], frame[frameHead:], aad[:])
	if err != nil {
		return nil, errSealed
	}
	p := dst[at:]
	if len(p)%padTo != 0 {
		return nil, errors.New("record is not padded")
	}
	i := len(p) - 1
	for i >= 0 && p[i] == 0 {
		i--
	}
	if i < 0 || p[i] != '\n' || padded(i) != len(p) {
		return nil, errors.New("record is padded wrongly")
	}
	return dst[:at+i], nil
}

func sha(b []byte) [32]byte { return sha256.Sum256(b) }
