// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/internal/stracepdata/delivery"
	"github.com/phasecol/phasecol/internal/stracepdata/feed"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadata"
)

// telemetry publishes the receiver's own metrics. Nothing in it needs the
// reader's lock.
type telemetry struct {
	builder *metadata.TelemetryBuilder
	obs     *receiverhelper.ObsReport
	logger  *zap.Logger
	stats   feed.Stats
}

func newTelemetry(set receiver.Settings, behind func() int64) (*telemetry, error) {
	b, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("setting up telemetry: %w", err)
	}
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: "file", ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up telemetry: %w", err)
	}
	t := &telemetry{builder: b, obs: obs, logger: set.Logger}
	return t, errors.Join(
		t.stats.Register(feed.Registrations{
			Records: b.RegisterReceiverStracelogRecordsCallback, Traces: b.RegisterReceiverStracelogTracesCallback,
			Stitched: b.RegisterReceiverStracelogStitchedCallback, PlacedSpans: b.RegisterReceiverStracelogPlacedSpansCallback,
			Evictions: b.RegisterReceiverStracelogEvictionsCallback, Pending: b.RegisterReceiverStracelogPendingCallback,
			GuessedParents: b.RegisterReceiverStracelogGuessedParentsCallback, DeviceMisfits: b.RegisterReceiverStracelogDeviceMisfitsCallback,
			ClockJumps: b.RegisterReceiverStracelogClockJumpsCallback, HeldBytes: b.RegisterReceiverStracelogHeldBytesCallback,
			ClockError: b.RegisterReceiverStracelogClockErrorCallback,
		}),
		b.RegisterReceiverStracelogBytesBehindCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(behind())
			return nil
		}),
	)
}

func (t *telemetry) shutdown() { t.builder.Shutdown() }

// publish makes s visible and counts spans that no clock could place.
func (t *telemetry) publish(s strace.Stats) {
	if unplaced := t.stats.Publish(s); unplaced > 0 {
		t.builder.ReceiverStracelogSpansDropped.Add(context.Background(), unplaced, withReason("no_clock"))
	}
}

func withReason(value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", value)))
}

func (t *telemetry) skippedLine(reason string) {
	t.builder.ReceiverStracelogSkippedLines.Add(context.Background(), 1, withReason(reason))
}

func (t *telemetry) loss(l feed.Loss) {
	l.AddByReason(context.Background(), t.builder.ReceiverStracelogHostDrops)
	t.logger.Warn("the runtime lost records before they reached the log; spans of this process may be incomplete",
		zap.String("scope", l.ScopeKey), zap.Int32("pid", l.PID), zap.Uint64("new", l.Grown.Total), zap.Uint64("total", l.Total))
}

func (t *telemetry) snapshot(ctx context.Context, size int, took time.Duration) {
	t.builder.ReceiverStracelogSnapshotSize.Record(ctx, int64(size))
	t.builder.ReceiverStracelogSnapshotDuration.Record(ctx, took.Seconds())
}

func (t *telemetry) deliveryObserver() delivery.Observer {
	return delivery.Observer{
		Delivered: func(ctx context.Context, _ int, took time.Duration) {
			t.builder.ReceiverStracelogDeliveryDuration.Record(ctx, took.Seconds())
		},
		Refused: func(ctx context.Context, err error) {
			t.builder.ReceiverStracelogDeliveryRefusals.Add(ctx, 1)
			t.logger.Warn("the next component refused spans; reading waits and tries again", zap.Error(err))
		},
		Dropped: func(ctx context.Context, spans int, reason delivery.Reason, err error) {
			t.builder.ReceiverStracelogSpansDropped.Add(ctx, int64(spans), withReason(string(reason)))
			t.logger.Error("spans dropped", zap.Int("spans", spans), zap.String("reason", string(reason)), zap.Error(err))
		},
	}
}

// observed wraps next with the counts every receiver keeps.
func (t *telemetry) observed(next consumer.Traces) consumer.Traces {
	return &observedConsumer{Traces: next, obs: t.obs}
}

type observedConsumer struct {
	consumer.Traces
	obs *receiverhelper.ObsReport
}

func (c *observedConsumer) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	n := td.SpanCount()
	ctx = c.obs.StartTracesOp(ctx)
	err := c.Traces.ConsumeTraces(ctx, td)
	c.obs.EndTracesOp(ctx, "strace", n, err)
	return err
}
