package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-dev/penstock/internal/hostile"
)

// runHost runs a host fixture with a bridge before a server fixture, and
// returns the host's exit status and the ledgers of both.
func runHost(t *testing.T, host []string, server ...string) (code int, hostLedger, serverLedger string) {
	t.Helper()
	dir := t.TempDir()
	hostLedger, serverLedger = filepath.Join(dir, "host"), filepath.Join(dir, "server")
	args := append(append([]string{"ledger=" + hostLedger}, host[1:]...), "--")
	argv := append(hostile.Command(host[0], args...), behind(serverLedger, nil, server[0], server[1:]...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = cleanEnv(t)
	stderr := &safeBuffer{}
	cmd.Stderr = stderr
	cmd.WaitDelay = ceiling
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(2 * ceiling):
		cmd.Process.Kill()
		<-done
		t.Errorf("the host did not end, stderr: %.2000s", stderr)
	}
	if t.Failed() || cmd.ProcessState.ExitCode() != 0 {
		t.Logf("stderr: %.2000s", stderr)
	}
	gone(t, hostLedger)
	gone(t, serverLedger)
	return cmd.ProcessState.ExitCode(), hostLedger, serverLedger
}

// Hosts that misbehave get what they need to go on, and never junk.
func TestHostileHosts(t *testing.T) {
	t.Parallel()
	for _, host := range [][]string{
		{"garbled-host"},
		{"slow-host", "tool=big", `arguments={"bytes":200000}`, "calls=64", "piece=64KiB"},
		{"blocked-parent", "tool=big", `arguments={"bytes":6291456}`, "wait=100ms"},
		{"cancelling-host", "at=start", "tool=sleep", `arguments={"ms":600000}`},
		{"cancelling-host", "at=output", "tool=big", `arguments={"bytes":4194304}`},
		{"cancelling-host", "at=end", "tool=big", `arguments={"bytes":4194304}`},
	} {
		t.Run(strings.Join(host[:min(2, len(host))], " "), func(t *testing.T) {
			t.Parallel()
			code, hl, sl := runHost(t, host, "echo")
			if code != 0 {
				t.Errorf("the host ended with %d", code)
			}
			for _, e := range ledger(t, hl) {
				if e.What == "junk" {
					t.Errorf("the host read junk: %s", e.Text)
				}
			}
			for _, e := range ledger(t, sl) {
				if e.What == "junk" || e.What == "effect" {
					t.Errorf("the server met %+v", e)
				}
			}
		})
	}
}

// Every server of the registry that can be talked to at all, behind a bridge:
// a host that asks for tools and a call gets answers, reads no junk, and at its
// end nothing is left.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	for _, fx := range hostile.All() {
		if fx.Side != hostile.Server {
			continue
		}
		t.Run(fx.Name, func(t *testing.T) {
			t.Parallel()
			var args []string
			for _, k := range fx.Keys {
				switch k.Name {
				case "starts", "effect", "until":
					args = append(args, k.Name+"="+filepath.Join(t.TempDir(), k.Name))
				}
			}
			f := startFront(t, nil, []string{"--total-timeout", "3s"}, fx.Name, args...)
			f.send(initialize)
			f.answer("0")
			if fx.Name != "exits" { // whose answer may end the session
				f.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			for id, line := range map[int]string{
				1: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
				2: call(2, "echo", `{"text":"x"}`),
				3: `{"jsonrpc":"2.0","id":3,"method":"ping"}`,
			} {
				f.send(line)
				f.answer(string(rune('0' + id)))
			}
			f.in.Close()
			f.wait()
			gone(t, f.ledger)
		})
	}
}
