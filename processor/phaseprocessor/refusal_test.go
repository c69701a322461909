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
