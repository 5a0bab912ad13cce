package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// roles are the processes that this program plays besides the host.
var roles = map[string]func(args []string){
	"copier": copier,
	"server": server,
	"giant":  giant,
	"flood":  flood,
	"stamp":  stamp,
}

// copier starts a command and copies both ways.
func copier(args []string) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	go func() {
		io.CopyBuffer(onlyWriter{in}, onlyReader{os.Stdin}, make([]byte, 64<<10))
		in.Close()
	}()
	io.CopyBuffer(onlyWriter{os.Stdout}, onlyReader{out}, make([]byte, 64<<10))
	cmd.Wait()
}

// onlyReader and onlyWriter hide the shortcuts by which the kernel would copy.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }

// idOf returns the id of a request of ours, which stands at a fixed place.
func idOf(line []byte) []byte {
	rest := line[len(`{"jsonrpc":"2.0","id":`):]
	return rest[:bytes.IndexByte(rest, ',')]
}

// server answers each line: {"bytes":N} in it asks for a result of that size.
func server([]string) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	text := map[int][]byte{}
	var out []byte
	for {
		line, err := in.ReadBytes(10)
		if err != nil {
			return
		}
		size := 20
		if i := bytes.Index(line, []byte(`"bytes":`)); i >= 0 {
			rest := line[i+len(`"bytes":`):]
			size, err = strconv.Atoi(string(rest[:bytes.IndexByte(rest, '}')]))
			check(err)
		}
		if text[size] == nil {
			text[size] = bytes.Repeat([]byte("0123456789abcde "), size/16+1)[:size]
		}
		out = append(append(append(out[:0], `{"jsonrpc":"2.0","id":`...), idOf(line)...), `,"result":{"content":[{"type":"text","text":"`...)
		out = append(append(out, text[size]...), "\"}]}}\n"...)
		_, err = os.Stdout.Write(out)
		check(err)
	}
}

// giant answers each line with one frame of args[0] MiB, or with a small one if
// it asks for "small".
func giant(args []string) {
	mib, err := strconv.Atoi(args[0])
	check(err)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes(10)
		if err != nil {
			return
		}
		if bytes.Contains(line, []byte(`"small"`)) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", idOf(line))
			continue
		}
		out := bufio.NewWriterSize(os.Stdout, 1<<20)
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, idOf(line))
		chunk := []byte(strings.Repeat("0123456789abcde ", 1<<16))
		for range mib {
			out.Write(chunk)
		}
		out.WriteString("\"}]}}\n")
		check(out.Flush())
	}
}

// flood writes args[0] MiB to stderr before it answers each line.
func flood(args []string) {
	mib, err := strconv.Atoi(args[0])
	check(err)
	in := bufio.NewReader(os.Stdin)
	chunk := []byte(strings.Repeat("helper diagnostic line of 32 b.\n", 1<<15))
	for {
		line, err := in.ReadBytes(10)
		if err != nil {
			return
		}
		for range mib {
			os.Stderr.Write(chunk)
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", idOf(line))
	}
}

// stamp answers each line with the time at which the first byte of the first
// one was read, in nanoseconds.
func stamp([]string) {
	in := bufio.NewReader(os.Stdin)
	in.Peek(1)
	at := time.Now().UnixNano()
	for {
		line, err := in.ReadBytes(10)
		if err != nil {
			return
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"at":%d}}`+"\n", idOf(line), at)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
