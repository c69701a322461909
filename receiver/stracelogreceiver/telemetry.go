// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/delivery"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadata"
)

// telemetry publishes the receiver's own metrics. The reader's lock may be
// held for as long as the next component refuses, so a scrape must not need
// it: stats are copied here under a lock of their own.
type telemetry struct {
	builder *metadata.TelemetryBuilder
	obs     *receiverhelper.ObsReport
	behind  atomic.Int64

	mu    sync.Mutex
	stats strace.Stats
}

func newTelemetry(set receiver.Settings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("setting up telemetry: %w", err)
	}
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: "file", ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up telemetry: %w", err)
	}
	t := &telemetry{builder: builder, obs: obs}
	return t, t.register()
}

func (t *telemetry) shutdown() { t.builder.Shutdown() }

func (t *telemetry) get() strace.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// publish makes s visible to scrapes and counts spans dropped for want of a
// clock.
func (t *telemetry) publish(s strace.Stats) {
	t.mu.Lock()
	before := t.stats
	t.stats = s
	t.mu.Unlock()
	if dropped := (s.Unplaced - s.Placed[strace.ClockNone]) - (before.Unplaced - before.Placed[strace.ClockNone]); dropped > 0 {
		t.builder.ReceiverStracelogSpansDropped.Add(context.Background(), int64(dropped), withReason("no_clock"))
	}
}

func withReason(value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", value)))
}

func with(key, value string) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

func (t *telemetry) register() error {
	b := t.builder
	return errors.Join(
		b.RegisterReceiverStracelogRecordsCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Records {
				o.Observe(int64(n), with("outcome", strace.Outcome(i).String()))
			}
		})),
		b.RegisterReceiverStracelogTracesCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Traces {
				o.Observe(int64(n), with("kind", strace.TraceKind(i).String()))
			}
		})),
		b.RegisterReceiverStracelogStitchedCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Stitched {
				o.Observe(int64(n), with("stitch", strace.Stitch(i).String()))
			}
		})),
		b.RegisterReceiverStracelogPlacedSpansCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Placed {
				o.Observe(int64(n), with("clock_source", strace.ClockSource(i).String()))
			}
		})),
		b.RegisterReceiverStracelogEvictionsCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.EvictedInvocations), with("bound", "invocations"))
			o.Observe(int64(s.EvictedRuns), with("bound", "runs"))
			o.Observe(int64(s.EvictedBytes), with("bound", "bytes"))
			o.Observe(int64(s.EvictedProcesses), with("bound", "processes"))
			o.Observe(int64(s.EvictedScopes), with("bound", "scopes"))
		})),
		b.RegisterReceiverStracelogPendingCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.Open), with("unit", "open"))
			o.Observe(int64(s.Waiting), with("unit", "complete"))
			o.Observe(int64(s.OpenRuns), with("unit", "run"))
		})),
		b.RegisterReceiverStracelogGuessedParentsCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.GuessedParents))
		})),
		b.RegisterReceiverStracelogDeviceMisfitsCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.DeviceMisfits))
		})),
		b.RegisterReceiverStracelogClockJumpsCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.ClockJumps))
		})),
		b.RegisterReceiverStracelogHeldBytesCallback(t.observe(func(s strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.HeldBytes))
		})),
		b.RegisterReceiverStracelogBytesBehindCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(t.behind.Load())
			return nil
		}),
		b.RegisterReceiverStracelogClockErrorCallback(func(_ context.Context, o metric.Float64Observer) error {
			if e := t.get().LastClockError; e >= 0 {
				o.Observe(time.Duration(e).Seconds())
			}
			return nil
		}),
	)
}

func (t *telemetry) observe(f func(strace.Stats, metric.Int64Observer)) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		f(t.get(), o)
		return nil
	}
}

func (t *telemetry) skippedLine(ctx context.Context, reason string) {
	t.builder.ReceiverStracelogSkippedLines.Add(ctx, 1, withReason(reason))
}

func (t *telemetry) hostDrops(ctx context.Context, before, d strace.Drops) {
	for _, c := range [...]struct {
		reason string
		grown  uint64
	}{
		{"queue_full", d.QueueFull - before.QueueFull},
		{"claim_exhausted", d.ClaimExhausted - before.ClaimExhausted},
		{"output_failed", d.OutputFailed - before.OutputFailed},
		{"not_admitted", d.NotAdmitted - before.NotAdmitted},
	} {
		if c.grown > 0 && c.grown <= d.Total {
			t.builder.ReceiverStracelogHostDrops.Add(ctx, int64(c.grown), withReason(c.reason))
		}
	}
}

func (t *telemetry) snapshot(ctx context.Context, size int, took time.Duration) {
	t.builder.ReceiverStracelogSnapshotSize.Record(ctx, int64(size))
	t.builder.ReceiverStracelogSnapshotDuration.Record(ctx, took.Seconds())
}

func (t *telemetry) deliveryObserver(logger *zap.Logger) delivery.Observer {
	return delivery.Observer{
		Delivered: func(ctx context.Context, _ int, took time.Duration) {
			t.builder.ReceiverStracelogDeliveryDuration.Record(ctx, took.Seconds())
		},
		Refused: func(ctx context.Context, err error) {
			t.builder.ReceiverStracelogDeliveryRefusals.Add(ctx, 1)
			logger.Warn("the next component refused spans; reading waits and tries again", zap.Error(err))
		},
		Dropped: func(ctx context.Context, spans int, reason delivery.Reason, err error) {
			t.builder.ReceiverStracelogSpansDropped.Add(ctx, int64(spans), withReason(string(reason)))
			logger.Error("spans dropped", zap.Int("spans", spans), zap.String("reason", string(reason)), zap.Error(err))
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
