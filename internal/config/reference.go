package config

import (
	"bytes"
	"fmt"
	"strings"
)

// Reference returns the page docs/config.md.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)

	b.WriteString("\n## An example with every default\n\n```yaml\n")
	section := ""
	for _, k := range keys {
		s, name := splitPath(k.Path)
		if s != section && s != "" {
			fmt.Fprintf(&b, "%s:\n", s)
		}
		section = s
		indent := ""
		if s != "" {
			indent = "  "
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, k.Default)
	}
	b.WriteString("```\n\n## The settings\n")

	for _, k := range keys {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n", k.Path, k.Doc)
		fmt.Fprintf(&b, "- Default: `%s`\n- Allowed: %s\n- Variable: `%s`\n", k.Default, k.Allowed(), k.Env())
		if k.Flag != "" {
			fmt.Fprintf(&b, "- Flag: `--%s`\n", k.Flag)
		}
	}

	b.WriteString(toolReference())
	b.WriteString("\n## How settings must agree\n\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "- `%s` must be %s `%s`.\n", r.left, r.must, r.right)
	}
	b.WriteString("\n## Not in this version\n\nThese are known and refused, so that nobody relies on a setting that does nothing:\n`" +
		strings.Join(planned, "`, `") + "`.\n")
	b.WriteString(referenceMemory())
	return b.Bytes()
}

const referenceHead = `# Settings

<!-- Made by "go test ./internal/config -update" from the table in internal/config/key.go. Do not edit. -->

Penstock works without any settings. Those that there are live in one file,
` + "`~/.penstock/config.yaml`" + `. The folder is ` + "`.penstock`" + ` in the home of the user that
Penstock runs as: what ` + "`HOME`" + ` says if that folder belongs to this user, else
what the user database says. As root with the ` + "`HOME`" + ` of somebody else, Penstock
refuses to start. ` + "`PENSTOCK_HOME`" + ` (an absolute path) names another folder, and
` + "`--config FILE`" + ` another file.

| command | what it does |
|---|---|
| ` + "`penstock config path`" + ` | prints which file is read |
| ` + "`penstock config show`" + ` | prints every value and where it comes from |
| ` + "`penstock config check`" + ` | reports everything that is wrong, with the line |
| ` + "`penstock config schema`" + ` | prints a JSON Schema for editors |
| ` + "`penstock doctor`" + ` | checks the machine too, and prints the worst-case memory |

A flag wins over a variable, a variable over the file, the file over the
default. The variable of a setting is its path in capitals with ` + "`_`" + ` for each
dot, after ` + "`PENSTOCK_`" + `; an empty variable counts as not set.

The file is strict. A key that is not known, a value of the wrong kind or out of
range, a key written twice: each is an error with its line, and no command goes
on with half of the settings. The file is UTF-8, at most 1 MiB, one document,
without anchors, aliases, tags and tabs before a key. A file in this
folder is refused if it belongs to another user or everybody can write to it.

- **Sizes**: a whole number of bytes, or of ` + "`KiB`, `MiB`, `GiB`, `TiB`" + `: ` + "`8MiB`" + `.
- **Durations**: ` + "`500ms`, `30s`, `1h`, `1h30m`" + `; none is ` + "`0s`" + ` where it is allowed.

For an editor that uses yaml-language-server, run
` + "`penstock config schema > ~/.penstock/schema.json`" + ` and begin the file with
` + "`# yaml-language-server: $schema=schema.json`" + `.
`

func referenceMemory() string {
	return `
## Worst-case memory

` + "`penstock doctor --calls N --sessions M`" + ` prints the most anonymous memory that the
settings allow. Each session has a bridge of its own, and for each bridge it is
the sum of

- ` + "`limits.queues`" + `;
- twice ` + "`limits.wire`" + `: one message being read in each direction;
- N times ` + "`helper_output.stderr_retained_per_call_bytes`" + `, but no more than
  ` + "`helper_output.stderr_retained_process_bytes`" + `. N is at most ` + "`limits.calls`" + `;
- ` + SendBuffer.String() + ` for what waits to be kept by the desk, and five times ` + "`limits.content`" + ` for
  a result being cut, unless nothing is cut and nothing kept;
- ` + RuntimeBase.String() + ` for the Go runtime and the table of calls, the ceiling that the
  tests hold an idle bridge to.

With the defaults that is ` + Default().WorstCase(1<<30, 1).Bridge.Approx() + ` for one session.
`
}
