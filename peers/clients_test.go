//go:build peers

package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A plan is what a client does: it starts a server, and either lists its tools
// and makes the calls, or goes through the features of server-everything.
// clients/steps.mjs reads its JSON form.
type plan struct {
	Server   serverProcess `json:"server"`
	Calls    []toolCall    `json:"calls"`
	Answers  bool          `json:"answers"` // declare and answer sampling, elicitation and roots
	Features bool          `json:"features"`
	ReadOn   bool          `json:"readOn"` // read what penstock cut to its end
}

type serverProcess struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // added to what the client passes on
}

func (s serverProcess) command() []string { return append([]string{s.Command}, s.Args...) }

type toolCall struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// A client does what the plan says and returns a JSON array of objects, one
// for each step, with the step's name and its result or error.
type client func(ctx context.Context, t *testing.T, p plan) []byte

var clients = map[string]client{
	"inspector": inspector,
	"sdk1":      script("sdk1.mjs"),
	"sdk2":      script("sdk2.mjs"),
	"aisdk":     script("aisdk.mjs"),
	"gosdk":     goClient,
}

// script is the client of that name in the folder clients.
func script(name string) client {
	return func(ctx context.Context, t *testing.T, p plan) []byte {
		t.Helper()
		arg, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		path, err := filepath.Abs(filepath.Join("clients", name))
		if err != nil {
			t.Fatal(err)
		}
		return output(ctx, t, node(t, path, string(arg)))
	}
}

// output runs command to its end and returns what it printed. Its exit code
// must be 0 or one of codes.
func output(ctx context.Context, t *testing.T, command []string, codes ...int) []byte {
	t.Helper()
	cmd := start(ctx, t, command)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	if err != nil && !(cmd.ProcessState != nil && slices.Contains(codes, cmd.ProcessState.ExitCode())) {
		t.Fatalf("%.200q: %v\n%s", command, err, tail(out, 4096))
	}
	return out
}

// inspectorToolError is the exit code of the inspector for a result that says
// it is an error, which it prints like any other.
const inspectorToolError = 5

// inspector is the command line of the MCP Inspector, a process for each step;
// since each takes seconds, it makes only the first three calls.
func inspector(ctx context.Context, t *testing.T, p plan) []byte {
	t.Helper()
	run := func(args ...string) json.RawMessage {
		command := node(t, "@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", "--quiet", "--format", "json")
		for _, name := range slices.Sorted(maps.Keys(p.Server.Env)) {
			command = append(command, "-e", name+"="+p.Server.Env[name])
		}
		command = append(command, args...)
		command = append(command, "--")
		return output(ctx, t, append(command, p.Server.command()...), inspectorToolError)
	}
	steps := []map[string]any{{"step": "tools/list", "result": run("--method", "tools/list")}}
	for _, call := range p.Calls[:min(3, len(p.Calls))] {
		args, err := json.Marshal(call.Arguments)
		if err != nil {
			t.Fatal(err)
		}
		result := run("--method", "tools/call", "--tool-name", call.Name, "--tool-args-json", string(args))
		steps = append(steps, map[string]any{"step": "tools/call " + call.Name, "result": result})
	}
	return encode(t, steps)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// goClient is the client of the Go SDK, in this process.
func goClient(ctx context.Context, t *testing.T, p plan) []byte {
	t.Helper()
	var steps []map[string]any
	step := func(name string, result any, err error) {
		if err != nil {
			steps = append(steps, map[string]any{"step": name, "error": err.Error()})
			return
		}
		steps = append(steps, map[string]any{"step": name, "result": result})
	}
	who, f := &mcp.Implementation{Name: "gosdk", Version: "1"}, newGoFeatures()
	c := mcp.NewClient(who, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	if p.Answers {
		c = f.client(who)
	}
	cmd := start(ctx, t, p.Server.command())
	cmd.Env = os.Environ()
	for name, value := range p.Server.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	session, err := c.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if p.Features {
		f.run(ctx, session, step)
	} else {
		list, err := session.ListTools(ctx, nil)
		step("tools/list", list, err)
		for _, call := range p.Calls {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: call.Name, Arguments: call.Arguments})
			step("tools/call "+call.Name, result, err)
		}
	}
	if err := session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if code := cmd.ProcessState; code == nil || !code.Success() {
		t.Errorf("the server's end: %v", code)
	}
	return encode(t, steps)
}

// teed returns p with the bridge under test in front of its server, and a tee
// on each side of the bridge that records into dir.
func teed(t *testing.T, p plan, dir string) plan {
	t.Helper()
	inner := append([]string{self(t), "tee", filepath.Join(dir, "server")}, p.Server.command()...)
	outer := append([]string{self(t), "tee", filepath.Join(dir, "host")}, through(t, inner...)...)
	p.Server.Command, p.Server.Args = outer[0], outer[1:]
	return p
}

// sameSteps reports the first difference between two reports of a client, and
// steps that failed: two equal failures would prove nothing.
func sameSteps(direct, through []byte) error {
	var steps []struct {
		Step  string          `json:"step"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(direct, &steps); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	for _, s := range steps {
		if s.Error != nil {
			return fmt.Errorf("direct: step %s failed: %s", s.Step, s.Error)
		}
	}
	a, b := bytes.Split(direct, []byte("\n")), bytes.Split(through, []byte("\n"))
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i], b[i]) {
			around := func(lines [][]byte) string {
				return fmt.Sprintf("%.2000s", bytes.Join(lines[min(len(lines), max(0, i-3)):min(len(lines), i+4)], []byte("\n")))
			}
			return fmt.Errorf("line %d of the report differs\ndirect:\n%s\nthrough:\n%s", i+1, around(a), around(b))
		}
	}
	return nil
}
