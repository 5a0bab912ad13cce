package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain\n\ttext, größer, 日本", "plain\n\ttext, größer, 日本"},
		{"\x1b[31mred", `\x1b[31mred`},
		{"over\rwrite\b\x00\x7f", `over\x0dwrite\x08\x00\x7f`},
		{"C1 \u009b31m", `C1 \u009b31m`},
		{"bidi \u202egnp.exe", `bidi \u202egnp.exe`},
		{"hidden \u200b\ufeff", `hidden \u200b\ufeff`},
		{"bytes \xff\xc3", `bytes \xff\xc3`},
		{"replaced \ufffd", "replaced \ufffd"},
	} {
		if got := printable(tt.in); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
		if got := printable(printable(tt.in)); got != tt.want {
			t.Errorf("%q: changed again to %q", tt.in, got)
		}
	}
}

func TestReport(t *testing.T) {
	plain := errors.New("no such thing")
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 0, ""},
		{plain, 1, "penstock: no such thing\n"},
		{withHint(plain, "Look %s.", "again"), 1, "penstock: no such thing\nLook again.\n"},
		{usageError("bad %d", 7), 2, "penstock: bad 7\n"},
		{withHint(&exitError{127, plain}, "Hint."), 127, "penstock: no such thing\nHint.\n"},
		{fmt.Errorf("while trying: %w", &exitError{3, plain}), 3, "penstock: while trying: no such thing\n"},
		{&exitError{code: 9}, 9, ""},
		{errors.New("one\ntwo\x1b"), 1, "penstock: one\npenstock: two\\x1b\n"},
		{withHint(nil, "Hint."), 0, ""},
	} {
		var b bytes.Buffer
		if code := report(&b, tt.err); code != tt.code || b.String() != tt.want {
			t.Errorf("%v: got %d and %q, want %d and %q", tt.err, code, b.String(), tt.code, tt.want)
		}
	}
}
