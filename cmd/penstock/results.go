package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-dev/penstock/internal/link"
)

func newResultsCmd(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "results",
		Short: "List, read and export results that were too large for the agent",
		Long: `A result that is too large for an agent is cut, and the whole of it is kept for
a while (results.expire) under a handle that the cut result names. An agent
reads on by itself with the tool penstock_result, and only what its own session
got; these commands are for you and show what all sessions kept.`,
		Example: `  penstock results list
  penstock results read HANDLE --grep 'error|warning' --context 2
  penstock results export HANDLE -o result.json`,
		Args: commandArgs,
		RunE: showHelp,

		DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(
		newResultsExportCmd(env),
		newResultsListCmd(env),
		newResultsReadCmd(env),
	)
	return cmd
}

func newResultsListCmd(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the results that are kept",
		Example: `  penstock results list
  penstock results list --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDesk(cmd.Context(), env, func(ctx context.Context, c *link.Client) error {
				entries, err := listResults(ctx, c)
				if err != nil {
					return err
				}
				if asJSON {
					for _, e := range entries {
						if err := writeJSON(env.stdout, e); err != nil {
							return err
						}
					}
					return nil
				}
				if len(entries) == 0 {
					_, err := fmt.Fprintln(env.stdout, "no results are kept")
					return err
				}
				w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "HANDLE\tSERVER\tTOOL\tSIZE\tAGE\tEXPIRES IN\tSESSION")
				now := time.Now()
				for _, e := range entries {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Handle, cell(e.Server), cell(e.Tool), approx(e.Bytes),
						span(now.Sub(e.Stored.Time)), span(e.Expires.Sub(now)), cell(e.Session))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// withDesk runs f with a connection to the desk, which is started if none runs.
// What f waits for is bounded by its own context only.
func withDesk(ctx context.Context, env *environment, f func(context.Context, *link.Client) error) error {
	d, err := findDesk(env)
	if err != nil {
		return err
	}
	c := d.dial(true)
	defer c.Close(ctx)
	err = f(ctx, c)
	if e := (*link.Error)(nil); errors.As(err, &e) {
		switch e.Code {
		case link.CodeUnavailable:
			return withHint(err, "Nothing was changed. \"penstock desk status\" and \"penstock doctor\" say more.")
		case link.CodeUnknown, link.CodeExpired, link.CodeEvicted, link.CodeLost:
			return withHint(err, "\"penstock results list\" shows what is kept.")
		}
	}
	return err
}

// listResults returns all kept results, newest first.
func listResults(ctx context.Context, c *link.Client) ([]link.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, deskTimeout)
	defer cancel()
	var all []link.Entry
	for after := ""; ; {
		page, err := c.List(ctx, after)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if after = page.Next; after == "" {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b link.Entry) int { return b.Stored.Compare(a.Stored.Time) })
	return all, nil
}

// cell makes a name that a server chose fit a table.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	s = strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(printable(s))
	if r := []rune(s); len(r) > 40 {
		s = string(r[:39]) + "…"
	}
	return s
}

// span returns a duration for people.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func newResultsReadCmd(env *environment) *cobra.Command {
	var (
		q      readFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "read HANDLE",
		Short: "Read one page of a result",
		Long: `Read shows a page of a kept result, as the agent's tool penstock_result does.
Without flags it shows the beginning of the part that was cut. If there is more,
the cursor that goes on is named on standard error.`,
		Example: `  penstock results read HANDLE
  penstock results read HANDLE --lines 100,200
  penstock results read HANDLE --part structured --pointer /items/0
  penstock results read HANDLE --grep 'error|warning' --context 2`,
		Args: oneHandle,
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := q.arguments(cmd, args[0])
			if err != nil {
				return err
			}
			return withDesk(cmd.Context(), env, func(ctx context.Context, c *link.Client) error {
				page, err := c.Read(ctx, args[0], raw)
				if e := (*link.Error)(nil); errors.As(err, &e) && e.Code == link.CodeQuery {
					return &exitError{exitUsage, err}
				}
				if err != nil {
					return err
				}
				if asJSON {
					_, err = env.stdout.Write(append(page, '\n'))
					return err
				}
				return showPage(env, args[0], page)
			})
		},
	}
	q.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func oneHandle(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("%q takes one handle; \"penstock results list\" shows them", cmd.CommandPath())
	}
	return nil
}

// readFlags are the arguments of penstock_result as flags.
type readFlags struct {
	part, cursor, lines, bytes, pointer, grep string
	context, max                              int
}

func (q *readFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.part, "part", "", "index of a content block, structured, error or raw (default: the part that was cut)")
	f.StringVar(&q.cursor, "cursor", "", "go on where an earlier page ended")
	f.StringVar(&q.lines, "lines", "", "first,last line, from 1")
	f.StringVar(&q.bytes, "bytes", "", "from,to in bytes, from 0, to not included")
	f.StringVar(&q.pointer, "pointer", "", "JSON pointer to a value, such as /items/0")
	f.StringVar(&q.grep, "grep", "", "show the lines that match a regular expression (RE2)")
	f.IntVar(&q.context, "context", 0, "lines to show around each match")
	f.IntVar(&q.max, "max", 0, "most bytes of text (default 65536)")
}

// arguments returns what was given as the arguments of penstock_result.
func (q *readFlags) arguments(cmd *cobra.Command, handle string) (json.RawMessage, error) {
	args := map[string]any{"handle": handle}
	for name, value := range map[string]any{"part": q.part, "cursor": q.cursor, "pointer": q.pointer, "grep": q.grep, "context": q.context, "max": q.max} {
		if cmd.Flags().Changed(name) {
			args[name] = value
		}
	}
	for name, text := range map[string]string{"lines": q.lines, "bytes": q.bytes} {
		if !cmd.Flags().Changed(name) {
			continue
		}
		from, to, ok := strings.Cut(text, ",")
		a, err1 := strconv.ParseInt(strings.TrimSpace(from), 10, 64)
		b, err2 := strconv.ParseInt(strings.TrimSpace(to), 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return nil, usageError("--%s %s: two whole numbers expected, as in --%s 1,200", name, text, name)
		}
		args[name] = [2]int64{a, b}
	}
	return json.Marshal(args)
}

// showPage prints the text of a page, and how to go on.
func showPage(env *environment, handle string, page []byte) error {
	var p struct {
		Text  string   `json:"text"`
		Bytes [2]int64 `json:"bytes"`
		Total *int64   `json:"total_bytes"`
		Next  string   `json:"nextCursor"`
		End   bool     `json:"end"`
	}
	if err := json.Unmarshal(page, &p); err != nil {
		return fmt.Errorf("the desk sent a strange page: %w", err)
	}
	text := p.Text
	if isTerminal(env.stdout) {
		if p.End && p.Bytes[0] == 0 {
			text = indented(text)
		}
		if text = printable(text); !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
	}
	if _, err := io.WriteString(env.stdout, text); err != nil {
		return err
	}
	total := ""
	if p.Total != nil {
		total = fmt.Sprintf(" of %d", *p.Total)
	}
	fmt.Fprintf(env.stderr, "bytes %d to %d%s", p.Bytes[0], p.Bytes[1], total)
	if p.Next != "" {
		fmt.Fprintf(env.stderr, "; to go on: penstock results read %s --cursor %s", handle, p.Next)
	}
	fmt.Fprintln(env.stderr)
	return nil
}

// indented returns JSON with line breaks, and anything else as it is.
func indented(text string) string {
	var b bytes.Buffer
	if t := strings.TrimSpace(text); t == "" || t[0] != '{' && t[0] != '[' || json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

func newResultsExportCmd(env *environment) *cobra.Command {
	var (
		o      exportOptions
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "export HANDLE",
		Short: "Write a whole result to a file or standard output",
		Long: `Export writes the whole message that the server sent, byte for byte, or with
--part the text of one part of it. A file that exists is left alone unless
--force is given, and it is never left half written.`,
		Example: `  penstock results export HANDLE -o result.json
  penstock results export HANDLE --part 0 > text.txt`,
		Args: oneHandle,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.file == "" && isTerminal(env.stdout) {
				return usageError("standard output is a terminal: name a file with -o FILE, or use a pipe")
			}
			if o.file == "" && asJSON {
				return usageError("--json describes the file that was written: name one with -o FILE")
			}
			return withDesk(cmd.Context(), env, func(ctx context.Context, c *link.Client) error {
				n, err := o.export(ctx, env, c, args[0])
				if e := (*link.Error)(nil); errors.As(err, &e) && e.Code == link.CodeQuery {
					return &exitError{exitUsage, err}
				}
				if err != nil || o.file == "" {
					return err
				}
				if asJSON {
					return writeJSON(env.stdout, struct {
						Handle string `json:"handle"`
						Part   string `json:"part"`
						File   string `json:"file"`
						Bytes  int64  `json:"bytes"`
					}{args[0], o.part, o.file, n})
				}
				_, err = fmt.Fprintf(env.stdout, "%d bytes written to %s\n", n, printable(o.file))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "output", "o", "", "file to write (default: standard output)")
	f.StringVar(&o.part, "part", "raw", "index of a content block, structured, error or raw")
	f.BoolVar(&o.force, "force", false, "replace a file that exists")
	f.BoolVar(&asJSON, "json", false, "print one JSON object about what was written")
	return cmd
}

type exportOptions struct {
	file, part string
	force      bool
}

// export writes the view and returns its length.
func (o *exportOptions) export(ctx context.Context, env *environment, c *link.Client, handle string) (n int64, err error) {
	total := int64(-1)
	if o.part == "raw" {
		entries, err := listResults(ctx, c)
		if err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(entries, func(e link.Entry) bool { return e.Handle == handle }); i >= 0 {
			total = entries[i].Bytes
		}
	}
	if o.file == "" {
		bar := newProgress(env, env.stdout, total)
		defer bar.end()
		return c.Export(ctx, handle, o.part, bar)
	}
	if _, err := os.Lstat(o.file); err == nil && !o.force {
		return 0, withHint(fmt.Errorf("%s exists", o.file), "Nothing was written. Name another file, or give --force.")
	}
	// Under another name until it is whole.
	f, err := os.CreateTemp(filepath.Dir(o.file), "."+filepath.Base(o.file)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	bar := newProgress(env, f, total)
	n, err = c.Export(ctx, handle, o.part, bar)
	bar.end()
	if err != nil {
		return n, err
	}
	if err := f.Close(); err != nil {
		return n, err
	}
	if o.force {
		return n, os.Rename(f.Name(), o.file)
	}
	// A link refuses to replace what somebody made meanwhile; where there are
	// no links, the check above has to do.
	if err := os.Link(f.Name(), o.file); err == nil {
		os.Remove(f.Name())
		return n, nil
	} else if errors.Is(err, os.ErrExist) {
		return n, withHint(fmt.Errorf("%s exists", o.file), "Nothing was written. Name another file, or give --force.")
	}
	return n, os.Rename(f.Name(), o.file)
}

// progress passes bytes on and shows on a terminal how far it is.
type progress struct {
	w       io.Writer
	show    io.Writer // nil if nobody looks
	n       int64
	total   int64 // -1 if not known
	started time.Time
	shown   time.Time
}

func newProgress(env *environment, w io.Writer, total int64) *progress {
	p := &progress{w: w, total: total, started: time.Now()}
	if isTerminal(env.stderr) {
		p.show = env.stderr
	}
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.n += int64(n)
	if p.show != nil && time.Since(p.shown) > 100*time.Millisecond {
		p.shown = time.Now()
		io.WriteString(p.show, "\r"+p.line(time.Since(p.started))+"\x1b[K")
	}
	return n, err
}

const progressWidth = 30

// line is what the terminal shows after a time.
func (p *progress) line(after time.Duration) string {
	rate := ""
	if s := after.Seconds(); s >= 0.1 {
		rate = fmt.Sprintf("  %s/s", approx(int64(float64(p.n)/s)))
	}
	if p.total <= 0 {
		return approx(p.n) + rate
	}
	share := min(1, float64(p.n)/float64(p.total))
	full := int(share * progressWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s of %s%s", strings.Repeat("#", full), strings.Repeat("-", progressWidth-full), 100*share, approx(p.n), approx(p.total), rate)
}

// end leaves the line as it was last, whole.
func (p *progress) end() {
	if p.show != nil && !p.shown.IsZero() {
		io.WriteString(p.show, "\r"+p.line(time.Since(p.started))+"\x1b[K\n")
	}
}
