// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/phasecol/phasecol/pkg/strace"
)

const second = int64(1e9)

// feeder drives a Feed and keeps what comes out.
type feeder struct {
	*Feed
	spans  []strace.Span
	losses []Loss
}

func newFeeder(t *testing.T, change func(*strace.Config)) *feeder {
	t.Helper()
	f := &feeder{}
	cfg := strace.DefaultConfig()
	cfg.Host = "n1"
	cfg.Emit = func(tr *strace.Trace) { f.spans = append(f.spans, tr.Spans...) }
	if change != nil {
		change(&cfg)
	}
	var err error
	f.Feed, err = New(cfg, func(l Loss) { f.losses = append(f.losses, l) })
	require.NoError(t, err)
	return f
}

func (f *feeder) line(now int64, from *Source, stamped int64, text string) {
	f.Add(&Line{Scope: f.Assembler.Scope("s", now), From: from, Text: []byte(text), Ended: true, Stamped: stamped, Now: now})
}

const root = "[mono_ns=1500][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=0 name=chip.run ts=1000 dur=400 "

func TestAddPlacesByAnchor(t *testing.T) {
	f := newFeeder(t, nil)
	f.line(1, nil, 0, "[CLOCK_ANCHOR] v=1 pid=7 mono_ns=900 wall_ns=5000000000")
	f.line(1, nil, 0, root)
	f.Assembler.Flush(2)
	require.Len(t, f.spans, 1)
	assert.Equal(t, 5*second+100, f.spans[0].Start)
	assert.Equal(t, 5*second+500, f.spans[0].End)
	assert.Equal(t, strace.ClockAnchor, f.spans[0].Source)
}

// TestAddPlacesByStamp: the stamp is paired with the prefix's emission time,
// or without prefix with the span's end.
func TestAddPlacesByStamp(t *testing.T) {
	f := newFeeder(t, nil)
	f.line(1, nil, 7*second, root)
	f.line(1, nil, 9*second, "[STRACE] v=1 pid=8 tid=8 inv=1 hid=ab depth=1 name=chip.run.runner_run.device_wall ts=0 dur=90 clk=dev")
	f.line(1, nil, 8*second, "[STRACE] v=1 pid=8 tid=8 inv=1 hid=ab depth=0 name=chip.run ts=1000 dur=400 ")
	f.Assembler.Flush(2)
	require.Len(t, f.spans, 3)
	assert.Equal(t, 7*second-500, f.spans[0].Start, "1500 was printed at 7 s")
	for _, s := range f.spans[1:] {
		if s.Name.Text == "chip.run" {
			assert.Equal(t, 8*second, s.End, "a device record's stamp says nothing")
		}
	}
}

func TestSourceIsToldOncePerProcess(t *testing.T) {
	f := newFeeder(t, nil)
	var told []int32
	from := &Source{Clock: strace.FileClock{LastEnd: 1400, Mtime: 3 * second}, OnProcess: func(pid int32) { told = append(told, pid) }}
	f.line(1, from, 0, "[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=1 name=chip.run.bind ts=1000 dur=1 ")
	f.line(1, from, 0, root)
	f.line(1, from, 0, "[STRACE] v=1 pid=8 tid=7 inv=1 hid=ab depth=1 name=chip.run.bind ts=1000 dur=1 ")
	from.Changed()
	f.line(1, from, 0, "[STRACE] v=1 pid=8 tid=7 inv=1 hid=ab depth=1 name=chip.run.validate ts=1001 dur=1 ")
	assert.Equal(t, []int32{7, 8, 8}, told)
	f.Assembler.Flush(2)
	require.NotEmpty(t, f.spans)
	assert.Equal(t, strace.ClockMtime, f.spans[0].Source)
	assert.Equal(t, 3*second-400, f.spans[0].Start)
}

func TestBadMarkersCount(t *testing.T) {
	f := newFeeder(t, nil)
	f.line(1, nil, 0, "[STRACE] v=2 pid=1 tid=1 [STRACE] v=1 pid=x [STRACE] v=1 pid=1 tid=1 inv=1")
	s := f.Assembler.Stats()
	assert.Equal(t, uint64(1), s.Records[strace.OutcomeUnknownVersion])
	assert.Equal(t, uint64(1), s.Records[strace.OutcomeMalformed])
	assert.Equal(t, uint64(1), s.Records[strace.OutcomeTorn])
}

func drops(pid, total, full, failed string) string {
	return "[HOSTLOG_DROPS] v=1 pid=" + pid + " new=1 total=" + total + " queue_full=" + full + " claim_exhausted=0 output_failed=" + failed + " not_admitted=0"
}

func TestLossesGrow(t *testing.T) {
	f := newFeeder(t, nil)
	f.line(1, nil, 0, drops("7", "3", "2", "1"))
	f.line(1, nil, 0, drops("7", "3", "2", "1")) // printed twice
	f.line(1, nil, 0, drops("7", "10", "9", "1"))
	f.line(1, nil, 0, drops("7", "4", "4", "0")) // another process took the number
	assert.Equal(t, []Loss{
		{ScopeKey: "s", PID: 7, Total: 3, Grown: strace.Drops{PID: 7, Total: 3, QueueFull: 2, OutputFailed: 1}},
		{ScopeKey: "s", PID: 7, Total: 10, Grown: strace.Drops{PID: 7, Total: 7, QueueFull: 7}},
		{ScopeKey: "s", PID: 7, Total: 4, Grown: strace.Drops{PID: 7, Total: 4, QueueFull: 4}},
	}, f.losses)
}

func TestLossesAreBounded(t *testing.T) {
	f := newFeeder(t, func(c *strace.Config) { c.MaxProcesses = 2 })
	for _, pid := range []string{"1", "2", "3", "4", "5"} {
		f.line(1, nil, 0, drops(pid, "1", "1", "0"))
	}
	assert.LessOrEqual(t, len(f.Feed.losses), 2)
	assert.Len(t, f.losses, 5)
}

func TestSnapshotHoldsAll(t *testing.T) {
	f := newFeeder(t, nil)
	f.line(1, nil, 0, drops("7", "3", "3", "0"))
	f.line(1, nil, 0, "[CLOCK_ANCHOR] v=1 pid=7 mono_ns=900 wall_ns=5000000000")
	f.line(1, nil, 0, "[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=1 name=chip.run.bind ts=1100 dur=1 ")
	snapshot := f.AppendSnapshot([]byte("x"))

	g := newFeeder(t, nil)
	require.NoError(t, g.Restore(snapshot[1:], 10))
	assert.Equal(t, snapshot[1:], g.AppendSnapshot(nil))
	g.line(11, nil, 0, drops("7", "5", "5", "0"))
	g.line(11, nil, 0, root)
	g.Assembler.Flush(12)
	assert.Len(t, g.spans, 2)
	require.Len(t, g.losses, 1)
	assert.Equal(t, uint64(2), g.losses[0].Grown.QueueFull, "the count goes on")
	for cut := range snapshot[1:] {
		require.Error(t, newFeeder(t, nil).Restore(snapshot[1:cut+1], 10), "cut at %d", cut)
	}
}

func TestNewRefusesZeroLimits(t *testing.T) {
	_, err := New(strace.Config{}, nil)
	require.Error(t, err)
}

func TestCut(t *testing.T) {
	p, rest, err := CutBytes(append(AppendBytes(nil, []byte("abc")), 'd'))
	require.NoError(t, err)
	assert.Equal(t, "abc", string(p))
	assert.Equal(t, "d", string(rest))
	_, _, err = CutBytes([]byte{4, 'a'})
	require.ErrorIs(t, err, ErrDamaged)
	_, _, err = CutUvarint(nil)
	require.ErrorIs(t, err, ErrDamaged)
}

// TestPublish: spans that were placed at the time of reading are not dropped.
func TestPublish(t *testing.T) {
	var p Stats
	s := strace.Stats{Unplaced: 5}
	assert.Equal(t, int64(5), p.Publish(s))
	s.Unplaced = 9
	s.Placed[strace.ClockNone] = 1
	assert.Equal(t, int64(3), p.Publish(s))
	assert.Zero(t, p.Publish(s))
}

func TestRegister(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	meter := provider.Meter("t")
	sum := func(name string) func(metric.Int64Callback) error {
		return func(cb metric.Int64Callback) error {
			_, err := meter.Int64ObservableGauge(name, metric.WithInt64Callback(cb))
			return err
		}
	}
	var p Stats
	require.NoError(t, p.Register(Registrations{
		Records: sum("records"), Traces: sum("traces"), Stitched: sum("stitched"), PlacedSpans: sum("placed"),
		Evictions: sum("evictions"), Pending: sum("pending"), GuessedParents: sum("guessed"),
		DeviceMisfits: sum("misfits"), ClockJumps: sum("jumps"), HeldBytes: sum("held"),
		ClockError: func(cb metric.Float64Callback) error {
			_, err := meter.Float64ObservableGauge("error", metric.WithFloat64Callback(cb))
			return err
		},
	}))
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	names := map[string]bool{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		names[m.Name] = true
	}
	assert.False(t, names["error"], "nothing was placed yet")
	assert.True(t, names["held"])

	s := strace.Stats{Spans: 1, LastClockError: 1500, HeldBytes: 7, GuessedParents: 1, DeviceMisfits: 2, ClockJumps: 3, Open: 4, Waiting: 5, OpenRuns: 6, EvictedRuns: 8}
	s.Records[strace.OutcomeTorn] = 9
	s.Traces[strace.TraceLate] = 10
	s.Stitched[strace.StitchTime] = 11
	s.Placed[strace.ClockMtime] = 12
	p.Publish(s)
	require.NoError(t, reader.Collect(t.Context(), &got))
	values := map[string]float64{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Gauge[int64]:
			for _, point := range data.DataPoints {
				if point.Value != 0 {
					values[m.Name+label(point.Attributes)] = float64(point.Value)
				}
			}
		case metricdata.Gauge[float64]:
			values[m.Name] = data.DataPoints[0].Value
		}
	}
	assert.Equal(t, map[string]float64{
		"error": 1.5e-6, "held": 7, "guessed": 1, "misfits": 2, "jumps": 3, "pending open": 4, "pending complete": 5,
		"pending run": 6, "evictions runs": 8, "records torn": 9, "traces late": 10, "stitched time": 11, "placed mtime": 12,
	}, values)
}

func label(set attribute.Set) string {
	if set.Len() == 0 {
		return ""
	}
	kv, _ := set.Get(0)
	return " " + kv.Value.AsString()
}

func TestAddByReason(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	counter, err := provider.Meter("t").Int64Counter("c")
	require.NoError(t, err)
	(&Loss{Total: 5, Grown: strace.Drops{QueueFull: 2, ClaimExhausted: 1, NotAdmitted: 6}}).AddByReason(t.Context(), counter)
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	values := map[string]int64{}
	for _, point := range got.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		values[label(point.Attributes)] = point.Value
	}
	assert.Equal(t, map[string]int64{" queue_full": 2, " claim_exhausted": 1}, values)
}
