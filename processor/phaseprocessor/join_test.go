// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

// request starts 10 ms after t0: 10 ms of HTTP, 20 ms queue, 30 ms prefill,
// 100 ms decode, 10 ms of HTTP.
func usualRequest() phasetest.Request {
	return phasetest.Request{
		Trace: 1, Span: 500, Start: t0 + 10*ms, Front: 10 * ms, Queue: 20 * ms, Prefill: 30 * ms,
		Decode: 100 * ms, Back: 10 * ms, OutputTokens: 11,
	}
}

// Runs of two ranks:
//
//	prefill 40..70 (from t0): rank 1 at 42..62, rank 2 at 45..65
//	decode 70..170: rank 1 at 80..90, 100..110, 120..135; rank 2 at 82..92 and 165..175
func twoRanks() (a, b ptrace.Traces) {
	a = host("h1", 11,
		chip(1, t0+42*ms, 20*ms), chip(2, t0+80*ms, 10*ms), chip(3, t0+100*ms, 10*ms), chip(4, t0+120*ms, 15*ms))
	b = host("h1", 12, chip(11, t0+45*ms, 20*ms), chip(12, t0+82*ms, 10*ms), chip(13, t0+165*ms, 10*ms))
	return a, b
}

func TestJoinByOverlap(t *testing.T) {
	b := newBench(t, nil)
	x, y := twoRanks()
	b.send(t, x)
	b.send(t, y)
	hostSpans := b.sink.count()
	td := ptrace.NewTraces()
	r := usualRequest()
	r.Engine(td, "h1")
	b.send(t, td)
	td = ptrace.NewTraces()
	r.API(td, "h1")
	b.send(t, td)
	require.Equal(t, hostSpans, b.sink.count(), "requests wait")
	b.pass(t, 1999*time.Millisecond)
	require.Equal(t, hostSpans, b.sink.count())
	b.pass(t, time.Millisecond)

	prefill := one(t, b.sink.named("prefill_forward"))
	require.EqualValues(t, 2, attr(prefill, "phase.host_runs"))
	require.EqualValues(t, 1, attr(prefill, "phase.steps"))
	require.InDelta(t, 0.023, attr(prefill, "phase.host_busy"), 0) // 42..65
	// Device walls start a tenth into a run and last 4/10: 44..52 and 47..55.
	require.InDelta(t, 0.011, attr(prefill, "phase.device_busy"), 0)
	require.InDelta(t, 0.007, attr(prefill, "phase.engine_gap"), 0)
	require.Equal(t, "overlap", attr(prefill, "phase.join"))
	require.InDelta(t, 0, attr(prefill, "phase.join.error"), 0)

	decode := one(t, b.sink.named("decode_forward"))
	require.EqualValues(t, 5, attr(decode, "phase.host_runs"))
	require.EqualValues(t, 3, attr(decode, "phase.steps"))
	// 80..92, 100..110, 120..135, 165..170
	require.InDelta(t, 0.042, attr(decode, "phase.host_busy"), 0)
	// 81..87 (81..85 and 83..87), 101..105, 121.5..127.5, 166..170
	require.InDelta(t, 0.020, attr(decode, "phase.device_busy"), 0)
	require.InDelta(t, 0.058, attr(decode, "phase.engine_gap"), 0)
	require.Equal(t, 5, decode.Links().Len())
	link := decode.Links().At(0)
	require.Equal(t, phasetest.TraceID(1_000_002), link.TraceID())
	require.Equal(t, phasetest.SpanID(1_000_200), link.SpanID())
	v, _ := link.Attributes().Get("phase.link")
	require.Equal(t, "host_run", v.AsString())

	engine := one(t, b.sink.named("engine.request"))
	require.EqualValues(t, 7, attr(engine, "phase.host_runs"))
	require.EqualValues(t, 4, attr(engine, "phase.steps"))
	require.InDelta(t, 0.065, attr(engine, "phase.host_busy"), 1e-12)
	require.InDelta(t, 0.031, attr(engine, "phase.device_busy"), 1e-12)
	require.InDelta(t, 0.065, attr(engine, "phase.engine_gap"), 1e-12)
	require.Equal(t, "overlap", attr(engine, "phase.join"))
	require.Equal(t, "ok", attr(engine, "phase.contract"))
	require.InDelta(t, 0.020, attr(engine, "phase.queue"), 0)
	require.InDelta(t, 0.030, attr(engine, "phase.prefill"), 0)
	require.InDelta(t, 0.100, attr(engine, "phase.decode"), 0)
	require.InDelta(t, 0.150, attr(engine, "phase.e2e"), 0)
	require.InDelta(t, 0.051, attr(engine, "phase.ttft"), 0)
	require.Nil(t, attr(engine, "phase.ttft.estimated"))
	require.InDelta(t, 0.0099, attr(engine, "phase.tpot"), 1e-12) // (150-51)/10 ms

	http := one(t, b.sink.named("atom.request"))
	require.InDelta(t, 0.020, attr(http, "phase.http_overhead"), 0)
	require.Equal(t, "ok", attr(http, "phase.contract"))
	require.Equal(t, "nsdye=1", http.TraceState().AsRaw())
	require.Equal(t, phasetest.SpanID(0xfeed), http.ParentSpanID())
	require.Nil(t, attr(one(t, b.sink.named("prefill_waiting")), "phase.join"))

	// The slowest run of each phase is copied below it: 13 spans each.
	require.Equal(t, hostSpans+5+2*13, b.sink.count())
	var roots []ptrace.Span
	for _, s := range b.sink.named("chip.run") {
		if isSet(s, "phase.copy") {
			roots = append(roots, s)
		}
	}
	require.Len(t, roots, 2)
	require.Equal(t, prefill.SpanID(), roots[0].ParentSpanID())
	require.Equal(t, phasetest.SpanID(1_000_100).String(), attr(roots[0], "phase.copy_of.span_id"))
	require.Equal(t, decode.SpanID(), roots[1].ParentSpanID())
	require.Equal(t, phasetest.SpanID(1_000_400).String(), attr(roots[1], "phase.copy_of.span_id"))
	require.Equal(t, phasetest.TraceID(1_000_004).String(), attr(roots[1], "phase.copy_of.trace_id"))
	require.InDelta(t, 0.015, attr(roots[1], "phase.host_wall"), 0)
	require.Equal(t, phasetest.TraceID(1), roots[1].TraceID())
}
