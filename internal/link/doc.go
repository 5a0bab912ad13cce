// Package link is the protocol between a bridge, or a command that a person
// typed, and the desk, and its client.
//
// Most callers need [Dial], [Client.NewPut] and [Client.Read]. The other end is
// package desk, which uses [Conn], the frames and the messages of this package.
// docs/formats/link.md specifies what is on the wire.
//
// The promise: a client never makes its caller wait for the desk except where
// the caller passes a context, never holds more than its buffer, and says of
// every result that it could not hand over that it is lost and why. Nothing in
// the protocol carries a path or a credential to a client.
//
// It refuses to talk to another user's process, to guess what another version
// means, and to resend half a result.
package link
