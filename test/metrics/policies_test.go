// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/test/harness"
)

// Each policy of config/retention.yaml by itself: with shares of 0 percent a
// trace is stored for a reason or not at all, and counted either way.
func TestRetentionPolicies(t *testing.T) {
	c := harness.New(t, []string{"local.yaml", "metrics.yaml", "retention.yaml"},
		"processors: {tail_sampling: {decision_wait: 1s, decision_wait_after_root_received: 1s}}")
	metrics := harness.FreeAddress(t)
	for name, value := range map[string]string{
		"METRICS": metrics, "METRICS_FLUSH": "200ms", "KEEP_REQUESTS": "0", "KEEP_RUNS": "0",
		"KEEP_TTFT": "0.15", "KEEP_TPOT": "0.05", "KEEP_E2E": "1.0", "KEEP_STEP": "0.1", "KEEP_SKEW": "0.015",
	} {
		c.Setenv("PHASECOL_"+name, value)
	}
	c.Start()

	at := time.Now().Add(-time.Minute)
	w := &wire{traces: ptrace.NewTraces()}
	// What each trace is, by its number; keep marks those to be stored.
	kinds := []struct {
		name string
		keep bool
		make func(trace uint64)
	}{
		{"an ordinary request", false, func(n uint64) { w.request(n, 0, at, false) }},
		{"a failed request", true, func(n uint64) { w.request(n, 0, at, true) }},
		{"a slow first token", true, func(n uint64) {
			w.request(n, 0, at, false)
			w.last("engine.request").Attributes().PutDouble("gen_ai.latency.time_to_first_token", 0.16)
		}},
		{"a slow token", true, func(n uint64) {
			w.request(n, 0, at, false)
			w.last("engine.request").Attributes().PutInt("gen_ai.usage.completion_tokens", 2)
		}},
		{"a long request", true, func(n uint64) {
			w.request(n, 0, at, false)
			for _, name := range []string{"atom.request", "engine.request", "decode_forward"} {
				w.last(name).SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(1100 * time.Millisecond)))
			}
			w.last("engine.request").Attributes().PutInt("gen_ai.usage.completion_tokens", 1000)
		}},
		{"a broken contract", true, func(n uint64) {
			w.request(n, 0, at, false)
			w.last("decode_forward").SetStartTimestamp(pcommon.NewTimestampFromTime(at.Add(150 * time.Millisecond)))
		}},
		{"a request that cannot be judged", false, func(n uint64) {
			w.request(n, 0, at, false)
			w.traces.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
				return rs.ScopeSpans().At(0).Spans().At(0).Name() == "engine.request" && rs.ScopeSpans().At(0).Spans().At(0).TraceID() == w.last("atom.request").TraceID()
			})
			w.last("atom.request").Attributes().PutStr("atom.trace.unsupported", "pd")
		}},
		{"an ordinary step", false, func(n uint64) { w.step(n, 0, at) }},
		{"a slow step", true, func(n uint64) {
			w.step(n, 0, at)
			w.last("node.run").SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(110 * time.Millisecond)))
		}},
		{"ranks apart", true, func(n uint64) {
			w.step(n, 0, at)
			w.last("chip.run").SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(36 * time.Millisecond)))
		}},
		{"a run without its root", true, func(n uint64) {
			w.invocation(n, 0, 0, at)
			w.last("chip.run").Attributes().PutBool("strace.incomplete", true)
		}},
	}
	for i, k := range kinds {
		k.make(uint64(i + 1))
	}
	w.send(t, c.HTTP)
	require.Eventually(t, func() bool {
		own := c.OwnMetrics()
		decided := harness.Sum(own, "otelcol_processor_tail_sampling_global_count_traces_sampled")
		return decided == float64(len(kinds)) && harness.Sum(own, "otelcol_processor_tail_sampling_new_trace_id_received") == decided
	}, 30*time.Second, 100*time.Millisecond, "no decision on all traces")
	assert.Zero(t, harness.Sum(c.OwnMetrics(), "otelcol_processor_tail_sampling_sampling_policy_evaluation_error"))
	c.Stop()

	var stored, want []string
	for _, s := range c.Spans() {
		id := s.TraceID()
		if name := kinds[id[11]-1].name; !slices.Contains(stored, name) {
			stored = append(stored, name)
		}
	}
	for _, k := range kinds {
		if k.keep {
			want = append(want, k.name)
		}
	}
	assert.ElementsMatch(t, want, stored)
}

// last is the newest span of a name.
func (w *wire) last(name string) ptrace.Span {
	rs := w.traces.ResourceSpans()
	for i := rs.Len() - 1; i >= 0; i-- {
		spans := rs.At(i).ScopeSpans().At(0).Spans()
		for k := spans.Len() - 1; k >= 0; k-- {
			if spans.At(k).Name() == name {
				return spans.At(k)
			}
		}
	}
	panic("no span " + name)
}
