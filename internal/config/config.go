// Package config reads Penstock's settings: one strict YAML file, the
// environment and the command line, in that order of rising precedence.
//
// Most callers need only [Load]. [Keys] is the one description of every
// setting; decoding, defaults, variable names, the JSON Schema ([Schema]) and
// the reference page ([Reference]) all come from it, so a new setting is a
// field of [Config] and a line of that table.
//
// The promise: a value in a [Config] that Load returned is one that somebody
// wrote or the documented default, within its documented range, and agrees
// with the others. Nothing is ignored: a key that is not known, or not known
// yet, is an error that says so. All problems of all sources are reported
// together as [Problems].
//
// What it refuses: includes, several files, anchors, tags, expansion of
// variables inside values, and writing the file.
package config

import (
	"slices"
	"time"
)

// Config is the effective settings. The zero value is not useful; [Default]
// and [Load] make one. It is plain data: copy it, and do not change one that
// others read.
type Config struct {
	Limits       Limits
	HelperOutput HelperOutput
	Timeouts     Timeouts
	Results      Results
	Wedge        string // WedgeReport or WedgeRestart
	Descendants  string // DescendantsReport or DescendantsKill

	// Tools are the rules for single tools, in the order of the file. Use
	// [Config.ToolRule].
	Tools []ToolRule

	origin map[string]Origin // by key path; missing means default
}

// Limits bound what one bridge holds.
type Limits struct {
	Wire   Size // most bytes of one message
	Queues Size // most bytes waiting in the queues of both directions together
	Calls  int  // most calls in flight

	ContentMost Size // what a tool may raise Content to for its own results
	Content     Size // most bytes of text of a result that the agent is shown, or Off
	Media       Size // most bytes of one image or sound of a result
}

// HelperOutput bounds what is kept and shown of a server's stderr.
type HelperOutput struct {
	StderrRetainedPerCall  Size
	StderrRetainedProcess  Size
	StderrAgentExcerpt     Size
	ShutdownGrace          time.Duration
	Retain                 string // RetainTail or RetainHeadAndTail
	StderrForwardPerMinute Size
}

// Timeouts are wall-clock. Zero means none, where the key allows zero.
type Timeouts struct {
	Idle        time.Duration
	Total       time.Duration
	CancelGrace time.Duration
	WedgeAfter  time.Duration
}

// Results say what becomes of results that do not fit.
type Results struct {
	Oversize     string        // OversizeSpill or OversizeReject
	Keep         string        // KeepHead, KeepTail or KeepHeadAndTail
	Quota        Size          // most bytes kept
	SessionQuota Size          // most bytes kept of one session; zero means half of Quota
	Expire       time.Duration // how long they are kept

	PromptsAndResources string // PassWhole or CutToo
}

// The words that settings of the kind [Word] hold.
const (
	OversizeSpill     = "spill"
	OversizeReject    = "reject"
	PassWhole         = "pass"
	CutToo            = "cut"
	KeepHead          = "head"
	KeepTail          = "tail"
	KeepHeadAndTail   = "head_and_tail"
	WedgeReport       = "report"
	WedgeRestart      = "restart"
	DescendantsReport = "report"
	DescendantsKill   = "kill"
	RetainTail        = "tail"
	RetainHeadAndTail = "head_and_tail"
)

// Source says where settings come from. The zero value gives the defaults.
type Source struct {
	// File is the settings file that the user named. It must exist. Empty means
	// config.yaml in the folder that [Home] finds, which need not.
	File string

	// Environ is the environment, as os.Environ gives it.
	Environ []string

	// Flags are the settings given on the command line; nil means none.
	Flags *Flags
}

// Default returns the settings of an empty file.
func Default() *Config {
	c := &Config{}
	for _, k := range keys {
		v, err := k.parse(k.Default)
		if err != nil {
			panic("config: default of " + k.Path + ": " + err.Error())
		}
		k.store(c, v)
	}
	return c
}

// Load returns the effective settings. An error is of type [Problems], sorted,
// and then there is no Config. It reads the file, and so waits for the disk.
func Load(src Source) (*Config, error) {
	var problems Problems
	values := make(map[string]setting)

	file, found, err := Path(src)
	switch {
	case err != nil:
		problems = append(problems, asProblem(err))
	case found:
		problems = append(problems, readFile(file, src.File == "", values)...)
	case src.File != "":
		problems = append(problems, Problem{Origin: Origin{Kind: FromFile, Name: file}, Msg: "no such file"})
	}
	problems = append(problems, readEnv(src.Environ, values)...)
	problems = append(problems, src.Flags.read(values)...)

	c := Default()
	c.origin = make(map[string]Origin)
	for _, k := range keys {
		if s, ok := values[k.Path]; ok {
			k.store(c, s.value)
			c.origin[k.Path] = s.origin
		}
	}
	if s, ok := values[toolList]; ok {
		c.Tools = s.tools
		c.origin[toolList] = s.origin
	}
	problems = append(problems, c.disagreements(problems)...)
	if len(problems) > 0 {
		slices.SortStableFunc(problems, Problem.compare)
		return nil, problems
	}
	return c, nil
}

// setting is a value and where it was found.
type setting struct {
	value  value
	tools  []ToolRule // of the list, which has no value
	origin Origin
}

// Origin returns where the value of the key came from.
func (c *Config) Origin(path string) Origin { return c.origin[path] }

// Text returns the value of the key as a person writes it, "" for a path that
// is not a key.
func (c *Config) Text(path string) string {
	k, ok := Lookup(path)
	if !ok {
		return ""
	}
	return k.format(k.load(c))
}

// Number returns the value of the key in bytes, nanoseconds or counts, and
// false for a word or a path that is not a key.
func (c *Config) Number(path string) (int64, bool) {
	k, ok := Lookup(path)
	if !ok || !k.number() {
		return 0, false
	}
	return k.load(c).num, true
}
