package rpc

// maxBuried bounds how many ended requests are remembered for the answer that
// may still come.
const maxBuried = 1024

// Table holds the open requests of one direction by id, and for a while those
// that ended before their answer came. It is guarded by the lock of its
// session. The zero Table is empty.
type Table[E comparable] struct {
	open   map[ID]E
	buried map[ID]E
	order  []ID // of buried, oldest first; may hold ids that were dug out
}

// Open enters a request, and reports false if its id is in use: open, or ended
// with its answer still to come, which could then be taken for the new one's.
func (t *Table[E]) Open(id ID, e E) bool {
	if t.open == nil {
		t.open, t.buried = map[ID]E{}, map[ID]E{}
	}
	if _, used := t.open[id]; used {
		return false
	}
	if _, used := t.buried[id]; used {
		return false
	}
	t.open[id] = e
	return true
}

// Len returns the number of open requests.
func (t *Table[E]) Len() int { return len(t.open) }

// Get returns an open request, or the zero E.
func (t *Table[E]) Get(id ID) E { return t.open[id] }

// Close removes an open request.
func (t *Table[E]) Close(id ID) { delete(t.open, id) }

// Bury removes an open request whose answer may still come.
func (t *Table[E]) Bury(id ID) {
	e, ok := t.open[id]
	if !ok {
		return
	}
	delete(t.open, id)
	t.buried[id] = e
	t.order = append(t.order, id)
	for len(t.order) > maxBuried {
		delete(t.buried, t.order[0])
		t.order = t.order[1:]
	}
}

// Exhume returns an ended request whose answer has come, once, or the zero E.
func (t *Table[E]) Exhume(id ID) E {
	e, ok := t.buried[id]
	if ok {
		delete(t.buried, id)
		for i, o := range t.order {
			if o == id {
				t.order = append(t.order[:i:i], t.order[i+1:]...)
				break
			}
		}
	}
	return e
}

// Alike returns the id of the one open request whose id a careless peer may
// have turned into id, or "" if there is none or more than one.
func (t *Table[E]) Alike(id ID) (found ID) {
	for o := range t.open {
		if o.Alike(id) {
			if found != "" {
				return ""
			}
			found = o
		}
	}
	return found
}

// All yields every open request; the loop may close them.
func (t *Table[E]) All(yield func(ID, E) bool) {
	for id, e := range t.open {
		if !yield(id, e) {
			return
		}
	}
}

// Forget drops every memory of ended requests, as when the process that would
// have answered them is gone.
func (t *Table[E]) Forget() {
	clear(t.buried)
	t.order = nil
}
