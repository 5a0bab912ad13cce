package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, or [Off]. *Size has the methods that flag
// packages ask of a value: String, Set and Type.
type Size int64

// Off is the size of a limit that is switched off.
const Off Size = -1

var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}}

// ParseSize reads a whole number of bytes, or of KiB, MiB, GiB or TiB written
// without a space, or off.
func ParseSize(text string) (Size, error) {
	if text == "off" {
		return Off, nil
	}
	digits, unit := text, int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = d, u.bytes
			break
		}
	}
	n, err := parseWhole(digits)
	if err == nil && n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%s is too large", quote(text))
	}
	if err != nil {
		return 0, fmt.Errorf("%s is not a size%s", quote(text), sizeHint(text))
	}
	return Size(n * unit), nil
}

// sizeHint corrects the usual ways to write a size. 8MB is not accepted,
// since it means two things.
func sizeHint(text string) string {
	digits := strings.TrimLeft(text, "0123456789")
	digits, unit := text[:len(text)-len(digits)], strings.ToLower(strings.TrimSpace(digits))
	if _, err := parseWhole(digits); err != nil {
		return ""
	}
	if unit == "b" || unit == "bytes" {
		return ", write " + digits
	}
	for _, u := range units {
		long := strings.ToLower(u.name)
		if unit == long || unit == long[:1] || unit == long[:1]+"b" {
			return ", write " + digits + u.name
		}
	}
	return ""
}

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	if s == Off {
		return "off"
	}
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Set sets *s to what [ParseSize] reads.
func (s *Size) Set(text string) error {
	size, err := ParseSize(text)
	if err == nil {
		*s = size
	}
	return err
}

// Type returns "size", which help texts show.
func (s *Size) Type() string { return string(Bytes) }

// ParseDuration reads a duration with units, such as 30s, 1h or 1h30m. It is
// never negative.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d >= 0 && strings.Trim(text, "0123456789.") != "" {
		return d, nil
	}
	hint := ""
	if n, err := parseWhole(text); err == nil {
		hint = fmt.Sprintf(", write %ds", n)
	} else if n, err := parseWhole(strings.TrimSuffix(text, "d")); err == nil && n <= 1000 {
		hint = fmt.Sprintf(", write %dh", 24*n)
	}
	return 0, fmt.Errorf("%s is not a duration%s", quote(text), hint)
}

// FormatDuration returns d as [ParseDuration] reads it, without the zero
// parts that time.Duration shows: 1h, not 1h0m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseSeconds reads a decimal number of seconds, to the millisecond.
func parseSeconds(text string) (int64, error) {
	whole, frac, point := strings.Cut(text, ".")
	n, err := parseWhole(whole)
	if err != nil || n > math.MaxInt64/int64(2*time.Second) || point && (frac == "" || len(frac) > 3 || strings.Trim(frac, "0123456789") != "") {
		hint := ""
		if d, err := ParseDuration(text); err == nil && d%time.Millisecond == 0 {
			hint = ", write " + strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		}
		return 0, fmt.Errorf("%s is not a number of seconds%s", quote(text), hint)
	}
	millis, _ := strconv.ParseInt((frac + "000")[:3], 10, 64)
	return n*int64(time.Second) + millis*int64(time.Millisecond), nil
}

var errWhole = errors.New("not a whole number")

// parseWhole reads decimal digits and nothing else. A leading zero is refused,
// since YAML has read it as octal and as decimal over time.
func parseWhole(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" || len(text) > 1 && text[0] == '0' {
		return 0, fmt.Errorf("%s is %w", quote(text), errWhole)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", quote(text))
	}
	return n, nil
}

// quote shows a piece of input, with a bound.
func quote(text string) string {
	const most = 64
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "…"
	}
	return strconv.Quote(text)
}

// Approx returns the size for people, in MiB with two decimals.
func (s Size) Approx() string { return fmt.Sprintf("%.2f MiB", float64(s)/mib) }
