// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
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
	b.pass(t, 0)
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

// Ten times what fits: the bound holds at every moment, those that waited
// longest leave first, nothing is lost.
func TestOverload(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.MaxRequests, cfg.Join.MaxRequestSpans = 20, 70 })
	const n = 200
	for i := range uint64(n) {
		td := newTree(func(r *phasetest.Request) { r.Trace, r.Span = i+1, 1000*(i+1) }).td
		b.send(t, td)
		requests, spans := b.held.Size()
		require.LessOrEqual(t, requests, 20)
		require.LessOrEqual(t, spans, 70)
	}
	require.Equal(t, (n-14)*5, b.sink.count())
	b.pass(t, 2*time.Second)
	require.Equal(t, n*5, b.sink.count())
	for _, s := range b.sink.named("engine.request") {
		require.Equal(t, "ok", attr(s, "phase.contract"))
	}
	requests, spans := b.held.Size()
	require.Zero(t, requests)
	require.Zero(t, spans)
}

// A call with more than fits in all goes straight through.
func TestCallLargerThanTheBound(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.MaxRequestSpans = 4 })
	b.send(t, newTree(nil).td)
	require.Equal(t, 5, b.sink.count())
	require.Equal(t, "ok", attr(one(t, b.sink.named("atom.request")), "phase.contract"))
}

// Under overload an unwilling next component is felt by the caller, and what
// was to make room is kept.
func TestOverloadWithRefusal(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.MaxRequestSpans = 5 })
	b.send(t, newTree(nil).td)
	refused := errors.New("no")
	b.sink.fail = func(ptrace.Traces) error { return refused }
	second := newTree(func(r *phasetest.Request) { r.Trace, r.Span = 2, 900 }).td
	require.ErrorIs(t, b.ConsumeTraces(t.Context(), second), refused)
	require.Equal(t, 5, second.SpanCount(), "the caller has its spans again")
	// Nothing is left to evict: all there is is on its way.
	require.ErrorIs(t, b.ConsumeTraces(t.Context(), second), refused)
	b.sink.fail = nil
	b.sweep(t.Context())
	require.Equal(t, 5, b.sink.count())
	require.NoError(t, b.ConsumeTraces(t.Context(), second))
	b.pass(t, 2*time.Second)
	require.Equal(t, 10, b.sink.count())
}

// The error for host spans is the caller's; request spans of the call go back
// to it as well and nothing is held twice when it tries again.
func TestHostErrorGoesBack(t *testing.T) {
	b := newBench(t, nil)
	td, _ := twoRanks()
	r := usualRequest()
	r.API(td, "h1")
	r.Engine(td, "h1")
	n := td.SpanCount()
	refused := consumererror.NewPermanent(errors.New("no"))
	b.sink.fail = func(ptrace.Traces) error { return refused }
	require.ErrorIs(t, b.ConsumeTraces(t.Context(), td), refused)
	require.Equal(t, n, td.SpanCount())
	requests, spans := b.held.Size()
	require.Zero(t, requests)
	require.Zero(t, spans)
	b.sink.fail = nil
	b.send(t, td)
	b.pass(t, 2*time.Second)
	require.Equal(t, n+26, b.sink.count())
	root := b.sink.named("chip.run")[0]
	require.InDelta(t, 0.02, attr(root, "phase.host_wall"), 0)
	require.EqualValues(t, 3, attr(one(t, b.sink.named("decode_forward")), "phase.host_runs"))
}

// Held requests survive a next component that refuses them for a while.
func TestRetry(t *testing.T) {
	b := newBench(t, func(cfg *Config) {
		cfg.Retry.Enabled = true
		cfg.Retry.InitialInterval = time.Microsecond
		cfg.Retry.MaxInterval = time.Microsecond
	})
	b.send(t, newTree(nil).td)
	tries := 0
	b.sink.fail = func(td ptrace.Traces) error {
		if tries++; tries < 4 {
			td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true }) // a next one may do that
			return errors.New("not now")
		}
		return nil
	}
	b.pass(t, 2*time.Second)
	require.Equal(t, 4, tries)
	require.Equal(t, 5, b.sink.count())
}

func TestLost(t *testing.T) {
	for reason, fail := range map[string]error{
		"exhausted": errors.New("no"),
		"permanent": consumererror.NewPermanent(errors.New("never")),
	} {
		b := newBench(t, func(cfg *Config) {
			cfg.Retry.Enabled = true
			cfg.Retry.InitialInterval = time.Microsecond
			cfg.Retry.MaxInterval = time.Microsecond
			cfg.Retry.MaxElapsedTime = time.Millisecond
		})
		b.send(t, newTree(nil).td)
		b.sink.fail = func(ptrace.Traces) error { return fail }
		b.pass(t, 2*time.Second)
		metric, err := b.tel.GetMetric("otelcol_processor_phase_request_spans_lost")
		require.NoError(t, err)
		require.Equal(t, int64(5), sumOf(metric))
		require.Equal(t, reason, onlyAttr(t, metric, "reason"))
		_, spans := b.held.Size()
		require.Zero(t, spans)
	}
}

// Shutdown lets everything go, unjoined parts marked.
func TestShutdownFlushes(t *testing.T) {
	b := newBench(t, nil)
	b.now = time.Now
	require.NoError(t, b.Start(t.Context(), componenttest.NewNopHost()))
	td := ptrace.NewTraces()
	r := usualRequest()
	r.Engine(td, "h1")
	require.NoError(t, b.ConsumeTraces(t.Context(), td))
	require.Zero(t, b.sink.count())
	require.NoError(t, b.Shutdown(t.Context()))
	require.Equal(t, 4, b.sink.count())
	require.Equal(t, "none", attr(one(t, b.sink.named("decode_forward")), "phase.join"))
	require.Equal(t, "none", attr(one(t, b.sink.named("engine.request")), "phase.join"))
	require.Equal(t, true, attr(one(t, b.sink.named("engine.request")), "phase.partial"))
}

// Shutdown ends although the next component never takes anything again, and
// interrupts a retry under way.
func TestShutdownDespiteRefusal(t *testing.T) {
	b := newBench(t, func(cfg *Config) {
		cfg.Retry.Enabled = true
		cfg.Retry.InitialInterval = time.Hour
		cfg.Retry.MaxInterval = time.Hour
		cfg.Retry.MaxElapsedTime = 0
		cfg.Join.Wait = time.Millisecond
	})
	b.now = time.Now
	tried := make(chan struct{}, 16)
	b.sink.fail = func(ptrace.Traces) error {
		select {
		case tried <- struct{}{}:
		default:
		}
		return errors.New("never")
	}
	require.NoError(t, b.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, b.ConsumeTraces(t.Context(), newTree(nil).td))
	<-tried
	require.NoError(t, b.Shutdown(t.Context()))
	_, spans := b.held.Size()
	require.Zero(t, spans)
	require.Zero(t, b.sink.count())
}

// The goroutine does what the tests above do by hand.
func TestReleasesByItself(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.Wait = 20 * time.Millisecond })
	b.now = time.Now
	require.NoError(t, b.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, b.ConsumeTraces(t.Context(), newTree(nil).td))
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, 5, b.sink.count()) }, 10*time.Second, time.Millisecond)
	require.NoError(t, b.Shutdown(t.Context()))
}

// Many callers at once, hosts and requests, with a bound that bites.
func TestConcurrentCalls(t *testing.T) {
	b := newBench(t, func(cfg *Config) {
		cfg.Join.Wait = 2 * time.Millisecond
		cfg.Join.MaxRequestSpans = 200
		cfg.Join.MaxRuns = 300
		cfg.Join.MaxEmbedSpans = 500
	})
	b.now = time.Now
	require.NoError(t, b.Start(t.Context(), componenttest.NewNopHost()))
	const callers, calls = 8, 60
	var wg sync.WaitGroup
	for c := range uint64(callers) {
		wg.Go(func() {
			for i := range uint64(calls) {
				n := c*calls + i + 1
				td := host("h1", int64(c), chip(n, t0+int64(i)*20*ms, 10*ms))
				r := usualRequest()
				r.Trace, r.Span = n, 5000*n
				r.Engine(td, "h1")
				r.API(td, "h1")
				assert.NoError(t, b.ConsumeTraces(context.Background(), td)) //nolint:usetesting // other goroutine
			}
		})
	}
	wg.Wait()
	require.NoError(t, b.Shutdown(t.Context()))
	require.Len(t, b.sink.named("atom.request"), callers*calls)
	require.Len(t, b.sink.named("decode_forward"), callers*calls)
	_, spans := b.held.Size()
	require.Zero(t, spans)
}
