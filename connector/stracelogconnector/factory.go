// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector // import "github.com/phasecol/phasecol/connector/stracelogconnector"

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"

	"github.com/phasecol/phasecol/connector/stracelogconnector/internal/metadata"
)

// NewFactory returns the factory of the stracelog connector.
func NewFactory() connector.Factory {
	return connector.NewFactory(
		metadata.Type,
		createDefaultConfig,
		connector.WithLogsToTraces(createLogsToTraces, metadata.LogsToTracesStability),
	)
}

func createLogsToTraces(_ context.Context, set connector.Settings, cfg component.Config, next consumer.Traces) (connector.Logs, error) {
	return newStracelogConnector(set, cfg.(*Config), next)
}
