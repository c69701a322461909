// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkRequests holds the engine's contract against every request.
func checkRequests(t *testing.T, cfg Config, rec *recording) {
	t.Helper()
	require.Len(t, rec.reqs, cfg.Requests)
	seen := map[int64]bool{}
	n := 0
	for _, r := range rec.reqs {
		require.Greater(t, r.End, r.Start)
		switch r.Outcome {
		case OutcomeReject:
			require.Empty(t, r.Sequences)
			require.GreaterOrEqual(t, r.HTTPStatus, 400)
			require.Less(t, r.HTTPStatus, 500)
		case OutcomeError:
			require.Equal(t, 500, r.HTTPStatus)
			require.NotEmpty(t, r.ErrorType)
		default:
			require.Equal(t, 200, r.HTTPStatus)
		}
		abnormal := 0
		for _, q := range r.Sequences {
			require.False(t, seen[q.ID])
			seen[q.ID] = true
			n++
			require.Greater(t, q.Start, r.Start)
			require.Less(t, q.End, r.End)
			checkPhases(t, q)
			checkWork(t, rec, q)
			if q.ErrorType != "" {
				abnormal++
			}
		}
		if !r.PD {
			require.Equal(t, r.Outcome == OutcomeError || r.Outcome == OutcomeCancel, abnormal > 0)
		}
	}
	require.Len(t, rec.seqs, n)
}

func checkPhases(t *testing.T, q *Sequence) {
	t.Helper()
	names := []string{PhaseWaiting, PhasePrefill, PhaseDecode}
	require.NotEmpty(t, q.Phases)
	at := q.Start
	for i, ph := range q.Phases {
		require.Equal(t, names[i], ph.Name)
		require.Equal(t, at, ph.Start, "%s begins where the one before ends", ph.Name)
		require.Greater(t, ph.End, ph.Start)
		require.NotZero(t, ph.SpanID)
		require.Equal(t, q.ErrorType != "" && i == len(q.Phases)-1, ph.Error, "the active phase alone")
		at = ph.End
	}
	if q.ErrorType == "" {
		require.Equal(t, q.output, q.Generated)
		if q.output > 1 {
			require.Len(t, q.Phases, 3)
			require.Equal(t, at, q.End)
		} else {
			require.Len(t, q.Phases, 2, "one token needs no decode")
			require.Greater(t, q.End, at)
		}
		require.Contains(t, []string{"stop", "length"}, q.FinishReason)
	} else {
		require.Equal(t, at, q.End)
		require.Contains(t, []string{"abort", "error"}, q.FinishReason)
	}
	if len(q.Phases) == 3 || q.output == 1 && q.ErrorType == "" {
		require.Positive(t, q.Generated)
		require.Greater(t, q.FirstToken, q.Phases[1].End, "kept after the prompt is done")
		require.LessOrEqual(t, q.FirstToken, q.End)
	} else {
		require.Zero(t, q.Generated)
		require.Zero(t, q.FirstToken)
	}
	require.Less(t, q.Cached, q.Prompt)
	require.Zero(t, q.Cached%16)
}

// checkWork compares a sequence with the runs that worked for it.
func checkWork(t *testing.T, rec *recording, q *Sequence) {
	t.Helper()
	served := func(runs []int, callable string) {
		for _, i := range runs {
			require.Equal(t, callable, rec.runs[i].Callable)
			require.Contains(t, rec.runs[i].Sequences, q)
		}
	}
	served(q.PrefillRuns, Prefill)
	served(q.DecodeRuns, Decode)
	if len(q.Phases) == 1 {
		require.Empty(t, q.PrefillRuns)
		return
	}
	require.LessOrEqual(t, q.Phases[1].Start, rec.runs[q.PrefillRuns[0]].Start)
	if q.ErrorType == "" {
		// Every run brought one token, the first one came with the prompt.
		require.Len(t, q.DecodeRuns, q.Generated-1)
		prompt := q.Prompt - q.Cached
		chunks := (prompt + rec.sim.cfg.ChunkTokens - 1) / rec.sim.cfg.ChunkTokens
		require.GreaterOrEqual(t, len(q.PrefillRuns), chunks)
	}
}

// checkTruth compares the truth's sums with the events.
func checkTruth(t *testing.T, rec *recording) {
	t.Helper()
	f := rec.truth
	require.Len(t, f.Invocations, len(rec.invs))
	require.Len(t, f.Runs, len(rec.runs))
	require.Len(t, f.Requests, len(rec.reqs))
	for i, run := range f.Runs {
		require.Equal(t, rec.runs[i].ID, run.RunID)
		require.Len(t, run.Invocations, rec.sim.cfg.Ranks)
		require.Equal(t, len(rec.runs[i].Sequences), run.Batch)
		for rank, at := range run.Invocations {
			inv := f.Invocations[at]
			require.Equal(t, rank, inv.Worker)
			require.GreaterOrEqual(t, inv.StartNS, run.StartNS, "runs contain their invocations")
			require.LessOrEqual(t, inv.EndNS, run.EndNS)
			require.Equal(t, inv.EndNS-inv.StartNS, inv.DurationNS)
			require.Equal(t, inv.DurationNS, inv.Phases["run"])
		}
	}
	for _, r := range f.Requests {
		for _, q := range r.Sequences {
			for _, ph := range q.Phases {
				// Runs that worked for it are among those that overlap it.
				require.Subset(t, append([]int{}, ph.Runs...), append([]int{}, ph.Own...))
				require.LessOrEqual(t, ph.DeviceBusyNS, ph.HostBusyNS)
				require.LessOrEqual(t, ph.HostBusyNS, ph.EndNS-ph.StartNS)
			}
		}
	}
}

// The mix has all kinds of ends, so that the checks above see them.
func TestMixHasEverything(t *testing.T) {
	rec := record(t, mixed(1, func(c *Config) { c.Requests = 600 }))
	kinds := map[string]int{}
	for _, r := range rec.reqs {
		kinds[r.Outcome]++
		if r.PD {
			kinds["pd"]++
		}
		if r.Parent != nil {
			kinds["parent"]++
			if !r.Parent.Sampled {
				kinds["unsampled"]++
			}
		}
		if len(r.Sequences) > 1 {
			kinds["siblings"]++
		}
		for _, q := range r.Sequences {
			if q.ErrorType != "" {
				kinds[q.FinishReason+" in "+q.Phases[len(q.Phases)-1].Name]++
			} else if q.output == 1 {
				kinds["one token"]++
			}
			if len(q.PrefillRuns) > 1 {
				kinds["chunked"]++
			}
			if q.Cached > 0 {
				kinds["cached"]++
			}
		}
	}
	for _, k := range []string{
		"ok", "error", "cancel", "reject", "pd", "parent", "unsampled", "siblings", "one token", "chunked", "cached",
		"abort in prefill_waiting", "abort in prefill_forward", "abort in decode_forward",
		"error in prefill_waiting", "error in prefill_forward", "error in decode_forward",
	} {
		assert.Positive(t, kinds[k], k)
	}
	assert.InDelta(t, 60, kinds["error"], 25)
	assert.InDelta(t, 60, kinds["cancel"], 25)
	batched := 0
	for _, r := range rec.runs {
		batched = max(batched, len(r.Sequences))
		require.LessOrEqual(t, len(r.Sequences), 16)
	}
	assert.Greater(t, batched, 4, "requests are batched")
}

func TestFailedRunFailsItsRequests(t *testing.T) {
	rec := record(t, mixed(1, func(c *Config) { c.RunFailRate = 0.05 }))
	failed := 0
	for _, run := range rec.runs {
		if !run.Failed {
			continue
		}
		failed++
		for _, q := range run.Sequences {
			require.Positive(t, q.End)
			require.NotEmpty(t, q.ErrorType)
			if !q.Request.PD && q.Request.Outcome != OutcomeCancel {
				require.Equal(t, OutcomeError, q.Request.Outcome)
			}
		}
		for _, inv := range run.Invocations {
			require.True(t, inv.Failed)
			require.Zero(t, inv.Wall)
		}
	}
	assert.Positive(t, failed)
	assert.Contains(t, string(rec.text), "[ERROR] wait_execution: ")
}

func TestLatencies(t *testing.T) {
	q := &Sequence{
		Start: 1_000_000, End: 501_000_000, FirstToken: 101_500_000,
		Phases: []Phase{
			{Name: PhaseWaiting, Start: 1_000_000, End: 21_000_000},
			{Name: PhasePrefill, Start: 21_000_000, End: 101_000_000},
			{Name: PhaseDecode, Start: 101_000_000, End: 501_000_000},
		},
	}
	assert.Equal(t, Latencies{Queue: 0.02, TTFT: 0.1005, Prefill: 0.08, Decode: 0.4, E2E: 0.5}, q.Latencies(Clock{}))
	q.Phases, q.FirstToken, q.End = q.Phases[:1], 0, 21_000_000
	assert.Equal(t, Latencies{Queue: 0.02, E2E: 0.02}, q.Latencies(Clock{}))
}
