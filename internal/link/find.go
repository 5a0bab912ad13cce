package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// find returns a connection to a desk: the shared one, started if need be, else
// a private one.
func (c *Client) find(ctx context.Context) (*Conn, HelloHead, error) {
	c.mu.Lock()
	private := c.private
	c.mu.Unlock()

	shared := errors.New("this user has no home where a desk could be")
	if c.o.Home != "" && !private {
		conn, desk, err := c.findShared(ctx)
		if err == nil {
			return conn, desk, nil
		}
		shared = err
	}
	if c.o.Private == nil || ctx.Err() != nil {
		return nil, HelloHead{}, shared
	}
	if !private {
		c.o.Log.Warn("this session gets a desk of its own", "why", shared)
	}
	nc, err := c.o.Private(ctx)
	if err != nil {
		return nil, HelloHead{}, fmt.Errorf("no desk for all (%w), and none for this session: %w", shared, err)
	}
	conn, desk, err := c.greet(ctx, nc)
	if err != nil {
		return nil, HelloHead{}, fmt.Errorf("no desk for all (%w), and none for this session: %w", shared, err)
	}
	c.mu.Lock()
	c.private = true // for good: what is kept is there
	c.mu.Unlock()
	return conn, desk, nil
}

// findShared dials until the shared desk answers. The first failure starts it;
// so does every later second, since whoever was starting it may have died.
func (c *Client) findShared(ctx context.Context) (*Conn, HelloHead, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	var started time.Time
	wait := 5 * time.Millisecond
	for {
		conn, desk, err := c.dial(ctx)
		switch {
		case err == nil:
			return conn, desk, nil
		case c.o.Start == nil, errors.As(err, new(*VersionError)), errors.Is(err, ErrNotPrivate):
			return nil, HelloHead{}, err
		}
		if time.Since(started) > time.Second {
			started = time.Now()
			if startErr := c.o.Start(ctx); startErr != nil {
				return nil, HelloHead{}, startErr
			}
			continue
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, 200*time.Millisecond)
		case <-ctx.Done():
			return nil, HelloHead{}, err
		}
	}
}

func (c *Client) dial(ctx context.Context) (*Conn, HelloHead, error) {
	path := SocketPath(c.o.Home)
	if err := CheckSocket(path); err != nil {
		return nil, HelloHead{}, err
	}
	nc, err := (&net.Dialer{Timeout: HelloTimeout}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, HelloHead{}, err
	}
	if err := CheckPeer(nc); err != nil {
		nc.Close()
		return nil, HelloHead{}, err
	}
	return c.greet(ctx, nc)
}

func (c *Client) greet(ctx context.Context, nc net.Conn) (*Conn, HelloHead, error) {
	conn := NewConn(nc)
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	desk, err := conn.Greet(c.hello, true)
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, HelloHead{}, err
	}
	return conn, desk, nil
}
