// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// chipBatch is as the receiver sends it: whole invocations of eight ranks, 13
// spans each, with the attributes of a real record.
func chipBatch(invocations int) ptrace.Traces {
	td := ptrace.NewTraces()
	for rank := range 8 {
		ss := addResource(td, map[string]any{
			"service.name": "simpler", "host.name": "node-17", "process.pid": int64(16000 + rank), "hw.id": string(rune('0' + rank)), "hw.type": "npu",
		})
		for i := range invocations {
			trace := uint64(rank*invocations + i + 1)
			at := uint64(i) * 40_000_000
			addInvocation(ss, int64(16000+rank), trace, trace*100, 0, at)
			for n := range uint64(4) {
				addSpan(ss, want{
					name: "chip.run.runner_run.device_wall.task_slot_0", trace: trace, id: trace*100 + 10 + n, parent: trace*100 + 5,
					start: at + 170 + n*10, end: at + 175 + n*10, attrs: deviceAttrs(int64(16000+rank), "run.runner_run.device_wall.task_slot"),
				})
			}
		}
		for _, span := range ss.Spans().All() {
			attrs := span.Attributes()
			attrs.PutInt(semconv.Inv, 7)
			attrs.PutStr(semconv.HID, "8f3a11c07be2d945")
			attrs.PutInt(semconv.Depth, 2)
			attrs.PutStr(semconv.ClockSource, semconv.ClockSourceAnchor)
			attrs.PutDouble(semconv.ClockError, 0.000012)
		}
	}
	return td
}

// shift moves all times, so that every round is new on the timeline.
func shift(td ptrace.Traces, by uint64) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				span.SetStartTimestamp(span.StartTimestamp() + pcommon.Timestamp(by))
				span.SetEndTimestamp(span.EndTimestamp() + pcommon.Timestamp(by))
			}
		}
	}
}

func benchmark(b *testing.B, td ptrace.Traces, length uint64) {
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = b.TempDir()
	cfg.Rotation.MaxBackups = 1
	exp, err := newTraceExporter(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(b, err)
	require.NoError(b, exp.start(b.Context(), componenttest.NewNopHost()))
	spans := td.SpanCount()
	b.ReportAllocs()
	began := time.Now()
	rounds := 0
	var bytes int64
	for b.Loop() {
		shift(td, length)
		before := exp.file.at
		if err := exp.push(b.Context(), td); err != nil {
			b.Fatal(err)
		}
		bytes += max(0, exp.file.at-before)
		rounds++
	}
	b.ReportMetric(float64(spans*rounds)/time.Since(began).Seconds(), "spans/s")
	b.ReportMetric(float64(bytes)/float64(spans*rounds), "B_written/span")
	require.NoError(b, exp.shutdown(b.Context()))
}

func BenchmarkChipSpans(b *testing.B) {
	benchmark(b, chipBatch(10), 10*40_000_000)
}

func BenchmarkRequestSpans(b *testing.B) {
	td := ptrace.NewTraces()
	for i := range uint64(200) {
		requestTrace(i+1, i*100, [2]uint64{1, 1}).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	benchmark(b, td, 100_000)
}

func BenchmarkRuns(b *testing.B) {
	td := ptrace.NewTraces()
	for i := range uint64(40) {
		runTrace(i+1, i*2500).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	benchmark(b, td, 100_000)
}
