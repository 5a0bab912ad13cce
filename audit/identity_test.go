package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
)

func recipientOf(identity string) (string, error) {
	i, err := age.ParseX25519Identity(identity)
	if err != nil {
		return "", err
	}
	return i.Recipient().String(), nil
}

func TestIdentityFiles(t *testing.T) {
	for _, classic := range []bool{false, true} {
		for _, pass := range []string{"", "correct horse"} {
			identity, recipient, err := NewIdentity(classic)
			must(t, err)
			path := filepath.Join(t.TempDir(), "id.txt")
			must(t, WriteIdentity(path, identity, recipient, pass))
			if err := WriteIdentity(path, identity, recipient, pass); !errors.Is(err, os.ErrExist) {
				t.Errorf("overwritten: %v", err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", st.Mode(), err)
			}
			b, err := os.ReadFile(path)
			must(t, err)
			if pass != "" && strings.Contains(string(b), "AGE-SECRET") {
				t.Error("the secret stands in the clear")
			}
			asked := 0
			ask := func() (string, error) { asked++; return pass, nil }
			ids, err := ReadIdentities(path, ask)
			must(t, err)
			if (asked == 1) != (pass != "") {
				t.Errorf("asked %d times", asked)
			}
			if pass != "" {
				_, err = ReadIdentities(path, nil)
				wantErr(t, err, ErrPassphrase)
				_, err = ReadIdentities(path, func() (string, error) { return "wrong", nil })
				wantErr(t, err, ErrPassphrase)
			}
			r, err := ParseRecipients(recipient)
			must(t, err)
			secret, file, err := r.sealKey(ID{1}, 7)
			must(t, err)
			got, err := ids.openKey(ID{1}, 7, file)
			must(t, err)
			if got != secret {
				t.Error("another secret")
			}
			for _, bad := range []struct {
				id  ID
				seg int
			}{{ID{2}, 7}, {ID{1}, 8}} {
				if _, err := ids.openKey(bad.id, bad.seg, file); err == nil {
					t.Error("a key file of another segment was taken")
				}
			}
			if s := fmt.Sprintf("%v %+v %#v %s", ids, ids, ids, ids); strings.Contains(s, "AGE-SECRET") || strings.Contains(s, "0x") {
				t.Errorf("identities print as %s", s)
			}
		}
	}
}

func TestRecipientsLint(t *testing.T) {
	pq := func() string { _, r, err := NewIdentity(false); must(t, err); return r }
	secret, classic, err := NewIdentity(true)
	must(t, err)
	a, b := pq(), pq()
	r, err := ParseRecipients("# two\n\n" + b + "\r\n  " + a + "\n")
	must(t, err)
	if len(r.Lint()) != 0 || len(r.Strings()) != 2 {
		t.Errorf("lint %q", r.Lint())
	}
	swapped, err := ParseRecipients(a + "\n" + b)
	must(t, err)
	if r.Hash() != swapped.Hash() {
		t.Error("the hash depends on the order")
	}
	one, err := ParseRecipients(classic)
	must(t, err)
	if n := len(one.Lint()); n != 2 {
		t.Errorf("%d hints for one classic recipient", n)
	}
	_, err = ParseRecipients(a + "\n" + classic)
	wantErr(t, err, ErrMixedRecipients)
	for _, bad := range []string{"", "# none\n", a + "\n" + a, secret, "ssh-ed25519 AAAA", "age1yubikey1qqqq", "nonsense"} {
		if _, err := ParseRecipients(bad); err == nil {
			t.Errorf("%.30q was taken", bad)
		} else if strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("the error quotes a secret: %v", err)
		}
	}
	if r.Hash() == one.Hash() {
		t.Error("two sets with one hash")
	}
}

// The whole path with post-quantum recipients.
func TestPostQuantumLog(t *testing.T) {
	l := newTestLog(t)
	identity, recipient, err := NewIdentity(false)
	must(t, err)
	l.recipients, err = ParseRecipients(recipient)
	must(t, err)
	l.ids, err = ParseIdentities([]byte(identity), nil)
	must(t, err)
	w := l.open(nil)
	call(t, w, "c")
	l.close(w)
	wantVerdict(t, l.verify(nil), Unanchored, "1 complete")
}
