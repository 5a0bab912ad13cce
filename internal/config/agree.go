package config

import (
	"fmt"
	"slices"
)

// rule is a relation between two settings.
type rule struct {
	left, right string // key paths
	must        string // what left must be, for people; then comes right
	least       func(c *Config) (left, right int64)
}

// rules hold when the first number that least returns is not below the second.
var rules = []rule{
	{
		"limits.queues", "limits.wire", "at least twice",
		func(c *Config) (int64, int64) { return int64(c.Limits.Queues), 2 * int64(c.Limits.Wire) },
	},
	{
		"helper_output.stderr_retained_process_bytes", "helper_output.stderr_retained_per_call_bytes", "at least",
		func(c *Config) (int64, int64) {
			return int64(c.HelperOutput.StderrRetainedProcess), int64(c.HelperOutput.StderrRetainedPerCall)
		},
	},
	{
		"helper_output.stderr_retained_per_call_bytes", "helper_output.stderr_agent_excerpt_bytes", "at least",
		func(c *Config) (int64, int64) {
			return int64(c.HelperOutput.StderrRetainedPerCall), int64(c.HelperOutput.StderrAgentExcerpt)
		},
	},
	{
		"results.quota", "results.session_quota", "at least",
		func(c *Config) (int64, int64) { return int64(c.Results.Quota), int64(c.Results.SessionQuota) },
	},
	{
		"timeouts.total", "timeouts.idle", "0s or at least",
		func(c *Config) (int64, int64) {
			if c.Timeouts.Total == 0 {
				return 0, 0
			}
			return int64(c.Timeouts.Total), int64(c.Timeouts.Idle)
		},
	},
	{
		"timeouts.wedge_after", "timeouts.cancel_grace", "at least",
		func(c *Config) (int64, int64) { return int64(c.Timeouts.WedgeAfter), int64(c.Timeouts.CancelGrace) },
	},
}

// disagreements returns the rules that c breaks. Settings that already have a
// problem are left out: a second complaint about them would be noise.
func (c *Config) disagreements(known Problems) Problems {
	bad := func(path string) bool {
		return slices.ContainsFunc(known, func(p Problem) bool { return p.Key == path })
	}
	var problems Problems
	for _, r := range rules {
		if bad(r.left) || bad(r.right) {
			continue
		}
		if have, want := r.least(c); have >= want {
			continue
		}
		// Placed where somebody can change it: at the one that wins over the
		// other or stands later in the file. It is never a default.
		path := r.left
		if (Problem{Origin: c.Origin(r.left)}).compare(Problem{Origin: c.Origin(r.right)}) < 0 {
			path = r.right
		}
		problems = append(problems, Problem{
			Origin: c.Origin(path),
			Key:    path,
			Msg: fmt.Sprintf("%s is %s (%s), and must be %s %s, which is %s (%s)",
				r.left, c.Text(r.left), c.Origin(r.left), r.must, r.right, c.Text(r.right), c.Origin(r.right)),
		})
	}
	return problems
}
