// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/metadata"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

const (
	t0 = int64(1_790_000_000_000_000_000)
	ms = int64(time.Millisecond)
)

// sink keeps what the processor passes on and can refuse it.
type sink struct {
	mu   sync.Mutex
	got  []ptrace.Traces
	fail func(td ptrace.Traces) error
}

func (*sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *sink) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(td); err != nil {
			return err
		}
	}
	kept := ptrace.NewTraces()
	td.CopyTo(kept)
	s.got = append(s.got, kept)
	return nil
}

func (s *sink) all() []ptrace.Traces {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ptrace.Traces(nil), s.got...)
}

func (s *sink) named(name string) []ptrace.Span { return phasetest.Named(name, s.all()...) }

func (s *sink) count() int { return len(phasetest.Spans(s.all()...)) }

// bench is a processor whose clock the test moves, and whose goroutine the test
// stands in for.
type bench struct {
	*phaseProcessor
	sink  *sink
	tel   *componenttest.Telemetry
	clock time.Time
}

func newBench(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Retry.Enabled = false
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	b := &bench{sink: &sink{}, tel: componenttest.NewTelemetry(), clock: time.Unix(0, t0)}
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = b.tel.NewTelemetrySettings()
	var err error
	b.phaseProcessor, err = newProcessor(set, cfg, b.sink)
	require.NoError(t, err)
	b.now = func() time.Time { return b.clock }
	t.Cleanup(func() { require.NoError(t, b.tel.Shutdown(context.Background())) }) //nolint:usetesting // runs after the test's context
	return b
}

func (b *bench) send(t testing.TB, td ptrace.Traces) {
	t.Helper()
	require.NoError(t, b.ConsumeTraces(t.Context(), td))
}

// pass lets time go by and sweeps.
func (b *bench) pass(t testing.TB, d time.Duration) {
	t.Helper()
	b.clock = b.clock.Add(d)
	b.sweep(t.Context())
}

// host makes a call with usual invocations of one process, each at start with
// the length given, ids from span on.
func host(name string, pid int64, chips ...phasetest.Chip) ptrace.Traces {
	td := ptrace.NewTraces()
	spans := phasetest.Resource(td, name, pid)
	for _, c := range chips {
		c.Append(spans)
	}
	return td
}

func chip(n uint64, start, dur int64) phasetest.Chip {
	return phasetest.Chip{
		Trace: 1_000_000 + n, Span: 1_000_000 + 100*n, Inv: int64(n), HID: "8f3a11c07be2d945",
		Start: start, Dur: dur, Parts: phasetest.Usual(dur),
	}
}

func attr(span ptrace.Span, key string) any { return phasetest.Attr(span, key) }

// isSet says whether a flag is there and true.
func isSet(span ptrace.Span, key string) bool {
	set, _ := attr(span, key).(bool)
	return set
}

func one(t testing.TB, spans []ptrace.Span) ptrace.Span {
	t.Helper()
	require.Len(t, spans, 1)
	return spans[0]
}

func ts(ns int64) pcommon.Timestamp { return pcommon.Timestamp(ns) }

func sumOf(m metricdata.Metrics) (n int64) {
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		n += p.Value
	}
	return n
}

func onlyAttr(t testing.TB, m metricdata.Metrics, key string) string {
	t.Helper()
	points := m.Data.(metricdata.Sum[int64]).DataPoints
	require.Len(t, points, 1)
	v, ok := points[0].Attributes.Value(attribute.Key(key))
	require.True(t, ok)
	return v.AsString()
}

// requireSame compares traces by their JSON form.
func requireSame(t testing.TB, want, got []ptrace.Traces) {
	t.Helper()
	require.Len(t, got, len(want))
	var m ptrace.JSONMarshaler
	for i := range want {
		w, err := m.MarshalTraces(want[i])
		require.NoError(t, err)
		g, err := m.MarshalTraces(got[i])
		require.NoError(t, err)
		require.JSONEq(t, string(w), string(g))
	}
}
