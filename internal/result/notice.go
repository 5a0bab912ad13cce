package result

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-dev/penstock/frame"
)

// Notice is what the notices of a cut result must know.
type Notice struct {
	// Handle names the whole result where Kept is set; else Why says in a few
	// words why it was not kept.
	Handle string
	Kept   bool
	Why    string
	// Tool is the name under which the host knows the continuation tool,
	// "penstock_result" if it is empty.
	Tool string
	// CallJSON, if any, becomes _meta["dev.penstock/call"].
	CallJSON []byte
}

func (n *Notice) tool() string {
	if n.Tool == "" {
		return ToolName
	}
	return n.Tool
}

// how says how to go on. args are further arguments, as JSON members.
func (n *Notice) how(args string) string {
	if n.Kept {
		return `to read on, call ` + n.tool() + ` with {"handle":` + string(frame.Quote(nil, n.Handle)) + args + `}`
	}
	why := n.Why
	if why == "" {
		why = "no reason is known"
	}
	return "the rest was not kept (" + why + "); ask the tool for less"
}

// before is the first text of a cut result.
func (n *Notice) before(info *Info, c *Cutter) string {
	var b strings.Builder
	if info.Failed {
		if c.isError {
			b.WriteString("[penstock: the tool reported an error, and its answer is too large to be shown in the form that its schema asks for. ")
		} else {
			b.WriteString("[penstock: the call SUCCEEDED and must not be repeated. Its result is too large to be shown in the form that its schema asks for; that is the only error. ")
		}
	} else {
		b.WriteString("[penstock: this result is cut: ")
	}
	fmt.Fprintf(&b, "shown %d of %d bytes", info.ShownBytes, info.TotalBytes)
	if c.structured != nil && !info.Failed {
		for _, x := range info.Parts {
			switch {
			case x.Name != "structured" || !x.Cut:
			case x.Shown == 0:
				b.WriteString(", the structured content is left out")
			default:
				b.WriteString(", the structured content is shortened too")
			}
		}
	}
	b.WriteString("; " + n.how(n.part(info.Default)) + "]")
	return b.String()
}

// part returns the arguments that name a part.
func (n *Notice) part(name string) string {
	if name == "" {
		return ""
	}
	if _, err := strconv.Atoi(name); err != nil {
		return `,"part":` + string(frame.Quote(nil, name))
	}
	return `,"part":` + name
}

// end is the last text of a cut result whose last text is whole.
func (n *Notice) end(info *Info) string {
	return fmt.Sprintf("\n[penstock: shown %d of %d bytes of this result; %s]", info.ShownBytes, info.TotalBytes, n.how(n.part(info.Default)))
}

// after is the text behind one that is cut.
func (n *Notice) after(name string, t *excerpt, total int64) string {
	var b strings.Builder
	b.WriteString("\n[penstock: ")
	args := n.part(name)
	switch {
	case t.items >= 0:
		fmt.Fprintf(&b, "%d more of %d items are left out; ", t.items-t.itemsShown, t.items)
	case t.from > t.to && t.from < total:
		fmt.Fprintf(&b, "bytes %d to %d are left out where marked; ", t.to, t.from)
		args += fmt.Sprintf(`,"bytes":[%d,%d]`, t.to, t.from)
	case t.from > t.to:
		fmt.Fprintf(&b, "the text goes on at byte %d; ", t.to)
		args += fmt.Sprintf(`,"bytes":[%d,%d]`, t.to, total)
	}
	fmt.Fprintf(&b, "shown %d of %d bytes; %s]", t.shown, total, n.how(args))
	return b.String()
}

func (n *Notice) failure(info *Info) string {
	return fmt.Sprintf("[penstock: this error is cut: shown %d of %d bytes; %s]", info.ShownBytes, info.TotalBytes, n.how(n.part("error")))
}

// merged is the text that stands for the last blocks.
func (n *Notice) merged(gone, first int, size int64) []byte {
	return fmt.Appendf(nil, "[penstock: %d more content blocks of %d bytes in all are left out, from block %d on; %s]", gone, size, first, n.how(n.part(strconv.Itoa(first))))
}

// replaced is the text that stands for a block that cannot be cut.
func (n *Notice) replaced(b *block, size int64) []byte {
	what := frame.Unquote([]byte(`"` + string(wholeUnits(b.typ)) + `"`))
	if what == "" {
		what = "content"
	}
	if len(b.mime) > 0 {
		what += " (" + clip(frame.Unquote([]byte(`"`+string(wholeUnits(b.mime))+`"`)), 80) + ")"
	}
	if len(b.uri) > 0 {
		what += " " + clip(frame.Unquote([]byte(`"`+string(wholeUnits(b.uri))+`"`)), 200)
	}
	unit := "bytes"
	for _, h := range b.holes {
		if h.data != nil {
			unit = "characters of base64"
		}
	}
	return fmt.Appendf(nil, "[penstock: %s of %d %s is left out: it is too large; %s]", what, size, unit, n.how(n.part(strconv.Itoa(b.index))))
}

// blobText is the text that stands for base64 in a text. It has no character
// that JSON escapes, since the text may be JSON.
func (m *mark) text() string {
	kind := ""
	if m.kind != "" {
		kind = ", " + m.kind
	}
	return fmt.Sprintf("[%d characters of base64%s, left out whole]", m.size, kind)
}

func (n *Notice) meta(shown, total int64) []byte {
	b := []byte(`{`)
	if n.Kept {
		b = append(append(b, `"handle":`...), frame.Quote(nil, n.Handle)...)
		b = append(b, ',')
	}
	b = append(b, `"shown_bytes":`...)
	b = strconv.AppendInt(b, shown, 10)
	b = append(b, `,"total_bytes":`...)
	b = strconv.AppendInt(b, total, 10)
	return append(b, '}')
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:cutText([]byte(s), n)] + "…"
}
