// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

func hostName(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

// now is the time of Prometheus's last scrape of both endpoints.
func (s *scenario) now() time.Time {
	return time.UnixMilli(int64(s.prom.value("min(timestamp(up))") * 1e3))
}

// checkTotals compares every histogram with the simulator: its sum, its count
// and the count of every bucket, over both rounds and so many flushes.
func (s *scenario) checkTotals(t *testing.T) {
	seen := s.histogram(t, "phase_duration_seconds", "strace_callable", "gen_ai_response_model", "phase_name")
	for phase, byLabel := range s.played.phases {
		if phase == ttftOfSuccess {
			continue
		}
		for label, all := range byLabel {
			k := label + " " + phase
			if label == "" {
				k = phase
			}
			h, ok := seen[k]
			if assert.True(t, ok, "no phase_duration_seconds for %q", k) {
				h.equals(t, k, all, bucketsOf(phase))
			}
			delete(seen, k)
		}
	}
	for k := range seen {
		// What only the device's counters and the order of runs tell is held
		// against the simulator where it is computed.
		assert.Regexp(t, `device_gap$`, k, "nothing of the kind happened")
	}
	for metric, c := range map[string]struct {
		of     map[string][]float64
		bounds []float64
	}{
		"gen_ai_server_request_duration_seconds":      {s.played.phases["e2e"], genAIDuration},
		"gen_ai_server_time_to_first_token_seconds":   {s.played.phases[ttftOfSuccess], genAITTFT},
		"gen_ai_server_time_per_output_token_seconds": {s.played.phases["tpot"], genAITPOT},
	} {
		seen := s.histogram(t, metric, "gen_ai_response_model")
		assert.Len(t, seen, len(c.of), metric)
		for model, all := range c.of {
			if h, ok := seen[model]; assert.True(t, ok, "no %s for %q", metric, model) {
				h.equals(t, metric+" "+model, all, c.bounds)
			}
		}
	}
	s.checkNative(t)
	s.checkCounts(t)
}

// histogram is one as Prometheus has it.
type histogram struct {
	sum, count float64
	buckets    map[float64]float64
}

// histogram reads all series of one, by the values of labels in the order given.
func (s *scenario) histogram(t *testing.T, metric string, labels ...string) map[string]*histogram {
	t.Helper()
	by := strings.Join(labels, ", ")
	out := map[string]*histogram{}
	at := func(smp sample) *histogram {
		var values []string
		for _, name := range labels {
			if v := smp.labels[name]; v != "" {
				values = append(values, v)
			}
		}
		k := strings.Join(values, " ")
		if out[k] == nil {
			out[k] = &histogram{buckets: map[float64]float64{}}
		}
		return out[k]
	}
	for _, smp := range s.must(t, fmt.Sprintf("sum by (%s) (%s_sum)", by, metric)) {
		at(smp).sum = smp.value
	}
	for _, smp := range s.must(t, fmt.Sprintf("sum by (%s) (%s_count)", by, metric)) {
		at(smp).count = smp.value
	}
	for _, smp := range s.must(t, fmt.Sprintf("sum by (le, %s) (%s_bucket)", by, metric)) {
		le, err := strconv.ParseFloat(smp.labels["le"], 64)
		require.NoError(t, err)
		at(smp).buckets[le] = smp.value
	}
	return out
}

func (s *scenario) must(t *testing.T, expr string) []sample {
	t.Helper()
	got, err := s.prom.query(expr, time.Time{})
	require.NoError(t, err, expr)
	return got
}

func (h *histogram) equals(t *testing.T, what string, all, bounds []float64) {
	t.Helper()
	assert.InDelta(t, float64(len(all)), h.count, 0, "%s: count", what)
	assert.InDelta(t, sum(all), h.sum, 1e-9*sum(all), "%s: sum", what)
	assert.Len(t, h.buckets, len(bounds)+1, "%s: buckets", what)
	for _, le := range append(slices.Clip(bounds), math.Inf(1)) {
		n := 0.0
		for _, v := range all {
			if v <= le {
				n++
			}
		}
		assert.InDelta(t, n, h.buckets[le], 0, "%s: at most %v", what, le)
	}
}

// checkNative reads the exponential histogram, which Prometheus took as a
// native one: its relative error is bounded by its base.
func (s *scenario) checkNative(t *testing.T) {
	all := s.played.all("tpot")
	assert.InDelta(t, float64(len(all)), s.prom.value("sum(histogram_count(phase_tpot_seconds))"), 0)
	assert.InEpsilon(t, sum(all), s.prom.value("sum(histogram_sum(phase_tpot_seconds))"), 1e-9)
	for _, q := range []float64{0.1, 0.5, 0.9} {
		low, high := within(q, all, everyPercent())
		got := s.prom.value(fmt.Sprintf("histogram_quantile(%v, sum(phase_tpot_seconds))", q))
		// 160 buckets over this spread: 5 percent.
		assert.GreaterOrEqual(t, got, low*0.95, "quantile %v", q)
		assert.LessOrEqual(t, got, high*1.05, "quantile %v", q)
	}
}

// everyPercent are bounds from 0.1 ms to 2 s.
func everyPercent() []float64 {
	var bounds []float64
	for v := 1e-4; v < 2; v *= 1.01 {
		bounds = append(bounds, v)
	}
	return bounds
}

func (s *scenario) checkCounts(t *testing.T) {
	f := s.played
	for _, c := range []struct {
		expr string
		want values
	}{
		{"sum by (http_response_status_code) (phase_requests_total)", f.counts["phase_requests_total"]},
		{"sum by (error_type) (phase_sequences_total)", f.counts["phase_sequences_total"]},
		{"sum by (phase_contract) (phase_sequences_total)", values{"ok": total(f.counts["phase_sequences_total"])}},
		{`sum(phase_sequences_total{phase_join!~"none|"})`, one(f.counts["joined"][""])},
		{"sum by (gen_ai_response_model, gen_ai_token_type) (phase_tokens_total)", f.counts["phase_tokens_total"]},
		{`sum by (hw_id) (traces_span_metrics_calls_total{strace_stage="run"})`, sizes(f.hostWall)},
		{`sum(traces_span_metrics_calls_total{span_name="engine.request"})`, one(total(f.counts["phase_sequences_total"]))},
	} {
		equal(c.want)(t, c.expr, s.must(t, c.expr))
	}
	// A label by process or request would never stop growing.
	for name := range harness.Scrape(t, s.collector.Metrics) {
		for _, forbidden := range []string{"pid", "inv=", "request_id", "trace_id", "span_id", "instance_id", "sequence"} {
			assert.NotContains(t, labelsOf(name), forbidden, name)
		}
	}
}
