// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// asyncText is what the asynchronous tracks show, in the order of writing.
func asyncText(events []traceEvent) []string {
	var out []string
	depth := map[string]int{}
	for i := range events {
		e := &events[i]
		id := string(e.ID)
		switch e.Ph {
		case "b":
			out = append(out, fmt.Sprintf("%d%*s%s +%d", e.PID, 1+depth[id], "", e.Name, uint64(e.at())-base))
			depth[id]++
		case "n":
			out = append(out, fmt.Sprintf("%d%*s! %s", e.PID, 1+depth[id], "", e.Name))
		case "e":
			depth[id]--
		}
	}
	return out
}

func TestRequestIsOneTrackOverProcesses(t *testing.T) {
	r := startExporter(t)
	td := requestTrace(7, 0)
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, td)
	assert.Equal(t, []string{
		"300 atom.request +0",
		"300  ! first_token",
		"300  engine.request +100",
		"300   prefill_waiting +100",
		"300   prefill_forward +500",
		"300   decode_forward +1500",
	}, asyncText(events))
	for _, e := range events {
		if e.Name == "engine.request" && e.Ph == "b" {
			assert.Equal(t, "atom-engine pid 301 @ h2", e.arg("process"))
		}
	}
}

// The two processes of a request send on their own; the engine's part comes
// first here, and still the later root goes around it on one track.
func TestRequestInTwoBatches(t *testing.T) {
	r := startExporter(t)
	whole := requestTrace(7, 0)
	api, engine := ptrace.NewTraces(), ptrace.NewTraces()
	whole.ResourceSpans().At(0).CopyTo(api.ResourceSpans().AppendEmpty())
	whole.ResourceSpans().At(1).CopyTo(engine.ResourceSpans().AppendEmpty())
	r.send(t, engine, api)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, whole)
	ids := map[string]bool{}
	for _, e := range events {
		if e.Ph == "b" {
			ids[string(e.ID)] = true
		}
	}
	assert.Len(t, ids, 1)
}

// A child that outlives its parent cannot be inside it.
func TestAsyncChildSticksOut(t *testing.T) {
	r := startExporter(t)
	td := ptrace.NewTraces()
	ss := addResource(td, apiResource)
	addSpan(ss, want{name: "server", trace: 1, id: 1, start: 0, end: 100, kind: ptrace.SpanKindServer})
	addSpan(ss, want{name: "background", trace: 1, id: 2, parent: 1, start: 50, end: 200})
	addSpan(ss, want{name: "work", trace: 1, id: 3, parent: 2, start: 60, end: 90})
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, td)
}

type drawnFlow struct {
	name, from, to string
	leave, reach   int64
}

// drawnFlows are the arrows with the names of the slices they tie to.
func drawnFlows(t *testing.T, events []traceEvent) []drawnFlow {
	t.Helper()
	slice := func(at *traceEvent) string {
		found := ""
		for i := range events {
			e := &events[i]
			if e.Ph == "X" && e.PID == at.PID && e.TID == at.TID && e.at() <= at.at() && at.at() <= e.end() {
				found = e.Name + "/" + e.Cat
			}
		}
		return found
	}
	var out []drawnFlow
	for i := range events {
		if s := &events[i]; s.Ph == "s" {
			for k := range events {
				if f := &events[k]; f.Ph == "f" && string(f.ID) == string(s.ID) {
					out = append(out, drawnFlow{s.Name, slice(s), slice(f), s.at() - int64(base), f.at() - int64(base)})
				}
			}
		}
	}
	return out
}

func TestRequestToHostRuns(t *testing.T) {
	want := []drawnFlow{
		{flowHostRun, "host run/link", "node.run/host", 1999, 2000},
		// It began before the phase did: the arrow reaches what ran by then.
		{flowHostRun, "host run/link", "chip.run.bind/host", 1500, 1500},
	}
	runs := func() []ptrace.Traces {
		chip := ptrace.NewTraces()
		addInvocation(addResource(chip, map[string]any{"service.name": "simpler", "process.pid": int64(77)}), 77, 9, 9500, 0, 1400)
		return []ptrace.Traces{runTrace(1, 2000), chip}
	}
	request := func() ptrace.Traces { return requestTrace(7, 0, [2]uint64{1, 1000}, [2]uint64{9, 9500}) }
	t.Run("runs first", func(t *testing.T) {
		r := startExporter(t)
		r.send(t, runs()...)
		r.send(t, request())
		events := r.events(t)
		requireNoProblems(t, events)
		assert.Subset(t, drawnFlows(t, events), want)
		assert.EqualValues(t, 4, r.counter(t, "flows_drawn"))
	})
	t.Run("request first", func(t *testing.T) {
		r := startExporter(t)
		r.send(t, request())
		r.send(t, runs()...)
		events := r.events(t)
		requireNoProblems(t, events)
		assert.Subset(t, drawnFlows(t, events), want)
		assert.EqualValues(t, 4, r.counter(t, "flows_drawn"))
	})
}

// Dispatch and chip run in two batches, in either order.
func TestDispatchArrowAcrossBatches(t *testing.T) {
	whole := runTrace(1, 0)
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		r := startExporter(t)
		for _, i := range order {
			td := ptrace.NewTraces()
			whole.ResourceSpans().At(i).CopyTo(td.ResourceSpans().AppendEmpty())
			r.send(t, td)
		}
		events := r.events(t)
		requireNoProblems(t, events)
		assert.ElementsMatch(t, []drawnFlow{
			{flowDispatch, "node.dispatch/host", "chip.run/host", 210, 300},
			{flowDispatch, "node.dispatch/host", "chip.run/host", 270, 350},
		}, drawnFlows(t, events))
	}
}

// What hangs under the run only was not caused by a dispatch we know of.
func TestNoArrowFromRun(t *testing.T) {
	r := startExporter(t)
	td := ptrace.NewTraces()
	node := addResource(td, nodeResource)
	addSpan(node, want{name: "node.run", trace: 1, id: 1, start: 0, end: 2000, attrs: hostAttrs(16084, semconv.FamilyNode, semconv.StageLevelRun)})
	addInvocation(addResource(td, chip0Resource), 16154, 1, 100, 1, 50, semconv.Stitch, semconv.StitchRun)
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	assert.Empty(t, drawnFlows(t, events))
}

func TestUnresolvedFlows(t *testing.T) {
	t.Run("rotated", func(t *testing.T) {
		r := startExporter(t)
		r.send(t, requestTrace(7, 0, [2]uint64{1, 1000}))
		r.mu.Lock()
		r.rotate("size")
		r.mu.Unlock()
		r.send(t, runTrace(1, 2000))
		assert.EqualValues(t, 1, r.counter(t, "flows_unresolved", unresolvedRotated))
		requireNoProblems(t, r.events(t))
		for _, path := range allFiles(t, r.dir) {
			requireNoProblems(t, readTrace(t, path))
		}
	})
	t.Run("evicted", func(t *testing.T) {
		r := startExporter(t, func(c *Config) { c.Lanes.FlowMemory = 3 })
		for i := range uint64(8) {
			r.send(t, requestTrace(7+i, 0, [2]uint64{100 + i, 1}))
		}
		assert.EqualValues(t, 5, r.counter(t, "flows_unresolved", unresolvedEvicted))
		assert.Len(t, r.line.flows.waiting, 3)
	})
	t.Run("order", func(t *testing.T) {
		r := startExporter(t)
		r.send(t, runTrace(1, 0), requestTrace(7, 9000, [2]uint64{1, 1000}))
		assert.EqualValues(t, 1, r.counter(t, "flows_unresolved", unresolvedOrder))
		requireNoProblems(t, r.events(t))
	})
	t.Run("no lane", func(t *testing.T) {
		r := startExporter(t, func(c *Config) { c.Lanes.MaxSlots = 1 })
		r.send(t, requestTrace(7, 0, [2]uint64{1, 1000}), requestTrace(8, 0, [2]uint64{1, 1000}))
		assert.EqualValues(t, 1, r.counter(t, "flows_unresolved", unresolvedNoLane))
	})
	t.Run("limit", func(t *testing.T) {
		r := startExporter(t)
		runs := make([][2]uint64, maxLinks+7)
		for i := range runs {
			runs[i] = [2]uint64{1, uint64(i + 1)}
		}
		r.send(t, requestTrace(7, 0, runs...))
		assert.EqualValues(t, 7, r.counter(t, "flows_unresolved", unresolvedLimit))
	})
}

// Bounded: neither remembered ends nor waiting arrows grow past the limit.
func TestFlowMemoryIsBounded(t *testing.T) {
	m := newFlowMemory(100)
	evicted := 0
	for i := range uint64(10_000) {
		m.remember(spanKey{traceID(i), spanID(1)}, endpoint{})
		evicted += m.wait(spanKey{traceID(i % 300), spanID(2)}, flow{})
		if i%7 == 0 {
			m.remember(spanKey{traceID(i % 300), spanID(2)}, endpoint{})
		}
		waiting := 0
		for _, flows := range m.waiting {
			waiting += len(flows)
		}
		require.LessOrEqual(t, len(m.recent), 100)
		require.LessOrEqual(t, waiting, 100)
	}
	assert.Positive(t, evicted)
}

func copiedRun(trace, at uint64) ptrace.Traces {
	td := requestTrace(trace, at)
	copies := addResource(td, chip0Resource)
	addInvocation(copies, 16154, trace, trace*1000+500, trace*1000+4, at+2000)
	for _, span := range copies.Spans().All() {
		span.Attributes().PutBool(semconv.PhaseCopy, true)
	}
	return td
}

func TestCopies(t *testing.T) {
	t.Run("excluded", func(t *testing.T) {
		r := startExporter(t)
		r.send(t, copiedRun(7, 0))
		events := r.events(t)
		requireNoProblems(t, events)
		requireSpans(t, [][]traceEvent{events}, requestTrace(7, 0))
		assert.EqualValues(t, 9, r.counter(t, "spans_dropped", dropCopy))
	})
	t.Run("nested", func(t *testing.T) {
		r := startExporter(t, func(c *Config) { c.Lanes.Copies = CopiesNest })
		td := copiedRun(7, 0)
		r.send(t, td)
		events := r.events(t)
		requireNoProblems(t, events)
		requireSpans(t, [][]traceEvent{events}, td)
		assert.Contains(t, asyncText(events), "300    chip.run +2000")
		assert.Empty(t, lanesByName(events), "a copy is on no chip's lane")
	})
}

func TestPoints(t *testing.T) {
	r := startExporter(t)
	td := ptrace.NewTraces()
	span := addSpan(addResource(td, chip0Resource), want{name: "chip.run", trace: 1, id: 1, start: 0, end: 100, attrs: hostAttrs(4, semconv.FamilyChip, "run")})
	for i, at := range []uint64{base + 10, 0, 1 << 63} {
		event := span.Events().AppendEmpty()
		event.SetName(fmt.Sprintf("point %d", i))
		event.SetTimestamp(pcommon.Timestamp(at))
		event.Attributes().PutInt("k", 1<<60)
	}
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	var points []traceEvent
	for _, e := range events {
		if e.Ph == "i" {
			points = append(points, e)
		}
	}
	require.Len(t, points, 1)
	assert.Equal(t, base+10, uint64(points[0].at()))
	assert.Equal(t, "1764459181123456799", points[0].arg("time_ns"))
	assert.Equal(t, "1152921504606846976", points[0].arg("k"))
	assert.EqualValues(t, 2, r.counter(t, "points_dropped"))
}
