// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

func TestRunOnTwoChips(t *testing.T) {
	r := startExporter(t)
	td := runTrace(1, 0)
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, td)

	const (
		node  = "simpler pid 16084 @ h1 | "
		chip0 = "simpler pid 16154 npu 0 @ h1 | "
		chip1 = "simpler pid 16155 npu 1 @ h1 | "
		wall  = "chip.run.runner_run.device_wall"
	)
	hostLane := []string{"chip.run", "chip.run.bind", "chip.run.bind.args", "chip.run.runner_run", "chip.run.validate"}
	assert.Equal(t, map[string][]string{
		node + "runs":             {"node.run"},
		node + "facade 16084":     {"node.graph_build", "node.submit", "node.submit"},
		node + "scheduler 16156":  {"node.dispatch", "node.frame_submit", "node.dispatch", "node.complete", "node.complete"},
		chip0 + "chip 16154":      hostLane,
		chip0 + "device 0":        {wall, wall + ".preamble", wall + ".orch"},
		chip0 + "device 0 slot 1": {wall + ".sched"},
		chip1 + "chip 16155":      hostLane,
		chip1 + "device 1":        {wall, wall + ".preamble", wall + ".orch"},
		chip1 + "device 1 slot 1": {wall + ".sched"},
	}, lanesByName(events))

	// Both arrows: from the dispatch's start to the chip run's start.
	var flows []string
	for _, e := range events {
		if e.Ph == "s" || e.Ph == "f" {
			flows = append(flows, fmt.Sprintf("%s%s %s %d", e.Ph, e.ID, e.Name, uint64(e.at())-base))
		}
	}
	assert.ElementsMatch(t, []string{
		"s1 dispatch 210", "f1 dispatch 300",
		"s2 dispatch 270", "f2 dispatch 350",
	}, flows)
	assert.EqualValues(t, 2, r.counter(t, "flows_drawn"))
	assert.EqualValues(t, 27, r.counter(t, "spans_written"))
	assert.EqualValues(t, 9, r.counter(t, "lanes"))
	assert.EqualValues(t, len(events), r.counter(t, "events_written"))
}

// The real thread and process numbers are kept.
func TestNumbers(t *testing.T) {
	r := startExporter(t)
	r.send(t, runTrace(1, 0))
	seen := map[string][2]int64{}
	for _, e := range r.events(t) {
		seen[e.Name] = [2]int64{e.PID, e.TID}
	}
	assert.Equal(t, [2]int64{16154 + 1, 16154 + 1}, seen["chip.run"])
	assert.Equal(t, [2]int64{16084, 16156}, seen["node.dispatch"])
	wall := seen["chip.run.runner_run.device_wall"]
	assert.EqualValues(t, 16155, wall[0])
	assert.GreaterOrEqual(t, wall[1], int64(syntheticBase))
}

// Two containers may use one pid: the second process gets a number that
// depends on its identity alone.
func TestSamePIDInTwoContainers(t *testing.T) {
	pod := func(uid string) map[string]any {
		return map[string]any{"service.name": "s", "k8s.pod.uid": uid, "k8s.pod.name": "p-" + uid, "process.pid": int64(14)}
	}
	pids := func(order ...string) map[string]int64 {
		r := startExporter(t)
		for i, uid := range order {
			td := ptrace.NewTraces()
			addInvocation(addResource(td, pod(uid)), 14, uint64(i+1), 1, 0, 0)
			r.send(t, td)
		}
		events := r.events(t)
		requireNoProblems(t, events)
		found := map[string]int64{}
		for _, e := range events {
			if e.Name == "process_name" {
				found[e.arg("name")] = e.PID
			}
		}
		return found
	}
	first, second := pids("a", "b", "c"), pids("a", "c", "b")
	assert.EqualValues(t, 14, first["s pid 14 @ p-a"])
	assert.Greater(t, first["s pid 14 @ p-b"], int64(syntheticBase))
	assert.Equal(t, first, second)
}

func TestPipelineSlots(t *testing.T) {
	const tid = 14218
	resource := map[string]any{"service.name": "simpler", "process.pid": int64(tid)}
	const lane = "simpler pid 14218 | chip 14218"
	t.Run("by overlap", func(t *testing.T) {
		r := startExporter(t)
		td := ptrace.NewTraces()
		ss := addResource(td, resource)
		for i := range uint64(6) {
			addInvocation(ss, tid, i+1, 1, 0, i*500)
		}
		r.send(t, td)
		events := r.events(t)
		requireNoProblems(t, events)
		requireSpans(t, [][]traceEvent{events}, td)
		lanes := lanesByName(events)
		assert.Len(t, lanes[lane], 15)
		assert.Len(t, lanes[lane+" slot 1"], 15)
	})
	t.Run("by slot id", func(t *testing.T) {
		r := startExporter(t)
		td := ptrace.NewTraces()
		ss := addResource(td, resource)
		// They do not overlap, but the producer says which slot they ran in.
		for i := range uint64(4) {
			addInvocation(ss, tid, i+1, 1, 0, i*2000, semconv.AttrPrefix+"slot_id", int64(i%2))
		}
		r.send(t, td)
		events := r.events(t)
		requireNoProblems(t, events)
		lanes := lanesByName(events)
		assert.Len(t, lanes[lane], 10)
		assert.Len(t, lanes[lane+" slot 1"], 10)
	})
	t.Run("late batches", func(t *testing.T) {
		r := startExporter(t)
		var sent []ptrace.Traces
		for i := range uint64(40) {
			td := ptrace.NewTraces()
			// Latest first: each must find its place before the others.
			addInvocation(addResource(td, resource), tid, i+1, 1, 0, (40-i)*700)
			sent = append(sent, td)
			r.send(t, td)
		}
		events := r.events(t)
		requireNoProblems(t, events)
		requireSpans(t, [][]traceEvent{events}, sent...)
		assert.Zero(t, r.counter(t, "spans_overflowed"))
	})
}

// More overlaps than slots: what has no lane gets a track of its own.
func TestSlotsOverflow(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Lanes.MaxSlots = 2 })
	td := ptrace.NewTraces()
	ss := addResource(td, chip0Resource)
	for i := range uint64(5) {
		addSpan(ss, want{name: "chip.run", trace: i + 1, id: 1, start: i, end: 100 + i, attrs: hostAttrs(7, semconv.FamilyChip, "run")})
	}
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, td)
	assert.EqualValues(t, 3, r.counter(t, "spans_overflowed"))
}

// Limits of threads and processes lose nothing either.
func TestLimits(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Lanes.MaxProcesses, c.Lanes.MaxThreads = 2, 3 })
	var sent []ptrace.Traces
	for i := range uint64(5) {
		td := ptrace.NewTraces()
		ss := addResource(td, map[string]any{"service.name": "s", "process.pid": int64(100 + i)})
		addInvocation(ss, int64(100+i), i+1, 1, 0, 0)
		sent = append(sent, td)
	}
	r.send(t, sent...)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, sent...)
	assert.EqualValues(t, 3, r.counter(t, "lanes"))
	assert.Positive(t, r.counter(t, "spans_overflowed"))
	names := 0
	for _, e := range events {
		if e.Name == "process_name" {
			names++
		}
	}
	assert.Equal(t, 3, names, "two processes and the shared one")
}

// The device of a process may be learned later: the process is named again.
func TestRelabel(t *testing.T) {
	r := startExporter(t)
	resource := map[string]any{"service.name": "simpler", "process.pid": int64(5)}
	for i := range uint64(2) {
		td := ptrace.NewTraces()
		addInvocation(addResource(td, resource), 5, i+1, 1, 0, i*1000)
		r.send(t, td)
		resource["hw.id"] = "3"
	}
	var names []string
	for _, e := range r.events(t) {
		if e.Name == "process_name" {
			names = append(names, e.arg("name"))
			assert.EqualValues(t, 5, e.PID)
		}
	}
	assert.Equal(t, []string{"simpler pid 5", "simpler pid 5 device 3"}, names)
}

func TestChildThatSticksOut(t *testing.T) {
	r := startExporter(t)
	td := ptrace.NewTraces()
	ss := addResource(td, map[string]any{"service.name": "app"})
	on := map[string]any{"thread.id": int64(9), "thread.name": "main"}
	addSpan(ss, want{name: "parent", trace: 1, id: 1, start: 100, end: 200, attrs: on})
	addSpan(ss, want{name: "inside", trace: 1, id: 2, parent: 1, start: 110, end: 150, attrs: on})
	addSpan(ss, want{name: "before", trace: 1, id: 3, parent: 1, start: 90, end: 105, attrs: on})
	addSpan(ss, want{name: "after", trace: 1, id: 4, parent: 1, start: 180, end: 210, attrs: on})
	addSpan(ss, want{name: "crosses", trace: 1, id: 5, parent: 1, start: 140, end: 160, attrs: on})
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, td)
	assert.Equal(t, map[string][]string{
		"app | main 9":        {"before", "crosses", "after"},
		"app | main 9 slot 1": {"parent", "inside"},
	}, lanesByName(events))
}

// SDKs send children before their parent: the parent goes around them.
func TestParentComesLater(t *testing.T) {
	r := startExporter(t)
	resource := map[string]any{"service.name": "app"}
	on := map[string]any{"thread.id": int64(9)}
	one := ptrace.NewTraces()
	addSpan(addResource(one, resource), want{name: "child", trace: 1, id: 2, parent: 1, start: 110, end: 150, attrs: on})
	two := ptrace.NewTraces()
	addSpan(addResource(two, resource), want{name: "parent", trace: 1, id: 1, start: 100, end: 200, attrs: on})
	three := ptrace.NewTraces()
	// Starts with its child: a viewer would put it inside, so it goes elsewhere.
	addSpan(addResource(three, resource), want{name: "same start", trace: 1, id: 3, start: 100, end: 300, attrs: on})
	r.send(t, one, two, three)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, one, two, three)
	assert.Equal(t, map[string][]string{
		"app | thread 9":        {"child", "parent"},
		"app | thread 9 slot 1": {"same start"},
	}, lanesByName(events))
}

func TestOccupancyForgetsOldGaps(t *testing.T) {
	var o occupancy
	free := func(func(interval) bool) {}
	for i := range uint64(10_000) {
		require.True(t, o.place(interval{i * 10, i*10 + 5}, 1, free))
		require.LessOrEqual(t, len(o.tops), 2*laneHistory)
	}
	assert.True(t, o.place(interval{99_896, 99_899}, 1, free), "a gap near the end is known")
	assert.False(t, o.place(interval{6, 9}, 1, free), "an old one is not")
}
