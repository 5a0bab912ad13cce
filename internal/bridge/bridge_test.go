package bridge

import (
	"testing"
)

func TestEcho(t *testing.T) {
	h := start(t, nil, "echo")
	h.hello()
	h.echo("1")
	h.in.Close()
	if e := h.end(); e.Code != 0 {
		t.Errorf("exit code %d", e.Code)
	}
}
