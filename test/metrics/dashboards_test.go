// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// target is one query of one panel.
type target struct{ board, panel, legend, expr string }

func (q target) name() string { return q.board + " | " + q.panel + " | " + q.legend }

// targets are all queries of all dashboards, as checked in.
func targets(t *testing.T) []target {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(t), "deploy", "grafana", "dashboards", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	var out []target
	for _, path := range files {
		var board struct {
			UID    string `json:"uid"`
			Panels []struct {
				Type    string `json:"type"`
				Title   string `json:"title"`
				Targets []struct {
					Expr         string `json:"expr"`
					LegendFormat string `json:"legendFormat"`
				} `json:"targets"`
			} `json:"panels"`
		}
		require.NoError(t, json.Unmarshal([]byte(readFile(t, path)), &board))
		for _, p := range board.Panels {
			title := p.Title
			if p.Type == "stat" {
				title = "now: " + title
			}
			for _, q := range p.Targets {
				out = append(out, target{strings.TrimPrefix(board.UID, "phasecol-"), title, q.LegendFormat, q.Expr})
			}
		}
	}
	return out
}

// fill puts "all" into a dashboard's variables, and the window.
func fill(expr string, window int) string {
	return strings.NewReplacer(
		"$__rate_interval", fmt.Sprintf("%ds", window),
		"$service", ".*", "$host", ".*", "$model", ".*", "$callable", ".*", "$instance", ".*",
	).Replace(expr)
}

// expectations are what each query of the dashboards must return when f is what
// happened within window seconds. hosts are the values of the labels host_name
// and instance.
func expectations(f *facts, window float64, host string) map[string]expectation {
	out := map[string]expectation{}
	serving(out, f, window)
	hostAndNPU(out, f, window, host)
	collector(out, f, window)
	return out
}

// joined adds up values of a phase whatever their label.
func joined(f *facts, phase string) map[string][]float64 {
	return map[string][]float64{"": f.all(phase)}
}

// perEvent is a phase's sum by the number of another phase's events.
func perEvent(f *facts, phase, event string) expectation {
	return equal(one(sum(f.all(phase)) / float64(len(f.all(event)))))
}

func means(of map[string][]float64) expectation {
	want := values{}
	for k, v := range of {
		want[k] = average(v)
	}
	return equal(want)
}

func sizes(of map[string][]float64) values {
	want := values{}
	for k, v := range of {
		want[k] = float64(len(v))
	}
	return want
}

func threeQuantiles(out map[string]expectation, panel string, bounds []float64, of map[string][]float64) {
	for legend, q := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99} {
		out[panel+" | "+legend] = quantileOf(q, bounds, of)
	}
}

// parts are the shares of joined time: device, the host around it, the engine.
func parts(out map[string]expectation, panel string, f *facts) {
	busy, device, gap := sum(f.all("host_busy")), sum(f.all("device_busy")), sum(f.all("engine_gap"))
	out[panel+" | device"] = equal(one(device / (busy + gap)))
	out[panel+" | host overhead"] = equal(one((busy - device) / (busy + gap)))
	out[panel+" | engine gap"] = equal(one(gap / (busy + gap)))
}

func serving(out map[string]expectation, f *facts, window float64) {
	requests := values(f.counts["phase_requests_total"])
	sequences := f.counts["phase_sequences_total"]
	tokens := f.counts["phase_tokens_total"]
	output := 0.0
	for k, n := range tokens {
		if strings.HasSuffix(k, " output") {
			output += n
		}
	}
	failed := total(sequences) - sequences[""]
	const b = "serving | "
	out[b+"now: Requests | "] = rateOf(one(total(requests)), window)
	// Combinations of outcome and join that the first round did not have lose
	// their first increase.
	out[b+"now: Failed | "] = near(one(failed/total(sequences)), 0.1)
	out[b+"now: TTFT p95 | "] = quantileOf(0.95, long, joined(f, "ttft"))
	out[b+"now: TPOT p95 | "] = quantileOf(0.95, fine, joined(f, "tpot"))
	out[b+"now: End to end p95 | "] = quantileOf(0.95, long, joined(f, "e2e"))
	out[b+"now: Output tokens | "] = rateOf(one(output), window)
	threeQuantiles(out, b+"Time to first token", long, joined(f, "ttft"))
	threeQuantiles(out, b+"Time per output token", fine, joined(f, "tpot"))
	threeQuantiles(out, b+"End to end", long, joined(f, "e2e"))
	out[b+"End to end | p95 of all spans"] = quantileOf(0.95, spans, joined(f, "e2e"))
	out[b+"End to end | p95 of the traces kept"] = some
	out[b+"Phases of a request, mean | HTTP overhead"] = perEvent(f, "http_overhead", "e2e")
	for _, p := range []string{"queue", "prefill", "decode"} {
		out[b+"Phases of a request, mean | "+p] = perEvent(f, p, "e2e")
		out[b+"Phases, p95 | "+p] = quantileOf(0.95, long, joined(f, p))
	}
	out[b+"Phases, p95 | engine_gap"] = quantileOf(0.95, long, joined(f, "engine_gap"))
	parts(out, b+"Prefill and decode: NPU, host, engine", f)
	out[b+"Time per output token, distribution | {{le}}"] = some
	out[b+"TTFT p95 by model | {{gen_ai_response_model}}"] = quantileOf(0.95, long, f.phases["ttft"])
	out[b+"TPOT mean by model | {{gen_ai_response_model}}"] = means(f.phases["tpot"])
	out[b+"Tokens per second | {{gen_ai_response_model}} {{gen_ai_token_type}}"] = rateOf(tokens, window)
	out[b+"Requests by HTTP status | {{http_response_status_code}}"] = rateOf(requests, window)
	out[b+"Sequences by contract result | {{phase_contract}}"] = rateOf(values{"ok": total(sequences)}, window)
	out[b+"Sequences by error | {{error_type}}"] = rateOf(maps.Clone(sequences), window)
}

func hostAndNPU(out map[string]expectation, f *facts, window float64, host string) {
	walls := f.phases["host_wall"]
	const b = "host | "
	out[b+"now: Runs | "] = rateOf(one(float64(len(f.all("host_wall")))), window)
	out[b+"now: Host wall, mean | "] = means(joined(f, "host_wall"))
	out[b+"now: Device wall, mean | "] = means(joined(f, "device_wall"))
	out[b+"now: Host overhead | "] = equal(one(sum(f.all("host_overhead")) / sum(f.all("host_wall"))))
	out[b+"now: Engine gap | "] = equal(one(sum(f.all("engine_gap")) / (sum(f.all("engine_gap")) + sum(f.all("host_busy")))))
	out[b+"now: Rank skew | "] = equal(one(sum(f.all("rank_skew")) / sum(f.all("step"))))
	parts(out, b+"Prefill and decode: device, host overhead, engine gap", f)
	for _, p := range []string{"bind", "stage_inputs", "prepare_execution", "launch_overhead", "device_wall", "validate", "claim_release", "unattributed"} {
		out[b+"A run on the host, mean | "+strings.ReplaceAll(p, "_", " ")] = perEvent(f, p, "host_wall")
	}
	for _, p := range []string{"preamble", "so_load", "graph_build", "prep", "post_orch", "effective"} {
		out[b+"A run on the device, mean | "+strings.ReplaceAll(p, "_", " ")] = perEvent(f, p, "host_wall")
	}
	segments := values{}
	for p := range f.phases {
		if strings.HasPrefix(p, "bind.") {
			segments[p] = sum(f.all(p)) / float64(len(f.all("host_wall")))
		}
	}
	out[b+"Segments of bind, mean | {{phase_name}}"] = equal(segments)
	out[b+"Host wall p95 | {{strace_callable}}"] = quantileOf(0.95, short, walls)
	out[b+"Host wall p95 | p95 of all spans"] = quantileOf(0.95, spans, joined(f, "host_wall"))
	out[b+"Host wall p95 | p95 of the traces kept"] = some
	out[b+"Device wall p95 | {{strace_callable}}"] = quantileOf(0.95, short, f.phases["device_wall"])
	out[b+"Effective, mean | {{strace_callable}}"] = means(f.phases["effective"])
	out[b+"Host overhead p95 | {{strace_callable}}"] = quantileOf(0.95, short, f.phases["host_overhead"])
	out[b+"Runs per second | {{strace_callable}}"] = rateOf(sizes(walls), window)
	out[b+"Bind hidden by the run before | {{strace_callable}}"] = atMost(1)
	threeQuantiles(out, b+"Step", short, joined(f, "step"))
	threeQuantiles(out, b+"Rank skew", short, joined(f, "rank_skew"))
	out[b+"Host wall by device, mean | {{host_name}} device {{hw_id}}"] = means(prefixed(host+" ", f.hostWall))
	out[b+"Device wall by device, mean | {{host_name}} device {{hw_id}}"] = means(prefixed(host+" ", f.deviceWall))
	out[b+"Device gap, mean | before {{strace_callable}}"] = some
	out[b+"Device idle | {{host_name}}"] = atMost(1)
}

func prefixed(prefix string, of map[string][]float64) map[string][]float64 {
	out := make(map[string][]float64, len(of))
	for k, v := range of {
		out[prefix+k] = v
	}
	return out
}

// collector is about the Collector itself: most of it is only known to be
// there, but what must not happen did not.
func collector(out map[string]expectation, f *facts, window float64) {
	const b = "collector | "
	none := equal(one(0))
	out[b+"now: Lost spans | "] = none
	out[b+"now: Clock error | "] = atMost(0.001)
	out[b+"now: Unjoined | "] = atMost(0.2)
	out[b+"now: Behind | "] = none
	for _, panel := range []string{
		"Refusals | log receiver", "Refusals | OTLP receiver",
		"Spans dropped by reason | log: {{reason}}", "Spans dropped by reason | requests: {{reason}}", "Spans dropped by reason | export: {{exporter}}",
		"Records the runtime lost | {{reason}}", "Spans sent failed | {{exporter}}",
		"Dropped before a decision | too early", "Dropped before a decision | too large",
		"Series refused | {{error}}", "Series refused | overflow {{service_name}}",
		"Guesses and misfits | guessed parents",
	} {
		out[b+panel] = atMost(0)
	}
	out[b+"Contract results | {{result}}"] = rateOf(values{"ok": total(f.counts["phase_requests_total"])}, window)
}

func TestDashboardsAndRules(t *testing.T) {
	s := start(t, 1, 2)
	s.play(1)
	from := s.now()
	f := s.play(2)
	at := s.now()
	// The window begins when all of the first round had been scraped, and scraped
	// again, so that it holds the second alone. Every series exists by then: an
	// increase needs two samples.
	window := int(math.Ceil(at.Sub(from).Seconds()))

	t.Cleanup(func() {
		if t.Failed() {
			s.tell()
		}
	})
	t.Run("dashboards", func(t *testing.T) {
		want := expectations(f, float64(window), hostName(t))
		known := map[string]bool{}
		for _, q := range targets(t) {
			known[q.name()] = true
			got, err := s.prom.query(fill(q.expr, window), at)
			if !assert.NoError(t, err, q.name()) { //nolint:testifylint // report all queries
				continue
			}
			expect, ok := want[q.name()]
			if !ok && q.board == "collector" {
				expect, ok = some, true
			}
			if assert.True(t, ok, "nothing says what %q should return", q.name()) {
				expect(t, q.name(), got)
			}
		}
		for name := range want {
			assert.True(t, known[name], "no dashboard has %q", name)
		}
	})
	t.Run("rules", func(t *testing.T) { s.checkRules(t, f, window, at) })
	t.Run("totals", s.checkTotals)
	t.Run("retention", s.checkRetention)
	t.Run("exemplars", s.checkExemplars)
	t.Run("documented", s.checkDocumented)
}
