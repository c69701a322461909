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

// split makes calls of some spans each out of one call's.
func split(td ptrace.Traces, sizes ...int) []ptrace.Traces {
	var out []ptrace.Traces
	n := 0
	for _, rs := range td.ResourceSpans().All() {
		var to ptrace.SpanSlice
		at := -1
		for _, s := range rs.ScopeSpans().At(0).Spans().All() {
			k, rest := 0, n
			for k < len(sizes) && rest >= sizes[k] {
				rest -= sizes[k]
				k++
			}
			for len(out) <= k {
				out = append(out, ptrace.NewTraces())
			}
			if at != k {
				dest := out[k].ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(dest.Resource())
				to, at = dest.ScopeSpans().AppendEmpty().Spans(), k
			}
			s.CopyTo(to.AppendEmpty())
			n++
		}
	}
	return out
}

func rootPhases(t *testing.T, b *bench) map[string]any {
	t.Helper()
	root := one(t, b.sink.named("chip.run"))
	out := map[string]any{}
	for k, v := range root.Attributes().All() {
		if len(k) > 6 && k[:6] == "phase." {
			out[k] = v.AsRaw()
		}
	}
	return out
}

// The runtime prints the root last: an invocation cut anywhere before it still
// gets the same numbers, since what came before is remembered.
func TestInvocationInPieces(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, host("h1", 1, chip(1, t0, 100*ms)))
	want := rootPhases(t, b)
	require.InDelta(t, 0.1, want["phase.host_wall"], 0)
	require.Len(t, want, 18)
	for cut := 1; cut < 13; cut++ {
		for second := cut + 1; second <= 13; second++ {
			b := newBench(t, nil)
			for _, td := range split(host("h1", 1, chip(1, t0, 100*ms)), cut, second-cut) {
				b.send(t, td)
			}
			require.Equal(t, want, rootPhases(t, b), "cut at %d and %d", cut, second)
			require.Equal(t, 13, b.sink.count(), "host spans never wait")
		}
	}
}

// Beyond the wait, or with the root in front, the numbers cannot be right, and
// say so.
func TestInvocationPartial(t *testing.T) {
	pieces := func() []ptrace.Traces { return split(host("h1", 1, chip(1, t0, 100*ms)), 12) }

	b := newBench(t, nil)
	p := pieces()
	b.send(t, p[0])
	b.pass(t, 3*time.Second)
	b.send(t, p[1])
	require.Equal(t, map[string]any{"phase.host_wall": 0.1, "phase.partial": true}, rootPhases(t, b))

	b = newBench(t, nil)
	p = pieces()
	b.send(t, p[1])
	b.send(t, p[0])
	require.Equal(t, map[string]any{"phase.host_wall": 0.1, "phase.partial": true}, rootPhases(t, b))
	late := 0
	for _, s := range phasetest.Spans(b.sink.all()...) {
		if s.Name() != "chip.run" && isSet(s, "phase.partial") {
			late++
			require.Contains(t, []string{"chip.run.bind", "chip.run.runner_run", "chip.run.validate"}, s.Name())
		}
	}
	require.Equal(t, 3, late)

	// The middle is missing: runner_run, the parent of the device wall.
	b = newBench(t, nil)
	td := host("h1", 1, chip(1, t0, 100*ms))
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(s ptrace.Span) bool { return s.Name() == "chip.run.runner_run" })
	b.send(t, td)
	got := rootPhases(t, b)
	require.Equal(t, true, got["phase.partial"])
	require.NotContains(t, got, "phase.device_wall")
}

// An invocation that left without its root has nothing to put phases on.
func TestIncompleteInvocation(t *testing.T) {
	b := newBench(t, nil)
	td := host("h1", 1, chip(1, t0, 100*ms))
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	spans.RemoveIf(func(s ptrace.Span) bool { return s.Name() == "chip.run" })
	for _, s := range spans.All() {
		if s.ParentSpanID() == phasetest.SpanID(1_000_100) {
			s.SetParentSpanID([8]byte{})
			s.Attributes().PutBool("strace.incomplete", true)
		}
	}
	b.send(t, td)
	require.Equal(t, 12, b.sink.count())
	for _, s := range phasetest.Spans(b.sink.all()...) {
		require.Nil(t, attr(s, "phase.host_wall"))
	}
	require.Zero(t, b.joiner.Index.Runs())
}

// A tree of two ranks below one run: 100 ms, rank 0 (device 4) ends at 60 and
// then at 90, rank 1 (no device) ends at 95.
func step(dispatches bool) ptrace.Traces {
	td := ptrace.NewTraces()
	l3 := phasetest.Resource(td, "h1", 5)
	phasetest.Node(l3, 77, 1, 0, "level.run", t0, 100*ms)
	phasetest.Node(l3, 77, 2, 1, "level.dispatch", t0+ms, ms)
	phasetest.Node(l3, 77, 3, 1, "level.dispatch", t0+2*ms, ms)
	rank := func(pid int64, parent, span uint64, inv, end int64) {
		if !dispatches {
			parent = 1
		}
		spans := phasetest.Resource(td, "h1", pid)
		if pid == 6 {
			td.ResourceSpans().At(td.ResourceSpans().Len()-1).Resource().Attributes().PutStr("hw.id", "4")
		}
		c := phasetest.Chip{Trace: 77, Span: span, Parent: parent, Inv: inv, HID: "abcdef12", Start: t0 + end*ms - 20*ms, Dur: 20 * ms, Parts: phasetest.Usual(20 * ms)}
		c.Append(spans)
	}
	rank(6, 2, 100, 1, 60)
	rank(6, 2, 200, 2, 90)
	rank(7, 3, 300, 1, 95)
	return td
}

func TestStep(t *testing.T) {
	for _, dispatches := range []bool{true, false} {
		b := newBench(t, nil)
		b.send(t, step(dispatches))
		run := one(t, b.sink.named("node.run"))
		require.InDelta(t, 0.1, attr(run, "phase.step"), 0)
		require.EqualValues(t, 2, attr(run, "phase.ranks"))
		require.Equal(t, "7", attr(run, "phase.critical_rank"))
		require.InDelta(t, 0.005, attr(run, "phase.rank_skew"), 0)
		require.InDelta(t, 0.02, attr(run, "phase.host_wall"), 0)
		require.InDelta(t, 0.016, attr(run, "phase.runner_run"), 0)
		for _, s := range b.sink.named("chip.run") {
			require.InDelta(t, 0.02, attr(s, "phase.host_wall"), 0)
			require.Nil(t, attr(s, "phase.partial"))
		}
	}
}

// The ranks' invocations come in calls of their own, before the run's.
func TestStepInPieces(t *testing.T) {
	b := newBench(t, nil)
	pieces := split(step(true), 3)
	b.send(t, pieces[1])
	for _, s := range b.sink.named("chip.run") {
		require.InDelta(t, 0.02, attr(s, "phase.host_wall"), 0)
		require.Nil(t, attr(s, "phase.partial"), "the invocation itself is whole")
	}
	b.send(t, pieces[0])
	run := one(t, b.sink.named("node.run"))
	require.EqualValues(t, 2, attr(run, "phase.ranks"))
	require.Equal(t, "7", attr(run, "phase.critical_rank"))
}

func TestStepWithoutRanks(t *testing.T) {
	b := newBench(t, nil)
	td := ptrace.NewTraces()
	phasetest.Node(phasetest.Resource(td, "h1", 5), 77, 1, 0, "level.run", t0, 100*ms)
	b.send(t, td)
	run := one(t, b.sink.named("node.run"))
	require.InDelta(t, 0.1, attr(run, "phase.step"), 0)
	require.Nil(t, attr(run, "phase.ranks"))
	require.Nil(t, attr(run, "phase.critical_rank"))
}

// Phases that another processor wrote stay as they are, the joining goes on.
func TestPhasesPresentAreLeftAlone(t *testing.T) {
	b := newBench(t, nil)
	td := step(true)
	for _, s := range phasetest.Spans(td) {
		switch s.Name() {
		case "chip.run":
			s.Attributes().PutDouble("phase.host_wall", 42)
			s.Attributes().PutStr("strace.callable", "theirs")
		case "node.run":
			s.Attributes().PutDouble("phase.step", 43)
		}
	}
	b.send(t, td)
	run := one(t, b.sink.named("node.run"))
	require.InDelta(t, 43, attr(run, "phase.step"), 0)
	require.Nil(t, attr(run, "phase.ranks"))
	for _, s := range b.sink.named("chip.run") {
		require.InDelta(t, 42, attr(s, "phase.host_wall"), 0)
		require.Nil(t, attr(s, "phase.bind"))
		require.Equal(t, "theirs", attr(s, "strace.callable"))
	}
	require.Equal(t, 3, b.joiner.Index.Runs())
}

// An agent has joined; a gateway passes the request on at once and untouched,
// and does not take the copies for runs.
func TestTwoProcessorsInARow(t *testing.T) {
	agent, gateway := newBench(t, nil), newBench(t, nil)
	x, y := twoRanks()
	agent.send(t, x)
	agent.send(t, y)
	agent.send(t, newTree(nil).td)
	agent.pass(t, 2*time.Second)
	want := agent.sink.all()
	for _, td := range want {
		in := ptrace.NewTraces()
		td.CopyTo(in)
		gateway.send(t, in)
	}
	requireSame(t, want, gateway.sink.all())
	require.Equal(t, 7, gateway.joiner.Index.Runs())
	_, spans := gateway.held.Size()
	require.Zero(t, spans)
}

// The agent had no host runs of the request: the gateway, which has, joins; all
// else that the agent wrote stays.
func TestGatewayJoinsWhatTheAgentCouldNot(t *testing.T) {
	agent, gateway := newBench(t, nil), newBench(t, nil)
	x, y := twoRanks()
	gateway.send(t, x)
	gateway.send(t, y)
	agent.send(t, newTree(nil).td)
	agent.pass(t, 2*time.Second)
	require.Equal(t, "none", attr(one(t, agent.sink.named("engine.request")), "phase.join"))
	gateway.send(t, agent.sink.all()[0])
	gateway.pass(t, 2*time.Second)
	require.EqualValues(t, 5, attr(one(t, gateway.sink.named("decode_forward")), "phase.host_runs"))
	engine := one(t, gateway.sink.named("engine.request"))
	require.Equal(t, "overlap", attr(engine, "phase.join"))
	require.EqualValues(t, 7, attr(engine, "phase.host_runs"))
	require.Equal(t, "ok", attr(engine, "phase.contract"))
	require.Nil(t, attr(engine, "phase.partial"))
}

// run 1: bind 0..10, runner 10..90 of 100 ms; run 2 begins its bind at 82 while
// run 1 still runs: 8 of its 10 ms are hidden.
func TestPrepareOverlap(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, host("h1", 1, chip(1, t0, 100*ms), chip(2, t0+82*ms, 100*ms)))
	// Number 4 does not know its predecessor; another process is none.
	b.send(t, host("h1", 1, chip(4, t0+190*ms, 100*ms)))
	b.send(t, host("h1", 2, chip(3, t0+183*ms, 100*ms)))
	roots := b.sink.named("chip.run")
	require.Nil(t, attr(roots[0], "phase.prepare_overlap"))
	require.InDelta(t, 0.8, attr(roots[1], "phase.prepare_overlap"), 1e-12)
	require.Nil(t, attr(roots[2], "phase.prepare_overlap"))
	require.Nil(t, attr(roots[3], "phase.prepare_overlap"))
	// Number 3 comes late and finds number 2; number 5 hides nothing.
	b.send(t, host("h1", 1, chip(3, t0+172*ms, 10*ms)))
	b.send(t, host("h1", 1, chip(5, t0+400*ms, 100*ms)))
	roots = b.sink.named("chip.run")
	require.InDelta(t, 0, attr(roots[4], "phase.prepare_overlap"), 0)
	require.InDelta(t, 0, attr(roots[5], "phase.prepare_overlap"), 0)
}

// Ticks of a counter too large for a double: subtracted first, 50 MHz.
func TestDeviceGap(t *testing.T) {
	const hz, base = int64(50_000_000), int64(1) << 60
	b := newBench(t, nil)
	at := func(n uint64, pid, device, start, end int64) ptrace.Traces {
		c := chip(n, t0+int64(n)*100*ms, 50*ms)
		for i := range c.Parts {
			if c.Parts[i].Stage == "run.runner_run.device_wall" {
				c.Parts[i].Attrs = map[string]any{
					"strace.attr.dev_id": device, "strace.attr.dev_start_cycle": base + start,
					"strace.attr.dev_end_cycle": base + end, "strace.attr.dev_cnt_hz": hz,
				}
			}
		}
		return host("h1", pid, c)
	}
	b.send(t, at(1, 1, 3, 0, 1000))
	b.send(t, at(2, 2, 3, 1001, 2000)) // one tick of another process's run: 20 ns
	b.send(t, at(3, 1, 4, 1500, 2000)) // another device
	b.send(t, at(4, 1, 3, 1900, 2500)) // overlaps: no idle time
	b.send(t, at(5, 1, 3, 5000, 6000))
	b.send(t, at(5, 1, 3, 5000, 6000)) // again: the same
	b.send(t, at(6, 1, 3, 10, 20))     // before all others but one: late
	var got []any
	for _, s := range b.sink.named("chip.run") {
		got = append(got, attr(s, "phase.device_gap"))
	}
	require.Equal(t, []any{nil, 20e-9, nil, 0.0, 2500.0 / 50e6, 2500.0 / 50e6, 0.0}, got)
}

// Numbers that do not fit: no overhead below zero, no device time outside.
func TestDeviceThatDoesNotFit(t *testing.T) {
	b := newBench(t, nil)
	c := phasetest.Chip{Trace: 1, Span: 100, Inv: 1, HID: "abcdef", Start: t0, Dur: 10 * ms, Parts: []phasetest.Part{
		{Stage: "run.runner_run", Depth: 1, From: 0, Dur: 9 * ms},
		{Stage: "run.runner_run.device_wall", Depth: 2, From: 0, Dur: 30 * ms, Attrs: map[string]any{"strace.device.fits": false}},
	}}
	b.send(t, host("h1", 1, c))
	root := one(t, b.sink.named("chip.run"))
	require.InDelta(t, 0.03, attr(root, "phase.device_wall"), 0)
	require.Nil(t, attr(root, "phase.host_overhead"))
	require.Nil(t, attr(root, "phase.launch_overhead"))
	require.InDelta(t, 0.001, attr(root, "phase.unattributed"), 0)
}

func callables(b *bench) []any {
	var out []any
	for _, s := range b.sink.named("chip.run") {
		if attr(s, "phase.copy") == nil {
			out = append(out, attr(s, "strace.callable"))
		}
	}
	return out
}

func TestCallableByCounting(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Callable.Names = map[string]string{"feed": "sampler"} })
	n := uint64(0)
	for _, hid := range []string{"aaaaaaaa11111111", "bbbbbbbb22222222", "bbbbbbbb22222222", "aaaaaaaa11111111", "aaaaaaaa11111111", "bbbbbbbb22222222", "0", "feed", "", "1", "00"} {
		n++
		c := chip(n, t0+int64(n)*10*ms, ms)
		c.HID = hid
		b.send(t, host("h1", 1, c))
	}
	require.Equal(t, []any{
		"prefill", "prefill", // each seen once
		"decode",   // b is busiest with two
		"aaaaaaaa", // a has two as well, b stays
		"decode",   // a leads with three
		"bbbbbbbb", // three each, a stays
		nil,        // 0 names nothing
		"sampler",  // configured
		nil,        // no hid
		"prefill",  // the simulator's small numbers are callables too
		nil,        // 0 in any length
	}, callables(b))
	// What comes again changes no count.
	c := chip(6, t0+60*ms, ms)
	c.HID = "bbbbbbbb22222222"
	b.send(t, host("h1", 1, c))
	require.Equal(t, "bbbbbbbb", callables(b)[11])
}

// The join teaches: the hid that ran inside of a prefill phase is prefill from
// then on, though it has run twice; what was sent stays as it was.
func TestCallableLearned(t *testing.T) {
	b := newBench(t, nil)
	run := func(n uint64, at, dur int64, hid string) {
		c := chip(n, t0+at*ms, dur*ms)
		c.HID = hid
		b.send(t, host("h1", 11, c))
	}
	const p, d = "aaaaaaaa11111111", "bbbbbbbb22222222"
	run(1, 42, 10, p)
	run(2, 55, 10, p)
	run(3, 80, 10, d)
	run(4, 100, 10, d)
	run(5, 120, 10, d)
	run(6, 165, 10, "cccccccc33333333") // sticks out of the decode phase: teaches nothing
	require.Equal(t, []any{"prefill", "decode", "prefill", "bbbbbbbb", "decode", "prefill"}, callables(b))
	b.send(t, newTree(nil).td)
	b.pass(t, 2*time.Second)
	run(7, 300, 10, p)
	run(8, 320, 10, d)
	run(9, 340, 10, "cccccccc33333333")
	require.Equal(t, []any{"prefill", "decode", "cccccccc"}, callables(b)[6:])
}
