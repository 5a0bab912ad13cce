package frame_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/penstock-dev/penstock/frame"
)

// What a server writes is passed on as long as it is protocol. The rest is
// counted and leaves the stream usable.
func Example() {
	fromServer := strings.NewReader(`Server listening on stdio
{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
DEBUG done {"jsonrpc":"2.0","id":2,"result":{}}
{"jsonrpc":"2.0","id":3,"result":"a result that is larger than this example allows"}
`)
	r := frame.NewReader(fromServer, frame.Options{Limit: 64})
	w := frame.NewWriter(os.Stdout)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		switch f.Type {
		case frame.Message:
			if err := w.WriteFrame(f.Data); err != nil {
				log.Fatal(err)
			}
		case frame.Violation:
			fmt.Printf("not a message (%s); call %q may wait for it: %t\n", f.Reason, f.ID, f.Reply)
		case frame.Oversize:
			fmt.Printf("call %s: its answer is over the limit\n", f.ID)
		case frame.OversizeEnd:
			fmt.Printf("it had %d bytes\n", f.Size)
		}
	}
	// Output:
	// not a message (not JSON: value expected); call "" may wait for it: false
	// {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
	// not a message (not JSON: value expected); call "2" may wait for it: true
	// call 3: its answer is over the limit
	// it had 84 bytes
}

func ExampleMembers() {
	params := []byte(`{"name":"read_file","arguments":{"path":"/etc/hosts"}}`)
	for name, v := range frame.Members(params) {
		fmt.Printf("%s = %s\n", frame.Unquote(name.In(params)), v.In(params))
	}
	// Output:
	// name = "read_file"
	// arguments = {"path":"/etc/hosts"}
}
