module github.com/phasecol/phasecol/test

go 1.25.0

require (
	github.com/mostynb/go-grpc-compression v1.2.3
	github.com/phasecol/phasecol/cmd/stracegen v0.0.0-00010101000000-000000000000
	github.com/phasecol/phasecol/pkg/strace v0.0.0
	github.com/stretchr/testify v1.11.1
	go.opentelemetry.io/collector/pdata v1.64.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sys v0.47.0
	google.golang.org/grpc v1.83.2
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/hashicorp/go-version v1.9.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/compress v1.17.8 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	go.opentelemetry.io/collector/featuregate v1.64.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/protobuf v1.36.11 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace (
	github.com/phasecol/phasecol/cmd/stracegen => ../cmd/stracegen
	github.com/phasecol/phasecol/pkg/strace => ../pkg/strace
)
