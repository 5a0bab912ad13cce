package config

import (
	"fmt"
	"slices"
	"strings"
)

const envPrefix = "PENSTOCK_"

// reserved are variables with our prefix that are not settings.
var reserved = []string{envPrefix + "HOME", envPrefix + "SESSION"}

// lookupEnv returns the value of a variable, the last one if it is there
// twice, as os/exec does.
func lookupEnv(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// readEnv puts the settings of the environment into values. An empty variable
// is one that is not set: launchers clear variables so.
func readEnv(environ []string, values map[string]setting) Problems {
	var problems Problems
	for _, k := range keys {
		text := lookupEnv(environ, k.Env())
		if text == "" {
			continue
		}
		o := Origin{Kind: FromEnv, Name: k.Env()}
		v, err := k.parse(text)
		if err != nil {
			problems = append(problems, Problem{Origin: o, Key: k.Path, Msg: err.Error()})
			continue
		}
		values[k.Path] = setting{value: v, origin: o}
	}
	return problems
}

// UnknownEnv reports the variables that begin with PENSTOCK_ but set nothing.
// [Load] does not refuse them: a host may run several versions with one
// environment.
func UnknownEnv(environ []string) Problems {
	names := slices.Clone(reserved)
	for _, k := range keys {
		names = append(names, k.Env())
	}
	var settable []string // without the prefix, which would make all of them look alike
	for _, name := range names {
		settable = append(settable, strings.TrimPrefix(name, envPrefix))
	}
	var problems Problems
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if text == "" || !strings.HasPrefix(name, envPrefix) || slices.Contains(names, name) {
			continue
		}
		msg := "unknown variable"
		if near := nearest(strings.TrimPrefix(name, envPrefix), settable); near != "" {
			msg += "; did you mean " + envPrefix + near + "?"
		}
		if name == envName(toolList) {
			msg = "a list, which is set in the file only"
		}
		for _, p := range planned {
			if name == envName(p) || strings.HasPrefix(name, envName(p)+"_") {
				msg = "known, but not in this version"
			}
		}
		problems = append(problems, Problem{Origin: Origin{Kind: FromEnv, Name: clip(name)}, Msg: msg})
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Origin.Name, b.Origin.Name) })
	return problems
}

// Flags collects settings given on the command line. The zero value is ready.
// It is not safe for concurrent use.
type Flags struct {
	texts []flagText
}

type flagText struct {
	key        Key
	flag, text string
}

// Value returns a value for a flag package, with the methods String, Set and
// Type, that sets the key. It refuses at once what the key does not allow.
func (f *Flags) Value(k Key) *FlagValue { return &FlagValue{flags: f, key: k} }

// FlagValue is one setting on the command line.
type FlagValue struct {
	flags *Flags
	key   Key
	text  string // "" until set
}

// String returns what was set, else the default.
func (v *FlagValue) String() string {
	if v == nil || v.text == "" {
		if v == nil {
			return ""
		}
		return v.key.Default
	}
	return v.text
}

// Set checks and records the text. Of several, the last one counts.
func (v *FlagValue) Set(text string) error {
	if err := v.key.Check(text); err != nil {
		return err
	}
	v.text = text
	v.flags.texts = append(v.flags.texts, flagText{v.key, "--" + v.key.Flag, text})
	return nil
}

// Type returns the kind of value, which help texts show.
func (v *FlagValue) Type() string { return string(v.key.Kind) }

func (f *Flags) read(values map[string]setting) Problems {
	if f == nil {
		return nil
	}
	for _, t := range f.texts {
		v, err := t.key.parse(t.text)
		if err != nil {
			panic(fmt.Sprintf("config: %s was set to a text that it refuses: %v", t.flag, err))
		}
		values[t.key.Path] = setting{value: v, origin: Origin{Kind: FromFlag, Name: t.flag}}
	}
	return nil
}
