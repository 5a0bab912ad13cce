package audit

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Verdict is how a log was judged. Of two verdicts the greater counts.
type Verdict int

const (
	// Verified is for a log that was compared with a pinned key and an anchor.
	Verified Verdict = iota
	// Unanchored is for a log that is intact in itself, but could be an older
	// one, or somebody else's.
	Unanchored
	// Incomplete is for a log that is intact, and says or shows that something
	// is missing.
	Incomplete
	// Failed is for a log that is not what was written.
	Failed
)

// ExitCode returns what a command exits with: 0, 10, 20 or 30.
func (v Verdict) ExitCode() int { return int(v) * 10 }

// String returns the word that verdicts begin with.
func (v Verdict) String() string {
	return [...]string{"VERIFIED", "VERIFIED BUT UNANCHORED", "INCOMPLETE", "FAILED"}[v]
}

// MarshalText returns VERIFIED, UNANCHORED, INCOMPLETE or FAILED.
func (v Verdict) MarshalText() ([]byte, error) {
	return []byte([...]string{"VERIFIED", "UNANCHORED", "INCOMPLETE", "FAILED"}[v]), nil
}

// Finding is one thing that a verifier found. One of verdict [Verified] is only
// worth knowing.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Strand  *ID     `json:"strand,omitempty"` // nil if it is about the log
	Text    string  `json:"text"`
}

// Report is what [Verify] checked and found.
type Report struct {
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`

	// What the log was compared with.
	Origin     string     `json:"origin"`
	Signer     string     `json:"signer"`                // verifier key that signed the checkpoint
	Pinned     bool       `json:"pinned"`                // the caller gave the key it was reached from
	Anchors    int        `json:"anchors"`               // that were met
	AnchorSize uint64     `json:"anchor_size,omitempty"` // entries that the newest of them covers
	AnchorTime *time.Time `json:"anchor_time,omitempty"` // of the last of these entries
	Policy     bool       `json:"policy"`                // the caller gave the recipients

	// What was read.
	Entries    uint64 `json:"entries"` // of the spine, covered by its checkpoint
	Strands    int    `json:"strands"`
	Closed     int    `json:"closed"`
	Orphaned   int    `json:"orphaned"`
	Live       int    `json:"live"`
	Unended    int    `json:"unended"` // neither closed nor orphaned nor live
	Pruned     int    `json:"pruned"`
	Segments   int    `json:"segments"`
	Shredded   int    `json:"shredded"` // segments without key file
	Leaves     uint64 `json:"leaves"`
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`
	Uncovered  uint64 `json:"uncovered"` // leaves after the last head of their strand
	Signatures string `json:"signatures"`

	// What was read with a key.
	Keyed  bool   `json:"keyed"`
	Opened int64  `json:"opened,omitempty"`
	Sealed int64  `json:"unopened,omitempty"` // records that no identity opens or whose key is gone
	Calls  *Calls `json:"calls,omitempty"`    // nil if lifecycles were not judged
}

// Calls counts how the lifecycles of calls were judged.
type Calls struct {
	Complete int `json:"complete"` // one intent, one terminal record
	InFlight int `json:"in_flight"`
	Unknown  int `json:"unknown"` // an intent whose writer ended without a terminal record
	Missing  int `json:"missing"` // records that the log says it could not keep
	Repeated int `json:"repeated"`
	Abandons int `json:"abandoned"`
}

func (r *Report) add(v Verdict, id *ID, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{v, id, fmt.Sprintf(format, args...)})
	r.Verdict = max(r.Verdict, v)
}

// shown is how many findings a screen gets.
const shown = 8

// WriteText writes the verdict on one screen. It says what was checked, and
// against what, before anything else could be taken for it.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Verdict)
	n := 0
	for v := Failed; v >= Verified; v-- {
		for _, f := range r.Findings {
			if f.Verdict != v {
				continue
			}
			if n++; n > shown {
				continue
			}
			where := ""
			if f.Strand != nil {
				where = "strand " + f.Strand.String()[:8] + ": "
			}
			name := "note"
			if v > Verified {
				text, _ := v.MarshalText()
				name = strings.ToLower(string(text))
			}
			fmt.Fprintf(&b, "  %-10s %s\n", name, printable(where+f.Text))
		}
	}
	if n > shown {
		fmt.Fprintf(&b, "  … and %d more (see the full report)\n", n-shown)
	}
	fmt.Fprintf(&b, "checked    %d spine entries; %d strands (%d closed, %d orphaned, %d live, %d unended), %d pruned\n",
		r.Entries, r.Strands, r.Closed, r.Orphaned, r.Live, r.Unended, r.Pruned)
	fmt.Fprintf(&b, "           %d segments, %d records, %d bytes; signatures: %s\n", r.Segments, r.Records, r.Bytes, r.Signatures)
	if r.Origin != "" {
		how := "NOT pinned: taken from the log itself"
		if r.Pinned {
			how = "pinned"
		}
		fmt.Fprintf(&b, "signer     %s (%s)\n", printable(r.Signer), how)
	}
	if r.Anchors > 0 {
		fmt.Fprintf(&b, "anchor     met; covers %d of %d spine entries, up to %s; later ones could have been rolled back\n",
			r.AnchorSize, r.Entries, r.AnchorTime.UTC().Format(time.RFC3339))
	} else {
		fmt.Fprintf(&b, "anchor     none met: that this is the newest state of the log is not shown\n")
	}
	if r.Uncovered > 0 {
		fmt.Fprintf(&b, "not sealed %d leaves are newer than their strand's last head; cutting them off would go unseen\n", r.Uncovered)
	}
	switch {
	case !r.Keyed:
		fmt.Fprintf(&b, "contents   not read: no identity was given, so nothing is said about calls\n")
	case r.Calls == nil:
		fmt.Fprintf(&b, "contents   %d records opened, %d not; lifecycles not judged\n", r.Opened, r.Sealed)
	default:
		c := r.Calls
		fmt.Fprintf(&b, "contents   %d records opened, %d not; calls: %d complete, %d in flight, %d unknown outcome, %d records missing\n",
			r.Opened, r.Sealed, c.Complete, c.InFlight, c.Unknown, c.Missing)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printable keeps what a log says from moving the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\ufffd'
		}
		return r
	}, s)
}
