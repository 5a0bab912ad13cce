// Package result shortens results that are too large for an agent, says
// honestly that it did, and reads the whole ones that were kept.
//
// A [Cutter] is fed the bytes of one JSON-RPC response and returns, if it is
// over its [Limits], a shorter response of the same shape: valid JSON, valid for
// the tool's output schema, with notices that say how much of how much is shown
// and how to read on. [Read] answers one [Query] over the stored bytes of such
// a response, and [View] writes one part of it whole.
//
// Everything streams. What is held in memory depends on the limits, never on
// the size of the result. The package opens no file, starts no goroutine and
// reads no clock; where results are kept is the desk's business, and what is
// sent to whom the bridge's. None of its types is safe for concurrent use,
// except [Schema].
//
// Numbers of bytes are those of the decoded text, as UTF-8, for texts, and of
// the JSON as it is written for everything else.
package result
