package delivery

import (
	_ "github.com/stretchr/testify/require"
	_ "go.opentelemetry.io/collector/consumer/consumertest"
	_ "go.opentelemetry.io/otel/sdk/metric"
)
