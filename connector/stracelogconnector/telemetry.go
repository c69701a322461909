// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector // import "github.com/phasecol/phasecol/connector/stracelogconnector"

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/connector/stracelogconnector/internal/metadata"
	"github.com/phasecol/phasecol/internal/stracepdata/delivery"
	"github.com/phasecol/phasecol/internal/stracepdata/feed"
	"github.com/phasecol/phasecol/pkg/strace"
)

// telemetry publishes the connector's own metrics. Nothing in it needs the
// connector's lock.
type telemetry struct {
	builder *metadata.TelemetryBuilder
	logger  *zap.Logger
	stats   feed.Stats
}

func newTelemetry(set connector.Settings) (*telemetry, error) {
	b, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("setting up telemetry: %w", err)
	}
	t := &telemetry{builder: b, logger: set.Logger}
	return t, t.stats.Register(feed.Registrations{
		Records: b.RegisterConnectorStracelogRecordsCallback, Traces: b.RegisterConnectorStracelogTracesCallback,
		Stitched: b.RegisterConnectorStracelogStitchedCallback, PlacedSpans: b.RegisterConnectorStracelogPlacedSpansCallback,
		Evictions: b.RegisterConnectorStracelogEvictionsCallback, Pending: b.RegisterConnectorStracelogPendingCallback,
		GuessedParents: b.RegisterConnectorStracelogGuessedParentsCallback, DeviceMisfits: b.RegisterConnectorStracelogDeviceMisfitsCallback,
		ClockJumps: b.RegisterConnectorStracelogClockJumpsCallback, HeldBytes: b.RegisterConnectorStracelogHeldBytesCallback,
		ClockError: b.RegisterConnectorStracelogClockErrorCallback,
	})
}

// publish makes s visible and counts spans that no clock could place.
func (t *telemetry) publish(s strace.Stats) {
	if unplaced := t.stats.Publish(s); unplaced > 0 {
		t.builder.ConnectorStracelogSpansDropped.Add(context.Background(), unplaced, withReason("no_clock"))
	}
}

func withReason(value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", value)))
}

func (t *telemetry) loss(l feed.Loss) {
	l.AddByReason(context.Background(), t.builder.ConnectorStracelogHostDrops)
	t.logger.Warn("the runtime lost records before they reached the log; spans of this process may be incomplete",
		zap.String("scope", l.ScopeKey), zap.Int32("pid", l.PID), zap.Uint64("new", l.Grown.Total), zap.Uint64("total", l.Total))
}

func (t *telemetry) deliveryObserver() delivery.Observer {
	return delivery.Observer{
		Delivered: func(ctx context.Context, _ int, took time.Duration) {
			t.builder.ConnectorStracelogDeliveryDuration.Record(ctx, took.Seconds())
		},
		Refused: func(ctx context.Context, err error) {
			t.builder.ConnectorStracelogDeliveryRefusals.Add(ctx, 1)
			t.logger.Warn("the next component refused spans; log records wait and it is tried again", zap.Error(err))
		},
		Dropped: func(ctx context.Context, spans int, reason delivery.Reason, err error) {
			t.builder.ConnectorStracelogSpansDropped.Add(ctx, int64(spans), withReason(string(reason)))
			t.logger.Error("spans dropped", zap.Int("spans", spans), zap.String("reason", string(reason)), zap.Error(err))
		},
	}
}
