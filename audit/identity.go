package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Identities are private keys that read segments. The zero value and nil read
// nothing. They print as nothing. Safe for concurrent use.
type Identities struct {
	ages []age.Identity
}

// String keeps the keys out of logs.
func (*Identities) String() string { return "audit.Identities(secret)" }

// GoString keeps the keys out of logs.
func (*Identities) GoString() string { return "audit.Identities(secret)" }

// NewIdentity makes a key pair: a post-quantum one (ML-KEM-768 with X25519), or
// a classic one (X25519) for sets whose other members are. Both results are age
// encodings; recipient is public.
func NewIdentity(classic bool) (identity, recipient string, err error) {
	if classic {
		i, err := age.GenerateX25519Identity()
		if err != nil {
			return "", "", err
		}
		return i.String(), i.Recipient().String(), nil
	}
	i, err := age.GenerateHybridIdentity()
	if err != nil {
		return "", "", err
	}
	return i.String(), i.Recipient().String(), nil
}

// WriteIdentity writes an identity file that age itself can use too, 0600. With
// a passphrase the file is sealed under it. It does not overwrite: an identity
// that is lost takes everything sealed to it along.
func WriteIdentity(path, identity, recipient, passphrase string) error {
	text := fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", time.Now().UTC().Format(time.RFC3339), recipient, identity)
	if passphrase != "" {
		sealed, err := sealText(text, passphrase)
		if err != nil {
			return err
		}
		text = sealed
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}

// testOnlyWorkFactor makes sealing cheap where a test does it; 0 is age's own.
var testOnlyWorkFactor int

func sealText(text, passphrase string) (string, error) {
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return "", err
	}
	if testOnlyWorkFactor != 0 {
		r.SetWorkFactor(testOnlyWorkFactor)
	}
	sealed, err := sealTo(text, r)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	a := armor.NewWriter(&b)
	if _, err = a.Write(sealed); err == nil {
		err = a.Close()
	}
	return b.String(), err
}

// ErrPassphrase says that an identity file is sealed under a passphrase and none,
// or a wrong one, was given.
var ErrPassphrase = errors.New("identity file needs its passphrase")

const maxIdentityFile = 1 << 20

// ParseIdentities reads the text of an identity file: native age identities, one
// a line. If it is sealed under a passphrase, passphrase is called for it, once;
// nil means that there is none.
func ParseIdentities(text []byte, passphrase func() (string, error)) (*Identities, error) {
	if len(text) > maxIdentityFile {
		return nil, errors.New("identity file is too long")
	}
	sealed := bytes.HasPrefix(text, []byte("age-encryption.org/"))
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte(armor.Header)) {
		sealed = true
		b, err := io.ReadAll(armor.NewReader(bytes.NewReader(text)))
		if err != nil {
			return nil, errors.New("identity file is damaged")
		}
		text = b
	}
	if sealed {
		if passphrase == nil {
			return nil, ErrPassphrase
		}
		p, err := passphrase()
		if err != nil {
			return nil, err
		}
		i, err := age.NewScryptIdentity(p)
		if err != nil {
			return nil, ErrPassphrase
		}
		r, err := age.Decrypt(bytes.NewReader(text), i)
		if err != nil {
			return nil, ErrPassphrase
		}
		if text, err = io.ReadAll(io.LimitReader(r, maxIdentityFile)); err != nil {
			return nil, errors.New("identity file is damaged")
		}
	}
	// age's own errors could quote the secret.
	ages, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("identity file has no native age identity on some line")
	}
	return &Identities{ages: ages}, nil
}

// ReadIdentities reads an identity file; see [ParseIdentities].
func ReadIdentities(path string, passphrase func() (string, error)) (*Identities, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ids, err := ParseIdentities(b, passphrase)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ids, nil
}
