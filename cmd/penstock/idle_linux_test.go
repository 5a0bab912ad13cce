package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-dev/penstock/internal/config"
)

// TestIdleMemory holds an idle bridge to the base that doctor reckons with. It
// builds the program, since the test binary carries more, and much more with
// the race detector.
func TestIdleMemory(t *testing.T) {
	program := filepath.Join(t.TempDir(), "penstock")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(program, "run", "--", "cat")
	cmd.Env = append(os.Environ(), "PENSTOCK_HOME="+t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()

	// What comes back has been through both directions.
	const message = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n"
	if _, err := in.Write([]byte(message)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != message {
		t.Fatalf("got %q, %v", line, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kib config.Size
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("RssAnon: %v in\n%s", err, status)
	}
	t.Logf("RssAnon %d KiB", kib)
	if kib<<10 > config.RuntimeBase {
		t.Errorf("an idle bridge holds %s, more than %s", (kib << 10).Approx(), config.RuntimeBase)
	}
}
