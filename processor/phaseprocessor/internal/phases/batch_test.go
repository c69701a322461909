// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

const t0 = int64(1_790_000_000_000_000_000)

// run takes td through a batch the way the processor does.
func run(t *testing.T, b *Batch, h *History, td ptrace.Traces) {
	t.Helper()
	id := NewIdentifier([]string{"host.name"})
	b.Reset()
	for _, rs := range td.ResourceSpans().All() {
		proc := b.AddProc(id0(id, rs), rs.Resource())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				b.Add(proc, span)
			}
		}
	}
	b.Build(1)
	for i := range b.Invs {
		h.Fill(&b.Invs[i], &b.Procs[b.Invs[i].Proc])
	}
	for i := range b.Invs {
		b.Invs[i].Write()
	}
	b.WriteSteps()
}

// seeded keeps one identifier for a test binary: keys are only comparable
// within one.
var seeded *Identifier

func id0(id *Identifier, rs ptrace.ResourceSpans) Proc {
	if seeded == nil {
		seeded = id
	}
	return seeded.Proc(rs.Resource())
}

func history(t testing.TB) *History {
	t.Helper()
	h, err := NewHistory(64)
	require.NoError(t, err)
	return h
}

func phasesOf(span ptrace.Span) map[string]any {
	out := map[string]any{}
	for k, v := range span.Attributes().All() {
		if len(k) > 6 && k[:6] == "phase." || k == "strace.callable" {
			out[k] = v.AsRaw()
		}
	}
	return out
}

// The numbers are those of one invocation written down by hand: a root of 100
// us, bind 0-20 with two segments, runner_run 25-85, validate 90-95, a device
// wall of 40 us and windows on it.
func TestInvocationPhases(t *testing.T) {
	chip := phasetest.Chip{
		Trace: 1, Span: 100, Inv: 3, HID: "abc", Start: t0, Dur: 100_000,
		Parts: []phasetest.Part{
			{Stage: "run.bind.compatibility", Depth: 1, From: 1_000, Dur: 1_000},
			{Stage: "run.bind.args", Depth: 2, From: 2_000, Dur: 3_000},
			{Stage: "run.bind.odd_one", Depth: 2, From: 5_000, Dur: 4_000},
			{Stage: "run.bind", Depth: 1, From: 2_000, Dur: 18_000},
			{Stage: "run.stage_inputs", Depth: 1, From: 20_000, Dur: 1_000},
			{Stage: "run.prepare_execution", Depth: 1, From: 21_000, Dur: 2_000},
			{Stage: "run.runner_run", Depth: 1, From: 25_000, Dur: 60_000},
			{Stage: "run.validate", Depth: 1, From: 90_000, Dur: 5_000},
			{Stage: "run.claim_release", Depth: 1, From: 96_000, Dur: 500},
			{Stage: "run.runner_run.device_wall", Depth: 2, From: 25_000, Dur: 40_000},
			{Stage: "run.runner_run.device_wall.preamble", Depth: 3, From: 25_000, Dur: 100},
			{Stage: "run.runner_run.device_wall.so_load", Depth: 3, From: 25_100, Dur: 200},
			{Stage: "run.runner_run.device_wall.graph_build", Depth: 3, From: 26_000, Dur: 30_000},
			{Stage: "run.runner_run.device_wall.config_validate", Depth: 3, From: 26_000, Dur: 300},
			{Stage: "run.runner_run.device_wall.arena_wire", Depth: 3, From: 26_300, Dur: 400},
			{Stage: "run.runner_run.device_wall.sm_reset", Depth: 3, From: 26_700, Dur: 500},
			{Stage: "run.runner_run.device_wall.post_orch", Depth: 3, From: 60_000, Dur: 600},
			{Stage: "run.runner_run.device_wall.orch", Depth: 3, From: 30_000, Dur: 10_000},
			{Stage: "run.runner_run.device_wall.sched", Depth: 3, From: 32_000, Dur: 20_000},
		},
	}
	td := ptrace.NewTraces()
	chip.Append(phasetest.Resource(td, "h", 10))
	run(t, NewBatch(nil), history(t), td)

	root := phasetest.Named("chip.run", td)[0]
	us := func(n float64) float64 { return n * 1e3 / 1e9 }
	require.Equal(t, map[string]any{
		"phase.host_wall": us(100), "phase.bind": us(18), "phase.bind.args": us(3), "phase.bind.odd_one": us(4),
		"phase.stage_inputs": us(1), "phase.prepare_execution": us(2), "phase.runner_run": us(60),
		"phase.validate": us(5), "phase.claim_release": us(0.5),
		"phase.device_wall": us(40), "phase.preamble": us(0.1), "phase.so_load": us(0.2),
		"phase.graph_build": us(30), "phase.config_validate": us(0.3), "phase.arena_wire": us(0.4),
		"phase.sm_reset": us(0.5), "phase.post_orch": us(0.6), "phase.orch": us(10), "phase.sched": us(20),
		"phase.effective": us(22), "phase.prep": us(1.2),
		"phase.host_overhead": us(60), "phase.launch_overhead": us(20),
		// 100 - (1 + 18 + 1 + 2 + 60 + 5 + 0.5)
		"phase.unattributed": us(12.5),
	}, phasesOf(root))
	for _, span := range phasetest.Spans(td) {
		if span.SpanID() != root.SpanID() {
			require.Empty(t, phasesOf(span), span.Name())
		}
	}
}
