# Everything that is done with this repository. "make help" lists it.
#
# Written for GNU make 3.81 or later and bash.

SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help test check format vet tidy lint race peers fuzz soak bench build install fmt clean need-go need-cc need-npm start

# Pinned: another version finds other things.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# How many inputs each fuzz target gets. A count, not a time, so that a slow
# machine does not change the result: go test reports the end of a time limit
# as a failure if it comes at a bad moment.
FUZZ := 30000x

# A program with the race detector sleeps a second as it ends. Servers of the
# tests are such programs, and a bridge waits only so long for one.
export GORACE := atexit_sleep_ms=0

# What the test runs of one "make test" counted. In CI a skipped test fails.
TALLY := bin/tally
REPORT := go run ./.ci/report.go -tally $(TALLY)
NO_SKIPS := $(if $(CI),-no-skips)

SYSTEMS := darwin windows
step = @printf '\n== %s (%s)\n' "$(1)" "$$(date +%H:%M:%S)"

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1 \t/' | expand -t 18

# In CI the rest goes on after a failure, so that one run tells everything.
test: need-go ## everything that must pass before a commit lands (under 25 minutes on two cores)
	@status=0; \
	 $(MAKE) --no-print-directory $(if $(CI),-k) check peers fuzz || status=1; \
	 $(REPORT) -sum $(NO_SKIPS) || status=1; \
	 exit $$status

check: start format vet tidy lint race ## "test" without the peers and the fuzzing; runs on any system

# Forget the counts of the run before.
start:
	@mkdir -p bin && rm -f $(TALLY)

format: need-go
	$(call step,gofmt)
	@files=$$(find . -name node_modules -prune -o -name '*.go' -print0 | xargs -0 gofmt -l) || exit 1; \
	 if [ -n "$$files" ]; then printf 'not formatted, run "make fmt":\n%s\n' "$$files" >&2; exit 1; fi

vet: need-go
	$(call step,go vet)
	@go vet ./... && go vet ./.ci/report.go && go vet -tags peers,soak ./...
	@for os in $(SYSTEMS); do echo "build and vet for $$os"; GOOS=$$os go build ./... && GOOS=$$os go vet ./... || exit 1; done

tidy: need-go
	$(call step,go mod tidy)
	@go mod tidy -diff || { echo 'go.mod and go.sum are not tidy, run "go mod tidy"' >&2; exit 1; }

lint: need-go
	$(call step,staticcheck)
	@go run $(STATICCHECK) -tags peers,soak ./...

race: start need-go need-cc
	$(call step,go test -race)
	@set -o pipefail; go test -race -json ./... | $(REPORT)

peers: start need-go need-npm ## real MCP clients and servers, direct and through Penstock, and the conformance suite
	$(call step,peers; the first run installs about 330 MB of npm packages)
	@set -o pipefail; go test -tags peers -count=1 -timeout 20m -json ./peers/... | $(REPORT)

fuzz: start need-go ## some inputs for each fuzz target: make fuzz FUZZ=10m for longer
	$(call step,fuzzing)
	@set -o pipefail; failed=0; \
	 for pkg in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do \
	   names=$$(go test -list '^Fuzz' "$$pkg") || exit 1; \
	   for name in $$(printf '%s\n' "$$names" | grep '^Fuzz'); do \
	     echo "$$pkg $$name"; \
	     go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ) -fuzzminimizetime 100x -json "$$pkg" | $(REPORT) || failed=1; \
	   done; \
	 done; \
	 exit $$failed

soak: start need-go need-cc ## the long tests as well: kill runs, chaos, repeats
	$(call step,soak)
	@set -o pipefail; go test -race -tags soak -count=1 -timeout 90m -json ./... | $(REPORT)
	@$(REPORT) -sum $(NO_SKIPS)

bench: need-go ## measure, and write docs/benchmarks.md
	$(call step,benchmarks)
	@mkdir -p bin && go run ./bench > bin/benchmarks.md && mv bin/benchmarks.md docs/benchmarks.md

build: need-go ## bin/penstock
	@go build -o bin/ ./cmd/penstock

install: need-go ## penstock into the folder that "go env GOBIN" or "go env GOPATH" names
	@go install ./cmd/penstock

fmt: need-go ## format all Go files
	@find . -name node_modules -prune -o -name '*.go' -print0 | xargs -0 gofmt -w

clean: ## remove what make built and installed in this folder
	@rm -rf bin peers/node_modules peers/.cache

need-go:
	@command -v go >/dev/null || { echo 'make: "go" is missing: install Go 1.26 or later' >&2; exit 1; }

need-cc:
	@command -v "$$(go env CC)" >/dev/null || { echo "make: \"$$(go env CC)\" is missing: the race detector needs a C compiler (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }

need-npm:
	@[ "$$(go env GOOS)/$$(go env GOARCH)" = linux/amd64 ] || { echo 'make: the peer tests need Linux on x86-64; "make check" is everything else' >&2; exit 1; }
	@command -v npm >/dev/null || { echo 'make: "npm" is missing: the peer tests install their packages with it (Debian: apt-get install npm)' >&2; exit 1; }
