// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/metadata"
)

// telemetry counts what the processor does. The options are made once: a call
// with some hundred spans must not pay for building attribute sets.
type telemetry struct {
	builder *metadata.TelemetryBuilder

	kindHost, kindRequest, kindOther metric.MeasurementOption
}

func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	return &telemetry{
		builder:     builder,
		kindHost:    with("kind", "host"),
		kindRequest: with("kind", "request"),
		kindOther:   with("kind", "other"),
	}, nil
}

func with(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (t *telemetry) shutdown() { t.builder.Shutdown() }

func (t *telemetry) spans(ctx context.Context, host, requests, others int) {
	for _, c := range []struct {
		n  int
		as metric.MeasurementOption
	}{{host, t.kindHost}, {requests, t.kindRequest}, {others, t.kindOther}} {
		if c.n > 0 {
			t.builder.ProcessorPhaseSpans.Add(ctx, int64(c.n), c.as)
		}
	}
}

func (t *telemetry) host(ctx context.Context, invocations, steps int) {
	if invocations > 0 {
		t.builder.ProcessorPhaseInvocations.Add(ctx, int64(invocations))
	}
	if steps > 0 {
		t.builder.ProcessorPhaseSteps.Add(ctx, int64(steps))
	}
}
