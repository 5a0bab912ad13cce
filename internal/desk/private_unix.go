//go:build unix

package desk

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// privateFD is where a private desk finds its end of the socket.
const privateFD = 3

// closePatience is how long Close waits for a private desk to end by itself.
const closePatience = 250 * time.Millisecond

// Private starts a desk for this process alone and returns the connection to
// it. program is run with the arguments "desk serve --private-fd 3" and must
// call [Detach] and [ServePrivate]. Closing the connection ends it. It is a
// process of its own so that a disk that hangs cannot hold this one.
func Private(_ context.Context, program, home string) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "desk"), os.NewFile(uintptr(fds[1]), "client")
	defer theirs.Close()
	nc, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, err
	}
	cmd := command(program, home, "serve", "--private-fd", strconv.Itoa(privateFD))
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		nc.Close()
		return nil, fmt.Errorf("start of a private desk: %w", err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	// It ends by itself, and removes what it kept. One that hangs on a frozen
	// disk cannot be waited for, nor killed; it ends when the disk answers.
	return &privateConn{Conn: nc, end: sync.OnceValue(func() error {
		err := nc.Close()
		select {
		case <-done:
		case <-time.After(closePatience):
		}
		return err
	})}, nil
}

type privateConn struct {
	net.Conn
	end func() error
}

// Close ends the desk too.
func (p *privateConn) Close() error { return p.end() }

// ServePrivate is [ServeConn] on the descriptor that [Private] passes.
func ServePrivate(ctx context.Context, fd int, cfg Config) error {
	f := os.NewFile(uintptr(fd), "client")
	if f == nil {
		return fmt.Errorf("descriptor %d is not open", fd)
	}
	nc, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return ServeConn(ctx, nc, cfg)
}
