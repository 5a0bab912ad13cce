package rpc

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func data(n int) []byte { return make([]byte, n) }

func drain(q *Queue) (keys []string) {
	for {
		it, ok := q.Pop()
		if !ok {
			return keys
		}
		keys = append(keys, it.Key)
	}
}

func TestQueueOrderAndUrgency(t *testing.T) {
	q := NewQueue(&Room{Max: 1 << 20}, 1<<20, 100)
	for _, it := range []Item{{Key: "a"}, {Key: "b"}, {Key: "now", Urgent: true}, {Key: "c"}, {Key: "next", Urgent: true}} {
		if !q.Offer(it) {
			t.Fatal("refused")
		}
	}
	q.Hold = true
	if n, ok := q.Peek(); !ok || n != 0 || !q.Ready() {
		t.Error("an urgent item is not ready while the rest is held")
	}
	if got := drain(q); !slices.Equal(got, []string{"now", "next"}) {
		t.Errorf("while held: %v", got)
	}
	q.Hold = false
	if got := drain(q); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("afterwards: %v", got)
	}
}

// A notification gives way, oldest first; an answer never does.
func TestQueueOverload(t *testing.T) {
	const room = 10 * (100 + itemCost)
	q := NewQueue(&Room{Max: room}, room, 100)
	for i := range 5 {
		q.Offer(Item{Key: fmt.Sprint("drop", i), Class: Drop, Data: data(100)})
		q.Offer(Item{Key: fmt.Sprint("must", i), Data: data(100)})
	}
	if !q.Offer(Item{Key: "more", Data: data(100)}) || q.Dropped.Oldest != 1 {
		t.Fatalf("an answer did not take the place of the oldest notification: %+v", q.Dropped)
	}
	if !q.Offer(Item{Key: "note", Class: Drop, Data: data(100)}) || q.Dropped.Oldest != 2 {
		t.Fatalf("a notification did not take the place of an older one: %+v", q.Dropped)
	}
	for range 4 {
		q.Offer(Item{Key: "more", Data: data(100)})
	}
	if q.Offer(Item{Key: "late", Data: data(100)}) || q.Dropped.Refused != 1 {
		t.Error("a full queue of answers took another")
	}
	if q.Offer(Item{Key: "late", Class: Drop, Data: data(100)}) {
		t.Error("a full queue of answers took a notification")
	}
	if !q.OfferSmall(Item{Key: "error", Data: data(100)}) {
		t.Error("the reserve did not take a small answer")
	}
	if got := drain(q); slices.Contains(got, "late") || slices.Index(got, "error") != len(got)-1 || !slices.Contains(got, "must0") {
		t.Errorf("left: %v", got)
	}
	if q.Bytes() != 0 {
		t.Errorf("an empty queue is charged %d bytes", q.Bytes())
	}
}

func TestQueueCoalesces(t *testing.T) {
	q := NewQueue(&Room{Max: 1 << 20}, 1<<20, 100)
	q.Offer(Item{Key: "k", Class: Coalesce, Data: []byte("old")})
	q.Offer(Item{Key: "other", Class: Coalesce})
	q.Offer(Item{Key: "k", Class: Coalesce, Data: []byte("newer")})
	it, _ := q.Pop()
	if string(it.Data) != "newer" || q.Len() != 1 || q.Dropped.Coalesced != 1 {
		t.Errorf("got %q, %d left, %+v", it.Data, q.Len(), q.Dropped)
	}
}

func TestReserveIsBounded(t *testing.T) {
	q := NewQueue(&Room{Max: 1000}, 1000, 1<<20)
	n := 0
	for q.OfferSmall(Item{Data: data(400)}) {
		if n++; n > reserve {
			t.Fatal("the reserve has no end")
		}
	}
	if q.Bytes() > reserve+1000 {
		t.Errorf("holds %d bytes", q.Bytes())
	}
}

// Whatever is done to queues that share a room: none holds more than its
// bounds, nothing that must stay is lost, and the charge is that of what is held.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := &Room{Max: 4000}
		qs := []*Queue{NewQueue(room, 4000, 16), NewQueue(room, 2500, 16)}
		held := [2]map[string]bool{{}, {}}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 1).Draw(t, "queue")
			q := qs[k]
			key := fmt.Sprint(i)
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1, 2:
				it := Item{Key: key, Class: Class(rapid.IntRange(0, 2).Draw(t, "class")), Urgent: rapid.Bool().Draw(t, "urgent"), Data: data(rapid.IntRange(0, 1500).Draw(t, "size"))}
				if it.Class == Coalesce {
					it.Key, it.Urgent = "same", false
				}
				if q.Offer(it) && it.Class == Must {
					held[k][key] = true
				}
			case 3:
				if it, ok := q.Pop(); ok {
					delete(held[k], it.Key)
				}
			case 4:
				q.Remove(func(it *Item) bool { return len(it.Data) > 1000 && it.Class == Must })
				for key := range held[k] {
					if q.Find(func(it *Item) bool { return it.Key == key }) == nil {
						delete(held[k], key)
					}
				}
			case 5:
				if it := q.Find(func(it *Item) bool { return it.Class == Must }); it != nil {
					q.Replace(it, it.Data[:len(it.Data)/2])
				}
			}
			sum := 0
			for k, q := range qs {
				n := 0
				for _, list := range [][]entry{q.urgent, q.normal} {
					for _, e := range list {
						n += cap(e.Data) + itemCost
					}
				}
				if n != q.Bytes() || q.bytes > q.maxBytes || q.Len() > q.maxItems {
					t.Fatalf("queue %d holds %d bytes, is charged %d", k, n, q.Bytes())
				}
				sum += q.bytes
				for key := range held[k] {
					if q.Find(func(it *Item) bool { return it.Key == key }) == nil {
						t.Fatalf("item %s was lost", key)
					}
				}
			}
			if sum != room.used || sum > room.Max {
				t.Fatalf("the room counts %d, the queues hold %d of %d", room.used, sum, room.Max)
			}
		}
	})
}

// What is held keeps back what is behind it, but nothing that is urgent.
func TestHeldItems(t *testing.T) {
	q := NewQueue(&Room{Max: 1 << 20}, 1<<20, 16)
	held := true
	q.Offer(Item{Data: []byte("a"), Held: &held})
	q.Offer(Item{Data: []byte("b")})
	if _, ok := q.Pop(); ok || q.Ready() {
		t.Error("a held item left the queue")
	}
	if _, ok := q.Peek(); ok {
		t.Error("a held item shows")
	}
	q.Offer(Item{Data: []byte("u"), Urgent: true})
	if it, ok := q.Pop(); !ok || string(it.Data) != "u" {
		t.Errorf("got %q, %v", it.Data, ok)
	}
	held = false
	for _, want := range []string{"a", "b"} {
		if it, ok := q.Pop(); !ok || string(it.Data) != want {
			t.Errorf("got %q, want %q", it.Data, want)
		}
	}
}
