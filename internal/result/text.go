package result

import (
	"bytes"
	"encoding/json"
)

// excerpt is a text after a cut.
type excerpt struct {
	text     []byte
	shown    int64 // decoded bytes of the text that it has
	to       int64 // where in the text its beginning ends
	from     int64 // where its end begins; total if it has none
	replaced int
	// Of a JSON array, how many items it had and has; -1 if it is none or they
	// are not known.
	items, itemsShown int64
}

// cutLeaf shows at most room bytes of l.
func cutLeaf(l *leaf, room int, keep Keep) excerpt {
	head, headMarks, replaced := l.decoded()
	tail := l.tail
	var tailMarks []mark
	for _, m := range l.marks {
		if m.inTail {
			tailMarks = append(tailMarks, m)
		}
	}
	out := excerpt{replaced: replaced, items: -1, from: l.total}
	if !l.gap {
		// All of it is here.
		for i := range tailMarks {
			tailMarks[i].at += len(head)
		}
		head, headMarks = append(head, tail...), append(headMarks, tailMarks...)
		if len(head) <= room {
			out.text, out.shown = withMarks(head, headMarks), int64(len(head))
			out.to = l.total
			return out
		}
	}
	if keep == Head && cutJSON(&out, l, head, headMarks, room) {
		return out
	}
	front, back := room, 0
	switch keep {
	case Tail:
		front, back = 0, room
	case HeadAndTail:
		front, back = room/2, room-room/2
	}
	n := cutText(head, front)
	marks := headMarks
	for i, m := range headMarks {
		if m.at > n {
			marks = headMarks[:i]
			break
		}
	}
	out.text = withMarks(head[:n], marks)
	out.shown, out.to = int64(n), int64(n)
	for _, m := range marks {
		out.to += m.size
	}
	if back == 0 {
		return out
	}
	if !l.gap {
		tail, tailMarks = head[n:], nil
		for _, m := range headMarks[len(marks):] {
			m.at -= n
			tailMarks = append(tailMarks, m)
		}
	}
	at := cutFront(tail, back)
	out.from = l.total - int64(len(tail)-at)
	for i, m := range tailMarks {
		if m.at >= at {
			rest := tailMarks[i:]
			for j := range rest {
				rest[j].at -= at
				out.from -= rest[j].size
			}
			tailMarks = rest
			break
		}
		if i == len(tailMarks)-1 {
			tailMarks = nil
		}
	}
	if n > 0 {
		out.text = append(out.text, "\n[…]\n"...)
	} else {
		out.text = append(out.text, "[…]\n"...)
	}
	out.text = append(out.text, withMarks(tail[at:], tailMarks)...)
	out.shown += int64(len(tail) - at)
	return out
}

// decoded returns the head and its marks, decoded.
func (l *leaf) decoded() (head []byte, marks []mark, replaced int) {
	raw := wholeUnits(l.head)
	if !l.full {
		raw = l.head
	}
	at := 0
	for _, m := range l.marks {
		if m.inTail || m.at > len(raw) {
			continue
		}
		var bad int
		head, _, bad = decode(head, raw[at:m.at], 3*len(raw), true)
		replaced += bad
		at = m.at
		m.at = len(head)
		marks = append(marks, m)
	}
	head, _, bad := decode(head, raw[at:], 3*len(raw), true)
	return head, marks, replaced + bad
}

func withMarks(b []byte, marks []mark) []byte {
	out := make([]byte, 0, len(b)+80*len(marks))
	at := 0
	for _, m := range marks {
		out = append(out, b[at:m.at]...)
		out = append(out, m.text()...)
		at = m.at
	}
	return append(out, b[at:]...)
}

// cutJSON shows a text that is JSON as JSON. It reports whether it is.
func cutJSON(out *excerpt, l *leaf, head []byte, marks []mark, room int) bool {
	trimmed := bytes.TrimLeft(head, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '[' && trimmed[0] != '{' || l.list.st < 0 {
		return false
	}
	s := &shrink{budget: room}
	w := walker{to: s}
	if _, err := w.feed(withMarks(head, marks)); err != nil {
		return false
	}
	array := trimmed[0] == '['
	if w.finish() != nil {
		// It was kept in part only.
		if array && len(s.stack) > 0 {
			out.itemsShown = s.stack[0].kept
		}
		s.finish()
	} else if array {
		out.itemsShown = s.itemsKept
	}
	if s.broken || len(s.out) > room || !json.Valid(s.out) {
		out.itemsShown = 0
		return false
	}
	out.text, out.shown = s.render(true), min(int64(len(s.out)), l.total-1)
	if n, ok := l.list.whole(); ok {
		out.items = n
	}
	return true
}
