package audit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/tag"
)

// Recipients is a set of public keys that can read segments. The zero value is
// empty and seals nothing. Immutable; safe for concurrent use.
type Recipients struct {
	lines []string // sorted
	ages  []age.Recipient
	pq    bool
}

// ErrMixedRecipients says that post-quantum and classic recipients stand in one
// set. A file sealed to both would be no better than the classic ones, so age
// refuses it.
var ErrMixedRecipients = errors.New("post-quantum and classic recipients are mixed")

// ParseRecipients reads one recipient a line; empty lines and comments that
// start with # are skipped. It takes native age recipients and tagged ones of
// hardware keys (age1…, age1pq1…, age1tag1…, age1tagpq1…); no ssh keys, no
// passphrases, no plugins, since sealing must not wait for anything.
func ParseRecipients(text string) (*Recipients, error) {
	r := &Recipients{}
	var classic bool
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(strings.ToUpper(line), "AGE-SECRET-KEY-") {
			return nil, errors.New("a secret key stands where a recipient should; it must not be on this machine's list")
		}
		if slices.Contains(r.lines, line) {
			return nil, fmt.Errorf("recipient %.24q… stands twice", line)
		}
		rec, pq, err := parseRecipient(line)
		if err != nil {
			return nil, fmt.Errorf("recipient %.24q…: %w", line, err)
		}
		r.lines = append(r.lines, line)
		r.ages = append(r.ages, rec)
		r.pq = r.pq || pq
		classic = classic || !pq
	}
	if len(r.lines) == 0 {
		return nil, errors.New("no recipients")
	}
	if r.pq && classic {
		return nil, ErrMixedRecipients
	}
	slices.Sort(r.lines)
	return r, nil
}

func parseRecipient(s string) (r age.Recipient, pq bool, err error) {
	switch {
	case strings.HasPrefix(s, "age1tagpq1"):
		r, err = tag.ParseRecipient(s)
		return r, true, err
	case strings.HasPrefix(s, "age1tag1"):
		r, err = tag.ParseRecipient(s)
		return r, false, err
	case strings.HasPrefix(s, "age1pq1"):
		r, err = age.ParseHybridRecipient(s)
		return r, true, err
	case strings.HasPrefix(s, "age1"):
		r, err = age.ParseX25519Recipient(s)
		return r, false, err
	}
	return nil, false, errors.New("not a native or tagged age recipient")
}

// ReadRecipients reads a file such as recipients.txt of a log.
func ReadRecipients(path string) (*Recipients, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := ParseRecipients(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Strings returns the recipients, sorted.
func (r *Recipients) Strings() []string { return slices.Clone(r.lines) }

// Hash is the name of the set in headers and in the spine.
func (r *Recipients) Hash() [32]byte {
	return sha256.Sum256([]byte(strings.Join(r.lines, "\n") + "\n"))
}

// Lint returns what a careful person would change about the set, in words.
func (r *Recipients) Lint() []string {
	var hints []string
	if len(r.lines) == 1 {
		hints = append(hints, "one recipient only: if its identity is lost, nobody can read the log; add an offline one")
	}
	if len(r.lines) > 0 && !r.pq {
		hints = append(hints, "classic recipients: who copies the log today could read it with a quantum computer; post-quantum ones cost only bytes")
	}
	return hints
}

const keyFileMagic = magic + "segment key\n"

func keyFileText(id ID, segment int, secret [32]byte) string {
	return fmt.Sprintf("%sstrand %s\nsegment %d\nkey %s\n", keyFileMagic, id, segment, b64.EncodeToString(secret[:]))
}

// sealKey makes the key file of a segment, with a fresh secret.
func (r *Recipients) sealKey(id ID, segment int) (secret [32]byte, file []byte, err error) {
	rand.Read(secret[:])
	file, err = sealTo(keyFileText(id, segment, secret), r.ages...)
	if err != nil {
		err = fmt.Errorf("seal segment key: %w", err)
	}
	return secret, file, err
}

func sealTo(text string, to ...age.Recipient) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err == nil {
		if _, err = io.WriteString(w, text); err == nil {
			err = w.Close()
		}
	}
	return b.Bytes(), err
}

// maxKeyFile bounds a key file: some hundred recipients.
const maxKeyFile = 1 << 20

// ErrNoIdentity says that none of the identities opens a segment.
var ErrNoIdentity = errors.New("none of the identities opens this segment")

// openKey reads a key file.
func (ids *Identities) openKey(id ID, segment int, file []byte) (secret [32]byte, err error) {
	if ids == nil || len(ids.ages) == 0 {
		return secret, ErrNoIdentity
	}
	r, err := age.Decrypt(bytes.NewReader(file), ids.ages...)
	if err != nil {
		if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
			return secret, ErrNoIdentity
		}
		return secret, errors.New("key file is damaged")
	}
	text, err := io.ReadAll(io.LimitReader(r, 1<<10))
	if err != nil {
		return secret, errors.New("key file is damaged")
	}
	l := &lines{rest: string(text)}
	if l.line()+"\n" != keyFileMagic || l.id("strand") != id || l.number("segment") != uint64(segment) {
		return secret, errors.New("key file is of another segment")
	}
	secret = l.hash("key")
	if l.done() != nil {
		return [32]byte{}, errors.New("key file has an unknown form")
	}
	return secret, nil
}
