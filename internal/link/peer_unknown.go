//go:build !linux

package link

import "net"

// PeerPID returns the process that connected nc, 0 if the system does not tell.
func PeerPID(net.Conn) int { return 0 }
