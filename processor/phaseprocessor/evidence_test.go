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

// ext makes a call with one external span of a process, at milliseconds from t0.
func ext(pid int64, trace, parent uint64, from, to int64, attrs map[string]any) ptrace.Traces {
	td := ptrace.NewTraces()
	phasetest.Ext(phasetest.Resource(td, "h1", pid), trace, 9_000+uint64(from), parent, t0+from*ms, (to-from)*ms, attrs)
	return td
}

// joined sends the usual request and returns its decode and engine spans.
func joined(t *testing.T, b *bench, change func(*tree)) (decode, engine ptrace.Span) {
	t.Helper()
	x := newTree(nil)
	if change != nil {
		change(x)
	}
	b.send(t, x.td)
	b.pass(t, 2*time.Second)
	return one(t, b.sink.named("decode_forward")), one(t, b.sink.named("engine.request"))
}

// links lists the spans a span is linked to.
func links(s ptrace.Span) []uint64 {
	var out []uint64
	for _, l := range s.Links().All() {
		id := l.SpanID()
		n := uint64(0)
		for _, b := range id {
			n = n<<8 | uint64(b)
		}
		out = append(out, (n-1_000_000)/100)
	}
	return out
}

// An external span that encloses runs names them, whatever others overlap.
func TestEvidenceEncloses(t *testing.T) {
	for evidence, send := range map[string]func(b *bench){
		"request_id": func(b *bench) {
			b.send(t, ext(11, 5000, 0, 99, 111, map[string]any{"strace.attr.request_id": "cmpl-1"}))
			b.send(t, ext(11, 5001, 0, 119, 136, map[string]any{"strace.attr.gen_ai.request.id": "cmpl-1"}))
			b.send(t, ext(11, 5002, 0, 79, 91, map[string]any{"strace.attr.request_id": "cmpl-2"}))
		},
		// A child of the request's own context: of its engine.request, of its
		// phase, of a span not seen here.
		"traceparent": func(b *bench) {
			b.send(t, ext(11, 1, 501, 99, 111, nil))
			b.send(t, ext(11, 1, 0xbeef, 119, 136, nil))
			b.send(t, ext(11, 2, 504, 79, 91, nil))
		},
	} {
		b := newBench(t, nil)
		x, y := twoRanks()
		send(b)
		b.send(t, x)
		b.send(t, y)
		decode, engine := joined(t, b, nil)
		require.Equal(t, evidence, attr(decode, "phase.join"))
		require.EqualValues(t, 2, attr(decode, "phase.host_runs"))
		require.EqualValues(t, 2, attr(decode, "phase.steps"))
		require.Equal(t, []uint64{3, 4}, links(decode))
		require.InDelta(t, 0.025, attr(decode, "phase.host_busy"), 0)
		require.InDelta(t, 0.075, attr(decode, "phase.engine_gap"), 0)
		// 101..105 and 121.5..127.5
		require.InDelta(t, 0.010, attr(decode, "phase.device_busy"), 0)
		// Nothing named runs of the prefill: time decides there, and the weaker
		// evidence is the request's.
		prefill := one(t, b.sink.named("prefill_forward"))
		require.Equal(t, "overlap", attr(prefill, "phase.join"))
		require.EqualValues(t, 2, attr(prefill, "phase.host_runs"))
		require.Equal(t, "overlap", attr(engine, "phase.join"))
		require.EqualValues(t, 4, attr(engine, "phase.host_runs"))
	}
}

// An external span before a run names the runs that follow, until the next one.
func TestEvidencePrecedes(t *testing.T) {
	b := newBench(t, nil)
	x, y := twoRanks()
	b.send(t, x)
	b.send(t, y)
	b.send(t, ext(11, 5000, 0, 95, 96, map[string]any{"strace.attr.request_id": "cmpl-1"}))
	b.send(t, ext(11, 5001, 0, 97, 98, map[string]any{"strace.attr.request_id": "cmpl-2"})) // of the same batch
	b.send(t, ext(11, 5002, 0, 112, 113, map[string]any{"strace.attr.request_id": "cmpl-2"}))
	decode, _ := joined(t, b, nil)
	require.Equal(t, "request_id", attr(decode, "phase.join"))
	require.Equal(t, []uint64{3}, links(decode))
	b.send(t, newTree(func(r *phasetest.Request) { r.Trace, r.Span = 2, 700 }).td)
	b.pass(t, 2*time.Second)
	require.Equal(t, []uint64{3, 4}, links(b.sink.named("decode_forward")[1]))
}

// The scheduler's process names a request: the runs of its step's ranks are
// meant, though they are of other processes.
func TestEvidenceOfTheSchedulersProcess(t *testing.T) {
	b := newBench(t, nil)
	td := ptrace.NewTraces()
	l3 := phasetest.Resource(td, "h1", 5)
	phasetest.Node(l3, 77, 1, 0, "level.run", t0+80*ms, 20*ms)
	for rank := range uint64(2) {
		c := chip(1+rank, t0+82*ms, 10*ms)
		c.Trace, c.Parent = 77, 1
		c.Append(phasetest.Resource(td, "h1", 20+int64(rank)))
	}
	b.send(t, td)
	b.send(t, host("h1", 30, chip(9, t0+85*ms, 10*ms)))
	b.send(t, ext(5, 5000, 0, 79, 101, map[string]any{"strace.attr.request_id": "cmpl-1"}))
	decode, _ := joined(t, b, nil)
	require.Equal(t, "request_id", attr(decode, "phase.join"))
	require.Equal(t, []uint64{1, 2}, links(decode))
	require.EqualValues(t, 1, attr(decode, "phase.steps"))
	require.InDelta(t, 0.010, attr(decode, "phase.host_busy"), 0)
}

// Of siblings, the one under whose span the external span was made.
func TestEvidenceOfASibling(t *testing.T) {
	b := newBench(t, nil)
	x, _ := twoRanks()
	b.send(t, x)
	b.send(t, ext(11, 1, 511, 99, 111, nil)) // the second engine.request
	b.send(t, newTree(func(r *phasetest.Request) { r.Sequences = 2 }).td)
	b.pass(t, 2*time.Second)
	got := map[any]any{}
	for _, s := range b.sink.named("decode_forward") {
		got[attr(s, "atom.sequence.id")] = []any{attr(s, "phase.join"), attr(s, "phase.host_runs")}
	}
	require.Equal(t, map[any]any{int64(0): []any{"overlap", int64(3)}, int64(1): []any{"traceparent", int64(1)}}, got)
}

// Evidence holds across groups, where overlap must not.
func TestGroups(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, host("h1", 1, chip(1, t0+80*ms, 10*ms)))
	b.send(t, host("h2", 1, chip(2, t0+80*ms, 20*ms)))
	for name, want := range map[string]uint64{"h1": 1, "h2": 2} {
		x := newTree(func(r *phasetest.Request) { r.Trace, r.Span = want, 1000*want })
		for _, rs := range x.td.ResourceSpans().All() {
			rs.Resource().Attributes().PutStr("host.name", name)
		}
		b.send(t, x.td)
	}
	b.send(t, newTree(func(r *phasetest.Request) { r.Trace, r.Span = 3, 3000 }).td) // h1 again
	nowhere := newTree(func(r *phasetest.Request) { r.Trace, r.Span = 4, 4000 })
	for _, rs := range nowhere.td.ResourceSpans().All() {
		rs.Resource().Attributes().Remove("host.name")
	}
	b.send(t, nowhere.td)
	b.pass(t, 2*time.Second)
	got := map[byte]any{}
	for _, s := range b.sink.named("decode_forward") {
		id := s.TraceID()
		got[id[15]] = []any{attr(s, "phase.join"), links(s)}
	}
	require.Equal(t, map[byte]any{
		1: []any{"overlap", []uint64{1}}, 2: []any{"overlap", []uint64{2}}, 3: []any{"overlap", []uint64{1}},
		4: []any{"none", []uint64(nil)}, // two groups, no key: which?
	}, got)
}

func TestTheOnlyGroup(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, host("h1", 1, chip(1, t0+80*ms, 10*ms)))
	decode, _ := joined(t, b, func(x *tree) {
		for _, rs := range x.td.ResourceSpans().All() {
			rs.Resource().Attributes().Remove("host.name")
		}
	})
	require.Equal(t, "overlap", attr(decode, "phase.join"))
	require.InDelta(t, 0, attr(decode, "phase.join.error"), 0)
}

// Pods on one host: the pod decides where both sides name one, else the host,
// else nobody knows.
func TestGroupsOfPodsOnAHost(t *testing.T) {
	pod := func(td ptrace.Traces, uid string) ptrace.Traces {
		for _, rs := range td.ResourceSpans().All() {
			rs.Resource().Attributes().PutStr("k8s.pod.uid", uid)
		}
		return td
	}
	for _, test := range []struct {
		name, pod string
		pods      []string
		want      any
	}{
		{"same pod", "a", []string{"a", "b"}, "overlap"},
		{"another pod of the host", "c", []string{"a"}, "none"},
		{"request names the host only, one pod there", "", []string{"a"}, "overlap"},
		{"request names the host only, two pods there", "", []string{"a", "b"}, "none"},
		{"runs name the host only", "a", []string{""}, "overlap"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, nil)
			for i, uid := range test.pods {
				td := host("h1", int64(i), chip(uint64(i+1), t0+80*ms, 10*ms))
				if uid != "" {
					pod(td, uid)
				}
				b.send(t, td)
			}
			decode, _ := joined(t, b, func(x *tree) {
				if test.pod != "" {
					pod(x.td, test.pod)
				}
			})
			require.Equal(t, test.want, attr(decode, "phase.join"))
		})
	}
}

// The error of a join is the runs' and, across hosts, that between the hosts'
// clocks. Where it exceeds the phase there is no result.
func TestClockHonesty(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     float64
		foreign bool
		remote  time.Duration
		decode  any
		prefill any
		want    float64
	}{
		{"same host", 0.001, false, 5 * time.Millisecond, "overlap", "overlap", 0.001},
		{"another host", 0.001, true, 5 * time.Millisecond, "overlap", "overlap", 0.006},
		{"worse than the prefill is long", 0.04, false, 0, "overlap", "none", 0.04},
		{"only the sum is", 0.02, true, 15 * time.Millisecond, "overlap", "none", 0.035},
		{"worse than both", 1, false, 0, "none", "none", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, func(cfg *Config) {
				cfg.Join.RemoteClockError = test.remote
				cfg.Join.GroupBy = []string{"rack"}
			})
			rack := func(td ptrace.Traces) ptrace.Traces {
				for _, rs := range td.ResourceSpans().All() {
					rs.Resource().Attributes().PutStr("rack", "r")
				}
				return td
			}
			name := "h1"
			if test.foreign {
				name = "h9"
			}
			p, d := chip(1, t0+45*ms, 10*ms), chip(2, t0+80*ms, 10*ms)
			p.ClockError, d.ClockError = test.err, test.err
			far := chip(3, t0+500*ms, 10*ms) // not of this request
			far.ClockError = 9
			b.send(t, rack(host(name, 1, p, d, far)))
			decode, _ := joined(t, b, func(x *tree) { rack(x.td) })
			prefill := one(t, b.sink.named("prefill_forward"))
			for span, want := range map[ptrace.Span]any{decode: test.decode, prefill: test.prefill} {
				require.Equal(t, want, attr(span, "phase.join"))
				require.InDelta(t, test.want, attr(span, "phase.join.error"), 1e-12)
				if want == "none" {
					require.Nil(t, attr(span, "phase.host_runs"))
					require.Nil(t, attr(span, "phase.engine_gap"))
					require.Zero(t, span.Links().Len())
				} else {
					require.EqualValues(t, 1, attr(span, "phase.host_runs"))
				}
			}
		})
	}
}

// A run that does not say how wrong its place may be cannot be joined, and
// nothing can be said of a phase that it overlaps.
func TestClockErrorNotStated(t *testing.T) {
	b := newBench(t, nil)
	td := host("h1", 1, chip(1, t0+45*ms, 10*ms), chip(2, t0+80*ms, 10*ms), chip(3, t0+100*ms, 10*ms))
	for _, s := range phasetest.Spans(td)[13:26] {
		s.Attributes().Remove("strace.clock.error")
	}
	b.send(t, td)
	decode, engine := joined(t, b, nil)
	require.Equal(t, "none", attr(decode, "phase.join"))
	require.Nil(t, attr(decode, "phase.join.error"))
	require.Nil(t, attr(decode, "phase.host_runs"))
	require.Equal(t, "overlap", attr(one(t, b.sink.named("prefill_forward")), "phase.join"))
	require.EqualValues(t, 1, attr(engine, "phase.host_runs"))
}

// Runs that were forgotten leave a request unjoined, not undercounted.
func TestEvictedRunsJoinNothing(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.MaxRuns = 16 })
	for i := range uint64(40) {
		b.send(t, host("h1", 1, chip(i+1, t0+int64(i)*4*ms, 2*ms)))
		require.LessOrEqual(t, b.joiner.Index.Runs(), 16)
	}
	decode, _ := joined(t, b, nil)
	require.Equal(t, "none", attr(decode, "phase.join"))
	require.Nil(t, attr(decode, "phase.host_runs"))
	b.sweep(t.Context())
	require.Positive(t, b.counter(t, "otelcol_processor_phase_evictions"))
}

func TestRetention(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.Retention = time.Minute })
	for i := range uint64(300) {
		b.send(t, host("h1", 1, chip(i+1, b.clock.UnixNano(), 2*ms)))
		b.pass(t, time.Second)
	}
	// A minute's, the sixteenth of it that a mark spans, and as many again that
	// are stale.
	require.LessOrEqual(t, b.joiner.Index.Runs(), 130)
	require.GreaterOrEqual(t, b.joiner.Index.Runs(), 60)
	b.pass(t, 2*time.Minute)
	require.Zero(t, b.joiner.Index.Runs())
	require.Zero(t, b.joiner.Index.Groups())
}

// One run dated a century ahead does not push the others out.
func TestRunFromTheFuture(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, host("h1", 1, chip(1, t0+80*ms, 10*ms)))
	b.send(t, host("h1", 1, chip(2, t0+3e18, 10*ms)))
	require.Equal(t, 1, b.joiner.Index.Runs())
	require.Equal(t, 26, b.sink.count())
}

// Steps are the runs over all ranks where there are any, else those of the rank
// that has most.
func TestStepsAreRunsOverAllRanks(t *testing.T) {
	b := newBench(t, nil)
	n := uint64(0)
	for _, at := range []int64{75, 95, 115, 160} {
		td := ptrace.NewTraces()
		n += 10
		phasetest.Node(phasetest.Resource(td, "h1", 5), n, n, 0, "level.run", t0+at*ms, 15*ms)
		for rank := range uint64(2) {
			for k := range int64(2) {
				c := chip(10*n+2*rank+uint64(k), t0+(at+1+6*k)*ms, 5*ms)
				c.Trace, c.Parent = n, n
				c.Append(phasetest.Resource(td, "h1", 20+int64(rank)))
			}
		}
		b.send(t, td)
	}
	decode, _ := joined(t, b, nil)
	// 161..166 and 167..172 lie before and across the end at 170.
	require.EqualValues(t, 16, attr(decode, "phase.host_runs"))
	require.EqualValues(t, 4, attr(decode, "phase.steps"))
	require.InDelta(t, 0.038, attr(decode, "phase.host_busy"), 1e-12)
}
