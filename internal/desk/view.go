package desk

import (
	"context"
	"encoding/json"
	"io"

	"github.com/penstock-dev/penstock/internal/link"
)

// readPage answers penstock_result.
func readPage(ctx context.Context, src io.ReaderAt, e *entry, args json.RawMessage) ([]byte, error) {
	b := make([]byte, min(e.Bytes, 64<<10))
	if _, err := src.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return json.Marshal(map[string]any{"text": string(b), "end": int64(len(b)) == e.Bytes})
}

// writeView writes a whole view.
func writeView(ctx context.Context, w io.Writer, src io.ReaderAt, e *entry, part string) error {
	if part != "raw" {
		return link.Errorf(link.CodeQuery, "only raw now")
	}
	buf := make([]byte, 256<<10)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, io.NewSectionReader(src, 0, e.Bytes), buf)
	return err
}
