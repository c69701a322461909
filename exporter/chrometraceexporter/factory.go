// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/phasecol/phasecol/exporter/chrometraceexporter/internal/metadata"
)

// NewFactory returns the factory of the chrometrace exporter.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(
		metadata.Type,
		createDefaultConfig,
		exporter.WithTraces(createTraces, metadata.TracesStability),
	)
}

func createTraces(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
	conf := cfg.(*Config)
	exp, err := newTraceExporter(conf, set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return withQueue(ctx, set, conf, exp)
}

// withQueue puts the sending queue and the retries in front of exp.
func withQueue(ctx context.Context, set exporter.Settings, conf *Config, exp *traceExporter) (exporter.Traces, error) {
	return exporterhelper.NewTraces(ctx, set, conf, exp.push,
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		// Writing to a file cannot be cancelled, so a timeout would only lie.
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}),
		exporterhelper.WithQueue(conf.QueueConfig),
		exporterhelper.WithRetry(conf.RetryConfig),
		exporterhelper.WithStart(exp.start),
		exporterhelper.WithShutdown(exp.shutdown),
	)
}
