package hostile

import (
	"fmt"
	"io"
	"strings"
)

// garbage lists what garbled-host writes, by kind.
func garbage() []struct{ kind, bytes string } {
	const call = `"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}`
	return []struct{ kind, bytes string }{
		{"bad-json", "{bad json\n"},
		{"text", "hello server\n"},
		{"binary", "\x00\x01\xff\xfe\n"},
		{"blank", "\n\r\n \n"},
		{"scalars", "42\n\"a\"\nnull\n[]\n{}\n"},
		{"cut", `{"jsonrpc":"2.0","id":101,"method":"pi` + "\n"},
		{"two", `{"jsonrpc":"2.0","id":102,"method":"ping"}{"jsonrpc":"2.0","id":103,"method":"ping"}` + "\n"},
		{"pretty", "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 104,\n  \"method\": \"ping\"\n}\n"},
		{"crlf", `{"jsonrpc":"2.0","id":105,"method":"ping"}` + "\r\n"},
		{"bom", "\ufeff" + `{"jsonrpc":"2.0","id":106,"method":"ping"}` + "\n"},
		{"null-id", `{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n"},
		{"float-id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n"},
		{"object-id", `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}` + "\n"},
		{"wrong-version", `{"jsonrpc":"1.0","id":107,"method":"ping"}` + "\n"},
		{"method-number", `{"jsonrpc":"2.0","id":108,"method":5}` + "\n"},
		{"params-scalar", `{"jsonrpc":"2.0","id":109,"method":"tools/call","params":7}` + "\n"},
		{"twice-id", `{"jsonrpc":"2.0","id":110,"id":111,` + call + `}` + "\n"},
		{"twice-name", `{"jsonrpc":"2.0","id":112,"method":"tools/call","params":{"name":"echo","name":"counter","arguments":{"text":"x"}}}` + "\n"},
		{"case-name", `{"jsonrpc":"2.0","id":113,"method":"tools/call","params":{"name":"echo","Name":"counter","arguments":{"text":"x"}}}` + "\n"},
		{"escaped-name", `{"jsonrpc":"2.0","id":114,"method":"tools/call","params":{"name":"echo","n\u0061me":"counter","arguments":{"text":"x"}}}` + "\n"},
		{"same-id", `{"jsonrpc":"2.0","id":115,` + call + `}` + "\n" + `{"jsonrpc":"2.0","id":115,` + call + `}` + "\n"},
		{"answer", `{"jsonrpc":"2.0","id":116,"result":{}}` + "\n"},
		{"cancel", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":117}}` + "\n"},
		{"batch", `[{"jsonrpc":"2.0","id":118,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]` + "\n"},
		{"deep", `{"jsonrpc":"2.0","id":119,"method":"ping","params":` + strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000) + "}\n"},
		{"invalid-utf8", `{"jsonrpc":"2.0","id":120,"method":"tools/call","params":{"name":"echo","arguments":{"text":"caf` + "\xe9" + `"}}}` + "\n"},
		{"unknown-method", `{"jsonrpc":"2.0","id":121,"method":"vendor/none"}` + "\n"},
	}
}

func garbleKinds() []string {
	kinds := []string{"huge", "half"}
	for _, g := range garbage() {
		kinds = append(kinds, g.kind)
	}
	return kinds
}

func garbledHost(s *stage) int {
	return drive(s, func(p *peer) error {
		kinds := s.list("kind")
		if len(kinds) == 0 {
			kinds = garbleKinds()[2:]
			kinds = append(kinds, "huge", "half")
		}
		for i, kind := range kinds {
			id := int64(1000 + i)
			var err error
			switch kind {
			case "huge":
				pl := payload{id: []byte("122"), size: s.number("bytes"), shape: "unbroken"}
				_, err = pl.frame(p.in)
			case "half":
				// The end of stdin comes in the middle of a line; nobody can answer.
				_, err = io.WriteString(p.in, `{"jsonrpc":"2.0","id":123,"meth`)
				s.record(Event{What: "note", Text: "garbled half"})
				return err
			default:
				for _, g := range garbage() {
					if g.kind == kind {
						_, err = io.WriteString(p.in, g.bytes)
					}
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			s.record(Event{What: "note", Text: "garbled " + kind})
			if err := p.ping(id); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if _, err := p.until(fmt.Sprint(id)); err != nil {
				return fmt.Errorf("ping after %s: %w", kind, err)
			}
		}
		return nil
	})
}
