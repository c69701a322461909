// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/phasecol/phasecol/connector/stracelogconnector/internal/metadatatest"
)

const (
	waitFor = 20 * time.Second
	tick    = 5 * time.Millisecond
)

// sink is a next component: answer decides, and what it accepts is kept.
type sink struct {
	mu     sync.Mutex
	answer func(context.Context) error
	got    ptrace.Traces
}

func (*sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *sink) ConsumeTraces(ctx context.Context, t ptrace.Traces) error {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range t.ResourceSpans().All() {
		rs.CopyTo(s.got.ResourceSpans().AppendEmpty())
	}
	return nil
}

func (s *sink) setAnswer(answer func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.SpanCount()
}

// all returns a copy of what was accepted.
func (s *sink) all() ptrace.Traces {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := ptrace.NewTraces()
	s.got.CopyTo(c)
	return c
}

// rig is a connector with its surroundings.
type rig struct {
	*stracelogConnector
	t    *testing.T
	next *sink
	logs *observer.ObservedLogs
	tel  *componenttest.Telemetry
	stop func()
}

// newRig starts a connector; stop, which also runs at the end, stops it.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Linger, cfg.StitchWait = 20*time.Millisecond, 100*time.Millisecond
	cfg.RetryOnFailure.InitialInterval = time.Millisecond
	cfg.RetryOnFailure.MaxInterval = time.Millisecond
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	r := &rig{t: t, next: &sink{got: ptrace.NewTraces()}, tel: componenttest.NewTelemetry()}
	set := metadatatest.NewSettings(r.tel)
	core, logs := observer.New(zap.InfoLevel)
	set.Logger, r.logs = zap.New(core), logs
	made, err := NewFactory().CreateLogsToTraces(t.Context(), set, cfg, r.next)
	require.NoError(t, err)
	r.stracelogConnector = made.(*stracelogConnector)
	require.NoError(t, made.Start(t.Context(), componenttest.NewNopHost()))
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			require.NoError(t, made.Shutdown(context.Background())) //nolint:usetesting // also called at cleanup, when the test's own has ended
		})
	}
	t.Cleanup(func() {
		r.stop()
		require.NoError(t, r.tel.Shutdown(context.Background())) //nolint:usetesting // as above
	})
	return r
}

func (*rig) settings() connector.Settings {
	return connectortest.NewNopSettings(NewFactory().Type())
}

// batch is one resource's log records.
type batch struct {
	logs plog.Logs
	rl   plog.ResourceLogs
}

func newBatch(attrs map[string]any) *batch {
	b := &batch{logs: plog.NewLogs()}
	b.rl = b.logs.ResourceLogs().AppendEmpty()
	if err := b.rl.Resource().Attributes().FromRaw(attrs); err != nil {
		panic(err)
	}
	b.rl.ScopeLogs().AppendEmpty()
	return b
}

// add appends a record with a text body, written at the Unix time at, ns.
func (b *batch) add(at int64, text string) plog.LogRecord {
	r := b.rl.ScopeLogs().At(0).LogRecords().AppendEmpty()
	r.Body().SetStr(text)
	r.SetTimestamp(pcommon.Timestamp(at))
	return r
}

func (r *rig) send(b *batch) {
	r.t.Helper()
	require.NoError(r.t, r.ConsumeLogs(r.t.Context(), b.logs))
}

func (r *rig) await(n int) ptrace.Traces {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.next.count() >= n }, waitFor, tick, "want %d spans", n)
	return r.next.all()
}

// metric sums a metric's points; 0 where there is none.
func (r *rig) metric(name string) int64 {
	r.t.Helper()
	m, err := r.tel.GetMetric("otelcol_connector_stracelog_" + name)
	if err != nil {
		return 0
	}
	sum := int64(0)
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			sum += p.Value
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			sum += p.Value
		}
	}
	return sum
}

func spansOf(t ptrace.Traces) []ptrace.Span {
	var spans []ptrace.Span
	for _, rs := range t.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				spans = append(spans, s)
			}
		}
	}
	return spans
}
