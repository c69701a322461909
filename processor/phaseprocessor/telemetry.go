// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/metadata"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/request"
)

// Reasons why request spans were lost.
const (
	lostPermanent = "permanent"
	lostExhausted = "exhausted"
	lostShutdown  = "shutdown"
)

// storeSizes is what the gauges show.
type storeSizes struct {
	requests, requestSpans, runs, groups int
}

// telemetry counts what the processor does. The options of the host side are
// made once: a call with some hundred spans must not pay for building attribute
// sets.
type telemetry struct {
	builder *metadata.TelemetryBuilder

	kindHost, kindRequest, kindOther metric.MeasurementOption
}

func newTelemetry(set component.TelemetrySettings, sizes func() storeSizes) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		builder:     builder,
		kindHost:    with("kind", "host"),
		kindRequest: with("kind", "request"),
		kindOther:   with("kind", "other"),
	}
	for _, gauge := range []struct {
		register func(metric.Int64Callback) error
		value    func(storeSizes) int
	}{
		{builder.RegisterProcessorPhaseRequestsHeldCallback, func(s storeSizes) int { return s.requests }},
		{builder.RegisterProcessorPhaseRequestSpansHeldCallback, func(s storeSizes) int { return s.requestSpans }},
		{builder.RegisterProcessorPhaseIndexRunsCallback, func(s storeSizes) int { return s.runs }},
		{builder.RegisterProcessorPhaseIndexGroupsCallback, func(s storeSizes) int { return s.groups }},
	} {
		err := gauge.register(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(gauge.value(sizes())))
			return nil
		})
		if err != nil {
			builder.Shutdown()
			return nil, err
		}
	}
	return t, nil
}

func with(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (t *telemetry) shutdown() { t.builder.Shutdown() }

func (t *telemetry) spans(ctx context.Context, host, requests, others int) {
	if host > 0 {
		t.builder.ProcessorPhaseSpans.Add(ctx, int64(host), t.kindHost)
	}
	if requests > 0 {
		t.builder.ProcessorPhaseSpans.Add(ctx, int64(requests), t.kindRequest)
	}
	if others > 0 {
		t.builder.ProcessorPhaseSpans.Add(ctx, int64(others), t.kindOther)
	}
}

// host counts the invocations and steps of a call.
func (t *telemetry) host(ctx context.Context, batch *phases.Batch) {
	var invocations, steps, partial int64
	for i := range batch.Invs {
		if batch.Invs[i].Past {
			continue
		}
		invocations++
		if batch.Invs[i].Partial {
			partial++
		}
	}
	for i := range batch.Steps {
		if !batch.Steps[i].Past {
			steps++
		}
	}
	if invocations > 0 {
		t.builder.ProcessorPhaseInvocations.Add(ctx, invocations)
	}
	if steps > 0 {
		t.builder.ProcessorPhaseSteps.Add(ctx, steps)
	}
	if partial > 0 {
		t.builder.ProcessorPhasePartial.Add(ctx, partial)
	}
}

// request counts the results of one request's release.
func (t *telemetry) request(ctx context.Context, r *request.Trace) {
	for result, n := range r.Results() {
		t.builder.ProcessorPhaseContractResults.Add(ctx, n, with("result", result))
	}
	if r.Partial() {
		t.builder.ProcessorPhasePartial.Add(ctx, 1)
	}
}

func (t *telemetry) age(ctx context.Context, held time.Duration, why release) {
	t.builder.ProcessorPhaseHeldAge.Record(ctx, held.Seconds(), with("release", string(why)))
}

func (t *telemetry) lost(ctx context.Context, spans int, reason string) {
	t.builder.ProcessorPhaseRequestSpansLost.Add(ctx, int64(spans), with("reason", reason))
}

func (t *telemetry) evictions(ctx context.Context, byStore map[string]int64) {
	for store, n := range byStore {
		if n > 0 {
			t.builder.ProcessorPhaseEvictions.Add(ctx, n, with("store", store))
		}
	}
}

// tally collects a join's outcomes, to be counted when its lock is free again.
type tally struct {
	joined, unjoined map[string]int64
	embedded         int64
}

// Joined implements join.Observer.
func (t *tally) Joined(evidence string) { t.joined = increment(t.joined, evidence) }

// Unjoined implements join.Observer.
func (t *tally) Unjoined(reason string) { t.unjoined = increment(t.unjoined, reason) }

// Embedded implements join.Observer.
func (t *tally) Embedded(runs int) { t.embedded += int64(runs) }

func increment(m map[string]int64, key string) map[string]int64 {
	if m == nil {
		m = make(map[string]int64)
	}
	m[key]++
	return m
}

func (t *telemetry) join(ctx context.Context, seen *tally) {
	for evidence, n := range seen.joined {
		t.builder.ProcessorPhaseJoined.Add(ctx, n, with("evidence", evidence))
	}
	for reason, n := range seen.unjoined {
		t.builder.ProcessorPhaseUnjoined.Add(ctx, n, with("reason", reason))
	}
	if seen.embedded > 0 {
		t.builder.ProcessorPhaseEmbedded.Add(ctx, seen.embedded)
	}
}
