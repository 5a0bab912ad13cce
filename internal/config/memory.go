package config

// RuntimeBase is what a bridge holds beside the buffers that the limits bound:
// the Go runtime, its code's data, and the table of calls. It is the ceiling
// that the tests hold an idle bridge to, not a measurement.
const RuntimeBase Size = 10 * mib

// SendBuffer is what of results may wait in a bridge for the desk to take it.
const SendBuffer Size = 4 * mib

// Memory is the most that the settings let bridges hold, in anonymous memory.
// The parts are for one bridge.
type Memory struct {
	Base     Size // RuntimeBase
	Queues   Size // limits.queues
	Readers  Size // one message of limits.wire in each direction
	Captures Size // stderr kept: for each call, within the limit of the process
	Results  Size // what waits to be kept by the desk, and a result being cut

	Bridge Size // the sum of the parts
	Total  Size // of all sessions: each has a bridge of its own
}

// WorstCase returns the most memory that sessions bridges with calls calls in
// flight each can hold. More calls than limits.calls are refused, and so count
// as that many.
func (c *Config) WorstCase(calls, sessions int) Memory {
	calls = min(max(calls, 0), c.Limits.Calls)
	m := Memory{
		Base:     RuntimeBase,
		Queues:   c.Limits.Queues,
		Readers:  2 * c.Limits.Wire,
		Captures: min(Size(calls)*c.HelperOutput.StderrRetainedPerCall, c.HelperOutput.StderrRetainedProcess),
	}
	if c.Limits.Content != Off || c.Results.Oversize == OversizeSpill {
		m.Results = SendBuffer + 5*max(c.Limits.Content, 0)
	}
	m.Bridge = m.Base + m.Queues + m.Readers + m.Captures + m.Results
	m.Total = Size(max(sessions, 0)) * m.Bridge
	return m
}
