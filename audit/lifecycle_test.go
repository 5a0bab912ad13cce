package audit

import (
	"encoding/json"
	"testing"
	"time"
)

// A life is the records of one strand, as the judge gets them.
type life struct {
	live    bool
	records []any // strings are bodies; others stand for the log's own
}

func TestLifecycles(t *testing.T) {
	now := time.Unix(1800000000, 0)
	gap := func(class Class, n int) *Gap {
		return &Gap{Class: class, Count: n, First: now, Last: now.Add(time.Minute)}
	}
	const in, out = `{"c":"1","s":1}`, `{"c":"1","s":2}`
	leaf := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		name   string
		lives  []life
		hidden bool
		want   Verdict
		counts Calls
	}{
		{"whole", []life{{false, []any{in, out}}}, false, Verified, Calls{Complete: 1}},
		{"unknown outcome", []life{{false, []any{in}}}, false, Incomplete, Calls{Unknown: 1}},
		{"in flight", []life{{true, []any{in}}}, false, Verified, Calls{InFlight: 1}},
		{"outcome in the next strand", []life{{false, []any{in}}, {false, []any{out}}}, false, Verified, Calls{Complete: 1}},
		{"repeated after a lost acknowledgement", []life{{false, []any{in}}, {false, []any{in, out, out}}}, false, Verified, Calls{Complete: 1, Repeated: 2}},
		{"two intents", []life{{false, []any{in, `{"c":"1","s":1,"x":1}`, out}}}, false, Failed, Calls{Complete: 1}},
		{"two outcomes", []life{{false, []any{in, out, `{"c":"1","s":2,"x":1}`}}}, false, Failed, Calls{Complete: 1}},
		{"outcome before intent", []life{{false, []any{out, in}}}, false, Failed, Calls{Complete: 1}},
		{"outcome alone", []life{{false, []any{out}}}, false, Failed, Calls{}},
		{"outcome alone, contents hidden", []life{{false, []any{out}}}, true, Verified, Calls{}},
		{"outcome alone in a gap", []life{{false, []any{out, gap(ClassIntent, 1)}}}, false, Incomplete, Calls{Missing: 1}},
		{"two outcomes alone, one missing", []life{{false, []any{out, `{"c":"2","s":2}`, gap(ClassIntent, 1)}}}, false, Failed, Calls{Missing: 1}},
		{"outcome alone, other gap", []life{{false, []any{out, gap(ClassTerminal, 1)}}}, false, Failed, Calls{Missing: 1}},
		{"outcome alone in the gap of its time", []life{{false, []any{`{"c":"1","s":2,"t":1800000030}`, gap(ClassIntent, 1)}}}, false, Incomplete, Calls{Missing: 1}},
		{"outcome alone outside the gap", []life{{false, []any{`{"c":"1","s":2,"t":1800000300}`, gap(ClassIntent, 1)}}}, false, Failed, Calls{Missing: 1}},
		{"abandoned", []life{{false, []any{in, leaf(0)}}}, false, Verified, Calls{Abandons: 1}},
		{"abandoned and ended", []life{{false, []any{in, leaf(0), out}}}, false, Failed, Calls{Abandons: 1}},
		{"ended and abandoned", []life{{false, []any{in, out, leaf(0)}}}, false, Failed, Calls{Abandons: 1}},
		{"abandons itself", []life{{false, []any{leaf(0)}}}, false, Failed, Calls{}},
		{"not a body", []life{{false, []any{`{"bad":1}`}}}, false, Failed, Calls{}},
		{"no call", []life{{false, []any{`{"s":0}`, `{"c":"1","s":0}`}}}, false, Verified, Calls{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJudge(func(body []byte) (Event, error) {
				var b struct {
					C    string
					S    Step
					X, T int64
				}
				if err := json.Unmarshal(body, &b); err != nil || string(body) == `{"bad":1}` {
					return Event{}, ErrBody
				}
				e := Event{Call: b.C, Step: b.S}
				if b.T != 0 {
					e.Time = time.Unix(b.T, 0)
				}
				return e, nil
			})
			for i, l := range c.lives {
				id := ID{byte(i)}
				j.strands[id] = l.live
				for n, r := range l.records {
					rec := &Record{Position: Position{Strand: id, Leaf: uint64(n)}}
					switch r := r.(type) {
					case string:
						rec.Body = []byte(r)
					case *Gap:
						rec.Gap = r
					case *uint64:
						rec.Abandoned = r
					}
					j.record(rec)
				}
			}
			r := &Report{}
			j.end(r, c.hidden)
			if r.Verdict != c.want {
				t.Errorf("verdict %v, want %v: %v", r.Verdict, c.want, r.Findings)
			}
			if c.want != Failed && *r.Calls != c.counts {
				t.Errorf("calls %+v, want %+v", *r.Calls, c.counts)
			}
		})
	}
}
