package config

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Size
	}{
		{"0", 0}, {"1", 1}, {"16384", 16384}, {"64KiB", 64 << 10}, {"8MiB", 8 << 20}, {"4GiB", 4 << 30}, {"2TiB", 2 << 40},
		{"off", Off}, {"9223372036854775807", 1<<63 - 1}, {"8388607TiB", 8388607 << 40},
	} {
		if got, err := ParseSize(tt.text); err != nil || got != tt.want {
			t.Errorf("%q: got %d, %v, want %d", tt.text, got, err, tt.want)
		}
		if s := tt.want.String(); s != tt.text && tt.text != "16384" {
			t.Errorf("%d is shown as %s, want %s", tt.want, s, tt.text)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"", `"" is not a size`},
		{"8MB", `"8MB" is not a size, write 8MiB`},
		{"8mb", `"8mb" is not a size, write 8MiB`},
		{"8M", `"8M" is not a size, write 8MiB`},
		{"8 MiB", `"8 MiB" is not a size, write 8MiB`},
		{"8mib", `"8mib" is not a size, write 8MiB`},
		{"8g", `"8g" is not a size, write 8GiB`},
		{"100 bytes", `"100 bytes" is not a size, write 100`},
		{"OFF", `"OFF" is not a size`},
		{"MiB", `"MiB" is not a size`},
		{"-1", `"-1" is not a size`},
		{"+1", `"+1" is not a size`},
		{"1.5MiB", `"1.5MiB" is not a size`},
		{"0x10", `"0x10" is not a size`},
		{"1_000", `"1_000" is not a size`},
		{"010", `"010" is not a size`},
		{"9223372036854775808", `"9223372036854775808" is not a size`},
		{"8388608TiB", `"8388608TiB" is too large`},
		{"٣MiB", `"٣MiB" is not a size`},
	} {
		if got, err := ParseSize(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %d, %v, want %s", tt.text, got, err, tt.want)
		}
	}
	var s Size = 7
	if err := s.Set("x"); err == nil || s != 7 {
		t.Errorf("a refused text changed the size to %d (%v)", s, err)
	}
	if err := s.Set("1KiB"); err != nil || s != 1024 {
		t.Errorf("got %d, %v", s, err)
	}
}

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		text  string
		want  time.Duration
		shown string
	}{
		{"0s", 0, "0s"}, {"30s", 30 * time.Second, "30s"}, {"1h", time.Hour, "1h"}, {"1h30m", 90 * time.Minute, "1h30m"},
		{"90s", 90 * time.Second, "1m30s"}, {"1.5s", 1500 * time.Millisecond, "1.5s"}, {"10m", 10 * time.Minute, "10m"},
		{"500ms", 500 * time.Millisecond, "500ms"}, {"1h0m1s", time.Hour + time.Second, "1h0m1s"}, {"20h", 20 * time.Hour, "20h"},
	} {
		got, err := ParseDuration(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q: got %v, %v", tt.text, got, err)
		}
		if s := FormatDuration(got); s != tt.shown {
			t.Errorf("%q is shown as %s, want %s", tt.text, s, tt.shown)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"", `"" is not a duration`},
		{"0", `"0" is not a duration, write 0s`},
		{"30", `"30" is not a duration, write 30s`},
		{"1d", `"1d" is not a duration, write 24h`},
		{"-1s", `"-1s" is not a duration`},
		{"1 h", `"1 h" is not a duration`},
		{"99999999h", `"99999999h" is not a duration`},
		{"soon", `"soon" is not a duration`},
	} {
		if got, err := ParseDuration(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
	}{{"0", 0}, {"5", 5 * time.Second}, {"1.5", 1500 * time.Millisecond}, {"0.25", 250 * time.Millisecond}, {"2.125", 2125 * time.Millisecond}} {
		got, err := parseSeconds(tt.text)
		if err != nil || time.Duration(got) != tt.want {
			t.Errorf("%q: got %v, %v", tt.text, got, err)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"5s", `"5s" is not a number of seconds, write 5`},
		{"1500ms", `"1500ms" is not a number of seconds, write 1.5`},
		{"1.", `"1." is not a number of seconds`},
		{".5", `".5" is not a number of seconds`},
		{"1.0001", `"1.0001" is not a number of seconds`},
		{"1e3", `"1e3" is not a number of seconds`},
		{"-1", `"-1" is not a number of seconds`},
		{"9223372036854775807", `"9223372036854775807" is not a number of seconds`},
	} {
		if got, err := parseSeconds(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

// TestRange checks the edges of every key, in the form that its kind has.
func TestRange(t *testing.T) {
	for _, k := range Keys() {
		if k.Kind == Word {
			if k.Check("") == nil || k.Check(k.Words[0]) != nil {
				t.Errorf("%s: wrong about its words", k.Path)
			}
			continue
		}
		step := int64(1)
		if k.Kind == Seconds {
			step = int64(time.Millisecond)
		}
		for _, tt := range []struct {
			num int64
			ok  bool
		}{{k.Min - step, k.Min == step && k.Zero != ""}, {k.Min, true}, {k.Min + step, true}, {k.Max - step, true}, {k.Max, true}, {k.Max + step, false}} {
			if tt.num < 0 {
				continue // has no form
			}
			if err := k.Check(k.format(value{num: tt.num})); (err == nil) != tt.ok {
				t.Errorf("%s: %s: %v", k.Path, k.format(value{num: tt.num}), err)
			}
		}
		if err := k.Check(k.format(value{})); (err == nil) != (k.Zero != "" || k.Min == 0) {
			t.Errorf("%s: zero: %v", k.Path, err)
		}
	}
}
