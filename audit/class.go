package audit

import "fmt"

// Class says how much a record matters when the disk does not keep up.
type Class int

const (
	// ClassIntent is for records that somebody waits for before acting.
	ClassIntent Class = iota
	// ClassTerminal is for records of how something ended. Nobody waits for
	// them; their room is kept from their intent on.
	ClassTerminal
	// ClassDiagnostic is for records that are dropped and counted first.
	ClassDiagnostic
	numClasses
)

var classNames = [numClasses]string{"intent", "terminal", "diagnostic"}

// String returns the name of the class in gap records.
func (c Class) String() string { return classNames[c] }

// MarshalText returns what String does.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func parseClass(s string) (Class, error) {
	for c, name := range classNames {
		if s == name {
			return Class(c), nil
		}
	}
	return 0, fmt.Errorf("unknown class %.20q", s)
}

// Level says what a caller waits for.
type Level int

const (
	// Written is when the record and its COMMIT were written: it survives the
	// death of the process, not of the machine.
	Written Level = iota
	// Durable is when they were synced.
	Durable
)
