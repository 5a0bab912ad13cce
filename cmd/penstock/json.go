package main

import (
	"encoding/json"
	"io"
)

// writeJSON writes v as one line. Lists are one call for each element. The
// characters < > & stay as they are: nothing here is for a web page.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
