//go:build peers

package peers_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A server is one that every client is put before.
type server struct {
	command func(t *testing.T, dir string) []string
	env     func(dir string) map[string]string // nil for none
	lay     func(dir string) error             // puts dir into the state that the server starts from; nil for empty
	calls   []toolCall
}

var servers = map[string]server{
	"everything": {
		command: func(t *testing.T, _ string) []string {
			return node(t, "@modelcontextprotocol/server-everything/dist/index.js", "stdio")
		},
		calls: []toolCall{
			{"echo", map[string]any{"message": "é \u2028 \U0001F702 \"quoted\" \\ \t \u0001 </script>"}},
			{"get-sum", map[string]any{"a": 0.1, "b": 9007199254740991}},
			{"get-structured-content", map[string]any{"location": "Chicago"}},
			{"get-tiny-image", map[string]any{}},
			{"get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}},
		},
	},
	"filesystem": {
		command: func(t *testing.T, dir string) []string {
			return node(t, "@modelcontextprotocol/server-filesystem/dist/index.js", dir)
		},
		lay: func(dir string) error {
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "sub", "a.txt"), []byte("first é\r\nsecond \u2028 \x7f\n"), 0o644)
		},
		// The %s of an argument becomes the directory.
		calls: []toolCall{
			{"read_text_file", map[string]any{"path": "%s/sub/a.txt"}},
			{"write_file", map[string]any{"path": "%s/b.txt", "content": "new\n"}},
			{"directory_tree", map[string]any{"path": "%s"}},
			{"read_text_file", map[string]any{"path": "%s/missing"}}, // fails, with its reason as the result
		},
	},
	"memory": {
		command: func(t *testing.T, _ string) []string {
			return node(t, "@modelcontextprotocol/server-memory/dist/index.js")
		},
		env: func(dir string) map[string]string {
			return map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
		},
		calls: []toolCall{
			{"create_entities", map[string]any{"entities": []any{
				map[string]any{"name": "Zoë", "entityType": "person", "observations": []any{"likes \"quotes\"", "日本"}},
			}}},
			{"read_graph", map[string]any{}},
			{"search_nodes", map[string]any{"query": "quotes"}},
		},
	},
	"dbhub": {
		command: func(t *testing.T, dir string) []string {
			return node(t, "@bytebase/dbhub/dist/index.js", "--transport", "stdio", "--dsn", "sqlite://"+filepath.Join(dir, "data.db"))
		},
		calls: []toolCall{
			{"execute_sql", map[string]any{"sql": "create table t(a integer, b real, c text); insert into t values (1, 1.5, 'é'), (9007199254740991, -0.0, null);"}},
			{"execute_sql", map[string]any{"sql": "select * from t order by a"}},
			{"search_objects", map[string]any{"object_type": "column", "schema": "main", "table": "t", "detail_level": "full"}},
		},
	},
	"gosdk": {
		command: func(t *testing.T, _ string) []string { return goServer(t) },
		calls: []toolCall{
			{"test_simple_text", map[string]any{}},
			{"test_multiple_content_types", map[string]any{}},
			{"test_error_handling", map[string]any{}},
			{"json_schema_2020_12_tool", map[string]any{"name": "é", "email": "z@example.com"}},
		},
	},
}

// plan returns what clients do with the server, which works in dir.
func (s server) plan(t *testing.T, dir string) plan {
	t.Helper()
	command := s.command(t, dir)
	p := plan{Server: serverProcess{
		Command: command[0],
		Args:    command[1:],
		// Clients pass on little of their own environment.
		Env: map[string]string{marker: os.Getenv(marker), "PENSTOCK_HOME": os.Getenv("PENSTOCK_HOME")},
	}}
	if p.Server.Args == nil {
		p.Server.Args = []string{}
	}
	if s.env != nil {
		for name, value := range s.env(dir) {
			p.Server.Env[name] = value
		}
	}
	for _, c := range s.calls {
		args := map[string]any{}
		for name, value := range c.Arguments {
			if text, ok := value.(string); ok && len(text) > 1 && text[:2] == "%s" {
				value = dir + text[2:]
			}
			args[name] = value
		}
		p.Calls = append(p.Calls, toolCall{c.Name, args})
	}
	return p
}

// relay empties dir and lays it out for the server.
func (s server) relay(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if s.lay != nil {
		if err := s.lay(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMatrix puts every client before every server, once directly and once
// through the bridge, and requires the client to report the same, and the
// bridge to have passed on every byte.
func TestMatrix(t *testing.T) {
	for serverName, s := range servers {
		for clientName, c := range clients {
			t.Run(clientName+"/"+serverName, func(t *testing.T) {
				t.Parallel()
				compareRuns(t, c, s, func(*plan) {})
			})
		}
	}
}

// TestFeatures does the same for what a server starts on its own account:
// sampling, elicitation, roots, progress, log messages, and updates of
// resources. The inspector and the AI SDK declare none of these.
func TestFeatures(t *testing.T) {
	for _, name := range []string{"sdk1", "sdk2", "gosdk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareRuns(t, clients[name], servers["everything"], func(p *plan) { p.Answers, p.Features = true, true })
		})
	}
}

// TestInputRequired does the same for the stateless era, where a server asks
// its questions in results, and the client sends the call again with answers.
func TestInputRequired(t *testing.T) {
	var calls []toolCall
	for _, kind := range []string{"elicitation", "sampling", "list_roots", "request_state", "multiple_inputs", "multi_round", "capabilities"} {
		calls = append(calls, toolCall{"test_input_required_result_" + kind, map[string]any{}})
	}
	for _, name := range []string{"sdk2", "gosdk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareRuns(t, clients[name], servers["gosdk"], func(p *plan) { p.Answers, p.Calls = true, calls })
		})
	}
}

// compareRuns runs what set makes of the plan of s.
func compareRuns(t *testing.T, c client, s server, set func(*plan)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	dir, recordings := filepath.Join(t.TempDir(), "dir"), t.TempDir()
	p := s.plan(t, dir)
	set(&p)
	s.relay(t, dir)
	direct := c(ctx, t, p)
	s.relay(t, dir)
	through := c(ctx, t, teed(t, p, recordings))
	if err := sameSteps(direct, through); err != nil {
		t.Error(err)
	}
	checkTees(t, recordings)
}
