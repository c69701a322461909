// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/hold"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

// BenchmarkHostSpans is what a host span costs: phases, index, callable and,
// for the slowest run of every 20 ms, the copy kept for embedding. Eight ranks
// decode a token every 20 ms. The time to make the spans is not counted.
func BenchmarkHostSpans(b *testing.B) {
	const ranks, steps = 8, 8
	bench := newBench(b, nil)
	bench.next = consumertest.NewNop()
	input := ptrace.NewTraces()
	for rank := range int64(ranks) {
		spans := phasetest.Resource(input, "h1", 10+rank)
		for step := range int64(steps) {
			chip(uint64(rank*1000+step), t0+step*20*ms+rank*10_000, 18*ms).Append(spans)
		}
	}
	spans := input.SpanCount()
	const ahead = 200
	calls := make([]ptrace.Traces, ahead)
	n := 0
	shift := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		if n%ahead == 0 {
			b.StopTimer()
			for i := range calls {
				calls[i] = ptrace.NewTraces()
				input.CopyTo(calls[i])
				shift += steps * 20 * ms
				moveAll(calls[i], shift)
			}
			bench.clock = time.Unix(0, t0+shift)
			bench.sweep(b.Context())
			b.StartTimer()
		}
		if err := bench.ConsumeTraces(b.Context(), calls[n%ahead]); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*spans), "ns/span")
	b.ReportMetric(float64(n*spans)/b.Elapsed().Seconds(), "spans/s")
}

// moveAll moves every span in time and gives it ids of its own.
func moveAll(td ptrace.Traces, by int64) {
	for _, span := range phasetest.Spans(td) {
		span.SetStartTimestamp(span.StartTimestamp() + pcommon.Timestamp(by))
		span.SetEndTimestamp(span.EndTimestamp() + pcommon.Timestamp(by))
		mix := func(id []byte) {
			for i := range 6 {
				id[i] ^= byte(by >> (8 * i))
			}
		}
		trace, id, parent := span.TraceID(), span.SpanID(), span.ParentSpanID()
		mix(trace[:])
		mix(id[:])
		span.SetTraceID(trace)
		span.SetSpanID(id)
		if !parent.IsEmpty() {
			mix(parent[:])
			span.SetParentSpanID(parent)
		}
		if v, ok := span.Attributes().Get("strace.inv"); ok {
			v.SetInt(v.Int() + by/20/ms)
		}
	}
}

// BenchmarkJoin is the join of one request whose decode phase has 4,000 steps,
// with links and the copy of the slowest run: everything that happens to it
// between its wait and its leaving.
func BenchmarkJoin(b *testing.B) {
	for _, ranks := range []int64{1, 8} {
		b.Run(map[int64]string{1: "ranks=1", 8: "ranks=8"}[ranks], func(b *testing.B) {
			const steps = 4_000
			bench := newBench(b, nil)
			bench.next = consumertest.NewNop()
			for rank := range ranks {
				for from := int64(0); from < steps; from += 500 {
					td := ptrace.NewTraces()
					spans := phasetest.Resource(td, "h1", 10+rank)
					for step := from; step < from+500; step++ {
						c := chip(uint64(rank*10_000+step+1), t0+100*ms+step*20*ms+rank*10_000, 15*ms+(step*7919)%1_000_000)
						c.Append(spans)
					}
					require.NoError(b, bench.ConsumeTraces(b.Context(), td))
				}
			}
			r := phasetest.Request{
				Trace: 1, Span: 500, Start: t0, Front: 10 * ms, Queue: 40 * ms, Prefill: 50 * ms,
				Decode: steps * 20 * ms, Back: 10 * ms, OutputTokens: steps,
			}
			const ahead = 200
			n := 0
			entries := make([]*hold.Entry, ahead)
			b.ReportAllocs()
			for b.Loop() {
				if n%ahead == 0 {
					b.StopTimer()
					for i := range entries {
						td := ptrace.NewTraces()
						r.API(td, "h1")
						r.Engine(td, "h1")
						var taker hold.Taker
						bench.sort(td, phases.NewBatch(nil), &taker)
						entries[i] = taker.Entries[0]
					}
					b.StartTimer()
				}
				out := ptrace.NewTraces()
				bench.finish(b.Context(), entries[n%ahead:n%ahead+1], out, releaseWait)
				n++
			}
		})
	}
}
