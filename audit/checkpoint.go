package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// checkpoint is what an anchor says: the spine had this root at this size.
type checkpoint struct {
	origin string
	size   uint64
	root   [32]byte
}

func (c *checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.origin, c.size, b64.EncodeToString(c.root[:]))
}

const maxCheckpoint = 64 << 10

// openCheckpoint reads a checkpoint that at least one of the verifiers signed,
// and returns which did. Signatures by others are ignored, as C2SP wants it.
func openCheckpoint(msg []byte, by ...note.Verifier) (*checkpoint, []note.Signature, error) {
	if len(msg) > maxCheckpoint {
		return nil, nil, errors.New("checkpoint is too long")
	}
	n, err := note.Open(msg, note.VerifierList(by...))
	if err != nil {
		var unverified *note.UnverifiedNoteError
		if errors.As(err, &unverified) {
			return nil, nil, errSigner
		}
		return nil, nil, errors.New("checkpoint is malformed or its signature is wrong")
	}
	for _, sig := range n.Sigs {
		// The library takes base64 whose last bits are not zero; one text for
		// each signature leaves nothing that can be changed unseen.
		if _, err := b64.DecodeString(sig.Base64); err != nil {
			return nil, nil, errors.New("checkpoint's signature is not strict base64")
		}
	}
	parts := strings.SplitN(n.Text, "\n", 3)
	if len(parts) != 3 {
		return nil, nil, errors.New("checkpoint is malformed")
	}
	c := &checkpoint{origin: parts[0]}
	l := &lines{rest: "size " + parts[1] + "\nroot " + parts[2]}
	c.size, c.root = l.number("size"), l.hash("root")
	if err := l.done(); err != nil {
		return nil, nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, v := range by {
		if v.Name() != c.origin {
			return nil, nil, fmt.Errorf("checkpoint of origin %.60q is signed under another name", c.origin)
		}
	}
	return c, n.Sigs, nil
}

var errSigner = errors.New("checkpoint is not signed by the expected key")

func (c *checkpoint) sign(by ...note.Signer) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.text()}, by...)
}

// nodeKey signs checkpoints.
type nodeKey struct {
	skey, vkey string
	signer     note.Signer
	verifier   note.Verifier
}

// newNodeKey makes a node key; its name is origin or, where that is empty, made
// from the key.
func newNodeKey(origin string) (*nodeKey, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return nodeKeyFrom(origin, pub, priv)
}

func nodeKeyFrom(origin string, pub ed25519.PublicKey, priv ed25519.PrivateKey) (*nodeKey, error) {
	if origin == "" {
		// Says nothing about the user to a witness.
		h := sha256.Sum256(pub)
		origin = fmt.Sprintf("penstock-node/%x", h[:8])
	}
	vkey, err := note.NewEd25519VerifierKey(origin, pub)
	if err != nil {
		return nil, err
	}
	hash := strings.Split(strings.TrimPrefix(vkey, origin+"+"), "+")[0]
	const algEd25519 = 1
	skey := fmt.Sprintf("PRIVATE+KEY+%s+%s+%s", origin, hash, b64.EncodeToString(append([]byte{algEd25519}, priv.Seed()...)))
	return parseNodeKey(skey)
}

func parseNodeKey(skey string) (*nodeKey, error) {
	k := &nodeKey{skey: skey}
	var err error
	if k.signer, err = note.NewSigner(skey); err != nil {
		return nil, errors.New("node key is malformed")
	}
	// The signer does not tell its public key.
	i := strings.LastIndexByte(skey, '+')
	// A base64 key may hold '+' itself: the seed is what follows the third.
	if p := strings.SplitN(skey, "+", 5); len(p) == 5 {
		i = len(skey) - len(p[4]) - 1
	}
	seed, err := b64.DecodeString(skey[i+1:])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, errors.New("node key is malformed")
	}
	pub := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if k.vkey, err = note.NewEd25519VerifierKey(k.signer.Name(), pub); err != nil {
		return nil, err
	}
	k.verifier, err = note.NewVerifier(k.vkey)
	return k, err
}

// parseVKey reads a verifier key of a node.
func parseVKey(vkey string) (note.Verifier, error) {
	v, err := note.NewVerifier(strings.TrimSpace(vkey))
	if err != nil {
		return nil, fmt.Errorf("malformed verifier key %.80q", vkey)
	}
	return v, nil
}
