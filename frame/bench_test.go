package frame

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// texts are what the speed depends on. json.Valid is the baseline of each.
var texts = []struct {
	name string
	text []byte
}{
	{"string", []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + strings.Repeat("The quick brown fox jumps. ", 40000) + `"}]}}`)},
	{"lines", []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`src/auth.ts:18: \tif (name == \"x\") {\n`, 25000) + `"}]}}`)},
	{"dense", []byte(`{"jsonrpc":"2.0","id":7,"result":{"items":[` + strings.Repeat(`{"path":"src/auth.ts","line":18,"score":0.5,"tags":["a","b"],"open":true,"next":null},`, 12000) + `{}]}}`)},
	{"numbers", []byte(`{"jsonrpc":"2.0","id":7,"result":[` + strings.Repeat(`1,22,333,-4444,0.55,`, 50000) + `0]}`)},
	{"chinese", []byte(`{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("读取文件，然后写入。", 30000) + `"}}`)},
	{"accents", []byte(`{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("Größe geprüft, à côté du modèle. ", 30000) + `"}}`)},
	{"small", []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/srv/data/report.txt","head":20},"_meta":{"progressToken":"abc"}}}`)},
}

func BenchmarkScanner(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name+"/scanner", func(b *testing.B) {
			b.SetBytes(int64(len(tt.text)))
			b.ReportAllocs()
			var s Scanner
			for b.Loop() {
				s.Reset()
				if s.Feed(tt.text) != nil || s.Finish() != nil {
					b.Fatal("not JSON")
				}
			}
		})
		b.Run(tt.name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(tt.text)))
			b.ReportAllocs()
			for b.Loop() {
				if !json.Valid(tt.text) {
					b.Fatal("not JSON")
				}
			}
		})
	}
}

// repeated yields text for ever, one line at a time or in pieces of chunk.
type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n += c
		if r.at += c; r.at == len(r.text) {
			r.at = 0
		}
	}
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(tt.text) + 1))
			b.ReportAllocs()
			r := NewReader(&repeated{text: append(bytes.Clone(tt.text), '\n')}, Options{})
			for b.Loop() {
				if f, err := r.Next(); err != nil || f.Type != Message {
					b.Fatal(f.Reason, err)
				}
			}
		})
	}
}

func BenchmarkMembers(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(tt.text)))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for range Members(tt.text) {
					n++
				}
				if n < 3 {
					b.Fatal(n)
				}
			}
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(tt.text) + 1))
			b.ReportAllocs()
			w := NewWriter(io.Discard)
			for b.Loop() {
				if err := w.WriteFrame(tt.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
