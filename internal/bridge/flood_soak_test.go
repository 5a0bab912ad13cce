//go:build soak

package bridge

import "testing"

func TestFloodsOfManySessions(t *testing.T) { playFloods(t, 100) }
