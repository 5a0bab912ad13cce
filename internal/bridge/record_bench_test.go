package bridge

import (
	"bufio"
	"io"
	"os"
	"testing"

	"github.com/penstock-dev/penstock/internal/hostile"
	"github.com/penstock-dev/penstock/internal/link"
)

// sink takes every record at once.
type sink struct{ done chan struct{} }

func (s sink) Record([]byte, Class, Level) Receipt { return &receipt{done: s.done} }

// BenchmarkCall is one call through a session, without and with the making of
// its records; where they go is not part of it.
func BenchmarkCall(b *testing.B) {
	for _, recorded := range []bool{false, true} {
		name := "unrecorded"
		if recorded {
			name = "recorded"
		}
		b.Run(name, func(b *testing.B) {
			c := config(hostile.Command("echo"))
			if recorded {
				done := make(chan struct{})
				close(done)
				c.Recorder = func(string, *link.Client) Recorder { return sink{done} }
			}
			inR, inW, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			outR, outW, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			s := New(c, inR, outW, io.Discard)
			ended := make(chan struct{})
			go func() {
				s.Run(b.Context())
				close(ended)
			}()
			lines := bufio.NewReader(outR)
			ask := func(line string) {
				if _, err := io.WriteString(inW, line+"\n"); err != nil {
					b.Fatal(err)
				}
				if _, err := lines.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
			ask(initialize("0"))
			b.ReportAllocs()
			for b.Loop() {
				ask(toolCall("1", "echo", `{"text":"hello","path":"/srv/data/file.txt"}`))
			}
			inW.Close()
			<-ended
			outR.Close()
		})
	}
}
