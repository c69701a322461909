// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/test/harness"
)

// inbox is an OTLP/HTTP backend that keeps the newest total of each metric of a service.
type inbox struct {
	mu     sync.Mutex
	points map[string]point
	bad    []string
}

// point is what is left of a data point.
type point struct {
	unit     string
	kind     pmetric.MetricType
	count    uint64
	resource map[string]any
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unzipped, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(unzipped)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req := pmetricotlp.NewExportRequest()
	if err := req.UnmarshalProto(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, rm := range req.Metrics().ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				in.take(m, rm.Resource().Attributes().AsRaw())
			}
		}
	}
}

func (in *inbox) take(m pmetric.Metric, resource map[string]any) {
	p := point{unit: m.Unit(), kind: m.Type(), resource: resource}
	cumulative := func(at pmetric.AggregationTemporality) {
		if at != pmetric.AggregationTemporalityCumulative {
			in.bad = append(in.bad, m.Name()+" is "+at.String())
		}
	}
	switch m.Type() {
	case pmetric.MetricTypeSum:
		cumulative(m.Sum().AggregationTemporality())
		for _, dp := range m.Sum().DataPoints().All() {
			p.count += uint64(dp.IntValue())
		}
	case pmetric.MetricTypeHistogram:
		cumulative(m.Histogram().AggregationTemporality())
		for _, dp := range m.Histogram().DataPoints().All() {
			p.count += dp.Count()
			if dp.StartTimestamp() == 0 {
				in.bad = append(in.bad, m.Name()+" does not say since when it counts")
			}
		}
	case pmetric.MetricTypeExponentialHistogram:
		cumulative(m.ExponentialHistogram().AggregationTemporality())
		for _, dp := range m.ExponentialHistogram().DataPoints().All() {
			p.count += dp.Count()
		}
	default:
		in.bad = append(in.bad, m.Name()+" is a "+m.Type().String())
	}
	service, _ := resource["service.name"].(string)
	if name := service + " " + m.Name(); p.count >= in.points[name].count {
		in.points[name] = p
	}
}

func (in *inbox) get(name string) point {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.points[name]
}

// Requests that arrive one by one over many flushes, from many clients at once,
// are all counted: no delta overtakes another, in Prometheus's format as over OTLP.
func TestConcurrentDeltasAndOTLP(t *testing.T) {
	const clients, each = 8, 40
	in := &inbox{points: map[string]point{}}
	backend := httptest.NewServer(in)
	t.Cleanup(backend.Close)
	c := harness.New(t, []string{"local.yaml", "metrics.yaml", "metrics-otlp.yaml"}, "processors: {batch/metrics: {timeout: 200ms}}")
	metrics := harness.FreeAddress(t)
	c.Setenv("PHASECOL_METRICS", metrics)
	c.Setenv("PHASECOL_METRICS_FLUSH", "200ms")
	c.Setenv("PHASECOL_METRICS_BACKEND", backend.URL)
	c.Setenv("PHASECOL_INSTANCE", "first")
	c.Start()

	at := time.Now().Add(-time.Minute)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range each {
				n := uint64(1 + client*each + i)
				w := &wire{traces: ptrace.NewTraces(), id: n << 8}
				// Requests pass through the phase processor's queue; runs go
				// straight on, in the goroutine of each client.
				w.request(n, 0, at, false)
				w.invocation(n|1<<20, client, 0, at)
				w.send(t, c.HTTP)
			}
		})
	}
	wg.Wait()

	const all = clients * each
	require.Eventually(t, func() bool {
		return harness.Sum(harness.Scrape(t, metrics), "phase_sequences_total") == all && runs(harness.Scrape(t, metrics)) == all &&
			in.get("atom traces.span.metrics.calls").count == all*5
	}, 30*time.Second, 100*time.Millisecond, "of %d requests and runs: %v and %v in Prometheus's format, %v calls over OTLP", all,
		lazily(func() any { return harness.Sum(harness.Scrape(t, metrics), "phase_sequences_total") }),
		lazily(func() any { return runs(harness.Scrape(t, metrics)) }), lazily(func() any { return in.get("atom traces.span.metrics.calls").count }))
	got := harness.Scrape(t, metrics)
	for _, name := range []string{"phase_requests_total", "gen_ai_server_request_duration_seconds_count", "phase_tpot_seconds_count"} {
		assert.InDelta(t, float64(all), harness.Sum(got, name), 0, name)
	}
	assert.InDelta(t, 10*all, harness.Sum(got, `phase_tokens_total{gen_ai_response_model="model-0",gen_ai_token_type="input",host_name="node",service_name="atom"}`), 0)
	for name, v := range c.OwnMetrics() {
		assert.False(t, v > 0 && len(name) > 40 && name[:41] == "otelcol_deltatocumulative_datapoints{erro", "%s: deltas were refused", name)
	}

	assert.Eventually(t, func() bool {
		return in.get("atom phase.sequences").count == all && in.get("atom phase.tpot").count == all
	}, 20*time.Second, 100*time.Millisecond)
	assert.Equal(t, point{"s", pmetric.MetricTypeExponentialHistogram, all, resourceOfAtom()}, in.get("atom phase.tpot"))
	assert.Equal(t, point{"s", pmetric.MetricTypeHistogram, all, resourceOfAtom()}, in.get("atom gen_ai.server.time_to_first_token"))
	assert.Equal(t, point{"{sequence}", pmetric.MetricTypeSum, all, resourceOfAtom()}, in.get("atom phase.sequences"))
	assert.Equal(t, point{"", pmetric.MetricTypeSum, all * 5, resourceOfAtom()}, in.get("atom traces.span.metrics.calls"))
	in.mu.Lock()
	defer in.mu.Unlock()
	assert.Empty(t, in.bad)
}

// runs are the runs that the phases count.
func runs(samples map[string]float64) float64 {
	var n float64
	for name, v := range samples {
		if strings.HasPrefix(name, "phase_duration_seconds_count{") && strings.Contains(name, `phase_name="host_wall"`) {
			n += v
		}
	}
	return n
}

func resourceOfAtom() map[string]any {
	return map[string]any{"service.name": "atom", "host.name": "node", "collector.instance.id": "first"}
}
