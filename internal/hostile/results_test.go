package hostile

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// What the fixture answers is valid for the schemas that it announces, of any
// size, so that only a cut can make it invalid.
func TestResultsAreValid(t *testing.T) {
	p := start(t, "results", "collide=true")
	for _, tool := range []string{"rows", "card", "nested", "rigid"} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(ResultSchema(tool)), &schema); err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		for _, size := range []int{0, 100, 50_000} {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"bytes":%d}}}`, tool, size)
			var m struct {
				Result struct{ StructuredContent any }
			}
			line := p.line()
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			// The seal needs one x at least.
			if err := resolved.Validate(m.Result.StructuredContent); err != nil && !(tool == "rigid" && size == 0) {
				t.Errorf("%s of %d bytes: %v", tool, size, err)
			}
			if len(line) < size || len(line) > 4*size+2000 {
				t.Errorf("%s of %d bytes has %d", tool, size, len(line))
			}
		}
	}
}
