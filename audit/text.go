package audit

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// magic begins the first line of every text of the format.
const magic = "penstock-audit/v1 "

// b64 is strict: one text for each value.
var b64 = base64.StdEncoding.Strict()

// ID names a strand.
type ID [16]byte

// String returns the 32 hexadecimal digits that name the strand's folder.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns what String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseID reads what String writes.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) || strings.ToLower(s) != s {
		return ID{}, fmt.Errorf("malformed strand id %.40q", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("malformed strand id %.40q", s)
	}
	return id, nil
}

// lines reads "name value" lines in a fixed order. The first error sticks.
type lines struct {
	rest string
	err  error
}

func (l *lines) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// line returns the next whole line.
func (l *lines) line() string {
	line, rest, ok := strings.Cut(l.rest, "\n")
	if !ok {
		l.fail("line %.60q does not end", l.rest)
		return ""
	}
	l.rest = rest
	return line
}

// value returns the value of the next line, whose name must be name.
func (l *lines) value(name string) string {
	line := l.line()
	v, ok := strings.CutPrefix(line, name+" ")
	if !ok {
		l.fail("line %.60q, want %q", line, name)
		return ""
	}
	if v == "" {
		l.fail("%s has no value", name)
	}
	for _, r := range v {
		if r < 0x20 || r == 0x7f || r == 0xfffd {
			l.fail("%s %.60q has a control character", name, v)
			return ""
		}
	}
	return v
}

func (l *lines) number(name string) uint64 {
	v := l.value(name)
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != v {
		l.fail("%s %.60q is not a number", name, v)
	}
	return n
}

func (l *lines) hash(name string) (h [32]byte) {
	v := l.value(name)
	b, err := b64.DecodeString(v)
	if err != nil || len(b) != len(h) || b64.EncodeToString(b) != v {
		l.fail("%s %.60q is not 32 bytes of base64", name, v)
		return h
	}
	return [32]byte(b)
}

func (l *lines) id(name string) ID {
	id, err := ParseID(l.value(name))
	if err != nil {
		l.fail("%v", err)
	}
	return id
}

// done reports the first error, or that something follows.
func (l *lines) done() error {
	if l.err == nil && l.rest != "" {
		l.fail("unexpected line %.60q", l.rest)
	}
	return l.err
}

// word reports whether s may stand as a reason in an entry.
func word(s string) error {
	if s == "" || len(s) > 64 {
		return errors.New("a reason is 1 to 64 characters")
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Errorf("a reason has only a-z, 0-9 and -: %.64q", s)
		}
	}
	return nil
}
