package desk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Run is the shared desk: it takes its place under cfg.Home and serves until
// [Serve] ends. It calls ready once, with nil when clients can connect, to this
// desk or to one that was faster; then Run returns nil at once.
func Run(ctx context.Context, cfg Config, ready func(error)) error {
	if cfg.Home == "" {
		err := errors.New("this user has no home where a desk could be")
		ready(err)
		return err
	}
	l, release, err := claim(ctx, cfg.Home)
	if errors.Is(err, errRunning) {
		ready(nil)
		return nil
	}
	ready(err)
	if err != nil {
		return err
	}
	defer release()
	return Serve(ctx, l, cfg)
}

// Start starts the shared desk of home in a process of its own: program is run
// with the arguments "desk serve" and must call [Detach] and [Run]. It is
// detached from this process: another session, working folder and environment,
// none of its files. Start returns when clients can connect, or with what went
// wrong. It touches no disk itself.
func Start(ctx context.Context, program, home string) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := command(program, home, "serve")
	cmd.Stdout = in
	err = cmd.Start()
	in.Close()
	if err != nil {
		return fmt.Errorf("start of the desk: %w", err)
	}
	// The desk may outlive this process or end before it; then somebody must
	// take its exit status. Nobody waits for this goroutine.
	go cmd.Wait()

	unhook := context.AfterFunc(ctx, func() { out.Close() })
	defer unhook()
	line, err := bufio.NewReader(io.LimitReader(out, 4<<10)).ReadString('\n')
	line = strings.TrimSuffix(line, "\n")
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the desk did not start in time: %w", ctx.Err())
	case err != nil:
		return errors.New("the desk ended while it started")
	case line != readyLine:
		return fmt.Errorf("the desk cannot start: %s", line)
	}
	return nil
}

const readyLine = "ready"

// Ready returns the function for [Run] to call in the process that [Start]
// started: it tells Start, and lets go of standard output.
func Ready(stdout *os.File) func(error) {
	return func(err error) {
		line := readyLine
		if err != nil {
			line = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintln(stdout, line)
		releaseOutput(stdout)
	}
}

// command prepares a desk's process.
func command(program, home string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, append([]string{"desk"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = environment(home)
	cmd.SysProcAttr = detached()
	return cmd
}

// environment is what a desk starts with, whoever starts it. Everything else
// is in the settings file.
func environment(home string) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	if home != "" {
		env = append(env, "PENSTOCK_HOME="+home)
	}
	for _, name := range systemVariables {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// WaitStopped waits until no desk has the place of home, or for ctx.
func WaitStopped(ctx context.Context, home string) error {
	for {
		lock, err := os.OpenFile(filepath.Join(home, "run", lockFile), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		free, err := tryLock(lock)
		lock.Close()
		if free || err != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
