// Package audit is an append-only log of opaque JSON records that its writer
// cannot read and that anyone can verify offline.
//
// Most programs need [Open] to write, [Verify] to judge a log, with or without
// the key, and [OpenReader] to read one. The format is written down in
// docs/formats/audit.md; the files of one release verify in all later ones.
//
// The pieces. A [Writer] appends to a strand: a hash chain of its own, in
// numbered segments, each sealed under a secret of its own that only the
// recipients can open. The [Spine] is a small signed Merkle log in the same
// folder that holds the openings, heads and ends of all strands. A copy of its
// checkpoint kept elsewhere is an anchor: without one nobody can tell a log
// from the same log as it was last week, so verdicts say which they had.
//
// The promise of the writer: an intent is acknowledged only once it is where
// its [Level] says, or refused within the deadline; the record of its end has
// room kept for it, in memory and on disk, from then on; nothing that calls a
// Writer ever waits for a disk except [Receipt.Wait] and [Writer.Close], both
// bounded; whatever is lost is counted in the log itself. The promise of the
// verifier: it never says more than was checked, and a missing seal is a
// failure, never a lesser pass.
//
// What the bodies of records mean lives elsewhere. The package refuses to run
// age plugins, to write to a segment that it did not begin, to sync a file
// again after a sync failed, and to log to a network file system unless told.
package audit
