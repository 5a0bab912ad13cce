//go:build !race

package desk

// raceEnabled says that memory and time are not those of the program.
const raceEnabled = false
