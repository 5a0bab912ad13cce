package link

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Version is the version of the protocol that this package speaks. It is in
// the first frame of each side; two sides with different versions part.
const Version = 1

// Bounds of the protocol. A frame that breaks one ends the connection.
const (
	MaxHead  = 64<<10 - 1 // bytes of a JSON head
	MaxBody  = 8 << 20    // bytes of the body of a reply
	MaxChunk = 256 << 10  // bytes of the body of a Data frame

	headerSize = 12
	maxHello   = 4 << 10
)

// FrameTimeout is how long a frame may take from its first byte to its last,
// so that half a frame does not hold a connection for ever.
const FrameTimeout = 30 * time.Second

// Kind is what a frame is.
type Kind uint8

// The kinds of frames. docs/formats/link.md says who may send which when.
const (
	Hello   Kind = 1 + iota // first frame of each side
	Request                 // begins an exchange; its head names the operation
	Data                    // bytes of a stream, either way
	End                     // of a stream to the desk; asks to keep it
	Cancel                  // the client gives the exchange up
	Credit                  // so many more bytes of Data may be sent
	Reply                   // ends an exchange that went well
	Fail                    // ends one that did not
	kinds
)

var kindNames = [kinds]string{"0", "hello", "request", "data", "end", "cancel", "credit", "reply", "fail"}

func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ErrProtocol is what is wrong with bytes that are not this protocol. It ends
// the connection.
var ErrProtocol = errors.New("not the protocol of penstock's desk")

// Frame is one message. Head is JSON, Body is bytes.
type Frame struct {
	Kind Kind
	ID   uint32 // of the exchange; 0 for Hello and for a Fail that concerns the connection
	Head []byte
	Body []byte
}

// header is the fixed part of a frame.
type header struct {
	kind Kind
	id   uint32
	head int
	body int
}

// parseHeader checks everything that can be checked before any room is made
// for what follows.
func parseHeader(b *[headerSize]byte) (header, error) {
	h := header{
		kind: Kind(b[0]),
		head: int(binary.BigEndian.Uint16(b[2:4])),
		body: int(binary.BigEndian.Uint32(b[4:8]) & (1<<31 - 1)),
		id:   binary.BigEndian.Uint32(b[8:12]),
	}
	if h.kind == 0 || h.kind >= kinds || b[1] != 0 || b[4]&0x80 != 0 {
		return header{}, fmt.Errorf("%w: frame begins with % x", ErrProtocol, b[:])
	}
	bad := func(rule string) (header, error) {
		return header{}, fmt.Errorf("%w: %s frame with %d bytes of head, %d of body and id %d: %s", ErrProtocol, h.kind, h.head, h.body, h.id, rule)
	}
	if (h.id == 0) != (h.kind == Hello || h.kind == Fail && h.id == 0) {
		return bad("wrong id")
	}
	switch h.kind {
	case Hello:
		if h.head == 0 || h.head > maxHello || h.body != 0 {
			return bad("a head of at most 4096 bytes and no body expected")
		}
	case Request, End, Fail:
		if h.head == 0 || h.body != 0 {
			return bad("a head and no body expected")
		}
	case Data:
		if h.head != 0 || h.body == 0 || h.body > MaxChunk {
			return bad("no head and a body of at most 262144 bytes expected")
		}
	case Cancel:
		if h.head != 0 || h.body != 0 {
			return bad("nothing expected")
		}
	case Credit:
		if h.head != 0 || h.body != 4 {
			return bad("a body of 4 bytes expected")
		}
	case Reply:
		if h.body > MaxBody {
			return bad("a body of at most 8388608 bytes expected")
		}
	}
	return h, nil
}

// appendHeader is the reverse of parseHeader. Lengths out of bounds are a bug
// of the caller.
func appendHeader(b []byte, kind Kind, id uint32, head, body int) []byte {
	if head > MaxHead || body > MaxBody {
		panic(fmt.Sprintf("link: %s frame of %d and %d bytes", kind, head, body))
	}
	b = append(b, byte(kind), 0)
	b = binary.BigEndian.AppendUint16(b, uint16(head))
	b = binary.BigEndian.AppendUint32(b, uint32(body))
	return binary.BigEndian.AppendUint32(b, id)
}

// Conn is one connection, of either side. One goroutine may read while another
// one writes. Close ends both.
type Conn struct {
	nc net.Conn
	br *bufio.Reader
	wb net.Buffers // scratch of the writing goroutine
	hb [headerSize]byte
	rb [headerSize]byte
}

// NewConn makes a Conn of nc, which it then owns.
func NewConn(nc net.Conn) *Conn {
	if b, ok := nc.(interface{ SetWriteBuffer(int) error }); ok {
		b.SetWriteBuffer(1 << 20) // fewer switches between the two processes; the system gives what it allows
	}
	return &Conn{nc: nc, br: bufio.NewReaderSize(nc, 4<<10)}
}

// Close closes the connection and ends reads and writes that wait.
func (c *Conn) Close() error { return c.nc.Close() }

// Read returns the next frame. It waits for a frame to begin for as long as it
// takes, and then [FrameTimeout] for its end. The body is read into what alloc
// returns, which is called with the length; a nil alloc makes a new slice.
func (c *Conn) Read(alloc func(kind Kind, id uint32, n int) []byte) (Frame, error) {
	if _, err := c.br.Peek(1); err != nil {
		return Frame{}, err
	}
	c.nc.SetReadDeadline(time.Now().Add(FrameTimeout))
	f, err := c.readFrame(alloc)
	c.nc.SetReadDeadline(time.Time{})
	return f, err
}

func (c *Conn) readFrame(alloc func(kind Kind, id uint32, n int) []byte) (Frame, error) {
	if _, err := io.ReadFull(c.br, c.rb[:]); err != nil {
		return Frame{}, noEOF(err)
	}
	h, err := parseHeader(&c.rb)
	if err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: h.kind, ID: h.id}
	if h.head > 0 {
		f.Head = make([]byte, h.head)
		if _, err := io.ReadFull(c.br, f.Head); err != nil {
			return Frame{}, noEOF(err)
		}
		if !json.Valid(f.Head) {
			return Frame{}, fmt.Errorf("%w: head of a %s frame is not JSON", ErrProtocol, h.kind)
		}
	}
	if h.body > 0 {
		if alloc == nil {
			f.Body = make([]byte, h.body)
		} else {
			f.Body = alloc(h.kind, h.id, h.body)[:h.body]
		}
		if _, err := io.ReadFull(c.br, f.Body); err != nil {
			return f, noEOF(err) // f, so that the caller gets its buffer back
		}
	}
	return f, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write writes one frame, its body in pieces. It fails, and the connection is
// of no more use, if the other side has not taken it all within the timeout.
func (c *Conn) Write(kind Kind, id uint32, head []byte, timeout time.Duration, body ...[]byte) error {
	n := 0
	for _, p := range body {
		n += len(p)
	}
	c.wb = append(c.wb[:0], appendHeader(c.hb[:0], kind, id, len(head), n))
	if len(head) > 0 {
		c.wb = append(c.wb, head)
	}
	c.wb = append(c.wb, body...)
	c.nc.SetWriteDeadline(time.Now().Add(timeout))
	v := c.wb // WriteTo consumes it
	_, err := v.WriteTo(c.nc)
	return err
}

// CreditBody returns the body of a Credit frame: n more bytes may be sent.
func CreditBody(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// CreditOf returns what a Credit frame grants.
func CreditOf(f Frame) int { return int(binary.BigEndian.Uint32(f.Body) & (1<<31 - 1)) }
