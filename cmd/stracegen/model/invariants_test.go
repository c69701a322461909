// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// What holds in every kind of service.
func TestEveryService(t *testing.T) {
	for g := logfmt.MinGeneration; g <= logfmt.MaxGeneration; g++ {
		for _, runtime := range []string{"tmr", "hbg", "sim"} {
			for _, level := range []string{"node", "network1", LevelNone} {
				for _, ranks := range []int{1, 3} {
					for _, pipeline := range []int{1, 2} {
						cfg := mixed(uint64(g), func(c *Config) {
							c.Generation, c.Runtime, c.Level, c.Ranks, c.Pipeline = g, runtime, level, ranks, pipeline
							c.Requests, c.RunFailRate, c.ReopenEvery, c.TaskSlots = 16, 0.01, 20, 3
							c.Ext = g >= 8
						})
						if cfg.Validate() != nil {
							require.Equal(t, 2, pipeline)
							continue
						}
						t.Run(fmt.Sprintf("g%d/%s/%s/%d/%d", g, runtime, level, ranks, pipeline), func(t *testing.T) {
							rec := record(t, cfg)
							checkTimes(t, rec)
							checkInvocations(t, cfg, rec)
							checkRuns(t, cfg, rec)
							checkRequests(t, cfg, rec)
							checkTruth(t, rec)
						})
					}
				}
			}
		}
	}
}

func checkTimes(t *testing.T, rec *recording) {
	t.Helper()
	require.True(t, slices.IsSorted(rec.at), "events come in order of time")
	for i := range rec.records {
		r := &rec.records[i]
		if r.Kind != logfmt.KindSpan {
			continue
		}
		clk, device := attr(r, "clk")
		require.True(t, !device || clk.Str == "dev")
		require.GreaterOrEqual(t, r.Dur, int64(0))
		if !device {
			require.GreaterOrEqual(t, r.Mono, r.TS+r.Dur, "%s is printed after its end", r.Name)
			require.Less(t, r.Mono-r.TS-r.Dur, int64(3_000_000), "%s is printed soon", r.Name)
		}
	}
}

// Host scopes nest, device windows fit their wall, and the block its room.
func checkInvocations(t *testing.T, cfg Config, rec *recording) {
	t.Helper()
	root := logfmt.RootName(cfg.Generation)
	type key struct {
		pid int32
		inv uint64
	}
	open := map[key]map[string]logfmt.Record{}
	n := 0
	for _, r := range rec.records {
		if r.Kind != logfmt.KindSpan || (r.Name != root && !strings.HasPrefix(r.Name, root+".")) {
			continue
		}
		k := key{r.PID, r.Inv}
		if open[k] == nil {
			open[k] = map[string]logfmt.Record{}
		}
		_, twice := open[k][r.Name]
		require.False(t, twice, r.Name)
		open[k][r.Name] = r
		if r.Depth != 0 {
			continue
		}
		inv := rec.invs[slices.IndexFunc(rec.invs, func(i *Invocation) bool { return i.Proc.PID == r.PID && i.Start == r.TS })]
		checkInvocation(t, cfg, open[k], root, inv)
		delete(open, k)
		n++
	}
	require.Empty(t, open)
	require.Len(t, rec.invs, n)
}

func checkInvocation(t *testing.T, cfg Config, names map[string]logfmt.Record, root string, inv *Invocation) {
	t.Helper()
	top := names[root]
	require.Equal(t, inv.End, top.TS+top.Dur)
	require.Len(t, names, inv.Records)
	var wall int64
	for name, r := range names {
		_, device := attr(&r, "clk")
		if device && !strings.HasSuffix(name, "device_boundaries") {
			if name == root+".runner_run.device_wall" {
				wall = r.Dur
				require.Zero(t, r.TS)
			}
			continue
		}
		parent := top
		if i := strings.LastIndexByte(name, '.'); r.Depth == 2 && i > 0 && !strings.HasSuffix(name, "device_boundaries") {
			parent = names[name[:i]]
		}
		require.GreaterOrEqual(t, r.TS, parent.TS, name)
		require.LessOrEqual(t, r.TS+r.Dur, parent.TS+parent.Dur, name)
	}
	runner := names[root+".runner_run"]
	if inv.Failed || wall == 0 {
		require.True(t, inv.Failed)
		require.NotContains(t, names, root+".runner_run.device_wall")
		require.Zero(t, inv.Wall)
		return
	}
	require.Equal(t, wall, inv.Wall)
	if cfg.Runtime != RuntimeSim {
		require.Zero(t, wall%20, "whole ticks")
	}
	placed := runner.TS
	if l, ok := names[root+".runner_run.aicpu_launch"]; ok {
		placed = max(placed, l.TS)
	}
	require.Equal(t, placed, inv.Placed)
	require.Equal(t, runner.TS+runner.Dur-wall-placed, inv.Slack)
	require.Positive(t, inv.Slack)
	require.GreaterOrEqual(t, inv.DeviceStart, placed)
	require.LessOrEqual(t, inv.DeviceStart+wall, runner.TS+runner.Dur)
	checkDevice(t, cfg, names, root, wall)
}

func checkDevice(t *testing.T, cfg Config, names map[string]logfmt.Record, root string, wall int64) {
	t.Helper()
	first := int64(1 << 62)
	get := func(stage string) (start, end int64) {
		r, ok := names[root+".runner_run.device_wall."+stage]
		require.True(t, ok, stage)
		return r.TS, r.TS + r.Dur
	}
	for name, r := range names {
		if !strings.HasPrefix(name, root+".runner_run.device_wall.") {
			continue
		}
		first = min(first, r.TS)
		require.Zero(t, r.TS%20, name)
		require.Zero(t, r.Dur%20, name)
		require.Positive(t, r.Dur, name)
		require.LessOrEqual(t, r.TS+r.Dur, wall, name)
	}
	require.Zero(t, first, "counted from the earliest phase")
	if cfg.Runtime == RuntimeHBG {
		return
	}
	orch, orchEnd := get("orch")
	sched, schedEnd := get("sched")
	post, _ := get("post_orch")
	require.Less(t, orch, sched)
	require.Less(t, sched, orchEnd, "they overlap")
	require.Greater(t, post, schedEnd)
	if cfg.Runtime == RuntimeSim {
		return
	}
	graph, graphEnd := get("graph_build")
	require.LessOrEqual(t, graph, orch)
	require.GreaterOrEqual(t, graphEnd, max(orchEnd, schedEnd))
	if cfg.Generation >= 2 {
		for _, s := range []string{"config_validate", "arena_wire", "sm_reset"} {
			start, end := get(s)
			require.GreaterOrEqual(t, start, graph)
			require.LessOrEqual(t, end, orch)
		}
	}
}

// Every run's records tell one story: submitted, dispatched, run, completed, retired.
func checkRuns(t *testing.T, cfg Config, rec *recording) {
	t.Helper()
	word := rec.sim.LevelWord()
	if word == "" {
		for _, r := range rec.runs {
			require.Zero(t, r.PID)
			require.Zero(t, r.Records)
			require.Len(t, r.Invocations, cfg.Ranks)
		}
		require.NotContains(t, string(rec.text), "role=facade")
		return
	}
	// Records of a run are told apart by run_id and the epoch, that is, by time.
	i := 0
	for _, run := range rec.runs {
		require.Equal(t, i, run.Index)
		i++
		parts := map[string][]logfmt.Record{}
		for _, r := range rec.records {
			if strings.HasPrefix(r.Name, word+".") && r.Inv == run.ID && r.TS >= run.Start && r.TS+r.Dur <= run.End {
				parts[r.Name[len(word)+1:]] = append(parts[r.Name[len(word)+1:]], r)
			}
		}
		checkRun(t, cfg, run, parts)
	}
}

func checkRun(t *testing.T, cfg Config, run *Run, parts map[string][]logfmt.Record) {
	t.Helper()
	total := 0
	for name, rs := range parts {
		total += len(rs)
		for _, r := range rs {
			id, _ := attr(&r, "run_id")
			require.Equal(t, int64(run.ID), id.Num, name)
			require.Equal(t, run.PID, r.PID)
			require.Zero(t, r.Depth)
		}
	}
	require.Equal(t, run.Records, total)
	require.Len(t, parts["graph_build"], 1)
	for _, per := range []string{"submit", "dispatch", "frame_submit", "complete"} {
		require.Len(t, parts[per], cfg.Ranks, per)
	}
	lease := ""
	if cfg.Generation >= 7 {
		lease = " slot_id generation"
		require.Len(t, parts["post_fence_retirement"], 1)
		require.Equal(t, "run_id slot_id generation role", attrKeys(&parts["post_fence_retirement"][0]))
	} else {
		require.Empty(t, parts["post_fence_retirement"])
	}
	build := parts["graph_build"][0]
	require.Equal(t, "run_id role", attrKeys(&build))
	require.Zero(t, build.HID)
	const task = "run_id task_slot group_index worker_id dispatch_id endpoint_kind prepare_only role"
	for rank := range cfg.Ranks {
		submit, dispatch, frame, done := byWorker(parts["submit"], rank), byWorker(parts["dispatch"], rank), byWorker(parts["frame_submit"], rank), byWorker(parts["complete"], rank)
		require.Equal(t, "run_id task_slot group_index group_size worker_id role", attrKeys(submit))
		require.Equal(t, task+lease, attrKeys(dispatch))
		require.Equal(t, task, attrKeys(frame))
		require.Equal(t, task+" outcome", attrKeys(done))
		inv := run.Invocations[rank]
		require.Equal(t, rank, inv.Proc.Worker)
		within := func(in, out *logfmt.Record) {
			require.GreaterOrEqual(t, in.TS, out.TS, "%s in %s", in.Name, out.Name)
			require.LessOrEqual(t, in.TS+in.Dur, out.TS+out.Dur, "%s in %s", in.Name, out.Name)
		}
		within(submit, &build)
		within(frame, dispatch)
		require.Greater(t, dispatch.TS, submit.TS)
		require.Greater(t, inv.Start, dispatch.TS)
		require.GreaterOrEqual(t, done.TS, inv.End)
		require.NotEqual(t, dispatch.TID, submit.TID)
		id, _ := attr(dispatch, "dispatch_id")
		require.Equal(t, int64(inv.DispatchID), id.Num)
		outcome, _ := attr(done, "outcome")
		require.Equal(t, run.Failed, outcome.Num == 1)
	}
}

func byWorker(rs []logfmt.Record, rank int) *logfmt.Record {
	for i := range rs {
		if w, _ := attr(&rs[i], "worker_id"); w.Num == int64(rank) {
			return &rs[i]
		}
	}
	return nil
}
