package main

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable returns s with everything that could steer a terminal escaped:
// control characters except newline and tab, bytes that are not UTF-8, and
// the invisible formatting characters that can reorder text on the screen.
func printable(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == utf8.RuneError || !unsafeRune(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// unsafeRune reports U+FFFD too, which also stands for what is not UTF-8.
func unsafeRune(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == utf8.RuneError
}

// palette colours words where the reader can see it, and nowhere else.
type palette bool

// colours returns the palette for a file: none off a terminal, none if
// NO_COLOR is set to anything (no-color.org), none on a dumb terminal.
func colours(env *environment, f *os.File) palette {
	return palette(isTerminal(f) && env.lookup("NO_COLOR") == "" && env.lookup("TERM") != "dumb")
}

func (p palette) red(s string) string    { return p.paint("31", s) }
func (p palette) green(s string) string  { return p.paint("32", s) }
func (p palette) yellow(s string) string { return p.paint("33", s) }

func (p palette) paint(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
