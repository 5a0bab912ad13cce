// Package child owns one child process from its start to its end: the process
// group, the writer of its stdin, both readers of its output, the ladder that
// stops it, the single wait, and the report of what was observed.
//
// Most callers need [Start], [Child.Stop] and [Child.Wait]. [Capture] keeps the
// bounded rest of a diagnostic stream and is useful without a child.
//
// The promise: what the child writes is read from its start to its end,
// whatever its owner is doing, so a child never blocks on output; and
// [Child.Wait] returns within a bound that the grace period sets, with no
// goroutine, descriptor or zombie left, although a descendant may still hold a
// pipe. The only exception is a process that the kernel itself cannot end (one
// stuck in a frozen file system): its wait stays behind, and the report says
// that no exit was observed.
//
// What reaches which process:
//
//   - Linux: the child is the leader of a process group of its own and gets
//     SIGKILL when this process dies. Descendants that left the group are found
//     by [Config.Marker] in their environment, as far as the kernel lets this
//     user read it (not of set-uid programs, nor of agents that hide their
//     memory).
//   - Other Unix: the group, no parent-death signal, and nothing that left it.
//   - Windows: the child starts suspended and is put into a job object that
//     kills all of it when this process dies or the job is closed. The Windows
//     part is built and vetted, but no test has run it yet.
//
// The package starts no shell, sets nothing process-wide except by
// [BecomeSubreaper], prints nothing, and never restarts a child.
package child
