package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/penstock-dev/penstock/internal/hostile"
	"github.com/penstock-dev/penstock/internal/result"
)

// A rule of the settings wins over what the tool asks for, and that over the
// limit of the session.
func TestLimitsOfTools(t *testing.T) {
	const session = 8 << 10
	tail := result.Tail
	for _, tt := range []struct {
		name        string
		tool        string
		bytes       int
		rule        Rule
		least, most int // bytes of the answer, as it is escaped
	}{
		{"session", "failure", 100_000, Rule{}, session / 2, session + session/4},
		{"asked for", "text", 100_000, Rule{}, 2 * session, 4 * session},
		{"rule below it", "text", 100_000, Rule{Content: 4096}, 2048, 5120},
		{"rule above it", "text", 100_000, Rule{Content: 64 << 10}, 60 << 10, 80 << 10},
		{"rule that is off", "text", 400_000, Rule{Content: -1}, 400_000, 460_000},
		{"rule for media", "image", 4000, Rule{Media: 2048}, 100, 1500},
		{"rule for media alone", "image", 4000, Rule{Content: -1, Media: 2048}, 100, 1500},
		{"image within the limit", "image", 40_000, Rule{}, 40_000, 41_000},
		{"which end", "text", 100_000, Rule{Keep: &tail}, 2 * session, 4 * session},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t, func(c *Config) {
				withDesk(t, session)(c)
				c.Rule = func(tool string) Rule {
					if tool != tt.tool {
						return Rule{Content: 1024}
					}
					return tt.rule
				}
			}, "results", fmt.Sprint("most=", 3*session))
			h.hello()
			h.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
			h.answer(`"list"`)
			h.send(toolCall("1", tt.tool, fmt.Sprintf(`{"bytes":%d}`, tt.bytes)))
			m := h.answer("1")
			if len(m.raw) < tt.least || len(m.raw) > tt.most {
				t.Errorf("%d bytes became %d, want %d to %d: %.300s", tt.bytes, len(m.raw), tt.least, tt.most, m.raw)
			}
			// What is left out stands before what is shown.
			if got := strings.Contains(m.text(), "}]\n[…]\na line"); got != (tt.rule.Keep != nil) {
				t.Errorf("the end of the text is shown: %t: %.300q", got, m.text())
			}
		})
	}
}

// With no limit for the session, a rule alone is enough for cutting and for the
// tool that reads on.
func TestRuleAlone(t *testing.T) {
	h := start(t, func(c *Config) {
		withDesk(t, 8<<10)(c)
		c.ContentLimit, c.Spill = 0, false
		c.Rule = func(tool string) Rule {
			if tool == "text" {
				return Rule{Content: 4096}
			}
			return Rule{}
		}
	}, "results")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	if m := h.answer(`"list"`); !strings.Contains(m.raw, `"penstock_result"`) {
		t.Error("the continuation tool is not listed")
	}
	h.send(toolCall("1", "failure", `{"bytes":100000}`))
	if m := h.answer("1"); len(m.raw) < 100_000 {
		t.Errorf("a result without a limit was cut to %d bytes", len(m.raw))
	}
	h.send(toolCall("2", "text", `{"bytes":100000}`))
	handle, _, total := handleOf(t, h.answer("2"))
	if whole := h.pages(handle); int64(len(whole)) != total || strings.Trim(whole, "a line\n") != "" {
		t.Errorf("the pages hold %d of %d bytes", len(whole), total)
	}
}

// Prompts and resources pass whole unless the settings say otherwise; then they
// are cut in their own shape and read on as results are.
func TestPromptsAndResources(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, wire := range []int{8 << 20, 128 << 10} { // the second is too small for them
			h := start(t, func(c *Config) {
				withDesk(t, 8<<10)(c)
				c.CutAll, c.WireLimit = all, wire
			}, "results", "bytes=200KiB")
			h.hello()
			for i, ask := range []string{`"method":"prompts/get","params":{"name":"greet"}`, `"method":"resources/read","params":{"uri":"hostile://note"}`} {
				id := fmt.Sprint(i)
				h.send(`{"jsonrpc":"2.0","id":` + id + `,` + ask + `}`)
				m := h.answer(id)
				switch {
				case !all && wire > 1<<20:
					if len(m.raw) < 200<<10 || strings.Contains(m.raw, "[penstock") {
						t.Errorf("%s: changed to %d bytes: %.200s", ask, len(m.raw), m.raw)
					}
				case !all:
					if m.Error == nil {
						t.Errorf("%s: over the wire limit: %.300s", ask, m.raw)
					}
				default:
					handle, _, total := handleOf(t, m)
					var r struct {
						Result struct {
							Contents []struct{ URI, Text string }
							Messages []struct {
								Role    string
								Content struct{ Type, Text string }
							}
						}
					}
					if err := json.Unmarshal([]byte(m.raw), &r); err != nil {
						t.Fatal(err)
					}
					if len(m.raw) > 10<<10 || i == 0 && (len(r.Result.Messages) != 1 || r.Result.Messages[0].Role != "user" || !strings.Contains(r.Result.Messages[0].Content.Text, " of ")) ||
						i == 1 && (len(r.Result.Contents) != 1 || r.Result.Contents[0].URI != "hostile://note" || !strings.Contains(r.Result.Contents[0].Text, " of ")) {
						t.Errorf("%s: %d bytes: %.300s", ask, len(m.raw), m.raw)
					}
					if whole := h.pages(handle); int64(len(whole)) != total {
						t.Errorf("%s: the pages hold %d of %d bytes", ask, len(whole), total)
					}
				}
			}
		}
	}
}

// Errors of both kinds are cut, stay what they are, and are read on.
func TestErrorsAreCut(t *testing.T) {
	h := start(t, withDesk(t, 8<<10), "results")
	h.hello()
	h.send(toolCall("1", "failure", `{"bytes":100000}`))
	m := h.answer("1")
	if m.Result == nil || !m.Result.IsError || len(m.raw) > 10<<10 {
		t.Errorf("a result with isError: %d bytes, %.300s", len(m.raw), m.raw)
	}
	handle, _, total := handleOf(t, m)
	if whole := h.pages(handle); int64(len(whole)) != total {
		t.Errorf("the pages hold %d of %d bytes", len(whole), total)
	}
	h.send(toolCall("2", "refusal", `{"bytes":100000}`))
	var e struct {
		Error struct {
			Code    int
			Message string
			Data    struct{ Code string }
		}
	}
	m = h.answer("2")
	if err := json.Unmarshal([]byte(m.raw), &e); err != nil || e.Error.Code != 7001 || len(m.raw) > 10<<10 ||
		!strings.HasPrefix(e.Error.Message, "deliberate\n[penstock: this error is cut: shown ") || e.Error.Data.Code != "E7" {
		t.Errorf("a JSON-RPC error: %v, %d bytes, %.200s … %.400s", err, len(m.raw), m.raw, e.Error.Message)
	}
	_, rest, _ := strings.Cut(e.Error.Message, `{"handle":"`)
	handle, _, _ = strings.Cut(rest, `"`)
	if whole := h.pages(handle); len(whole) < 100_000 || !strings.HasSuffix(whole, `"code":"E7"}}`) {
		t.Errorf("the pages hold %d bytes", len(whole))
	}
}

// A cut result is valid for the output schema of its tool, whatever that asks
// for, or it is an error that says that the call succeeded.
func TestCutResultsAreValid(t *testing.T) {
	h := start(t, func(c *Config) {
		withDesk(t, 8<<10)(c)
		c.WireLimit, c.Queues = 1<<20, 4<<20
	}, "results")
	h.hello()
	h.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	h.answer(`"list"`)
	id := 0
	for _, tool := range []string{"rows", "card", "nested", "rigid"} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(hostile.ResultSchema(tool)), &schema); err != nil {
			t.Fatal(err)
		}
		strict, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{100, 3000, 5000, 20_000, 300_000, 2 << 20} {
			id++
			h.send(toolCall(fmt.Sprint(id), tool, fmt.Sprintf(`{"bytes":%d}`, size)))
			m := h.answer(fmt.Sprint(id))
			var r struct {
				Result struct {
					StructuredContent any
					IsError           bool
				}
			}
			if err := json.Unmarshal([]byte(m.raw), &r); err != nil {
				t.Fatal(err)
			}
			if len(m.raw) > 20<<10 {
				t.Errorf("%s of %d bytes: %d are left", tool, size, len(m.raw))
			}
			if tool == "rigid" && size > 8<<10 {
				if !r.Result.IsError || r.Result.StructuredContent != nil || !strings.Contains(m.text(), "SUCCEEDED") {
					t.Errorf("%s of %d bytes: %.400s", tool, size, m.raw)
				}
				continue
			}
			if r.Result.IsError {
				t.Errorf("%s of %d bytes became an error: %.400s", tool, size, m.raw)
			} else if err := strict.Validate(r.Result.StructuredContent); err != nil {
				t.Errorf("%s of %d bytes: %v: %.400s", tool, size, err, m.raw)
			}
		}
	}
	h.echo(`"after"`)
}
