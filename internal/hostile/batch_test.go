package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBatchAnswersAnArrayWithAnArray(t *testing.T) {
	until := filepath.Join(t.TempDir(), "go")
	p := start(t, "batch", "until="+until)
	p.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	if l := p.line(); !strings.HasPrefix(l, `[{`) || strings.Count(l, `"result"`) != 2 {
		t.Errorf("the batch was answered by %s", l)
	}
	p.call("3", "together", "")
	if l := p.line(); !strings.HasPrefix(l, `[{`) || !strings.Contains(l, `"id":999`) || !strings.Contains(l, `"id":3`) {
		t.Errorf("together is %s", l)
	}
	p.call("4", "hold", "")
	p.await("note", "holds")
	p.send(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l := p.line(); !strings.Contains(l, `"id":5`) {
		t.Errorf("after the hold came %s", l)
	}
}
