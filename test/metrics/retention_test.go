// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// labelsOf is the part of a sample's name in braces.
func labelsOf(name string) string {
	_, labels, _ := strings.Cut(name, "{")
	return labels
}

// checkRetention: all requests were counted (checkTotals), all failed ones and
// only a share of the others are stored.
func (s *scenario) checkRetention(t *testing.T) {
	kept := map[string]bool{}
	hosts := map[string]bool{}
	for _, span := range s.collector.Spans() {
		id := span.TraceID().String()
		switch {
		case span.Name() == "atom.request":
			kept[id] = true
		case strings.HasSuffix(span.Name(), "chip.run") && !span.Copy():
			hosts[id] = true
		}
	}
	failed, others, keptOthers := 0, 0, 0
	for _, r := range s.played.traces {
		if r.failed {
			failed++
			assert.True(t, kept[r.trace], "a failed request's trace %s is not stored", r.trace)
			continue
		}
		others++
		if kept[r.trace] {
			keptOthers++
		}
	}
	runs := len(s.played.phases["step"][""])
	assert.Positive(t, failed)
	t.Logf("stored: %d of %d failed requests, %d of %d others, %d of %d runs", failed, failed, keptOthers, others, len(hosts), runs)
	// 5 and 1 percent by a hash of the trace id.
	assert.Less(t, float64(keptOthers), 0.25*float64(others), "requests that ended well")
	assert.Less(t, float64(len(hosts)), 0.1*float64(runs), "host runs")
	assert.InDelta(t, float64(len(kept)), s.prom.value(`sum(traces_kept_calls_total{span_name="atom.request"})`), 0, "traces.kept counts what is stored")
}

// checkExemplars follows each exemplar to a trace that is stored.
func (s *scenario) checkExemplars(t *testing.T) {
	stored := map[string]bool{}
	for _, span := range s.collector.Spans() {
		stored[span.TraceID().String()] = true
	}
	var series []struct {
		SeriesLabels map[string]string `json:"seriesLabels"`
		Exemplars    []struct {
			Labels map[string]string `json:"labels"`
			Value  string            `json:"value"`
		} `json:"exemplars"`
	}
	found := map[string]int{}
	for _, q := range targets(t) {
		if !strings.Contains(q.legend, "p95 of") {
			continue
		}
		params := url.Values{
			"query": {fill(q.expr, 60)},
			"start": {strconv.FormatInt(time.Now().Add(-10*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(time.Now().Unix(), 10)},
		}
		require.NoError(t, s.prom.get("query_exemplars", params, &series))
		for _, one := range series {
			assert.Equal(t, "traces_kept_duration_seconds_bucket", one.SeriesLabels["__name__"], "with retention only what is kept has exemplars")
			for _, e := range one.Exemplars {
				found[q.board]++
				assert.True(t, stored[e.Labels["trace_id"]], "an exemplar leads to %s, which is not stored", e.Labels["trace_id"])
			}
		}
		series = nil
	}
	assert.Positive(t, found["serving"], "no exemplars of requests")
	assert.Positive(t, found["host"], "no exemplars of runs")
}

// rulesAnswer is what Prometheus says of its rules.
type rulesAnswer struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Name      string          `json:"name"`
			Type      string          `json:"type"`
			Query     string          `json:"query"`
			Health    string          `json:"health"`
			LastError string          `json:"lastError"`
			State     string          `json:"state"`
			Alerts    json.RawMessage `json:"alerts"`
		} `json:"rules"`
	} `json:"groups"`
}
