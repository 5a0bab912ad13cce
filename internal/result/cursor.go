package result

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
)

// cursor is what it takes to go on with a query.
type cursor struct {
	Part string   `json:"p,omitempty"`
	Mode viewMode `json:"m,omitempty"`
	At   place    `json:"a"`
	View int64    `json:"v,omitempty"`
	// Layer is where to begin with the view that this one is made from, if it
	// is not made from what is stored.
	Layer   *layerPlace `json:"l,omitempty"`
	End     int64       `json:"e,omitempty"` // of a range
	Lines   int64       `json:"n,omitempty"` // of a range, those to come; 0 is no limit
	Grep    string      `json:"g,omitempty"`
	Context int         `json:"c,omitempty"`
	Line    int64       `json:"i,omitempty"` // lines before At
	Mid     bool        `json:"x,omitempty"` // At is inside a line
	Tail    int         `json:"t,omitempty"` // lines of context that the last match is still owed
}

type layerPlace struct {
	At    place `json:"a"`
	View  int64 `json:"v"`
	Start int64 `json:"s"` // of the text, as stored
}

const macSize = 16

// seal returns the cursor that goes on where s stands.
func (c cursor) seal(s *stream, key []byte) string {
	c.Mode, c.At, c.View = s.mode, s.at, s.view
	if l, ok := s.src.(*layer); ok {
		at, view := l.before(s.at.Off)
		c.Layer = &layerPlace{At: at, View: view, Start: l.start.at.Off}
	}
	payload, err := json.Marshal(c)
	if err != nil {
		panic("result: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(append(mac(key, payload), payload...))
}

func mac(key, payload []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(payload)
	return m.Sum(nil)[:macSize]
}

func openCursor(text string, key []byte) (cursor, error) {
	var c cursor
	foreign := badQuery("this cursor is not one of this result: use the nextCursor of its last page as it is, or begin without a cursor")
	if len(text) > 8<<10 {
		return c, foreign
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < macSize || !hmac.Equal(b[:macSize], mac(key, b[macSize:])) {
		return c, foreign
	}
	if json.Unmarshal(b[macSize:], &c) != nil {
		return c, foreign
	}
	return c, nil
}

// stream returns the view of c, where it goes on.
func (c *cursor) stream(ctx context.Context, src io.ReaderAt, size int64) stream {
	s := stream{src: src, size: size, buf: &chunk{}, mode: c.Mode, at: c.At, view: c.View}
	if p := c.Layer; p != nil {
		below := stream{src: src, size: size, buf: &chunk{}, mode: modeString, at: place{Off: p.Start}}
		l := newLayer(ctx, below)
		l.s.at, l.s.view = p.At, p.View
		l.at, l.here, l.prev, l.prevN = p.View, p.At, p.At, p.View
		s.src, s.size = l, -1
	}
	return s
}
