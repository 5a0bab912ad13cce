package main

import (
	"testing"

	"github.com/penstock-dev/penstock/internal/bridge"
	"github.com/penstock-dev/penstock/internal/config"
	"github.com/penstock-dev/penstock/internal/result"
)

// A rule reaches the bridge by the name of the server and of the tool; what it
// does not set stays unset.
func TestToolRule(t *testing.T) {
	c := config.Default()
	if toolRule(c, "files") != nil {
		t.Error("there is a rule without any in the settings")
	}
	c.Tools = []config.ToolRule{
		{Server: "files*", Tool: "read_*", Content: 4096, Media: 2048, Keep: config.KeepTail},
		{Server: "*", Tool: "whole", Content: config.Off},
	}
	rule := toolRule(c, "files-home")
	r := rule("read_file")
	if r.Content != 4096 || r.Media != 2048 || r.Keep == nil || *r.Keep != result.Tail {
		t.Errorf("read_file: got %+v", r)
	}
	if r := rule("whole"); r.Content >= 0 || r.Media != 0 || r.Keep != nil {
		t.Errorf("whole: got %+v", r)
	}
	if r := rule("other"); r != (bridge.Rule{}) {
		t.Errorf("other: got %+v", r)
	}
	if r := toolRule(c, "git")("read_file"); r != (bridge.Rule{}) {
		t.Errorf("of another server: got %+v", r)
	}
}
