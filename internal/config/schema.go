package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Schema returns a JSON Schema (draft-07, which the YAML support of editors
// reads) of the settings file. It accepts what the parser accepts, except that
// it cannot judge the range of a text such as 8MiB, whether settings agree, and
// what JSON does not have, such as keys written twice.
func Schema() []byte {
	root := schemaSection("")
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Penstock settings"
	root["description"] = "The file ~/.penstock/config.yaml."
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic("config: schema: " + err.Error()) // made of maps, texts and numbers only
	}
	return b.Bytes()
}

func schemaSection(path string) map[string]any {
	props := make(map[string]any)
	for _, name := range children(path) {
		full := strings.TrimPrefix(path+"."+name, ".")
		if k, ok := Lookup(full); ok {
			props[name] = k.schema()
		} else if full == toolList {
			props[name] = toolSchema()
		} else {
			props[name] = schemaSection(full)
		}
	}
	return map[string]any{
		"type":                 []string{"object", "null"}, // null: everything in it is commented out
		"properties":           props,
		"additionalProperties": false,
	}
}

func (k Key) schema() map[string]any {
	s := map[string]any{
		"description": fmt.Sprintf("%s Allowed: %s.", k.Doc, k.Allowed()),
	}
	switch k.Kind {
	case Word:
		s["enum"] = k.Words
	case Bytes:
		var names []string
		for _, u := range units {
			names = append(names, u.name)
		}
		pattern := "(0|[1-9][0-9]*)(" + strings.Join(names, "|") + ")?"
		if k.Off != "" {
			pattern += "|" + Off.String()
		}
		s["anyOf"] = []any{
			k.schemaRange("integer", 1),
			map[string]any{"type": "string", "pattern": "^(" + pattern + ")$"},
		}
	case Duration:
		s["type"] = "string"
		s["pattern"] = `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	case Seconds:
		for name, v := range k.schemaRange("number", 1e9) {
			s[name] = v
		}
	case Count:
		for name, v := range k.schemaRange("integer", 1) {
			s[name] = v
		}
	case Glob:
		s["type"] = []string{"string", "number"} // a name may look like one
		s["minLength"] = 1
	}
	if k.Default != "" {
		s["default"] = k.schemaDefault()
	}
	return s
}

// schemaDefault is the default as a number where it is written as one.
func (k Key) schemaDefault() any {
	if _, err := strconv.ParseFloat(k.Default, 64); err == nil {
		return json.Number(k.Default)
	}
	return k.Default
}

// schemaRange is a numeric type with the bounds of the key, in units of unit.
func (k Key) schemaRange(typ string, unit int64) map[string]any {
	bounds := map[string]any{"type": typ, "minimum": k.Min / unit, "maximum": k.Max / unit}
	if k.Zero != "" && k.Min > 0 {
		return map[string]any{"anyOf": []any{map[string]any{"const": 0}, bounds}}
	}
	return bounds
}
