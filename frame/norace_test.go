//go:build !race

package frame_test

const scale = 1
