package rpc

import (
	"strings"
	"testing"
)

func TestMakeID(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`1`, `1`}, {`"1"`, `"1"`}, {`-0`, `-0`}, {`1.5e3`, `1.5e3`}, {`""`, `""`},
		{`9007199254740993`, `9007199254740993`},
		{`"a\u0062"`, `"ab"`}, {`"\/"`, `"/"`}, {"\"\u2028\"", `"\u2028"`}, {`"\u2028"`, `"\u2028"`}, {`"é"`, `"é"`},
		{`null`, ``}, {`true`, ``}, {`{}`, ``}, {`[1]`, ``}, {``, ``},
		{`"` + strings.Repeat("x", MaxID-2) + `"`, `"` + strings.Repeat("x", MaxID-2) + `"`},
		{`"` + strings.Repeat("x", MaxID-1) + `"`, ``},
	} {
		if got := MakeID([]byte(c.raw)); string(got) != c.want {
			t.Errorf("MakeID(%.40s) = %.40s, want %.40s", c.raw, got, c.want)
		}
	}
}

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`7`, `"7"`, true}, {`1000`, `1e3`, true}, {`1`, `1.0`, true}, {`"a"`, `"a"`, true},
		{`7`, `8`, false}, {`"7"`, `"07x"`, false}, {`""`, `0`, false}, {`"a"`, `"A"`, false},
	} {
		if got := ID(c.a).Alike(ID(c.b)); got != c.want {
			t.Errorf("%s alike %s = %v", c.a, c.b, got)
		}
	}
}
