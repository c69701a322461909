// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

// serving is what a user of the service sees, and which phase it comes from.
func serving() board {
	const l labels = `service_name=~"$service",host_name=~"$host",gen_ai_response_model=~"$model"`
	const http labels = `service_name=~"$service",host_name=~"$host"`
	return board{
		uid:   "phasecol-serving",
		title: "Serving latency by phase",
		help:  "Requests from HTTP to the last token, by phase. Every request counts, whether its trace is stored or not.",
		variables: []variable{
			{"service", "Service", `phase_duration_seconds_count{phase_name="e2e"}`, "service_name"},
			{"host", "Host", `phase_duration_seconds_count{phase_name="e2e"}`, "host_name"},
			{"model", "Model", `phase_duration_seconds_count{phase_name="e2e"}`, "gen_ai_response_model"},
		},
		rows: []row{
			{"Now", []panel{
				{number, "Requests", "HTTP requests ended per second.", "reqps", sixth, []query{{expr: rate("phase_requests_total", http, "")}}},
				{number, "Failed", "Share of engine sequences that ended with an error.", "percentunit", sixth, []query{{
					expr: "(" + rate("phase_sequences_total", l.and(`error_type!=""`), "") + " or vector(0))\n/\n" + rate("phase_sequences_total", l, ""),
				}}},
				{number, "TTFT p95", "Time to first token.", "s", sixth, []query{{expr: quantile("0.95", phaseDuration, of("ttft", l), "")}}},
				{number, "TPOT p95", "Time per output token after the first.", "s", sixth, []query{{expr: quantile("0.95", phaseDuration, of("tpot", l), "")}}},
				{number, "End to end p95", "Of engine sequences.", "s", sixth, []query{{expr: quantile("0.95", phaseDuration, of("e2e", l), "")}}},
				{number, "Output tokens", "Tokens of sequences ended, per second.", "cps", sixth, []query{{expr: rate("phase_tokens_total", l.and(`gen_ai_token_type="output"`), "")}}},
			}},
			{"Latency", []panel{
				{lines, "Time to first token", "The engine's own number, else queue and prefill.", "s", third, quantiles("ttft", l)},
				{lines, "Time per output token", "Only sequences that ended well with more than one token. Buckets of 0.5 ms below 5 ms.", "s", third, quantiles("tpot", l)},
				{
					lines, "End to end", "Engine sequences. A dot is a request: click it for its trace, down to the NPU.", "s", third,
					append(quantiles("e2e", l), exemplarsOf(http.and(`span_name=~"engine.request|llm_request"`))...),
				},
			}},
			{"Where the time goes", []panel{
				{stacked, "Phases of a request, mean", "Sum of the phase over all sequences, by their number: queue, prefill and decode add up to the engine's end-to-end mean, HTTP overhead comes on top.", "s", half, []query{
					{expr: per("http_overhead", "e2e", http), legend: "HTTP overhead"},
					{expr: per("queue", "e2e", l), legend: "queue"},
					{expr: per("prefill", "e2e", l), legend: "prefill"},
					{expr: per("decode", "e2e", l), legend: "decode"},
				}},
				{shares, "Prefill and decode: NPU, host, engine", "Of the requests joined with host runs. Device: some NPU was busy. Host: a run was in progress but no NPU busy. Engine gap: no run in progress, the engine's own time.", "percentunit", half, wherePrefillAndDecodeGo(l)},
				{lines, "Phases, p95", "", "s", half, phaseLines("0.95", l, "queue", "prefill", "decode", "engine_gap")},
				{heat, "Time per output token, distribution", "", "s", half, []query{{expr: "sum by (le) (increase(" + phaseDuration + "_bucket{" + string(of("tpot", l)) + "}" + window + "))", legend: "{{le}}"}}},
			}},
			{"By model", []panel{
				{lines, "TTFT p95 by model", "", "s", third, []query{{expr: quantile("0.95", phaseDuration, of("ttft", l), "gen_ai_response_model"), legend: "{{gen_ai_response_model}}"}}},
				{lines, "TPOT mean by model", "", "s", third, []query{{expr: mean(phaseDuration, of("tpot", l), "gen_ai_response_model"), legend: "{{gen_ai_response_model}}"}}},
				{lines, "Tokens per second", "", "cps", third, []query{{expr: rate("phase_tokens_total", l, "gen_ai_response_model, gen_ai_token_type"), legend: "{{gen_ai_response_model}} {{gen_ai_token_type}}"}}},
			}},
			{"Outcome", []panel{
				{stacked, "Requests by HTTP status", "", "reqps", third, []query{{expr: rate("phase_requests_total", http, "http_response_status_code"), legend: "{{http_response_status_code}}"}}},
				{stacked, "Sequences by contract result", "What the trace says against what it should say; ok, or the first rule broken.", "reqps", third, []query{{expr: rate("phase_sequences_total", l, "phase_contract"), legend: "{{phase_contract}}"}}},
				{stacked, "Sequences by error", "Empty: ended well.", "reqps", third, []query{{expr: rate("phase_sequences_total", l, "error_type"), legend: "{{error_type}}"}}},
			}},
		},
	}
}

// wherePrefillAndDecodeGo splits the joined time of requests: device_busy and
// the rest of host_busy are parts of host_busy, which engine_gap completes.
func wherePrefillAndDecodeGo(l labels) []query {
	sum := func(phase string) string { return rate(phaseDuration+"_sum", of(phase, l), "") }
	all := "\n/\n(" + sum("host_busy") + " + " + sum("engine_gap") + ")"
	return []query{
		{expr: sum("device_busy") + all, legend: "device"},
		{expr: "(" + sum("host_busy") + " - " + sum("device_busy") + ")" + all, legend: "host overhead"},
		{expr: sum("engine_gap") + all, legend: "engine gap"},
	}
}

// phaseLines are one quantile of several phases.
func phaseLines(q string, l labels, phases ...string) []query {
	out := make([]query, 0, len(phases))
	for _, p := range phases {
		out = append(out, query{expr: quantile(q, phaseDuration, of(p, l), ""), legend: p})
	}
	return out
}
