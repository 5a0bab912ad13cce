package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind says how a setting is written.
type Kind string

const (
	Bytes    Kind = "size"     // 8MiB, or a number of bytes
	Duration Kind = "duration" // 30s, 1h
	Seconds  Kind = "seconds"  // 5, 1.5: for keys whose name says the unit
	Count    Kind = "count"    // 256
	Word     Kind = "word"     // one of a list
	Glob     Kind = "glob"     // read_*, for names
)

// Key describes one setting. Keys are values; changing one changes nothing.
type Key struct {
	Path    string // in the file, such as "limits.wire"
	Kind    Kind
	Doc     string // sentences for people
	Flag    string // name of the flag without dashes, "" for none
	Default string // as written in the file
	Zero    string // what zero means where it is allowed outside Min to Max, else ""
	Off     string // what off means where it is allowed, else ""; of Bytes
	Min     int64  // bytes, nanoseconds or counts; not for words
	Max     int64
	Words   []string // of a Word

	// Where the value is: *Size, *time.Duration, *int or *string. One of these
	// is set.
	field func(*Config) any
	rule  func(*ToolRule) any // of the keys in an entry of the list tools
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	day = 24 * time.Hour
)

// keys is the description of all settings, in the order in which they are
// shown. Everything about a setting that can be derived is derived from here.
var keys = []Key{
	{
		Path: "limits.wire", Kind: Bytes, Default: "8MiB", Min: 4 * kib, Max: 256 * mib, Flag: "wire-limit",
		Doc:   "The most bytes of one message that are held in memory. A longer message is read to its end and dropped, and the call that it belongs to gets an error. Hosts close the connection on messages above 10 MiB or 16 MiB, so a higher limit helps only with a host that is known to take more.",
		field: func(c *Config) any { return &c.Limits.Wire },
	},
	{
		Path: "limits.queues", Kind: Bytes, Default: "16MiB", Min: 8 * kib, Max: 4 * gib,
		Doc:   "The most bytes that wait in the queues of one bridge, both directions together. At least twice limits.wire.",
		field: func(c *Config) any { return &c.Limits.Queues },
	},
	{
		Path: "limits.calls", Kind: Count, Default: "256", Min: 1, Max: 65536,
		Doc:   "The most calls in flight in one session. One more is refused before it reaches the server, and is safe to retry.",
		field: func(c *Config) any { return &c.Limits.Calls },
	},
	{
		Path: "limits.content", Kind: Bytes, Default: "64KiB", Min: kib, Max: mib, Off: "to pass everything on whole", Flag: "content-limit",
		Doc:   "The most bytes of text that one result puts in front of the agent, all its parts together. A longer result is cut, says so, and its rest is kept for a while and can be read in pages.",
		field: func(c *Config) any { return &c.Limits.Content },
	},
	{
		Path: "limits.content_most", Kind: Bytes, Default: "256KiB", Min: kib, Max: 4 * mib,
		Doc:   "The most that a tool may raise limits.content to for its own results, by anthropic/maxResultSizeChars in its definition.",
		field: func(c *Config) any { return &c.Limits.ContentMost },
	},
	{
		Path: "limits.media", Kind: Bytes, Default: "8MiB", Min: kib, Max: 256 * mib,
		Doc:   "The most bytes of one image or sound in a result, as the message holds it. A larger one is replaced by a note, never cut.",
		field: func(c *Config) any { return &c.Limits.Media },
	},
	{
		Path: "helper_output.stderr_retained_per_call_bytes", Kind: Bytes, Default: "16384", Min: 256, Max: 64 * mib,
		Doc:   "The most bytes of stderr kept for one call. Reading goes on beyond it; what was let go is counted and marked.",
		field: func(c *Config) any { return &c.HelperOutput.StderrRetainedPerCall },
	},
	{
		Path: "helper_output.stderr_retained_process_bytes", Kind: Bytes, Default: "262144", Min: 256, Max: gib,
		Doc:   "The most bytes of stderr kept by one bridge for all calls together, however many there are.",
		field: func(c *Config) any { return &c.HelperOutput.StderrRetainedProcess },
	},
	{
		Path: "helper_output.stderr_agent_excerpt_bytes", Kind: Bytes, Default: "4096", Min: 256, Max: mib, Zero: "to show none",
		Doc:   "The most bytes of stderr shown to the agent in one error.",
		field: func(c *Config) any { return &c.HelperOutput.StderrAgentExcerpt },
	},
	{
		Path: "helper_output.shutdown_grace_seconds", Kind: Seconds, Default: "5", Min: 0, Max: int64(10 * time.Minute),
		Doc:   "How many seconds a server gets at each step of stopping: after its stdin is closed, and after the signal that asks it to end.",
		field: func(c *Config) any { return &c.HelperOutput.ShutdownGrace },
	},
	{
		Path: "helper_output.retain", Kind: Word, Default: RetainTail, Words: []string{RetainTail, RetainHeadAndTail},
		Doc:   "Which part of a long stderr is kept: its end, or its beginning and its end.",
		field: func(c *Config) any { return &c.HelperOutput.Retain },
	},
	{
		Path: "helper_output.stderr_forward_per_minute_bytes", Kind: Bytes, Default: "1MiB", Min: 4 * kib, Max: gib,
		Doc:   "The most bytes of a server's stderr passed on in a minute to the bridge's own stderr, which hosts keep as the server's log. What is left out is counted and marked.",
		field: func(c *Config) any { return &c.HelperOutput.StderrForwardPerMinute },
	},
	{
		Path: "timeouts.idle", Kind: Duration, Default: "0s", Min: int64(100 * time.Millisecond), Max: int64(7 * day), Zero: "for none", Flag: "idle-timeout",
		Doc:   "How long a call may go without progress of its own before it is cancelled.",
		field: func(c *Config) any { return &c.Timeouts.Idle },
	},
	{
		Path: "timeouts.total", Kind: Duration, Default: "1h", Min: int64(100 * time.Millisecond), Max: int64(7 * day), Zero: "for none", Flag: "total-timeout",
		Doc:   "How long a call may take in all before it is cancelled. Nothing extends it.",
		field: func(c *Config) any { return &c.Timeouts.Total },
	},
	{
		Path: "timeouts.cancel_grace", Kind: Duration, Default: "5s", Min: 0, Max: int64(10 * time.Minute), Flag: "cancel-grace",
		Doc:   "How long a server has to react to a cancellation before the call is recorded as not acknowledged.",
		field: func(c *Config) any { return &c.Timeouts.CancelGrace },
	},
	{
		Path: "timeouts.wedge_after", Kind: Duration, Default: "30s", Min: int64(100 * time.Millisecond), Max: int64(day), Flag: "wedge-after",
		Doc:   "How long a server may do nothing after a cancelled call, while requests wait, before it counts as unresponsive.",
		field: func(c *Config) any { return &c.Timeouts.WedgeAfter },
	},
	{
		Path: "wedge", Kind: Word, Default: WedgeReport, Words: []string{WedgeReport, WedgeRestart},
		Doc:   "What happens to an unresponsive server: it is reported and its waiting calls are answered, or it is restarted as well.",
		field: func(c *Config) any { return &c.Wedge },
	},
	{
		Path: "descendants", Kind: Word, Default: DescendantsReport, Words: []string{DescendantsReport, DescendantsKill},
		Doc:   "What happens at the end to processes of a server that made a session of their own, such as a browser or an agent of a key store: they are named, or killed.",
		field: func(c *Config) any { return &c.Descendants },
	},
	{
		Path: "results.oversize", Kind: Word, Default: OversizeSpill, Words: []string{OversizeSpill, OversizeReject}, Flag: "oversize",
		Doc:   "What happens to a result above limits.wire: it is handed to the desk as it comes in and can be read in pages, or it is dropped. Either way the call gets an answer.",
		field: func(c *Config) any { return &c.Results.Oversize },
	},
	{
		Path: "results.keep", Kind: Word, Default: KeepHead, Words: []string{KeepHead, KeepTail, KeepHeadAndTail},
		Doc:   "Which part of a text that is cut is shown: its beginning, its end, or both.",
		field: func(c *Config) any { return &c.Results.Keep },
	},
	{
		Path: "results.prompts_and_resources", Kind: Word, Default: PassWhole, Words: []string{PassWhole, CutToo},
		Doc:   "Whether answers to prompts/get and resources/read above limits.content are passed on whole, up to limits.wire, or cut as results of tools are.",
		field: func(c *Config) any { return &c.Results.PromptsAndResources },
	},
	{
		Path: "results.quota", Kind: Bytes, Default: "4GiB", Min: mib, Max: 1 << 50,
		Doc:   "The most bytes of results that the desk keeps. When it is reached, the oldest make room.",
		field: func(c *Config) any { return &c.Results.Quota },
	},
	{
		Path: "results.session_quota", Kind: Bytes, Default: "0", Min: 64 * kib, Max: 1 << 50, Zero: "for half of results.quota",
		Doc:   "The most bytes of results that are kept of one session, and so the largest result that can be kept at all.",
		field: func(c *Config) any { return &c.Results.SessionQuota },
	},
	{
		Path: "results.expire", Kind: Duration, Default: "24h", Min: int64(time.Minute), Max: int64(90 * day),
		Doc:   "How long a result is kept.",
		field: func(c *Config) any { return &c.Results.Expire },
	},
}

// planned names settings of later versions, so that somebody who follows a
// newer guide learns that, and does not look for a typo. A section stands for
// everything in it.
var planned = []string{
	"audit", "approvals", "policy", "servers", "actions",
}

// Keys returns the description of all settings.
func Keys() []Key { return slices.Clone(keys) }

// Lookup returns the key with the path.
func Lookup(path string) (Key, bool) {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Path == path })
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}

// Env returns the environment variable of the key: PENSTOCK_LIMITS_WIRE.
func (k Key) Env() string { return envName(k.Path) }

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Usage returns a line for the help text of the flag: the first sentence of
// the documentation.
func (k Key) Usage() string {
	first, _, _ := strings.Cut(k.Doc, ". ")
	first = strings.TrimSuffix(first, ".")
	return strings.ToLower(first[:1]) + first[1:]
}

// Check reports why text is not a value of the key, nil if it is one. The
// error says what would be allowed.
func (k Key) Check(text string) error {
	_, err := k.parse(text)
	return err
}

// value is what any setting holds: num in bytes, nanoseconds or counts, or word.
type value struct {
	num  int64
	word string
}

// parse reads a value in the form that all sources share.
func (k Key) parse(text string) (value, error) {
	var (
		v   value
		err error
	)
	switch k.Kind {
	case Bytes:
		var size Size
		if size, err = ParseSize(text); err == nil && size == Off {
			if k.Off != "" {
				return value{num: int64(Off)}, nil
			}
			err = fmt.Errorf("cannot be off")
		}
		v.num = int64(size)
	case Duration:
		var d time.Duration
		d, err = ParseDuration(text)
		v.num = int64(d)
	case Seconds:
		v.num, err = parseSeconds(text)
	case Count:
		v.num, err = parseWhole(text)
	case Word:
		v.word = text
		if !slices.Contains(k.Words, text) {
			err = fmt.Errorf("%s is not one of its words%s", quote(text), suggest(text, k.Words))
		}
	case Glob:
		v.word = text
		err = checkGlob(text)
	}
	if err == nil && k.number() && !(v.num == 0 && k.Zero != "") && (v.num < k.Min || v.num > k.Max) {
		err = fmt.Errorf("%s is out of range", quote(text))
	}
	if err != nil {
		return value{}, fmt.Errorf("%w; allowed: %s", err, k.Allowed())
	}
	return v, nil
}

// number reports whether values are numbers.
func (k Key) number() bool { return k.Kind != Word && k.Kind != Glob }

// Allowed says in words what may be written.
func (k Key) Allowed() string {
	if k.Kind == Word {
		return strings.Join(k.Words, " or ")
	}
	if k.Kind == Glob {
		return "a pattern with * for any characters, ? for one, [a-z] for one of these"
	}
	s := k.format(value{num: k.Min}) + " to " + k.format(value{num: k.Max})
	if k.Zero != "" {
		s = k.format(value{}) + " " + k.Zero + ", or " + s
	}
	if k.Off != "" {
		s = Off.String() + " " + k.Off + ", or " + s
	}
	return s
}

// format is the reverse of parse, in the shortest exact form.
func (k Key) format(v value) string {
	switch k.Kind {
	case Bytes:
		return Size(v.num).String()
	case Duration:
		return FormatDuration(time.Duration(v.num))
	case Seconds:
		return strconv.FormatFloat(time.Duration(v.num).Seconds(), 'f', -1, 64)
	case Count:
		return strconv.FormatInt(v.num, 10)
	}
	return v.word
}

// store puts the value into the field of c.
func (k Key) store(c *Config, v value) { store(k, k.field(c), v) }

// load is the reverse of store.
func (k Key) load(c *Config) value { return load(k, k.field(c)) }

func store(k Key, field any, v value) {
	switch p := field.(type) {
	case *Size:
		*p = Size(v.num)
	case *time.Duration:
		*p = time.Duration(v.num)
	case *int:
		*p = int(v.num)
	case *string:
		*p = v.word
	default:
		panic(fmt.Sprintf("config: %s has a field of type %T", k.Path, p))
	}
}

func load(k Key, field any) value {
	switch p := field.(type) {
	case *Size:
		return value{num: int64(*p)}
	case *time.Duration:
		return value{num: int64(*p)}
	case *int:
		return value{num: int64(*p)}
	case *string:
		return value{word: *p}
	default:
		panic(fmt.Sprintf("config: %s has a field of type %T", k.Path, p))
	}
}
