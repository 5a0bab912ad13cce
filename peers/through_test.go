package peers_test

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestConversations holds each conversation of testdata through the bridge and
// requires every line to arrive as it was sent, byte for byte.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.rec")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".rec"), func(t *testing.T) {
			t.Parallel()
			script := readRecording(t, path)
			dir := t.TempDir()
			atHost, atServer, err := converse(t, script, func(server ...string) []string {
				server = append([]string{self(t), "tee", filepath.Join(dir, "server")}, server...)
				return append([]string{self(t), "tee", filepath.Join(dir, "host")}, through(t, server...)...)
			})
			if err := errors.Join(check(script, atHost, atServer), err); err != nil {
				t.Error(err)
			}
			// The tees must agree with the two ends that know what they sent:
			// the tests with the tag peers rely on them.
			checkTees(t, dir)
		})
	}
}

// TestDeclaredRewrites sends what docs/protocol.md says does not arrive as it
// was sent, and requires exactly what it says arrives instead.
func TestDeclaredRewrites(t *testing.T) {
	t.Parallel()
	bom := "\xef\xbb\xbf"
	steps := []struct {
		up            bool
		sent, arrives string // arrives is empty if it is what was sent
	}{
		{true, bom + `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}` + "\r\n",
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}` + "\n"},
		{false, bom + `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}` + "\r\n",
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}` + "\n"},
		{true, `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n", ""},
		// Line separators are legal in JSON and unchanged toward the server;
		// toward hosts, some of which split lines at them, they are escaped.
		{true, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","arguments":{"x":"` + "\u2028\u2029" + `"}}}` + "\n", ""},
		{false, `{"jsonrpc":"2.0","id":"a","result":{"content":[],"x":"` + "\u2028 \u2029" + `","` + "\u2029" + `":1.0}}` + "\n",
			`{"jsonrpc":"2.0","id":"a","result":{"content":[],"x":"\u2028 \u2029","\u2029":1.0}}` + "\n"},
		// Bytes that are not UTF-8 become U+FFFD both ways.
		{true, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":"` + "a\xffb\xe2\x82" + `"}}}` + "\n",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":"` + "a\ufffdb\ufffd" + `"}}}` + "\n"},
		{false, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + "\xc0\x80 \xed\xa0\x80" + `"}]}}` + "\n",
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + "\ufffd\ufffd \ufffd\ufffd\ufffd" + `"}]}}` + "\n"},
		{false, `{"jsonrpc":"2.0","method":"vendor.example/last","params":{"n":1.0}}` + "\r\n", `{"jsonrpc":"2.0","method":"vendor.example/last","params":{"n":1.0}}` + "\n"},
	}
	var script, want recording
	for _, s := range steps {
		script = append(script, entry{s.up, []byte(s.sent)})
		want = append(want, entry{s.up, []byte(cmp.Or(s.arrives, s.sent))})
	}
	atHost, atServer, err := converse(t, script, func(server ...string) []string { return through(t, server...) })
	if err := errors.Join(check(want, atHost, atServer), err); err != nil {
		t.Error(err)
	}
}

// TestLargeFrames does the same for frames far larger than a pipe holds.
func TestLargeFrames(t *testing.T) {
	t.Parallel()
	filler := func(n int) string {
		const unit = `line \"of\" text, \\ and \u00e9 é 日本 🜂\n `
		return strings.Repeat(unit, n/len(unit)+1)
	}
	script := recording{
		{true, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}` + "\n")},
		{false, []byte(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}` + "\n")},
		{true, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")},
	}
	for i, size := range []int{4 << 10, 64 << 10, 1<<20 + 1, 7 << 20} {
		script = append(script,
			entry{true, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"text":"%s"}}}`+"\n", i+1, filler(size))},
			// The id stands after the result here, and before it there.
			entry{false, fmt.Appendf(nil, `{"result":{"content":[{"type":"text","text":"%s"}],"x":[%s1]},"jsonrpc":"2.0","id":%d}`+"\n", filler(size/2), strings.Repeat("[1.0],", size/16), i+1)})
	}
	atHost, atServer, err := converse(t, script, func(server ...string) []string { return through(t, server...) })
	if err := errors.Join(check(script, atHost, atServer), err); err != nil {
		t.Error(err)
	}
}
