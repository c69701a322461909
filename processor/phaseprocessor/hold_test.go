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

// Children arrive before parents, from several resources, in any order: within
// the wait the request comes out the same.
func TestRequestInPieces(t *testing.T) {
	r := usualRequest()
	r.Sequences = 2
	pieces := func() []ptrace.Traces {
		var out []ptrace.Traces
		whole := ptrace.NewTraces()
		r.Engine(whole, "h1")
		r.API(whole, "h1")
		for _, rs := range whole.ResourceSpans().All() {
			for _, s := range rs.ScopeSpans().At(0).Spans().All() {
				td := ptrace.NewTraces()
				to := td.ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(to.Resource())
				s.CopyTo(to.ScopeSpans().AppendEmpty().Spans().AppendEmpty())
				out = append(out, td)
			}
		}
		return out
	}
	for shift := range 9 {
		b := newBench(t, nil)
		all := pieces()
		for i := range all {
			b.send(t, all[(i*4+shift)%len(all)])
			b.pass(t, 1900*time.Millisecond)
			require.Zero(t, b.sink.count(), "each piece prolongs the wait")
			if i == 4 {
				b.clock = b.clock.Add(-9 * time.Second) // five waits in all are the most
			}
		}
		b.pass(t, 2*time.Second)
		require.Equal(t, 9, b.sink.count())
		for _, s := range b.sink.named("engine.request") {
			require.Equal(t, "ok", attr(s, "phase.contract"))
			require.InDelta(t, 0.02, attr(s, "phase.queue"), 0)
			require.Nil(t, attr(s, "phase.partial"))
		}
		require.Equal(t, "ok", attr(one(t, b.sink.named("atom.request")), "phase.contract"))
	}
}

// A trace that keeps getting spans is not held for ever.
func TestHeldFiveWaitsAtMost(t *testing.T) {
	b := newBench(t, nil)
	r := usualRequest()
	td := ptrace.NewTraces()
	r.Sequence(td, "h1", 0)
	b.send(t, td)
	for k := 1; k <= 5; k++ {
		b.pass(t, 1900*time.Millisecond)
		require.Zero(t, b.sink.count())
		td = ptrace.NewTraces()
		r.Sequence(td, "h1", k)
		b.send(t, td)
	}
	b.pass(t, 500*time.Millisecond)
	require.Equal(t, 24, b.sink.count())
}

// A piece that comes when its request has left is passed on, says so, and is
// not judged.
func TestLatePiece(t *testing.T) {
	b := newBench(t, nil)
	x := newTree(nil)
	late := ptrace.NewTraces()
	x.td.CopyTo(late)
	x.remove("decode_forward")
	b.send(t, x.td)
	b.pass(t, 2*time.Second)
	require.Equal(t, "missing_phase", attr(one(t, b.sink.named("engine.request")), "phase.contract"))

	x.td = late
	for _, name := range []string{"atom.request", "engine.request", "prefill_waiting", "prefill_forward"} {
		x.remove(name)
	}
	b.send(t, x.td)
	b.pass(t, 2*time.Second)
	decode := one(t, b.sink.named("decode_forward"))
	require.Equal(t, true, attr(decode, "phase.partial"))
	require.Nil(t, attr(decode, "phase.duplicate"))
	require.Equal(t, 5, b.sink.count())
}

// An engine.request whose atom.request never comes is judged by itself.
func TestEngineWithoutHTTP(t *testing.T) {
	b := newBench(t, nil)
	td := ptrace.NewTraces()
	r := usualRequest()
	r.Engine(td, "h1")
	b.send(t, td)
	b.pass(t, 2*time.Second)
	engine := one(t, b.sink.named("engine.request"))
	require.Equal(t, "ok", attr(engine, "phase.contract"))
	require.Equal(t, true, attr(engine, "phase.partial"))
}

// What arrives twice leaves twice, counts once and says which is which.
func TestDuplicates(t *testing.T) {
	for _, apart := range []bool{false, true} {
		b := newBench(t, nil)
		x, y := twoRanks()
		again := ptrace.NewTraces()
		x.CopyTo(again)
		b.send(t, x)
		b.send(t, y)
		b.send(t, again)
		hosts := b.sink.count()
		first, second := newTree(nil), newTree(nil)
		b.send(t, first.td)
		if apart {
			b.pass(t, 2*time.Second)
		}
		b.send(t, second.td)
		b.pass(t, 2*time.Second)
		copies := 0
		for _, s := range phasetest.Spans(b.sink.all()...) {
			if isSet(s, "phase.copy") {
				copies++
			}
		}
		require.Equal(t, hosts+10, b.sink.count()-copies)
		decodes := b.sink.named("decode_forward")
		require.Len(t, decodes, 2)
		marked := 0
		for _, d := range decodes {
			require.EqualValues(t, 5, attr(d, "phase.host_runs"))
			require.InDelta(t, 0.042, attr(d, "phase.host_busy"), 0)
			require.Equal(t, 5, d.Links().Len())
			if isSet(d, "phase.duplicate") {
				marked++
			}
		}
		require.Equal(t, 1, marked)
		for _, e := range b.sink.named("engine.request") {
			require.Equal(t, "ok", attr(e, "phase.contract"))
			require.Nil(t, attr(e, "phase.partial"))
			require.InDelta(t, 0.15, attr(e, "phase.e2e"), 0)
		}
		require.Equal(t, int64(1), b.counter(t, "otelcol_processor_phase_contract_results"))
	}
}

// counter sums a counter over its attributes.
func (b *bench) counter(t *testing.T, name string) int64 {
	t.Helper()
	m, err := b.tel.GetMetric(name)
	require.NoError(t, err)
	return sumOf(m)
}

// A whole request leaves as soon as every process of its group has been seen
// beyond its end.
func TestEarlyRelease(t *testing.T) {
	b := newBench(t, nil)
	x, y := twoRanks()
	b.send(t, x)
	b.send(t, y)
	b.pass(t, 2*time.Second) // no further process turns up
	hosts := b.sink.count()
	r := newTree(func(r *phasetest.Request) { r.Back = ms })
	b.send(t, r.td)
	b.pass(t, 10*time.Millisecond)
	require.Equal(t, hosts, b.sink.count())
	// Rank 12 ends a run at 175, after the request's end at 171; rank 11 has
	// been seen up to 135 only.
	b.send(t, host("h1", 11, chip(5, t0+160*ms, 8*ms)))
	b.pass(t, 10*time.Millisecond)
	require.Empty(t, b.sink.named("atom.request"))
	b.send(t, host("h1", 11, chip(6, t0+169*ms, 8*ms)))
	b.pass(t, 10*time.Millisecond)
	decode := one(t, b.sink.named("decode_forward"))
	require.EqualValues(t, 7, attr(decode, "phase.host_runs"))
	require.Equal(t, "ok", attr(one(t, b.sink.named("atom.request")), "phase.contract"))
}

// No early release while processes are still turning up: of a backlog, those
// of another rank may not have been read at all.
func TestNoEarlyReleaseWhileProcessesTurnUp(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, host("h1", 11, chip(6, t0+169*ms, 8*ms)))
	b.send(t, newTree(func(r *phasetest.Request) { r.Back = ms }).td)
	b.pass(t, 10*time.Millisecond)
	require.Empty(t, b.sink.named("atom.request"))
	b.send(t, host("h1", 12, chip(7, t0+140*ms, 8*ms)))
	b.pass(t, 2*time.Second)
	require.EqualValues(t, 2, attr(one(t, b.sink.named("decode_forward")), "phase.host_runs"))
}

// No early release for what may not be whole: here atom.request outlasts the
// engine by more than the tolerance, so a sibling may still come.
func TestNoEarlyReleaseWhenASiblingMayCome(t *testing.T) {
	b := newBench(t, nil)
	r := newTree(nil)
	b.send(t, r.td)
	b.send(t, host("h1", 11, chip(5, t0+160*ms, 100*ms)))
	b.pass(t, 10*time.Millisecond)
	require.Empty(t, b.sink.named("atom.request"))
	b.pass(t, 2*time.Second)
	require.Len(t, b.sink.named("atom.request"), 1)
}

// Without anything to join there is nothing to wait for once it is whole.
func TestEarlyReleaseWithoutJoin(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.Enabled = false })
	b.send(t, newTree(func(r *phasetest.Request) { r.Back = ms }).td)
	b.pass(t, 10*time.Millisecond)
	require.Equal(t, 5, b.sink.count())
	require.Nil(t, attr(one(t, b.sink.named("decode_forward")), "phase.join"))
}

// Wait 0 holds nothing: what a call brings is worked on alone.
func TestNoWait(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.Wait = 0 })
	x, y := twoRanks()
	b.send(t, x)
	b.send(t, y)
	hosts := b.sink.count()
	b.send(t, newTree(nil).td)
	require.Equal(t, hosts+5+26, b.sink.count())
	require.EqualValues(t, 5, attr(one(t, b.sink.named("decode_forward")), "phase.host_runs"))
}

// A request that failed may still get its engine's spans from another process:
// it waits. One that was turned away will get none: it leaves at once.
func TestEarlyReleaseOfRequestsWithoutEngine(t *testing.T) {
	for status, early := range map[int64]bool{404: true, 500: false} {
		b := newBench(t, nil)
		td := ptrace.NewTraces()
		r := usualRequest()
		span := r.API(td, "h1")
		span.Attributes().PutInt("http.response.status_code", status)
		if status == 500 {
			span.Status().SetCode(ptrace.StatusCodeError)
		}
		b.send(t, td)
		b.pass(t, 10*time.Millisecond)
		if early {
			require.Equal(t, 1, b.sink.count())
		} else {
			require.Zero(t, b.sink.count())
			b.pass(t, 2*time.Second)
		}
		require.Equal(t, "ok", attr(one(t, b.sink.named("atom.request")), "phase.contract"))
	}
}
