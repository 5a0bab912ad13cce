package link

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// HelloTimeout bounds the exchange of first frames.
const HelloTimeout = 5 * time.Second

// protocolName stands in every first frame, so that anything else that talks
// on the socket is told apart from another version.
const protocolName = "penstock-link"

// Who says what a client is.
type Who string

const (
	Bridge Who = "bridge" // of one session; reaches what that session stored
	Person Who = "person" // a command that somebody typed; reaches everything
)

// HelloHead is the head of the first frame of each side. Its form is the same
// in all versions of the protocol; members that a side does not know are
// ignored.
type HelloHead struct {
	Protocol string `json:"protocol"` // "penstock-link"
	Version  int    `json:"version"`
	Build    string `json:"build"` // for people
	PID      int    `json:"pid"`

	// Of a client.
	Who     Who    `json:"who,omitempty"`
	Session string `json:"session,omitempty"` // shown to people
	Secret  string `json:"secret,omitempty"`  // proves on reconnecting that it is the same session; never shown
	Server  string `json:"server,omitempty"`  // name of the MCP server
}

// VersionError says that the two sides speak different versions. It is of this
// connection; another desk may do.
type VersionError struct {
	Ours, Theirs         int
	OurBuild, TheirBuild string
	TheirPID             int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("this penstock (%s) speaks version %d of the desk's protocol, and the other side (%s, process %d) version %d",
		e.OurBuild, e.Ours, e.TheirBuild, e.TheirPID, e.Theirs)
}

// Greet exchanges first frames as the client or the desk and returns the other
// side's. The desk waits for the client's frame first and answers also one of
// another version, so that both sides can say what is wrong.
func (c *Conn) Greet(ours HelloHead, client bool) (HelloHead, error) {
	ours.Protocol, ours.Version = protocolName, Version
	head, err := json.Marshal(ours)
	if err != nil || len(head) > maxHello {
		return HelloHead{}, fmt.Errorf("hello of %d bytes: %v", len(head), err)
	}
	c.nc.SetDeadline(time.Now().Add(HelloTimeout))
	defer c.nc.SetDeadline(time.Time{})
	if client {
		if err := c.Write(Hello, 0, head, HelloTimeout); err != nil {
			return HelloHead{}, err
		}
	}
	theirs, err := c.readHello()
	if err != nil && !errors.As(err, new(*VersionError)) {
		return HelloHead{}, err
	}
	if !client {
		if err := c.Write(Hello, 0, head, HelloTimeout); err != nil {
			return HelloHead{}, err
		}
	}
	if e := (*VersionError)(nil); errors.As(err, &e) {
		e.OurBuild = ours.Build
	}
	return theirs, err
}

func (c *Conn) readHello() (HelloHead, error) {
	var theirs HelloHead
	f, err := c.readFrame(nil) // not Read, whose deadline begins with the first byte
	if err != nil {
		return theirs, err
	}
	if f.Kind == Fail && f.ID == 0 {
		return theirs, failure(f)
	}
	if f.Kind != Hello {
		return theirs, fmt.Errorf("%w: begins with a %s frame", ErrProtocol, f.Kind)
	}
	if err := json.Unmarshal(f.Head, &theirs); err != nil || theirs.Protocol != protocolName {
		return theirs, fmt.Errorf("%w: strange first frame", ErrProtocol)
	}
	if theirs.Version != Version {
		return theirs, &VersionError{Ours: Version, Theirs: theirs.Version, TheirBuild: theirs.Build, TheirPID: theirs.PID}
	}
	return theirs, nil
}

// Owner is what the desk keeps of a session to recognise it by, so that
// whoever can read its files cannot pass for the session.
func (h HelloHead) Owner() [32]byte {
	return sha256.Sum256([]byte("penstock-link/1 owner\x00" + h.Session + "\x00" + h.Secret))
}

// CheckPeer returns an error unless the process at the other end of nc runs as
// the same user. Where the system does not tell, only the modes of the files
// protect; a pair of sockets that was inherited has no other end to ask.
func CheckPeer(nc net.Conn) error {
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return nil
	}
	return checkPeer(uc)
}
