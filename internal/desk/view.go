package desk

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/penstock-dev/penstock/internal/link"
	"github.com/penstock-dev/penstock/internal/result"
)

// maxPage is the most text of one page, whatever the client's limit is: with
// every byte escaped it still fits a reply.
const maxPage = 1 << 20

// readPage answers penstock_result. most is the client's limit of a page.
func readPage(ctx context.Context, src io.ReaderAt, e *entry, args json.RawMessage, most int) ([]byte, error) {
	if most <= 0 {
		most = result.DefaultPage
	}
	handle, q, err := result.ParseArguments(args, min(most, maxPage))
	if err != nil {
		return nil, viewError(err)
	}
	if handle != e.Handle {
		return nil, link.Errorf(link.CodeRefused, "the arguments are for another result")
	}
	if q.Part == "" && q.Cursor == "" {
		q.Part = e.Part
	}
	p, err := result.Read(ctx, src, e.Bytes, e.key, q)
	if err != nil {
		return nil, viewError(err)
	}
	return p.JSON(), nil
}

// writeView writes a whole view.
func writeView(ctx context.Context, w io.Writer, src io.ReaderAt, e *entry, part string) error {
	if part == "" {
		part = "raw"
	}
	_, err := result.View(ctx, w, src, e.Bytes, part)
	return viewError(err)
}

func viewError(err error) error {
	switch e := (*result.QueryError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return link.Errorf(link.CodeQuery, "%s", e.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return link.Errorf(link.CodeBusy, "this takes longer than it may; ask for a smaller part")
	case errors.Is(err, context.Canceled):
		return errGone
	}
	return diskError(err)
}
