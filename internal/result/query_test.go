package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func read1(t testing.TB, f []byte, q Query) (Page, error) {
	t.Helper()
	return Read(context.Background(), bytes.NewReader(f), int64(len(f)), testKey, q)
}

func ptr[T any](v T) *T { return &v }

func TestParts(t *testing.T) {
	f := []byte(`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"content":[{"text":"no"}]},"content":[{"annotations":{"text":"no","data":"no"},"type":"text","t\u0065xt":"zero\n\u00e9"},` +
		`{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource","resource":{"uri":"u","text":"two"}},{"resource":{"blob":"BBBB"}},` +
		`{"type":"resource_link","uri":"file:///x","name":"n"},"odd"],"structuredContent": {"text":"no", "n": 1.50} ,"x":1}}`)
	for part, want := range map[string]string{
		"": "zero\né", "0": "zero\né", "1": "AAAA", "2": "two", "3": "BBBB", "4": `{"type":"resource_link","uri":"file:///x","name":"n"}`, "5": `"odd"`,
		"structured": `{"text":"no", "n": 1.50}`, "raw": string(f),
	} {
		p, err := read1(t, f, Query{Part: part})
		if err != nil || p.Text != want || !p.End || p.TotalBytes != int64(len(want)) {
			t.Errorf("part %q: %q, %v", part, p.Text, err)
		}
	}
	for part, want := range map[string]string{
		"6": "this result has 6 content blocks, the first is 0: there is no block 6", "error": `this result is no error; leave out "part"`,
		"-1": `part must be the index of a content block, "structured", "error" or "raw", not "-1"`, "01": "part must be", "structuredContent": "part must be",
	} {
		_, err := read1(t, f, Query{Part: part})
		checkQueryError(t, part, err, want)
	}
	f = []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`)
	for _, part := range []string{"", "error"} {
		if p, err := read1(t, f, Query{Part: part}); err != nil || p.Text != `{"code":1,"message":"m"}` {
			t.Errorf("%q, %v", p.Text, err)
		}
	}
	_, err := read1(t, f, Query{Part: "0"})
	checkQueryError(t, "0 of an error", err, `this result has no content blocks; use "part":"raw"`)
}

func checkQueryError(t *testing.T, name string, err error, want string) {
	t.Helper()
	var q *QueryError
	if !errors.As(err, &q) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", name, err, want)
	}
}

// The default part is the first text longer than a page, else the first text.
func TestDefaultPart(t *testing.T) {
	long := quote(filler("lines", 5000))
	for content, want := range map[string]string{
		`"content":[{"type":"text","text":"a"},{"type":"text","text":` + long + `},{"type":"text","text":` + long + `}]`:          "1",
		`"structuredContent":{"a":` + long + `},"content":[{"type":"text","text":` + long + `}]`:                                  "structured",
		`"structuredContent":{"a":1},"content":[{"type":"image","data":` + long + `},{"type":"text","text":"x"}]`:                 "structured",
		`"content":[{"type":"resource","resource":{"text":` + long + `}}],"structuredContent":[` + strings.Repeat("1,", 5) + `1]`: "0",
		`"content":[{"type":"image","data":` + long + `}]`:                                                                        "raw",
	} {
		f := []byte(`{"jsonrpc":"2.0","id":1,"result":{` + content + `}}`)
		s, part, err := find(context.Background(), bytes.NewReader(f), int64(len(f)), "", 4096)
		if err != nil || part != want {
			t.Errorf("%.60s: part %q, %v", content, part, err)
			continue
		}
		other, _, err := find(context.Background(), bytes.NewReader(f), int64(len(f)), want, 4096)
		if err != nil || other.mode != s.mode || other.at != s.at {
			t.Errorf("%.60s: %+v and %+v, %v", content, s.at, other.at, err)
		}
	}
}

func TestRanges(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 1000; i++ {
		fmt.Fprintf(&b, "line %d é\n", i)
	}
	text := b.String()
	f := textFrame(text)
	lines := strings.SplitAfter(text, "\n")
	for _, r := range [][2]int64{{0, 0}, {0, 1}, {5, 1000}, {100, 100}, {0, 1 << 40}, {int64(len(text)) - 3, int64(len(text))}, {int64(len(text)), 1 << 60}, {1 << 60, 1 << 61}} {
		from, to := min(r[0], int64(len(text))), min(r[1], int64(len(text)))
		for _, most := range []int{16, 100, 0} {
			got, _ := readAll(t, f, Query{Part: "0", Bytes: &r, Max: most})
			want := text[from:to]
			if from != 5 && string(got) != want {
				t.Errorf("bytes %v, max %d: %d bytes, want %d", r, most, len(got), len(want))
			}
		}
	}
	// Inside of a character the range begins at it.
	i := int64(strings.Index(text, "é"))
	p, err := read1(t, f, Query{Bytes: &[2]int64{i + 1, i + 3}})
	if err != nil || p.Bytes[0] != i || p.Text != "é\n" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, r := range [][2]int64{{1, 1}, {1, 10}, {500, 600}, {1000, 1000}, {999, 5000}, {1, 1 << 62}, {2000, 3000}} {
		for _, most := range []int{16, 100, 0} {
			got, _ := readAll(t, f, Query{Lines: &r, Max: most})
			want := strings.Join(lines[min(r[0]-1, 1000):min(r[1], 1000)], "")
			if string(got) != want {
				t.Errorf("lines %v, max %d: %q", r, most, got[:min(len(got), 100)])
			}
		}
	}
}

func TestBadQueries(t *testing.T) {
	f := textFrame("some text")
	for want, q := range map[string]Query{
		"use only one of cursor, bytes, lines and grep":            {Bytes: &[2]int64{0, 1}, Lines: &[2]int64{1, 1}},
		"bytes are [from, to] with to not included; 3 is before 5": {Bytes: &[2]int64{5, 3}},
		"bytes must not begin before 0":                            {Bytes: &[2]int64{-1, 3}},
		"the first line is 1":                                      {Lines: &[2]int64{0, 3}},
		"lines are [first, last]; 3 is before 5":                   {Lines: &[2]int64{5, 3}},
		"grep is no regular expression of the RE2 syntax":          {Grep: "("},
		"the pattern is longer than":                               {Grep: strings.Repeat("x", 5000)},
		"context must be 0 to 20":                                  {Grep: "x", Context: 1000},
		"max must be positive":                                     {Max: -1},
		"max must be 16":                                           {Max: 3},
		"part 0 is no JSON, a pointer cannot be used on it":        {Pointer: ptr("/a")},
		"pointer must be a JSON pointer":                           {Pointer: ptr("a")},
		"this cursor is not one of this result":                    {Cursor: "AAAA"},
		"a cursor holds its part and pointer":                      {Cursor: "AAAA", Part: "0"},
	} {
		_, err := read1(t, f, q)
		checkQueryError(t, want, err, want)
	}
	// A regular expression that needs look-ahead is none of RE2.
	_, err := read1(t, f, Query{Grep: "a(?=b)"})
	checkQueryError(t, "look-ahead", err, "grep is no regular expression")
}

func TestCursors(t *testing.T) {
	f := textFrame(filler("lines", 10_000))
	p, err := read1(t, f, Query{Max: 1000})
	if err != nil || p.Next == "" {
		t.Fatal(err)
	}
	foreign := "this cursor is not one of this result"
	_, err = Read(context.Background(), bytes.NewReader(f), int64(len(f)), []byte("another key"), Query{Cursor: p.Next})
	checkQueryError(t, "another key", err, foreign)
	for i := range p.Next {
		b := []byte(p.Next)
		b[i] ^= 1
		if _, err := read1(t, f, Query{Cursor: string(b)}); err == nil {
			// The last character may hold bits that do not count.
			if i != len(b)-1 {
				t.Fatalf("changed at %d and accepted", i)
			}
		}
	}
	for _, c := range []string{p.Next[:len(p.Next)-4], p.Next + "AAAA", strings.Repeat("A", 20000), "é"} {
		_, err := read1(t, f, Query{Cursor: c})
		checkQueryError(t, c[:min(len(c), 20)], err, foreign)
	}
	// The same cursor twice gives the same page.
	a, err1 := read1(t, f, Query{Cursor: p.Next, Max: 500})
	b, err2 := read1(t, f, Query{Cursor: p.Next, Max: 500})
	if err1 != nil || err2 != nil || a != b {
		t.Error("a cursor gives two pages")
	}
}

func TestPointer(t *testing.T) {
	value := `{"a": {"b/c": [10, {"x~y": "some\n\u00e9 text"}, [true]], "": 5}, "long": ` + quote(filler("multibyte", 10_000)) + `, "z": null, "n": -1.50e3}`
	structured := []byte(`{"jsonrpc":"2.0","id":1,"result":{"structuredContent":` + value + `,"content":[]}}`)
	nested := textFrame(" " + value + "\n")
	for pointer, want := range map[string]string{
		"/a/b~1c/1/x~0y": "some\né text", "/a/b~1c/0": "10", "/a/b~1c/2": "[true]", "/a/": "5", "/z": "null", "/n": "-1.50e3",
		"/a": `{"b/c": [10, {"x~y": "some\n\u00e9 text"}, [true]], "": 5}`, "/long": filler("multibyte", 10_000), "": value,
	} {
		for name, f := range map[string][]byte{"structured": structured, "text": nested} {
			for _, most := range []int{16, 1000, 0} {
				got, pages := readAll(t, f, Query{Pointer: &pointer, Max: most})
				if string(got) != want {
					t.Errorf("%s, %q, max %d: %d pages: %.200q", name, pointer, most, pages, got)
				}
			}
		}
	}
	for pointer, want := range map[string]string{
		"/b":         `pointer: the whole value has no member "b"; it has "a", "long", "z", "n"`,
		"/a/b~1c/3":  `pointer: "/a/b/c" is an array of 3 items, and has no item "3"`,
		"/a/b~1c/01": `pointer: "/a/b/c" is an array of 3 items, and has no item "01"`,
		"/z/q":       `pointer: "/z" is null, which has no members`,
		"/n/0":       `pointer: "/n" is a number, which has no members`,
		"/long/0/1":  `pointer: "/long" is a string, which has no members`,
	} {
		for _, f := range [][]byte{structured, nested} {
			_, err := read1(t, f, Query{Pointer: &pointer})
			checkQueryError(t, pointer, err, want)
		}
	}
	// With a range, lines and grep.
	p, err := read1(t, nested, Query{Pointer: ptr("/a/b~1c/1/x~0y"), Bytes: &[2]int64{5, 7}})
	if err != nil || p.Text != "é" {
		t.Errorf("%+v %v", p, err)
	}
	p, err = read1(t, nested, Query{Pointer: ptr("/a/b~1c/1/x~0y"), Lines: &[2]int64{2, 2}})
	if err != nil || p.Text != "é text" {
		t.Errorf("%+v %v", p, err)
	}
	p, err = read1(t, nested, Query{Pointer: ptr("/a/b~1c/1/x~0y"), Grep: "t.xt"})
	if err != nil || p.Text != "2:5:é text\n" {
		t.Errorf("%+v %v", p, err)
	}
}

// A page of a long string in a text that is JSON costs its own size too.
func TestPointerPageCost(t *testing.T) {
	g := &generated{head: `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"s\":\"`, unit: strings.Repeat(`some line\\n`, 4096), tail: `\"}"}]}}`}
	g.size = int64(len(g.unit)) * 200
	p, err := Read(context.Background(), g, g.len(), testKey, Query{Pointer: ptr("/s"), Bytes: &[2]int64{5_000_000, 6_000_000}, Max: 1000})
	if err != nil || !strings.HasSuffix(p.Text, "some line\n") {
		t.Fatal(p, err)
	}
	counted := &countingReader{g: g}
	next, err := Read(context.Background(), counted, g.len(), testKey, Query{Cursor: p.Next, Max: 1000})
	if err != nil || !strings.HasPrefix(next.Text, "some line\n") || next.Bytes[0] != p.Bytes[1] {
		t.Fatal(next, err)
	}
	if counted.n > 8*chunkSize {
		t.Errorf("read %d bytes", counted.n)
	}
}

// grepWhole is what grep must find, from the whole text.
func grepWhole(text, pattern string, around int) []string {
	re := regexp.MustCompile(pattern)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	show := map[int]byte{}
	for i, l := range lines {
		if re.MatchString(l) {
			for j := max(0, i-around); j <= min(len(lines)-1, i+around); j++ {
				if show[j] == 0 {
					show[j] = '-'
				}
			}
			show[i] = ':'
		}
	}
	var out []string
	at := 0
	for i, l := range lines {
		if c := show[i]; c != 0 {
			out = append(out, fmt.Sprintf("%d%c%d%c%s\n", i+1, c, at, c, l))
		}
		at += len(l) + 1
	}
	return out
}

func TestGrep(t *testing.T) {
	var b strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&b, "line %d of the text é\n", i)
	}
	text := b.String()
	f := textFrame(text)
	for _, pattern := range []string{"line 1177[0-9] ", "777 ", "^line 1 ", "é$", "nothing at all", "99", "LINE 5"} {
		for _, around := range []int{0, 1, 5} {
			want := grepWhole(text, pattern, around)
			if len(want) > 3000 {
				want = want[:3000]
			}
			for _, most := range []int{300, 64 << 10} {
				if most == 300 && len(want) > 500 {
					continue
				}
				got, _ := readAll(t, f, Query{Grep: pattern, Context: around, Max: most})
				gotLines := strings.SplitAfter(string(got), "\n")
				gotLines = gotLines[:len(gotLines)-1]
				if len(gotLines) > 3000 {
					gotLines = gotLines[:3000]
				}
				if strings.Join(gotLines, "") != strings.Join(want, "") {
					i := 0
					for i < min(len(gotLines), len(want)) && gotLines[i] == want[i] {
						i++
					}
					t.Errorf("%q, context %d, max %d: %d lines, want %d; first other %d: %q", pattern, around, most, len(gotLines), len(want), i, append(gotLines, "-")[i])
				}
			}
		}
	}
}

// In one unbroken line every match is found once, wherever the windows end.
func TestGrepUnbroken(t *testing.T) {
	var b strings.Builder
	var want []int
	for i := range 300 {
		b.WriteString(strings.Repeat("x", 7001))
		want = append(want, b.Len())
		fmt.Fprintf(&b, "needle%d.", i)
	}
	text := b.String()
	for _, pattern := range []string{"needle[0-9]+", "[n]eedle[0-9]+"} {
		for _, most := range []int{1000, 64 << 10} {
			got, _ := readAll(t, textFrame(text), Query{Grep: pattern, Max: most})
			lines := strings.Split(strings.TrimSuffix(string(got), "\n"), "\n")
			if len(lines) != len(want) {
				t.Fatalf("%q, max %d: %d matches, want %d", pattern, most, len(lines), len(want))
			}
			for i, l := range lines {
				f := strings.SplitN(l, ":", 3)
				at, _ := strconv.Atoi(f[1])
				if f[0] != "1" || !strings.HasPrefix(text[at:], f[2]) || !strings.Contains(f[2], fmt.Sprintf("needle%d.", i)) {
					t.Fatalf("match %d: %q", i, l)
				}
			}
		}
	}
	// Anchors are those of the line, not of a window.
	for _, pattern := range []string{"^x*$", "x$", "^[n]"} {
		if got, _ := readAll(t, textFrame(text), Query{Grep: pattern}); len(got) != 0 {
			t.Errorf("%q found %.100q", pattern, got)
		}
	}
}

// A lone surrogate and the beginning of the next character may both be pending.
func TestPendingCharacters(t *testing.T) {
	raw := strings.Repeat(`\ud800\ud800\ud83d\ude00`, 3)
	whole, _, bad := decode(nil, []byte(raw), 1000, true)
	for size := 1; size < len(raw); size++ {
		l := &leaf{headCap: 1000}
		for p := range chunks([]byte(raw), size) {
			l.write(p)
		}
		l.end()
		if l.total != int64(len(whole)) || l.replaced != int64(bad) {
			t.Errorf("in pieces of %d: %d bytes, %d broken; want %d, %d", size, l.total, l.replaced, len(whole), bad)
		}
	}
}

func TestStoredInPart(t *testing.T) {
	f := textFrame(filler("lines", 200_000))
	for _, n := range []int{0, 5, 60, 100_000} {
		for _, q := range []Query{{}, {Part: "0"}, {Grep: "nothing"}, {Pointer: ptr("/a")}, {Part: "structured"}, {Bytes: &[2]int64{150_000, 160_000}}} {
			p, err := read1(t, f[:n], q)
			var bad *QueryError
			if err != nil && !errors.As(err, &bad) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if err == nil && q.Part != "" && p.End {
				t.Errorf("%d bytes, %+v: says that it is all", n, q)
			}
		}
	}
}

func TestReadStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := textFrame(filler("lines", 200_000))
	if _, err := Read(ctx, bytes.NewReader(f), int64(len(f)), testKey, Query{Grep: "x"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// lateCtx reaches its deadline after a number of looks at it.
type lateCtx struct {
	context.Context
	left *int
}

func (c lateCtx) Err() error {
	if *c.left--; *c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestGrepDeadline(t *testing.T) {
	f := textFrame(strings.Repeat("some line\n", 50_000) + "a hit\n" + strings.Repeat("some line\n", 50_000) + "a hit\n")
	for _, around := range []int{0, 2} {
		q, text, pages := Query{Part: "0", Grep: "hit", Context: around}, "", 0
		for {
			left := 15
			p, err := Read(lateCtx{context.Background(), &left}, bytes.NewReader(f), int64(len(f)), testKey, q)
			if err != nil {
				t.Fatal(err)
			}
			text += p.Text
			pages++
			if p.End {
				break
			}
			q = Query{Cursor: p.Next}
		}
		want, _ := readAll(t, f, Query{Part: "0", Grep: "hit", Context: around})
		if pages < 2 || text != string(want) || strings.Count(text, "a hit") != 2 {
			t.Errorf("context %d: %d pages: %q, want %q", around, pages, text, want)
		}
	}
	left := 0
	if _, err := Read(lateCtx{context.Background(), &left}, bytes.NewReader(f), int64(len(f)), testKey, Query{Part: "raw", Grep: "hit"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestParseArguments(t *testing.T) {
	h, q, err := ParseArguments([]byte(`{"handle":"h","part":3,"lines":[1,20],"max":1e9,"cursor":null}`), 5000)
	if err != nil || h != "h" || q.Part != "3" || *q.Lines != [2]int64{1, 20} || q.Max != 5000 || q.Cursor != "" {
		t.Errorf("%q %+v %v", h, q, err)
	}
	if _, q, err := ParseArguments([]byte(`{"handle":"h","part":"structured","pointer":"","grep":"x","context":2,"max":100}`), 5000); err != nil || *q.Pointer != "" || q.Grep != "x" || q.Context != 2 || q.Max != 100 {
		t.Errorf("%+v %v", q, err)
	}
	if _, q, err := ParseArguments([]byte(`{"handle":"h"}`), 5000); err != nil || q.Max != 5000 {
		t.Errorf("%+v %v", q, err)
	}
	for args, want := range map[string]string{
		``: "the arguments must be an object", `[]`: "the arguments must be an object", `{`: "the arguments must be an object", `{"handle":"h"}x`: "the arguments must be an object",
		`{}`: "handle is missing", `{"handle":5}`: "handle must be a string", `{"handle":"h","handle":"i"}`: `"handle" is given twice`,
		`{"handle":"h","offset":5}`:              `there is no argument "offset"; use handle, part`,
		`{"handle":"h","part":1.5}`:              "part must be a whole number, not 1.5",
		`{"handle":"h","part":true}`:             "part must be a string",
		`{"handle":"h","bytes":5}`:               "bytes must be two numbers",
		`{"handle":"h","bytes":[5]}`:             "bytes must be two numbers",
		`{"handle":"h","bytes":[1,2,3]}`:         "bytes must be two numbers",
		`{"handle":"h","bytes":[1,"x"]}`:         `bytes must be a whole number, not "x"`,
		`{"handle":"h","bytes":[9,1]}`:           "bytes are [from, to]",
		`{"handle":"h","grep":""}`:               "grep is empty",
		`{"handle":"h","max":0}`:                 "max must be 16",
		`{"handle":"h","max":-5}`:                "max must be 16",
		`{"handle":"h","grep":"x","cursor":"y"}`: "use only one of",
	} {
		_, _, err := ParseArguments([]byte(args), 5000)
		checkQueryError(t, args, err, want)
	}
}

type rawSchema = json.RawMessage

func mustDecode(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func TestToolJSON(t *testing.T) {
	b := ToolJSON("penstock_result_2")
	if !bytes.HasPrefix(b, []byte(`{"name":"penstock_result_2",`)) || bytes.ContainsAny(b, "\n") || !bytes.Equal(b, ToolJSON("penstock_result_2")) {
		t.Errorf("%s", b)
	}
	var tool struct {
		InputSchema  rawSchema
		OutputSchema any
		Annotations  map[string]bool
	}
	mustDecode(t, b, &tool)
	if tool.OutputSchema != nil || !tool.Annotations["readOnlyHint"] || tool.Annotations["openWorldHint"] {
		t.Errorf("%+v", tool)
	}
	s := parseSchema(t, string(tool.InputSchema))
	for args, want := range map[string]bool{
		`{"handle":"h","part":0,"bytes":[0,10]}`: true, `{"handle":"h","part":"raw","cursor":"c"}`: true, `{}`: false, `{"handle":"h","x":1}`: false, `{"handle":"h","lines":[1]}`: false,
	} {
		if got := s.Valid([]byte(args)); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
	p := Page{Text: "a\n", Bytes: [2]int64{1, 3}, TotalBytes: 10, Next: "c"}
	if got, want := string(p.JSON()), `{"text":"a\n","bytes":[1,3],"total_bytes":10,"nextCursor":"c","end":false}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p = Page{TotalBytes: -1, End: true}
	if got, want := string(p.JSON()), `{"text":"","bytes":[0,0],"end":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
