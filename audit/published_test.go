package audit_test

import (
	"encoding/json"
	"os"
)

// published returns what the owner of testdata/log made known.
func published() (vkey string, checkpoint []byte) {
	b, err := os.ReadFile("testdata/tamper.json")
	if err != nil {
		panic(err)
	}
	var f struct {
		VKeys   map[string]string `json:"vkeys"`
		Anchors map[string]string `json:"anchors"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		panic(err)
	}
	return f.VKeys["old"], []byte(f.Anchors["last"])
}
