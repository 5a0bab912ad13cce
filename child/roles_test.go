package child

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// roles are what this test binary can be as a child.
var roles = map[string]func(args []string){
	// echo answers each line of stdin on stdout.
	"echo": func([]string) {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			os.Stdout.WriteString(in.Text() + "\n")
		}
	},
	// exit writes a line to both streams and exits with its argument.
	"exit": func(args []string) {
		os.Stdout.WriteString("out\n")
		os.Stderr.WriteString("err\n")
		os.Exit(atoi(args[0]))
	},
	// chatty writes 1 MiB to stderr before it answers a line of stdin.
	"chatty": func([]string) {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			os.Stderr.Write(bytes.Repeat([]byte("noise\n"), 1<<20/6+1))
			os.Stdout.WriteString(in.Text() + "\n")
		}
	},
	// flood writes so many bytes of pattern to stderr and exits with 3.
	"flood": func(args []string) {
		io.Copy(os.Stderr, &pattern{left: int64(atoi(args[0]))})
		os.Exit(3)
	},
	// hang announces itself and ends only at what its arguments do not name:
	// EOF of stdin or SIGTERM.
	"hang": func(args []string) {
		hang(os.Stdout, args)
	},
	// mute closes its stdout and ends at EOF of stdin.
	"mute": func([]string) {
		os.Stdout.Close()
		io.Copy(io.Discard, os.Stdin)
	},
	// partial reads one byte and no more.
	"partial": func([]string) {
		os.Stdin.Read(make([]byte, 1))
		hang(os.Stdout, []string{"eof"})
	},
}

// hang writes a line to w and then waits.
func hang(w io.Writer, ignore []string) {
	if slices.Contains(ignore, "term") {
		signal.Ignore(syscall.SIGTERM)
	}
	io.WriteString(w, "ready\n")
	if !slices.Contains(ignore, "eof") {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	forever()
}

// forever does not return. A bare select would be a deadlock to the runtime.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// pattern is a stream in which every place can be told from its neighbours.
type pattern struct{ at, left int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		b[i] = patternAt(p.at + int64(i))
	}
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}

func patternAt(i int64) byte {
	if i%80 == 79 {
		return '\n'
	}
	return byte('a' + (i/80+i)%26)
}

func readLine(r io.Reader) string {
	line, _ := bufio.NewReader(r).ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
}
