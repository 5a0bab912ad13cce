package frame_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/penstock-dev/penstock/frame"
)

// events returns what a Reader makes of r, one line an event, and its end.
func events(r io.Reader, o frame.Options) ([]string, error) {
	fr := frame.NewReader(r, o)
	var out []string
	for {
		f, err := fr.Next()
		if err != nil {
			return out, err
		}
		switch f.Type {
		case frame.Message:
			out = append(out, "message "+string(f.Data))
		case frame.Violation:
			out = append(out, fmt.Sprintf("violation %q id=%s reply=%t size=%d (%s)", f.Data, f.ID, f.Reply, f.Size, f.Reason))
		case frame.Oversize:
			out = append(out, "oversize") // how much it knows depends on the pieces
		case frame.OversizeEnd:
			out = append(out, fmt.Sprintf("end id=%s method=%s reply=%t size=%d (%s)", f.ID, f.Method, f.Reply, f.Size, f.Reason))
		}
	}
}

const ping = `{"jsonrpc":"2.0","id":8,"method":"ping"}`

func TestReaderLines(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"request", ping + "\n", []string{"message " + ping}},
		{"no LF at the end", ping, []string{"message " + ping}},
		{"cut at the end", ping[:20], []string{`violation "{\"jsonrpc\":\"2.0\",\"id" id= reply=false size=20 (not JSON: unexpected end)`}},
		{"CRLF, blank lines, mark", "\xEF\xBB\xBF" + ping + "\r\n\n \t\r\n\r\n" + ping + "\n", []string{"message " + ping, "message " + ping}},
		{"R05", "starting\n\n\x1b[32m┌──┐\x1b[0m\n" + ping + "\n", []string{
			`violation "starting" id= reply=false size=8 (not JSON: value expected)`,
			`violation "\x1b[32m┌──┐\x1b[0m" id= reply=false size=21 (not JSON: value expected)`,
			"message " + ping}},
		{"R07 host", "{bad json\n" + ping + "\n", []string{
			`violation "{bad json" id= reply=false size=9 (not JSON: name expected)`, "message " + ping}},
		{"R07 server", `{"jsonrpc":"2.0","id":1,"result":{"a":}}` + "\n" + ping + "\n", []string{
			`violation "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":}}" id=1 reply=true size=40 (not JSON: value expected)`, "message " + ping}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(tt.in), "bytes": iotest.OneByteReader(strings.NewReader(tt.in)),
				"halves": iotest.HalfReader(strings.NewReader(tt.in)), "data with error": iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := events(r, frame.Options{})
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: err = %v", name, err)
				}
				if g, w := strings.Join(got, "\n"), strings.Join(tt.want, "\n"); g != w {
					t.Errorf("%s:\n got %s\nwant %s", name, g, w)
				}
			}
		})
	}
}
