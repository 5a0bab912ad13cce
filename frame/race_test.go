//go:build race

package frame_test

// scale divides the sizes of the giant frames: the race detector is slow.
const scale = 16
