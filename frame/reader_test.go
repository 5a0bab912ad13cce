package frame_test

import (
	"errors"
	"fmt"
	"io"
	"os"
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
			if _, again := fr.Next(); again != err {
				return out, fmt.Errorf("%w, then %w", err, again)
			}
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

// readers are ways in which one text may arrive.
func readers(in string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)),
		"halves": iotest.HalfReader(strings.NewReader(in)), "data with error": iotest.DataErrReader(strings.NewReader(in)),
		"fifties": &pieces{[]byte(in), 50},
	}
}

type lineTest struct {
	name, in string
	want     []string
}

func testLines(t *testing.T, o frame.Options, end error, tests []lineTest) {
	t.Helper()
	for _, tt := range tests {
		for name, r := range readers(tt.in) {
			got, err := events(r, o)
			if err != end {
				t.Errorf("%s, %s: err = %v, want %v", tt.name, name, err, end)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(tt.want, "\n"); g != w {
				t.Errorf("%s, %s:\n got %s\nwant %s", tt.name, name, g, w)
			}
		}
	}
}

const ping = `{"jsonrpc":"2.0","id":8,"method":"ping"}`

func TestReaderLines(t *testing.T) {
	testLines(t, frame.Options{}, io.EOF, []lineTest{
		{"nothing", "", nil},
		{"request", ping + "\n", []string{"message " + ping}},
		{"no LF at the end", ping, []string{"message " + ping}},
		{"cut at the end", ping[:20], []string{`violation "{\"jsonrpc\":\"2.0\",\"id" id= reply=false size=20 (not JSON: unexpected end)`}},
		{"CRLF, blank lines, mark", "\xEF\xBB\xBF" + ping + "\r\n\n \t\r\n\r\n" + ping + "\n", []string{"message " + ping, "message " + ping}},
		{"mark alone", "\xEF\xBB\xBF", nil},
		{"half a mark", "\xEF\xBB\n" + ping, []string{`violation "\xef\xbb" id= reply=false size=2 (not JSON: value expected)`, "message " + ping}},
		{"white space around", " " + ping + "\t \r\n", []string{"message  " + ping + "\t "}},
		{"batch", "[" + ping + "," + ping + "]\n[]\n", []string{"message [" + ping + "," + ping + "]", "message []"}},
		{"R05", "starting\n\n\x1b[32m┌──┐\x1b[0m\n" + ping + "\n", []string{
			`violation "starting" id= reply=false size=8 (not JSON: value expected)`,
			`violation "\x1b[32m┌──┐\x1b[0m" id= reply=false size=21 (not JSON: value expected)`,
			"message " + ping}},
		{"R07 host", "{bad json\n" + ping + "\n", []string{
			`violation "{bad json" id= reply=false size=9 (not JSON: name expected)`, "message " + ping}},
		{"R07 pretty-printed", "{\n\"id\": 3\n}\n" + ping + "\n", []string{
			`violation "{" id= reply=false size=1 (not JSON: unexpected end)`,
			`violation "\"id\": 3" id= reply=false size=7 (not JSON: text after the value)`,
			`violation "}" id= reply=false size=1 (not JSON: value expected)`, "message " + ping}},
		{"R13", `{"jsonrpc":"2.0","id":9223372036854775807,"result":{"f":1.0,"e":1e400,"n":9007199254740993}}` + "\n" + `{"jsonrpc":"2.0","id":4,"result":NaN}` + "\n", []string{
			`message {"jsonrpc":"2.0","id":9223372036854775807,"result":{"f":1.0,"e":1e400,"n":9007199254740993}}`,
			`violation "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":NaN}" id=4 reply=true size=37 (not JSON: value expected)`}},
		{"R11: escapes pass", `{"jsonrpc":"2.0","id":1,"result":"a \ud83d b \ude00\ud83d \ud83d\ude00"}`, []string{
			`message {"jsonrpc":"2.0","id":1,"result":"a \ud83d b \ude00\ud83d \ud83d\ude00"}`}},
		{"long noise", strings.Repeat("x", 600) + "\n", []string{
			fmt.Sprintf("violation %q id= reply=false size=600 (not JSON: value expected)", strings.Repeat("x", 512))}},
	})
}

// TestSalvage: a broken line tells which call waits for it.
func TestSalvage(t *testing.T) {
	answer := `{"jsonrpc":"2.0","id":7,"result":{"a":[1]}}`
	long := strings.Repeat("y", 1023)
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":}}`:              "7 true",
		"log text " + answer:                                    "7 true",
		"log {text} {} " + answer:                               "7 true",
		`{"level":"info","ctx":{"id":3}} ` + answer:             "7 true",
		`{"msg":{"jsonrpc":"2.0","id":3,"result":1}} ` + answer: "7 true", // quoted
		answer + answer:                                         "7 true",
		answer + " trailing":                                    "7 true",
		answer[:len(answer)-3]:                                  "7 true",
		`log {"result":{"x":1},"jsonrpc":"2.0","id":"a"}`:       `"a" true`,
		`log {"jsonrpc":"2.0","id":7,"error":{"code":1}`:        "7 true",
		`{"jsonrpc":"2.0","id":7,"method":"x",}`:                "7 false",
		`log ` + ping + " " + answer:                            "7 true",
		`log ` + ping:                                           "8 false",
		`log {"id":7,"result":{}}`:                              " false", // no jsonrpc: a quotation, not a message
		`{"id":7,"result":}`:                                    "7 true",
		`{"id":7,"msg":"x"`:                                     " false",
		`{"jsonrpc":"2.0","id":7`:                               " false", // may be 77
		`{"jsonrpc":"2.0","id":null,"result":}`:                 " false",
		`x {"jsonrpc":"2.0","id":"` + long + `","result":1}`:    " false",
		"[" + answer + ",":                                      "7 true",
		strings.Repeat("{", 15) + answer:                        "7 true",
		strings.Repeat("{", 16) + answer:                        " false", // bounded
	} {
		r := frame.NewReader(strings.NewReader(in+"\n"), frame.Options{})
		f, err := r.Next()
		if err != nil || f.Type != frame.Violation {
			t.Errorf("%.80s: type %d, %v", in, f.Type, err)
		}
		if got := fmt.Sprintf("%s %t", f.ID, f.Reply); got != want {
			t.Errorf("%.80s: got %s, want %s", in, got, want)
		}
	}
}

// TestSalvageMore: each answer on a broken line is named.
func TestSalvageMore(t *testing.T) {
	answer := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
	for in, want := range map[string]string{
		answer("7") + answer(`"8"`) + answer("9"):                 `7 ["8" 9]`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":` + answer("8"):    "7 [8]",
		answer("7") + answer("7"):                                 "7 []",
		"log " + answer("7") + " and " + answer("8") + " to boot": "7 [8]",
		ping + answer("7"):                                        "7 []",
	} {
		r := frame.NewReader(strings.NewReader(in+"\n"), frame.Options{})
		f, err := r.Next()
		if got := fmt.Sprintf("%s %s", f.ID, f.More); err != nil || got != want || !f.Reply {
			t.Errorf("%s: got %s, want %s (%v)", in, got, want, err)
		}
	}
}

// TestJudge: hosts end the connection over some of these.
func TestJudge(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"m"}`:                                 "",
		`{"jsonrpc":"2.0","method":"m","id":""}`:                         "",
		`{"jsonrpc":"2.0","id":0,"result":null}`:                         "",
		`{"jsonrpc":"2.0","id":-1.5,"result":1}`:                         "",
		`{"jsonrpc":"\u0032.0","id":"x","error":{}}`:                     "",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`: "",
		`{"jsonrpc":"2.0","id":1,"id":2,"result":1}`:                     "",
		`[]`:                                   "",
		`"x"`:                                  "neither object nor batch",
		`7`:                                    "neither object nor batch",
		`{}`:                                   "no jsonrpc 2.0",
		`{"id":1,"result":1}`:                  "no jsonrpc 2.0",
		`{"jsonrpc":"1.0","id":1,"result":1}`:  "no jsonrpc 2.0",
		`{"jsonrpc":2.0,"id":1,"result":1}`:    "no jsonrpc 2.0",
		`{"jsonrpc":"2.0 ","id":1,"result":1}`: "no jsonrpc 2.0",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`:           "id is null",
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:                      "id is null",
		`{"jsonrpc":"2.0","id":[1],"method":"m"}`:                       "id is neither string nor number",
		`{"jsonrpc":"2.0","id":true,"result":1}`:                        "id is neither string nor number",
		`{"jsonrpc":"2.0","id":1,"method":null}`:                        "method is no string",
		`{"jsonrpc":"2.0","id":1,"method":"m","result":1}`:              "method beside result or error",
		`{"jsonrpc":"2.0","id":1}`:                                      "neither method nor result",
		`{"jsonrpc":"2.0"}`:                                             "neither method nor result",
		`{"jsonrpc":"2.0","result":1}`:                                  "response without id",
		`{"jsonrpc":"2.0","error":{"code":-32600}}`:                     "response without id",
		`{"jsonrpc":"2.0","id":1,"result":1,"error":null}`:              "both result and error",
		`{"jsonrpc":"2.0","id":1,"error":"boom"}`:                       "malformed error",
		`{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}`:                 "malformed error",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5}}`:                 "malformed error",
		`{"jsonrpc":"2.0","id":1,"error":{"code":9223372036854775808}}`: "malformed error",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}`:    "malformed error",
	} {
		r := frame.NewReader(strings.NewReader(in+"\n"), frame.Options{})
		f, err := r.Next()
		typ := frame.Message
		if want != "" {
			typ = frame.Violation
		}
		if err != nil || f.Type != typ || f.Reason != want {
			t.Errorf("%s: type %d, %q (%v), want %q", in, f.Type, f.Reason, err, want)
		}
		if f.Type == frame.Violation && f.ID != nil && string(f.ID) != "1" {
			t.Errorf("%s: id %s", in, f.ID)
		}
	}
}

// padded returns a request of n bytes.
func padded(n int) string {
	const a, z = `{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"`, `"}}`
	return a + strings.Repeat("y", n-len(a)-len(z)) + z
}

func TestReaderLimit(t *testing.T) {
	for _, limit := range []int{100, 5000, chunk - 1, chunk, chunk + 1, 3 * chunk, 1 << 20} {
		o := frame.Options{Limit: limit}
		over := func(n int) []string {
			return []string{"oversize", fmt.Sprintf("end id=7 method=m reply=false size=%d ()", n)}
		}
		after := "message " + ping
		var tests []lineTest
		for _, ending := range []string{"\n", "\r\n"} {
			tests = append(tests,
				lineTest{"n-1", padded(limit-1) + ending + ping + "\n", []string{"message " + padded(limit-1), after}},
				lineTest{"n", padded(limit) + ending + ping + "\n", []string{"message " + padded(limit), after}},
				lineTest{"n+1", padded(limit+1) + ending + ping + "\n", append(over(limit+len(ending)), after)},
				lineTest{"2n", padded(2*limit) + ending + ping + "\n", append(over(2*limit+len(ending)-1), after)},
				lineTest{"twice", padded(limit) + ending + padded(limit+1) + ending + padded(limit) + ending,
					append([]string{"message " + padded(limit)}, append(over(limit+len(ending)), "message "+padded(limit))...)},
			)
		}
		tests = append(tests,
			lineTest{"n at the end", padded(limit), []string{"message " + padded(limit)}},
			lineTest{"n+1 at the end", padded(limit + 1), over(limit + 1)},
			lineTest{"CR is no ending", padded(limit) + "\r \n" + ping, append(over(limit+2), after)},
			lineTest{"with a mark", "\xEF\xBB\xBF" + padded(limit) + "\n", []string{"message " + padded(limit)}},
		)
		if limit > chunk {
			for i := range tests { // byte at a time is for the small ones
				got, err := events(strings.NewReader(tests[i].in), o)
				if err != io.EOF || strings.Join(got, "\n") != strings.Join(tests[i].want, "\n") {
					t.Errorf("limit %d, %s: %d events, %v", limit, tests[i].name, len(got), err)
				}
			}
			continue
		}
		testLines(t, o, io.EOF, tests)
	}
}

const chunk = 64 << 10

func TestReaderOversize(t *testing.T) {
	fill := strings.Repeat(`"}{][\\\"`, 30)
	fill = `"` + strings.ReplaceAll(fill, `"}`, `\"}`) + `"`
	testLines(t, frame.Options{Limit: 120}, io.EOF, []lineTest{
		{"id last", `{"result":[` + fill + `,{"id":1}],"jsonrpc":"2.0","id":7}` + "\n" + ping, []string{
			"oversize", fmt.Sprintf("end id=7 method= reply=true size=%d ()", len(fill)+45), "message " + ping}},
		{"escaped names", `{"jsonrpc":"2.0","\u0069d":"x","p\u0061rams":[` + fill + `],"m\u0065thod":"a\u002fb"}` + "\n", []string{
			"oversize", fmt.Sprintf(`end id="x" method=a/b reply=false size=%d ()`, len(fill)+73)}},
		{"notification", `{"jsonrpc":"2.0","method":"n","params":` + fill + "}\n", []string{
			"oversize", fmt.Sprintf("end id= method=n reply=false size=%d ()", len(fill)+40)}},
		{"batch", `[` + ping + `,` + fill + "]\n", []string{"oversize", fmt.Sprintf("end id= method= reply=false size=%d ()", len(fill)+len(ping)+3)}},
		{"broken later", `{"jsonrpc":"2.0","id":7,"result":[` + fill + `,}` + "\n" + ping, []string{
			"oversize", fmt.Sprintf("end id=7 method= reply=true size=%d (not JSON: value expected)", len(fill)+36), "message " + ping}},
		{"cut", `{"jsonrpc":"2.0","id":7,"result":[` + fill, []string{
			"oversize", fmt.Sprintf("end id=7 method= reply=true size=%d (not JSON: unexpected end)", len(fill)+34)}},
		{"text in front", `log {"jsonrpc":"2.0","id":7,"result":[` + fill + `]}` + "\n", []string{
			"oversize", fmt.Sprintf("end id=7 method= reply=true size=%d (not JSON: value expected)", len(fill)+40)}},
		{"noise", strings.Repeat("x", 300) + "\n" + ping, []string{
			"oversize", "end id= method= reply=false size=300 (not JSON: value expected)", "message " + ping}},
		{"white space", strings.Repeat(" ", 300) + "\n" + ping, []string{
			"oversize", "end id= method= reply=false size=300 (not JSON: unexpected end)", "message " + ping}},
	})
}

// TestOversizeComesEarly: the call must not wait for the end of its frame.
func TestOversizeComesEarly(t *testing.T) {
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	defer pw.Close()
	r := frame.NewReader(pr, frame.Options{Limit: 100})
	next := func(write string, want frame.Frame) {
		t.Helper()
		if _, err := pw.WriteString(write); err != nil {
			t.Fatal(err)
		}
		f, err := r.Next()
		if err != nil || f.Type != want.Type || string(f.ID) != string(want.ID) || f.Method != want.Method || f.Reply != want.Reply || f.Size != want.Size {
			t.Errorf("got %+v, %v, want %+v", f, err, want)
		}
	}
	y := strings.Repeat("y", 200)
	next(`{"jsonrpc":"2.0","id":7,"x":"`+y+`","result":`, frame.Frame{Type: frame.Oversize, ID: []byte("7"), Reply: true, Size: 240})
	next("0}\n", frame.Frame{Type: frame.OversizeEnd, ID: []byte("7"), Reply: true, Size: 242})
	next(`{"jsonrpc":"2.0","method":"m","params":"`+y+`","id":"a"`, frame.Frame{Type: frame.Oversize, ID: []byte(`"a"`), Method: "m", Size: 250})
	next("}\n", frame.Frame{Type: frame.OversizeEnd, ID: []byte(`"a"`), Method: "m", Size: 251})
	next(`{"jsonrpc":"2.0","result":[`+y, frame.Frame{Type: frame.Oversize, Reply: true, Size: 227}) // broken, so nothing more is to come
	next(`{"jsonrpc":"2.0","id":7,"result":1}`+"\n"+ping+"\n", frame.Frame{Type: frame.OversizeEnd, Reply: true, Size: 262})
	next("", frame.Frame{Type: frame.Message, Size: int64(len(ping))})
}

// TestOversizeIsIdentified: an id alone does not tell a request from an answer.
func TestOversizeIsIdentified(t *testing.T) {
	y := strings.Repeat("y", 200)
	for _, tt := range []struct{ before, after string }{
		{`{"jsonrpc":"2.0","id":7,"x":"` + y + `","result"`, `:1}`},
		{`{"jsonrpc":"2.0","error":{"message":"` + y + `"},"id":7,`, `"x":1}`}, // a number ends with what follows
		{`{"jsonrpc":"2.0","id":7,"params":"` + y + `","method":"m"`, `}`},
		{`{"jsonrpc":"2.0","params":"` + y + `","method":"m"}`, "\n"}, // never to be known
		{`{"jsonrpc":"2.0","params":"` + y + `"x`, `}`},
	} {
		r := frame.NewReader(iotest.OneByteReader(strings.NewReader(tt.before+tt.after)), frame.Options{Limit: 100})
		f, err := r.Next()
		if err != nil || f.Type != frame.Oversize || f.Size != int64(len(tt.before)) {
			t.Errorf("%s: told at %d (%v), want %d", tt.before, f.Size, err, len(tt.before))
		}
	}
}

func TestReaderEnds(t *testing.T) {
	boom := errors.New("boom")
	over := `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("y", 200)
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{ping + "\n", []string{"message " + ping}},
		{ping, []string{"message " + ping}},
		{ping[:5], []string{`violation "{\"jso" id= reply=false size=5 (not JSON: unexpected end)`}},
		{over, []string{"oversize", "end id=7 method= reply=true size=234 (not JSON: unexpected end)"}},
	} {
		got, err := events(io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(boom)), frame.Options{Limit: 100})
		if !errors.Is(err, boom) || strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%q: got %q, %v", tt.in, got, err)
		}
	}
	if _, err := events(stuck{}, frame.Options{}); err != io.ErrNoProgress {
		t.Errorf("a reader that reads nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestNoiseEnds(t *testing.T) {
	noise := func(n int) string { return strings.Repeat("123456789\n", n) } // 10 bytes each
	line := `violation "123456789" id= reply=false size=9 (neither object nor batch)`
	testLines(t, frame.Options{Noise: 30}, io.EOF, []lineTest{
		{"as much as may be", noise(3) + ping + "\n" + noise(3), []string{line, line, line, "message " + ping, line, line, line}},
	})
	testLines(t, frame.Options{Noise: 30}, frame.ErrNoise, []lineTest{
		{"one more", noise(4) + ping + "\n", []string{line, line, line, line}},
		{"blank lines", strings.Repeat("\n", 31) + ping + "\n", nil},
	})
	// A line over the limit is noise from where it stops being JSON.
	testLines(t, frame.Options{Noise: 30, Limit: 50}, io.EOF, []lineTest{
		{"large", padded(500) + "\n", []string{"oversize", "end id=7 method=m reply=false size=500 ()"}},
		{"broken late", padded(500) + strings.Repeat("x", 30) + "\n", []string{"oversize", "end id=7 method=m reply=false size=530 (not JSON: text after the value)"}},
		{"large clears", noise(3) + padded(500) + "\n" + noise(3), []string{line, line, line, "oversize", "end id=7 method=m reply=false size=500 ()", line, line, line}},
	})
	for _, in := range []string{padded(500) + strings.Repeat("x", 31) + "\n" + ping, strings.Repeat("x", 500), strings.Repeat(" ", 500) + "\n" + ping} {
		for name, r := range readers(in) {
			if got, err := events(r, frame.Options{Noise: 30, Limit: 50}); err != frame.ErrNoise || len(got) != 2 {
				t.Errorf("%.20q, %s: %q, %v", in, name, got, err)
			}
		}
	}
}

func TestRunawayEnds(t *testing.T) {
	o := frame.Options{Limit: 100, Discard: 1000}
	testLines(t, o, io.EOF, []lineTest{
		{"as much as may be", padded(1000) + "\n" + ping, []string{"oversize", "end id=7 method=m reply=false size=1000 ()", "message " + ping}},
	})
	for name, r := range readers(padded(1001) + "\n" + ping) {
		if got, err := events(r, o); err != frame.ErrRunaway || len(got) != 2 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestRewrite(t *testing.T) {
	const a, z = `{"jsonrpc":"2.0","id":7,"result":"`, `"}`
	seps := frame.Options{EscapeSeparators: true}
	testLines(t, frame.Options{}, io.EOF, []lineTest{
		{"invalid UTF-8", a + "x\xffy\xe2\x80" + z + "\n" + ping + "\n", []string{"message " + a + "x\ufffdy\ufffd" + z, "message " + ping}},
		{"no longer", a + "\xf0\x9f\x8e" + z + "\r\n" + ping, []string{"message " + a + "\ufffd" + z, "message " + ping}},
		{"separators stay", a + "\u2028\u2029" + z, []string{"message " + a + "\u2028\u2029" + z}},
		{"outside a string", "{\xff}\n" + ping, []string{`violation "{\xff}" id= reply=false size=3 (not JSON: name expected)`, "message " + ping}},
	})
	testLines(t, seps, io.EOF, []lineTest{
		{"separators", a + "\u2028x\u2029\xff\u2027" + z + "\n" + ping, []string{"message " + a + `\u2028x\u2029` + "\ufffd\u2027" + z, "message " + ping}},
		{"in a name", `{"jsonrpc":"2.0","id":7,"` + "\u2028\xff" + `":1,"result":` + "1}\n", []string{`message {"jsonrpc":"2.0","id":7,"\u2028` + "\ufffd" + `":1,"result":1}`}},
	})

	// The limit holds for what comes out.
	text := a + strings.Repeat("\xff", 20) + "\u2028" + z
	n := len(text) + 40 + 3
	clean := a + strings.Repeat("\ufffd", 20) + `\u2028` + z
	for limit, want := range map[int][]string{
		n - 1: {"oversize", fmt.Sprintf("end id=7 method= reply=true size=%d ()", len(text)), "message " + ping},
		n:     {"message " + clean, "message " + ping},
		n + 1: {"message " + clean, "message " + ping},
	} {
		testLines(t, frame.Options{Limit: limit, EscapeSeparators: true}, io.EOF, []lineTest{{"limit", text + "\n" + ping, want}})
	}

	// Room must be made in a full buffer, which holds the next line too.
	for pad := chunk - 300; pad < chunk+300; pad += 7 {
		body := strings.Repeat("y", pad)
		in := a + body + strings.Repeat("\xff", 40) + z + "\n" + ping + "\n" + ping + "\n"
		got, err := events(strings.NewReader(in), frame.Options{})
		want := []string{"message " + a + body + strings.Repeat("\ufffd", 40) + z, "message " + ping, "message " + ping}
		if err != io.EOF || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("padding %d: %d events, %v", pad, len(got), err)
		}
	}

	r := frame.NewReader(strings.NewReader(a+"\xff"+z), seps)
	f, err := r.Next()
	if err != nil || f.Head.Replaced != 1 || string(f.Head.Result.In(f.Data)) != "\"\ufffd\"" {
		t.Errorf("got %+v, %v", f, err)
	}
}

// TestReaderPipe is R09: characters cut by writes, over a real pipe, and each
// frame out before the next byte is written.
func TestReaderPipe(t *testing.T) {
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	defer pw.Close()
	r := frame.NewReader(pr, frame.Options{})
	text := `{"jsonrpc":"2.0","id":1,"result":"— 读取 🎉"}`
	for range 3 {
		go func() {
			for i := range len(text) {
				_, _ = pw.WriteString(text[i : i+1])
			}
			_, _ = pw.WriteString("\n")
		}()
		f, err := r.Next()
		if err != nil || f.Type != frame.Message || string(f.Data) != text || f.Head.Replaced != 0 {
			t.Fatalf("got %+v, %v", f, err)
		}
	}
	// The 65,536th byte is the second of a character of four.
	const a = `{"jsonrpc":"2.0","id":1,"result":"`
	text = a + strings.Repeat("y", chunk-len(a)-2) + `🎉"}`
	if text[chunk-2] != "🎉"[0] {
		t.Fatal("the test is wrong")
	}
	go func() { _, _ = pw.WriteString(text + "\n") }()
	if f, err := r.Next(); err != nil || string(f.Data) != text || f.Head.Replaced != 0 {
		t.Errorf("got %d bytes, replaced %d, %v", len(f.Data), f.Head.Replaced, err)
	}
}

func TestStats(t *testing.T) {
	in := "\xEF\xBB\xBF" + ping + "\r\n\n \r\n" + "noise\n" + padded(150) + "\n" + `{"jsonrpc":"2.0","id":7,"result":"` + "\xff\u2028" + `"}` + "\n" + padded(90) + "\n"
	r := frame.NewReader(strings.NewReader(in), frame.Options{Limit: 100, EscapeSeparators: true})
	for {
		if _, err := r.Next(); err != nil {
			break
		}
		_ = r.Stats()
	}
	want := frame.Stats{Bytes: int64(len(in)), Frames: 3, LargestFrame: 90, Blank: 2, CR: 2, BOM: 1, Violations: 1, ViolationBytes: 5, Oversize: 1, OversizeBytes: 150, Replaced: 1, Escaped: 1}
	if got := r.Stats(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
