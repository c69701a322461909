// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics runs the built Collector under a real Prometheus and compares
// what it exposes, what the dashboards ask and what the rules compute with the
// ground truth of the simulator.
package metrics

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
	"github.com/phasecol/phasecol/test/harness"
)

// service is one simulated serving process.
type service struct {
	model string
	// ago is how long before a round the service began that wrote its logs
	// earlier; 0 is live.
	ago time.Duration
	// silent services send no request spans.
	silent bool
	args   []string
}

// Three services on one host that never run at the same time: two with clock
// anchors whose requests can be joined to the nanosecond, the second with runs
// that overlap; and a live one in the newest log format, with device counters,
// of which only the runs are known.
var services = []service{
	{model: "demo-14b", ago: 8 * time.Second, args: []string{"--generation", "8", "--requests", "120", "--rate", "60", "--n", "3", "--reject-rate", "0.15"}},
	{model: "demo-70b", ago: 4 * time.Second, args: []string{"--generation", "8", "--requests", "80", "--rate", "50", "--pipeline", "2", "--device-base", "2", "--time-scale", "0.5"}},
	{model: "host only", silent: true, args: []string{"--generation", "9", "--requests", "40", "--rate", "40", "--realtime", "--pipeline", "2", "--device-base", "4", "--time-scale", "0.5"}},
}

// apart is how far rounds have to be apart so that their services are not in
// progress at the same time: more than any of them runs before its round.
const apart = 9 * time.Second

// outcomes are common to both.
var outcomes = []string{"--ranks", "2", "--error-rate", "0.15", "--cancel-rate", "0.15", "--one-token-rate", "0.1"}

func (sv service) run(t *testing.T, seed int, args ...string) *truth.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "truth.json")
	args = append(append(append([]string{"--quiet", "--seed", strconv.Itoa(seed), "--model", sv.model, "--truth", path}, sv.args...), outcomes...), args...)
	out, err := exec.CommandContext(t.Context(), harness.Stracegen(t), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	file, err := truth.Read(path)
	require.NoError(t, err)
	return file
}

// scenario is a Collector under a Prometheus.
type scenario struct {
	t         *testing.T
	collector *harness.Collector
	prom      *prometheus
	played    *facts
	ended     time.Time
	received  float64
	runs      int
}

// start runs the Collector with the shipped fragments. Retention decides after
// one second instead of ten. A run waits longer for the log of a rank, a request
// longer for its runs, that a busy machine has not read yet.
func start(t *testing.T, seeds ...int) *scenario {
	t.Helper()
	c := harness.New(t, []string{"local.yaml", "metrics.yaml", "retention.yaml"}, `
receivers:
  stracelog: {stitch_wait: 10s}
processors:
  tail_sampling: {decision_wait: 1s, decision_wait_after_root_received: 1s}
  phase: {join: {wait: 8s}, callable: {names: `+names(t, seeds)+`}}
`)
	metrics := harness.FreeAddress(t)
	c.Metrics = metrics
	c.Setenv("PHASECOL_METRICS", metrics)
	c.Setenv("PHASECOL_METRICS_FLUSH", "1s")
	c.Start()
	return &scenario{t: t, collector: c, prom: startPrometheus(t, metrics, c.Own), played: newFacts()}
}

// names are the callables by hid: without them the first runs of a process
// have a name by guess.
func names(t *testing.T, seeds []int) string {
	t.Helper()
	hids := map[string]string{}
	for _, seed := range seeds {
		for i, sv := range services {
			for _, v := range sv.run(t, sv.seed(seed, i), "--no-logs", "--realtime=false").Invocations {
				hids[v.HID] = v.Callable
			}
		}
	}
	text, err := json.Marshal(hids)
	require.NoError(t, err)
	return string(text)
}

// seed tells services and rounds apart: identifiers are a function of it.
func (service) seed(round, index int) int { return 10*round + index }

// play lets all services run once and returns what they did, when Prometheus
// has seen all of it.
func (s *scenario) play(round int) *facts {
	s.t.Helper()
	s.runs++
	now := newFacts()
	require.Eventually(s.t, func() bool { return time.Since(s.ended) > apart }, 2*apart, 50*time.Millisecond)
	began := time.Now()
	for i, sv := range services {
		dir := filepath.Join(s.collector.Dir, "run", "logs", fmt.Sprintf("%d-%d", i, s.runs))
		args := []string{"--out", dir}
		if sv.ago > 0 {
			args = append(args, "--start", began.Add(-sv.ago).UTC().Format(time.RFC3339Nano))
		}
		if !sv.silent {
			args = append(args, "--otlp", "http://"+s.collector.HTTP)
		}
		file := sv.run(s.t, sv.seed(round, i), args...)
		if sv.ago > 0 {
			require.Less(s.t, lastEnd(file), began.Add(-sv.ago+4*time.Second).UnixNano(), "services are in progress at the same time")
		}
		if sv.silent {
			file.Requests = nil
		}
		now.add(file, sv.model)
		s.played.add(file, sv.model)
		// Before the next service speaks: a request does not wait for logs that
		// nothing has told of while those of later runs are there.
		s.received += float64(len(file.Invocations))
		require.Eventually(s.t, func() bool {
			return harness.Sum(s.collector.OwnMetrics(), "otelcol_processor_phase_invocations") >= s.received
		}, 30*time.Second, 50*time.Millisecond, "not all runs of %s arrived", sv.model)
	}
	s.ended = time.Now()
	s.settle()
	return now
}

// lastEnd is when the last run or request of a service ended.
func lastEnd(file *truth.File) int64 {
	var end int64
	for i := range file.Runs {
		end = max(end, file.Runs[i].EndNS)
	}
	for i := range file.Requests {
		end = max(end, file.Requests[i].EndNS)
	}
	return end
}

// settle waits until Prometheus has scraped the effects of all that was played:
// the totals, the span metrics, and a decision on each trace.
func (s *scenario) settle() {
	s.t.Helper()
	f := s.played
	want := []struct {
		expr  string
		value float64
	}{
		{`sum(phase_duration_seconds_count{phase_name="host_wall"})`, float64(len(f.all("host_wall")))},
		{`sum(phase_duration_seconds_count{phase_name="step"})`, float64(len(f.all("step")))},
		{`sum(phase_sequences_total)`, float64(len(f.all("e2e")))},
		{`sum(phase_requests_total)`, total(f.counts["phase_requests_total"])},
		{`sum(traces_span_metrics_calls_total{strace_stage="run"})`, float64(len(f.all("host_wall")))},
		{`sum(traces_span_metrics_calls_total{span_name="atom.request"})`, total(f.counts["phase_requests_total"])},
		{`sum(otelcol_processor_tail_sampling_new_trace_id_received) - sum(otelcol_processor_tail_sampling_global_count_traces_sampled)`, 0},
	}
	for _, w := range want {
		require.Eventually(s.t, func() bool { return s.prom.value(w.expr) == w.value }, 40*time.Second, 200*time.Millisecond,
			"%s: is %v, the simulator says %v", w.expr, lazily(func() any { return s.prom.value(w.expr) }), w.value)
	}
	// Everything once more, so that what was scraped first is seen too.
	s.nextScrape()
	s.nextScrape()
}

// lazily is a value for a message that is made only when the message is.
type lazily func() any

func (l lazily) String() string { return fmt.Sprint(l()) }

// nextScrape waits until both endpoints have been scraped from now on.
func (s *scenario) nextScrape() {
	s.t.Helper()
	now := float64(time.Now().UnixMilli()) / 1e3
	require.Eventually(s.t, func() bool { return s.prom.value(`min(timestamp(up))`) > now }, 20*time.Second, 50*time.Millisecond, "not scraped")
}

// tell logs what the Collector did not do as it should, for a test that failed.
func (s *scenario) tell() {
	for name, v := range s.collector.OwnMetrics() {
		if v > 0 && strings.Contains(name, "{") && (strings.HasPrefix(name, "otelcol_processor_phase_") || strings.HasPrefix(name, "otelcol_receiver_stracelog_")) && !strings.Contains(name, "_bucket") {
			s.t.Log(name, v)
		}
	}
}
