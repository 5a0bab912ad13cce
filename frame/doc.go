// Package frame cuts a byte stream into JSON-RPC messages, one a line, in memory
// bounded by a limit whatever the stream holds, and checks each as JSON in the
// same pass. Most callers need [NewReader] and [NewWriter]; [Scanner] is the
// incremental JSON scanner below them, and [Members], [Elements], [Is], [Unquote]
// and [Quote] look into texts that passed it, without decoding them.
//
// A [Reader] never fails because of what a line holds. A line that is no message
// comes out as a [Violation], one over the limit as [Oversize] with the id that
// stands in it; both leave the stream usable. It does not answer, forward,
// queue or log anything, and it gives no line a meaning beyond what a JSON-RPC
// message is: that is the caller's.
package frame
