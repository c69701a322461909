// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

// headless is one invocation's spans without its root.
func headless(n uint64) ptrace.Traces {
	td := ptrace.NewTraces()
	spans := phasetest.Resource(td, "h", 1)
	phasetest.Chip{Trace: n, Span: n * 100, Inv: 1, HID: "ab", Start: t0, Dur: 1000, Parts: phasetest.Usual(1000)}.Append(spans)
	spans.RemoveIf(func(s ptrace.Span) bool { return s.Name() == "chip.run" })
	return td
}

func TestPiecesAreBounded(t *testing.T) {
	pieces := NewPieces(30)
	b, h := NewBatch(pieces), history(t)
	for i := range uint64(10) {
		run(t, b, h, headless(i+1))
		require.LessOrEqual(t, pieces.nodes, 30)
	}
	require.Equal(t, 24, pieces.nodes, "the last two of twelve each")
	require.True(t, pieces.Has(phasetest.TraceID(10)))
	require.False(t, pieces.Has(phasetest.TraceID(8)))
	require.Equal(t, int64(8), pieces.Expire(0))
	require.Zero(t, pieces.Expire(2))
	require.False(t, pieces.Has(phasetest.TraceID(10)))
	require.Zero(t, pieces.nodes)

	// One that is larger than all the room is not remembered at all.
	pieces = NewPieces(5)
	run(t, NewBatch(pieces), h, headless(1))
	require.Zero(t, pieces.nodes)
}

func TestHistoryIsBounded(t *testing.T) {
	h, err := NewHistory(2)
	require.NoError(t, err)
	for pid := range uint64(5) {
		h.Fill(&Invocation{HasInv: true, HasTicks: true, Ticks: Ticks{Device: int64(pid), Hz: 1}}, &Proc{Key: pid})
	}
	procs, devices := h.Evicted()
	require.Equal(t, int64(3), procs)
	require.Equal(t, int64(3), devices)
	procs, devices = h.Evicted()
	require.Zero(t, procs+devices)
	_, err = NewHistory(0)
	require.Error(t, err)
}

// A batch that is used again remembers nothing of the call before.
func TestBatchReuse(t *testing.T) {
	b, h := NewBatch(nil), history(t)
	var first map[string]any
	for i := range 3 {
		td := ptrace.NewTraces()
		phasetest.Chip{Trace: 1, Span: 100, Inv: 3, HID: "ab", Start: t0, Dur: 1000, Parts: phasetest.Usual(1000)}.Append(phasetest.Resource(td, "h", 1))
		run(t, b, h, td)
		got := phasesOf(phasetest.Named("chip.run", td)[0])
		if i == 0 {
			first = got
		}
		require.Equal(t, first, got)
		require.Len(t, b.Invs, 1)
		other := ptrace.NewTraces()
		phasetest.Node(phasetest.Resource(other, "h", 1), 9, 9, 0, "level.run", t0, 5)
		run(t, b, h, other)
		require.Empty(t, b.Invs)
		require.Len(t, b.Steps, 1)
	}
}

// Every bind segment keeps its own name, whether it is spelled out or not.
func TestSegmentNames(t *testing.T) {
	for _, name := range []string{
		"args", "prebuilt", "arena_build", "static_arena", "gm_heap", "shared_mem", "runtime_init", "host_orch",
		"graph_pack", "graph_upload", "arena_h2d", "host_view_close", "something.else",
	} {
		require.Equal(t, "phase.bind."+name, segmentAttr("run.bind."+name))
		require.Equal(t, stageBindSegment, stageOf("run.bind."+name))
	}
	require.Equal(t, stageNone, stageOf("run.bind."))
	require.Equal(t, stageNone, stageOf("run.runner_run.device_wall.task_slot_3"))
	require.Equal(t, stageNone, stageOf("run.publish_image"))
}

// The segments of one invocation are bounded, its other phases are not harmed.
func TestManySegments(t *testing.T) {
	c := phasetest.Chip{Trace: 1, Span: 1000, Inv: 1, HID: "ab", Start: t0, Dur: 1000}
	c.Parts = []phasetest.Part{{Stage: "run.bind", Depth: 1, Dur: 500}}
	for i := range 100 {
		c.Parts = append(c.Parts, phasetest.Part{Stage: "run.bind.s" + string(rune('A'+i)), Depth: 2, Dur: 1})
	}
	td := ptrace.NewTraces()
	c.Append(phasetest.Resource(td, "h", 1))
	run(t, NewBatch(nil), history(t), td)
	got := phasesOf(phasetest.Named("chip.run", td)[0])
	require.InDelta(t, 500e-9, got["phase.bind"], 0)
	require.Len(t, got, 3+maxSegments) // and host_wall, unattributed
}
