package result

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxChecked is the most bytes of a structured result that are checked against
// a schema; a longer one is shortened to it.
const maxChecked = 1 << 20

// Schema is the output schema of a tool, compiled. It may be used by several
// goroutines at once.
type Schema struct{ s *jsonschema.Schema }

// ParseSchema compiles raw, the JSON of an outputSchema: draft 2020-12 unless it
// names another. Nothing is fetched; a $ref that leaves the schema is an error.
func ParseSchema(raw []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("result: output schema: %v", err)
	}
	const url = "penstock:outputSchema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nothing{})
	// Hosts assert formats, whatever the draft says.
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("result: output schema: %v", err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("result: output schema: %v", err)
	}
	return &Schema{s}, nil
}

// nothing is a loader that fetches nothing.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside of the schema", url)
}

// Valid reports whether the JSON value b is valid. A nil Schema holds every
// value for valid.
func (s *Schema) Valid(b []byte) bool {
	if s == nil {
		return true
	}
	if len(b) > maxChecked {
		return false
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	return err == nil && s.s.Validate(v) == nil
}

// SetSchema gives the Cutter the output schema of the tool, where it is learnt
// only while the response arrives: any time before Finish.
func (c *Cutter) SetSchema(s *Schema) { c.l.Schema = s }
