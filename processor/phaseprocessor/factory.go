// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/metadata"
)

// NewFactory makes the factory of the phase processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithTraces(createTraces, metadata.TracesStability),
	)
}

func createTraces(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	config, ok := cfg.(*Config)
	if !ok {
		return nil, errors.New("phase: the configuration is of another component")
	}
	return newProcessor(set, config, next)
}
