package call

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// Masker hides secrets in what records show of arguments: the values of members
// whose names say that they are secret, and what matches a pattern. It is a
// backstop and no promise; digests cover what it hides. The zero Masker hides
// by the built-in names and patterns. It may be used concurrently.
type Masker struct {
	Names    []string         // more names; case, "-", "_", "." and blanks do not matter
	Patterns []*regexp.Regexp // more patterns, matched within one string
}

// secretNames are parts of names of secrets, as [bareName] returns them.
var secretNames = []string{
	"password", "passwd", "passphrase", "secret", "token", "authorization", "apikey", "credential",
	"privatekey", "accesskey", "cookie", "sessionkey", "signingkey", "encryptionkey",
}

// secretPatterns are looked for only where one of their hints stands, in small
// letters, since nearly no string is secret and each is looked at while its call
// waits.
var secretPatterns = []struct {
	hints   []string
	pattern *regexp.Regexp
}{
	{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[a-z0-9._~+/=-]{8,}`)},
	{[]string{"private key-----"}, regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*)`)},
	{
		[]string{"gh", "glpat-", "sk-", "xox", "akia", "aiza", "eyj"},
		regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|sk-|xox[abposr]-|AKIA|AIza|eyJ)[A-Za-z0-9_.-]{12,}`),
	},
	{[]string{"://"}, regexp.MustCompile(`://[^/\s:@]*:[^/\s@]+@`)},
	{
		[]string{"passw", "secret", "token", "key", "authorization"},
		regexp.MustCompile(`(?i)(?:password|passwd|secret|token|api[-_]?key|authorization)["']?\s*[=:]\s*["']?[^\s"'&]+`),
	},
}

const (
	maskedText  = "[masked]"
	maskedValue = `"` + maskedText + `"`
	// patternRoom is how much of a string is looked at beyond what is shown, so
	// that a cut hides no part of what a pattern matches.
	patternRoom = 4 << 10
)

// mask is a Masker at work.
type mask struct {
	*Masker
	n int // places
}

// hides reports whether the value of the member with this canonical name is
// secret.
func (m *mask) hides(name []byte) bool { return m.secret(string(name)) }

func (m *Masker) secret(name string) bool {
	bare := bareName(name)
	for _, s := range secretNames {
		if strings.Contains(bare, s) {
			return true
		}
	}
	for _, s := range m.Names {
		if s = bareName(s); s != "" && strings.Contains(bare, s) {
			return true
		}
	}
	return false
}

func bareName(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', '_', '.', ' ', '"':
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// text appends a raw JSON string in canonical form, with what is secret hidden.
func (m *mask) text(dst, raw []byte, most int) []byte {
	if room := most + patternRoom; most > 0 && len(raw) > room {
		cut := room
		for cut > 1 && (raw[cut]&0xC0 == 0x80 || raw[cut-1] == '\\') {
			cut--
		}
		raw = append(append([]byte(nil), raw[:cut]...), '"')
	}
	if len(raw) < 12 && len(m.Patterns) == 0 {
		return minimal(dst, raw)
	}
	var s string
	if bytes.IndexByte(raw, '\\') < 0 {
		s = string(raw[1 : len(raw)-1])
	} else if json.Unmarshal(raw, &s) != nil {
		return append(dst, maskedValue...) // cut within an escape: nobody can judge it
	}
	shown := m.Text(s)
	if shown == s {
		return minimal(dst, raw)
	}
	m.n++
	quoted, _ := json.Marshal(shown)
	return minimal(dst, quoted)
}

// Text returns s with what matches a pattern hidden.
func (m *Masker) Text(s string) string {
	small := strings.ToLower(s)
	for _, p := range secretPatterns {
		for _, hint := range p.hints {
			if strings.Contains(small, hint) {
				s = p.pattern.ReplaceAllLiteralString(s, maskedText)
				break
			}
		}
	}
	for _, p := range m.Patterns {
		s = p.ReplaceAllLiteralString(s, maskedText)
	}
	return s
}

// Command returns a command line as records show it: secrets hidden, each word
// and all of them together cut.
func (m *Masker) Command(args []string) []string {
	const maxWord, maxWords, maxAll = 512, 64, 4 << 10
	out := make([]string, 0, min(len(args), maxWords))
	all, hide := 0, false
	for i, a := range args {
		if i == maxWords || all > maxAll {
			return append(out, "…")
		}
		flag, value, has := strings.Cut(a, "=")
		switch isFlag := strings.HasPrefix(a, "-"); {
		case hide && !isFlag:
			a = maskedText
		case has && m.secret(flag) && value != "":
			a = flag + "=" + maskedText
		}
		hide = strings.HasPrefix(a, "-") && !has && m.secret(a)
		a = Clip(m.Text(a), maxWord)
		all += len(a)
		out = append(out, a)
	}
	return out
}

// Arguments returns what a record keeps of the arguments of a call, of whose
// canonical form it shows at most preview bytes.
func (m *Masker) Arguments(raw []byte, preview int) Arguments {
	if len(raw) == 0 {
		return Arguments{}
	}
	a := Arguments{Digest: Digest(raw), Bytes: int64(len(raw))}
	if preview <= 0 {
		return a
	}
	if len(raw) > maxCanonical { // see there
		a.Truncated = true
		return a
	}
	k := &mask{Masker: m}
	c := canonical{mask: k, most: preview}
	c.value(raw, 0)
	a.Masked = k.n
	a.Truncated = len(c.out) > preview
	a.Preview = Clip(string(c.out), preview)
	return a
}

// ToolDigest returns the digest of a tool's definition: of its name, its
// description and its schemas, as [Digest] makes them. Each is the raw JSON
// value, nil where there is none.
func ToolDigest(name, description, input, output []byte) string {
	b := []byte{'{'}
	for _, p := range []struct {
		name string
		raw  []byte
	}{{"description", description}, {"inputSchema", input}, {"name", name}, {"outputSchema", output}} {
		if p.raw == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), p.name...), `":`...)
		b = append(b, p.raw...)
	}
	return Digest(append(b, '}'))
}
