module github.com/penstock-dev/penstock

go 1.26.0

require (
	github.com/rogpeppe/go-internal v1.16.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/spf13/cobra v1.10.2
)

require golang.org/x/text v0.14.0 // indirect

require github.com/google/jsonschema-go v0.4.3

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	golang.org/x/sys v0.50.0
	golang.org/x/tools v0.42.0 // indirect
	pgregory.net/rapid v1.3.0
)
