package audit_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/penstock-dev/penstock/audit"
)

// A stranger got a copy of somebody's log, the verifier key that its owner
// published, and a checkpoint that a witness kept. No other key is needed.
func Example_verify() {
	vkey, checkpoint := published()
	report, err := audit.Verify(context.Background(), "testdata/log", audit.VerifyOptions{
		VKey:           vkey,
		Anchors:        [][]byte{checkpoint},
		AcceptDisposed: true,
	})
	if err != nil {
		fmt.Println("cannot be read:", err)
		return
	}
	var text strings.Builder
	report.WriteText(&text)
	word, _, _ := strings.Cut(text.String(), "\n")
	fmt.Println(word)
	fmt.Println("exit", report.Verdict.ExitCode())
	fmt.Println(report.Closed, "strands closed,", report.Orphaned, "orphaned,", report.Records, "records")
	// Output:
	// VERIFIED
	// exit 0
	// 1 strands closed, 1 orphaned, 15 records
}

func Example_write() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	// The identity belongs elsewhere: the writer needs the public half only.
	identity, recipient, err := audit.NewIdentity(false)
	if err != nil {
		fmt.Println(err)
		return
	}
	recipients, err := audit.ParseRecipients(recipient)
	if err != nil {
		fmt.Println(err)
		return
	}

	w, err := audit.Open(ctx, audit.Config{Dir: dir, Recipients: recipients})
	if err != nil {
		fmt.Println(err)
		return
	}
	intent, err := w.Intent([]byte(`{"call":"c1","does":"rm -r build"}`), audit.Durable)
	if err == nil {
		_, err = intent.Wait(ctx)
	}
	if err != nil {
		fmt.Println("not recorded, so not done:", err)
		return
	}
	// … act …
	if err := intent.Terminal([]byte(`{"call":"c1","exit":0}`)); err != nil {
		fmt.Println(err)
	}
	if err := w.Close(ctx); err != nil {
		fmt.Println(err)
	}

	ids, err := audit.ParseIdentities([]byte(identity), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := audit.OpenReader(dir, "", ids)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for record, err := range r.Records(audit.Query{}) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%d %s\n", record.Leaf, record.Body)
	}
	// Output:
	// 1 {"call":"c1","does":"rm -r build"}
	// 2 {"call":"c1","exit":0}
}
