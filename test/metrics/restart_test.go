// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A restart begins at zero under the same labels: Prometheus sees a reset, no
// rate is negative, and what was counted before and after adds up.
func TestRestartResetsCounters(t *testing.T) {
	s := start(t, 1, 2)
	s.play(1)
	const sequences, runs = `sum(phase_sequences_total)`, `sum(phase_duration_seconds_count{phase_name="host_wall"})`
	before, beforeRuns := s.prom.value(sequences), s.prom.value(runs)
	require.Positive(t, before)
	s.collector.Kill()
	require.Eventually(t, func() bool { return s.prom.value(`sum(up)`) == 0 }, 20*time.Second, 50*time.Millisecond, "still up")
	s.collector.Start()
	s.played, s.received = newFacts(), 0
	f := s.play(2)

	// The logs read before the kill are not read, and not counted, again.
	assert.InDelta(t, total(f.counts["phase_sequences_total"]), s.prom.value(sequences), 0)
	assert.InDelta(t, float64(len(f.all("host_wall"))), s.prom.value(runs), 0)
	const known = "phase_name, strace_callable, gen_ai_response_model, service_name, host_name"
	assert.InDelta(t, s.prom.value(`count(count by (`+known+`) (count_over_time(phase_duration_seconds_count[10m])))`),
		s.prom.value(`count(count_over_time(phase_duration_seconds_count[10m]))`), 0, "both lives of a series have the same labels")

	for _, metric := range []string{"phase_duration_seconds_count", "phase_duration_seconds_sum", "phase_sequences_total", "traces_span_metrics_calls_total"} {
		for _, smp := range s.must(t, fmt.Sprintf("rate(%s[5m])", metric)) {
			assert.False(t, smp.value < 0 || math.IsNaN(smp.value), "rate of %s%v is %v", metric, smp.labels, smp.value)
		}
		// Only one reset, and only downwards then.
		for _, smp := range s.must(t, fmt.Sprintf("resets(%s[5m])", metric)) {
			assert.LessOrEqual(t, smp.value, 1.0, "%s%v", metric, smp.labels)
		}
	}
	// The increase over both lives is what each counted, but for the first sample
	// of each series: at least the second life, at most both, give or take extrapolation.
	grown := s.prom.value(`sum(increase(phase_duration_seconds_count{phase_name="host_wall"}[5m]))`)
	assert.Greater(t, grown, float64(len(f.all("host_wall")))*0.9)
	assert.Less(t, grown, (beforeRuns+float64(len(f.all("host_wall"))))*1.2)
}
