package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
)

// TestSchema checks with an independent validator that the schema and the
// parser give the same verdict, and that the defaults are what they say.
func TestSchema(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		t.Helper()
		j, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var v any
		if err := json.Unmarshal(j, &v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return resolved.Validate(v)
	}
	valid := []string{
		"timeouts: {idle: 1h30m, total: 1.5h, cancel_grace: 500ms, wedge_after: 1m1.5s}",
		"limits: {wire: 4096, queues: '8192', calls: 1}",
		"limits: {content: off, media: 1MiB}",
		"results: {oversize: reject, quota: 1TiB, session_quota: 0, expire: 90m}",
		"helper_output: {stderr_agent_excerpt_bytes: 0}",
		"helper_output: {stderr_agent_excerpt_bytes: 0KiB}",
		"helper_output: {shutdown_grace_seconds: 0}",
		"helper_output: {shutdown_grace_seconds: 599.999, retain: head_and_tail}",
	}
	for _, tt := range readable {
		// The converter knows neither of these, and ends a line at LF.
		if tt.text == "" || tt.name == "BOM" || tt.name == "BOM alone" || tt.name == "CR" || tt.name == "white space" || tt.name == "comments" {
			continue
		}
		valid = append(valid, tt.text)
	}
	var invalid []string
	for _, tt := range ruleFiles {
		switch {
		case tt.want == "":
			valid = append(valid, tt.text)
		case strings.Contains(tt.want, "written twice"), strings.Contains(tt.want, "not a pattern"):
		default:
			invalid = append(invalid, tt.text)
		}
	}
	for _, text := range valid {
		if _, problems := read(text); problems != "" {
			t.Errorf("%q: the parser refuses: %s", text, problems)
		}
		if err := validate(text); err != nil {
			t.Errorf("%q: the schema refuses: %v", text, err)
		}
	}
	for _, text := range append(invalid,
		"limit: {}", "limits: {wires: 1MiB}", "policy: []", "audit: {keep: 90d}", "limits: {content: false}", "limits: {media: off}", "results: {oversize: drop}", "limits: 8MiB", "limits: []", "[]", "hello",
		"limits: {wire: 8MB}", "limits: {wire: off}", "limits: {wire: 8 MiB}", "limits: {wire: -1}", "limits: {wire: 1.5}", "limits: {wire: true}", "limits: {wire: }",
		"limits: {wire: 4095}", "limits: {wire: 268435457}", "limits: {wire: '010'}", "limits: {wire: 1.5MiB}", "limits: {wire: {}}",
		"limits: {calls: 0}", "limits: {calls: 65537}", "limits: {calls: '3'}", "limits: {calls: 2.5}",
		"timeouts: {idle: 30}", "timeouts: {idle: 0}", "timeouts: {idle: '30'}", "timeouts: {idle: -1s}", "timeouts: {idle: 1d}", "timeouts: {idle: 1 h}", "timeouts: {idle: ''}", "timeouts: {idle: s}",
		"helper_output: {shutdown_grace_seconds: 5s}", "helper_output: {shutdown_grace_seconds: '5'}", "helper_output: {shutdown_grace_seconds: 600.5}", "helper_output: {shutdown_grace_seconds: -1}",
		"helper_output: {stderr_agent_excerpt_bytes: 255}", "helper_output: {retain: head}", "wedge: true", "wedge: Report", "descendants: ", "wedge: {}",
	) {
		if _, problems := read(text); problems == "" {
			t.Errorf("%q: the parser accepts", text)
		}
		if err := validate(text); err == nil {
			t.Errorf("%q: the schema accepts", text)
		}
	}
}
