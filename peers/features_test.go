//go:build peers

//lint:file-ignore SA1019 Roots, sampling and logging are deprecated, and in use.

package peers_test

import (
	"context"
	"encoding/json"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goFeatures takes the Go client through the features of server-everything,
// the same steps that clients/steps.mjs describes.
type goFeatures struct {
	events chan goEvent // with room for all, so that no handler waits
	kept   []goEvent    // what wait took from events
}

type goEvent struct {
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
}

func newGoFeatures() *goFeatures {
	return &goFeatures{events: make(chan goEvent, 1024)}
}

func (f *goFeatures) client(who *mcp.Implementation) *mcp.Client {
	c := mcp.NewClient(who, &mcp.ClientOptions{
		// Without capabilities of its own the client declares roots.
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			f.events <- goEvent{"sampling/createMessage", r.Params}
			return &mcp.CreateMessageResult{
				Role: "assistant", Model: "none", StopReason: "endTurn",
				Content: &mcp.TextContent{Text: "a \"sampled\" answer \u2028 with \\ and \u0001"},
			}, nil
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			f.events <- goEvent{"elicitation/create", r.Params}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{
				"name": "Zoë", "check": true, "email": "z@example.com", "integer": 7, "number": 2.5, "ok": true, "color": "blue",
			}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			f.events <- goEvent{"notifications/message", r.Params}
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			f.events <- goEvent{"notifications/resources/updated", r.Params}
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			f.events <- goEvent{"notifications/progress", r.Params}
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///srv/a%20b", Name: "Räume 🜂"}, &mcp.Root{URI: "file:///srv/c"})
	return c
}

var (
	rootsUpdated = regexp.MustCompile(`^Roots updated`)
	simulated    = regexp.MustCompile(`level.message`)
)

func isLog(pattern *regexp.Regexp) func(goEvent) bool {
	return func(e goEvent) bool {
		log, ok := e.Params.(*mcp.LoggingMessageParams)
		if !ok {
			return false
		}
		text, err := json.Marshal(log.Data)
		return err == nil && pattern.Match(text[min(1, len(text)):])
	}
}

func isUpdate(e goEvent) bool { return e.Method == "notifications/resources/updated" }

// wait takes events until one is wanted, or ctx ends.
func (f *goFeatures) wait(ctx context.Context, want func(goEvent) bool) (goEvent, error) {
	for {
		select {
		case e := <-f.events:
			f.kept = append(f.kept, e)
			if want(e) {
				return e, nil
			}
		case <-ctx.Done():
			return goEvent{}, ctx.Err()
		}
	}
}

func (f *goFeatures) run(ctx context.Context, session *mcp.ClientSession, step func(string, any, error)) {
	call := func(name string, args map[string]any, token any) {
		if args == nil {
			args = map[string]any{} // the server refuses the null that nil becomes
		}
		params := &mcp.CallToolParams{Name: name, Arguments: args}
		if token != nil {
			params.SetProgressToken(token)
		}
		result, err := session.CallTool(ctx, params)
		step("tools/call "+name, result, err)
	}
	if _, err := f.wait(ctx, isLog(rootsUpdated)); err != nil {
		step("roots", nil, err)
		return
	}
	list, err := session.ListTools(ctx, nil)
	step("tools/list", list, err)
	call("get-roots-list", nil, nil)
	call("trigger-sampling-request", map[string]any{"prompt": `say "something" é 🜂`, "maxTokens": 17}, nil)
	call("trigger-elicitation-request", nil, nil)
	call("trigger-long-running-operation", map[string]any{"duration": 0.4, "steps": 4}, "go-progress")
	// The call returns before the handlers of what came before its response.
	last, err := f.wait(ctx, func(e goEvent) bool {
		progress, ok := e.Params.(*mcp.ProgressNotificationParams)
		return ok && progress.Progress == progress.Total
	})
	step("progress", last, err)

	step("logging/setLevel", "debug", session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "debug"}))
	call("toggle-simulated-logging", nil, nil)
	if _, err := f.wait(ctx, isLog(simulated)); err != nil {
		step("a simulated log message", nil, err)
	}
	call("toggle-simulated-logging", nil, nil)

	const uri = "demo://resource/dynamic/text/1"
	step("resources/subscribe", uri, session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}))
	call("toggle-subscriber-updates", nil, nil)
	update, err := f.wait(ctx, isUpdate)
	step("resources/updated", update, err)
	call("toggle-subscriber-updates", nil, nil)
	step("resources/unsubscribe", uri, session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}))

	// Left out: the simulated log messages, which the server draws at random,
	// and the updates, which it repeats by the clock (one is a step above).
	var events []goEvent
	for _, e := range f.kept {
		if !isUpdate(e) && !isLog(simulated)(e) {
			events = append(events, e)
		}
	}
	step("events", events, nil)
}
