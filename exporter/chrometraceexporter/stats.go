// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/phasecol/phasecol/exporter/chrometraceexporter/internal/metadata"
)

// stats is the exporter's own telemetry.
type stats struct {
	builder *metadata.TelemetryBuilder
	// ctx is of nobody: what is counted belongs to no request, since one write
	// holds many.
	ctx context.Context
}

func newStats(builder *metadata.TelemetryBuilder) *stats {
	return &stats{builder: builder, ctx: context.Background()}
}

func (s *stats) close() { s.builder.Shutdown() }

// drawn adds what a batch led to, and empties the tally for the next.
func (s *stats) drawn(t *tally, lanes int) {
	ctx := s.ctx
	s.builder.ExporterChrometraceLanes.Record(ctx, int64(lanes))
	add(ctx, s.builder.ExporterChrometraceSpansWritten, &t.spans)
	add(ctx, s.builder.ExporterChrometraceSpansOverflowed, &t.overflowed)
	add(ctx, s.builder.ExporterChrometraceEventsWritten, &t.events)
	add(ctx, s.builder.ExporterChrometraceArgsCut, &t.cut)
	add(ctx, s.builder.ExporterChrometracePointsDropped, &t.points)
	add(ctx, s.builder.ExporterChrometraceFlowsDrawn, &t.flows)
	addReasons(ctx, s.builder.ExporterChrometraceSpansDropped, t.dropped)
	addReasons(ctx, s.builder.ExporterChrometraceFlowsUnresolved, t.unresolved)
}

func add(ctx context.Context, counter metric.Int64Counter, n *int64) {
	if *n > 0 {
		counter.Add(ctx, *n)
		*n = 0
	}
}

func addReasons(ctx context.Context, counter metric.Int64Counter, reasons map[string]int64) {
	for reason, n := range reasons {
		counter.Add(ctx, n, withReason(reason))
	}
	clear(reasons)
}

func withReason(reason string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("reason", reason))
}

func (s *stats) flushed(bytes int, took time.Duration) {
	ctx := s.ctx
	s.builder.ExporterChrometraceBytesWritten.Add(ctx, int64(bytes))
	s.builder.ExporterChrometraceFlushDuration.Record(ctx, took.Seconds())
}

func (s *stats) rotated(reason string) {
	s.builder.ExporterChrometraceFilesRotated.Add(s.ctx, 1, withReason(reason))
}

func (s *stats) backupsRemoved(files int) {
	s.builder.ExporterChrometraceBackupsRemoved.Add(s.ctx, int64(files))
}

func (s *stats) failed(operation string) {
	s.builder.ExporterChrometraceFileErrors.Add(s.ctx, 1, withReason(operation))
}
