// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/metadatatest"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

func point(n int64, kv ...string) metricdata.DataPoint[int64] {
	p := metricdata.DataPoint[int64]{Value: n}
	if len(kv) == 2 {
		p.Attributes = attribute.NewSet(attribute.String(kv[0], kv[1]))
	}
	return p
}

func points(p ...metricdata.DataPoint[int64]) []metricdata.DataPoint[int64] { return p }

// One request with two joined phases, one with none in time, one of another
// host, some spans of others: every number by hand.
func TestTelemetry(t *testing.T) {
	b := newBench(t, nil)
	ignore := metricdatatest.IgnoreTimestamp()
	x, y := twoRanks()
	b.send(t, x)
	b.send(t, y)
	b.send(t, step(true))
	other := host("h1", 1, chip(50, t0+900*ms, ms))
	for _, s := range phasetest.Spans(other) {
		s.Attributes().Remove("strace.family")
	}
	b.send(t, other)
	b.send(t, newTree(nil).td)
	late := newTree(func(r *phasetest.Request) { r.Trace, r.Span, r.Start = 2, 2000, t0+700*ms })
	late.remove("decode_forward")
	b.send(t, late.td)
	foreign := newTree(func(r *phasetest.Request) { r.Trace, r.Span = 3, 3000 })
	for _, rs := range foreign.td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr("host.name", "elsewhere")
	}
	b.send(t, foreign.td)

	metadatatest.AssertEqualProcessorPhaseRequestsHeld(t, b.tel, points(point(3)), ignore)
	metadatatest.AssertEqualProcessorPhaseRequestSpansHeld(t, b.tel, points(point(14)), ignore)
	metadatatest.AssertEqualProcessorPhaseIndexRuns(t, b.tel, points(point(10)), ignore)
	metadatatest.AssertEqualProcessorPhaseIndexGroups(t, b.tel, points(point(1)), ignore)
	b.pass(t, 2*time.Second)

	metadatatest.AssertEqualProcessorPhaseSpans(t, b.tel, points(
		point(7*13+3+3*13, "kind", "host"), point(14, "kind", "request"), point(13, "kind", "other")), ignore)
	metadatatest.AssertEqualProcessorPhaseInvocations(t, b.tel, points(point(10)), ignore)
	metadatatest.AssertEqualProcessorPhaseSteps(t, b.tel, points(point(1)), ignore)
	metadatatest.AssertEqualProcessorPhaseJoined(t, b.tel, points(point(2, "evidence", "overlap")), ignore)
	metadatatest.AssertEqualProcessorPhaseUnjoined(t, b.tel, points(
		point(1, "reason", "no_runs"), point(2, "reason", "no_group")), ignore)
	metadatatest.AssertEqualProcessorPhaseContractResults(t, b.tel, points(
		point(2, "result", "ok"), point(1, "result", "missing_phase")), ignore)
	metadatatest.AssertEqualProcessorPhaseEmbedded(t, b.tel, points(point(2)), ignore)
	metadatatest.AssertEqualProcessorPhaseRequestsHeld(t, b.tel, points(point(0)), ignore)
	age, err := b.tel.GetMetric("otelcol_processor_phase_held_age")
	require.NoError(t, err)
	h := age.Data.(metricdata.Histogram[float64]).DataPoints
	require.Len(t, h, 1)
	require.Equal(t, uint64(3), h[0].Count)
	require.InDelta(t, 6, h[0].Sum, 0)
}
