//go:build !linux && !darwin

package link

import "net"

// Here the modes of the folders alone protect the socket.
func checkPeer(*net.UnixConn) error { return nil }
