package desk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock-dev/penstock/audit"
	"github.com/penstock-dev/penstock/internal/link"
)

// Names in the home folder. The commands use the same.
const (
	auditFolder  = "audit"
	identityName = "audit-identity.txt" // reads the log
	pinnedName   = "audit.vkey"         // whose log it is
)

var errNoPlace = errors.New("there is no folder for the audit log")

// openLog opens the audit log of the home, and makes it, with an identity that
// can read it, where there is none. exposed says that the identity lies on this
// machine, where whoever is this user can read it.
func openLog(ctx context.Context, cfg Config) (w *audit.Writer, exposed bool, err error) {
	if cfg.Home == "" {
		return nil, false, errNoPlace
	}
	if err := link.SecureFolder(cfg.Home); err != nil {
		return nil, false, err
	}
	dir := filepath.Join(cfg.Home, auditFolder)
	spine, err := audit.OpenSpine(ctx, dir, false)
	if err != nil {
		return nil, false, err
	}
	defer spine.Close()
	identity := filepath.Join(cfg.Home, identityName)
	if _, err := os.Lstat(filepath.Join(dir, "recipients.txt")); errors.Is(err, fs.ErrNotExist) {
		if err := firstRecipient(spine, identity); err != nil {
			return nil, false, err
		}
	}
	if err := pin(filepath.Join(cfg.Home, pinnedName), spine.VKey()); err != nil {
		return nil, false, err
	}
	_, err = os.Lstat(identity)
	exposed = err == nil
	w, err = audit.Open(ctx, audit.Config{
		Dir: dir, Deadline: cfg.AuditDeadline,
		MaxOpen: maxOpenCalls, MaxRecords: maxQueued, MaxBytes: maxInMemory, Log: cfg.Log,
	})
	return w, exposed, err
}

// firstRecipient seals the log to the identity in the file, which it makes if it
// is missing. The file comes first: a log sealed to a key that nobody has would
// be lost. One that is there was written by a desk that died in between.
func firstRecipient(spine *audit.Spine, path string) error {
	text, err := os.ReadFile(path)
	var recipient string
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var identity string
		if identity, recipient, err = audit.NewIdentity(false); err != nil {
			return err
		}
		if err := audit.WriteIdentity(path, identity, recipient, ""); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		for line := range strings.Lines(string(text)) {
			if s, ok := strings.CutPrefix(line, "# public key: "); ok {
				recipient = s
			}
		}
		if recipient == "" {
			return fmt.Errorf("%s does not say its public key, and the audit log has no recipients", identityName)
		}
	}
	set, err := audit.ParseRecipients(recipient)
	if err != nil {
		return err
	}
	return spine.SetRecipients(set)
}

// pin keeps the verifier key of the log outside of it. One that is there stays:
// a log that is another's than it was must be found out by who verifies it.
func pin(path, vkey string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(vkey + "\n")
	return errors.Join(err, f.Close())
}
