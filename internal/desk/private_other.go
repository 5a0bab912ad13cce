//go:build !unix

package desk

import (
	"context"
	"errors"
	"net"
)

var errNoPrivate = errors.New("private desks are not made on this system")

// Private starts nothing on this system.
func Private(context.Context, string, string) (net.Conn, error) { return nil, errNoPrivate }

// ServePrivate serves nothing on this system.
func ServePrivate(context.Context, int, Config) error { return errNoPrivate }
