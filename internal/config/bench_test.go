package config

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkLoad is the share of the settings in the start of a bridge, with a file
// of a few keys.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	text := "limits: {wire: 4MiB, queues: 16MiB, calls: 64}\nhelper_output:\n  retain: head_and_tail\ntimeouts:\n  idle: 30s\n  total: 2h\nwedge: restart\n"
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	src := Source{Environ: append(os.Environ(), "PENSTOCK_HOME="+dir)}
	for b.Loop() {
		if _, err := Load(src); err != nil {
			b.Fatal(err)
		}
	}
}
