// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// hostAndNPU is what a run costs, on the host and on the device.
func hostAndNPU() board {
	const l labels = `service_name=~"$service",host_name=~"$host",strace_callable=~"$callable"`
	const all labels = `service_name=~"$service",host_name=~"$host"`
	const served labels = `host_name=~"$host"`
	return board{
		uid:   "phasecol-host",
		title: "Host runtime and NPU",
		help:  "Runs of the host runtime: what the host does around the device, what the device does, and what lies idle.",
		variables: []variable{
			{"service", "Runtime", `phase_duration_seconds_count{phase_name="host_wall"}`, "service_name"},
			{"host", "Host", `phase_duration_seconds_count{phase_name="host_wall"}`, "host_name"},
			{"callable", "Callable", `phase_duration_seconds_count{phase_name="host_wall"}`, "strace_callable"},
		},
		rows: []row{
			{"Now", []panel{
				{number, "Runs", "Chip invocations per second, all ranks.", "ops", sixth, []query{{expr: rate(phaseDuration+"_count", of("host_wall", l), "")}}},
				{number, "Host wall, mean", "A run on the host, first to last.", "s", sixth, []query{{expr: mean(phaseDuration, of("host_wall", l), "")}}},
				{number, "Device wall, mean", "The device's part of it.", "s", sixth, []query{{expr: mean(phaseDuration, of("device_wall", l), "")}}},
				{number, "Host overhead", "Share of the host wall outside the device wall.", "percentunit", sixth, []query{{expr: shareOf("host_overhead", "host_wall", l)}}},
				{number, "Engine gap", "Share of prefill and decode in which no run was in progress.", "percentunit", sixth, []query{{expr: engineGapShare(served)}}},
				{number, "Rank skew", "Share of a step that the last rank needs after the first has ended.", "percentunit", sixth, []query{{expr: shareOf("rank_skew", "step", all)}}},
			}},
			{"Where the time goes", []panel{
				{shares, "Prefill and decode: device, host overhead, engine gap", "Of the requests joined with host runs. Large engine gap: look at the engine. Large host overhead: at the runs below. Neither: the NPU is the limit.", "percentunit", half, wherePrefillAndDecodeGo(served)},
				{stacked, "A run on the host, mean", "Parts of the host wall, by the number of runs. Launch: runner_run without the device wall.", "s", half, perRun(l,
					"bind", "stage_inputs", "prepare_execution", "launch_overhead", "device_wall", "validate", "claim_release", "unattributed")},
				{lines, "A run on the device, mean", "Windows as the device stamped them. They lie inside and over each other, so they do not add up.", "s", half, perRun(l,
					"preamble", "so_load", "graph_build", "prep", "post_orch", "effective")},
				{stacked, "Segments of bind, mean", "", "s", half, []query{{
					expr:   "sum by (phase_name) (rate(" + phaseDuration + `_sum{phase_name=~"bind\\..+",` + string(l) + "}" + window + "))\n/ scalar(" + rate(phaseDuration+"_count", of("host_wall", l), "") + ")",
					legend: "{{phase_name}}",
				}}},
			}},
			{"By callable", []panel{
				{lines, "Host wall p95", "A dot is a run: click it for its trace.", "s", third, append([]query{{expr: quantile("0.95", phaseDuration, of("host_wall", l), "strace_callable"), legend: "{{strace_callable}}"}}, exemplarsOf(all.and(`span_name=~"(chip.run|simpler_run|run_prepared)"`))...)},
				{lines, "Device wall p95", "", "s", third, []query{{expr: quantile("0.95", phaseDuration, of("device_wall", l), "strace_callable"), legend: "{{strace_callable}}"}}},
				{lines, "Effective, mean", "orch and sched together: what the device computes.", "s", third, []query{{expr: mean(phaseDuration, of("effective", l), "strace_callable"), legend: "{{strace_callable}}"}}},
				{lines, "Host overhead p95", "Host wall without device wall.", "s", third, []query{{expr: quantile("0.95", phaseDuration, of("host_overhead", l), "strace_callable"), legend: "{{strace_callable}}"}}},
				{lines, "Runs per second", "", "ops", third, []query{{expr: rate(phaseDuration+"_count", of("host_wall", l), "strace_callable"), legend: "{{strace_callable}}"}}},
				{lines, "Bind hidden by the run before", "Mean share of bind that the previous run covered; 0 where runs do not overlap.", "percentunit", third, []query{{expr: mean("phase_prepare_overlap", l, "strace_callable"), legend: "{{strace_callable}}"}}},
			}},
			{"Ranks and devices", []panel{
				{lines, "Step", "Runs over all ranks.", "s", third, quantiles("step", all)},
				{lines, "Rank skew", "Last rank's end minus first rank's.", "s", third, quantiles("rank_skew", all)},
				{lines, "Host wall by device, mean", "One device above the others is the one they wait for.", "s", third, []query{{expr: mean("traces_span_metrics_duration_seconds", all.and(`strace_stage="run"`), "host_name, hw_id"), legend: "{{host_name}} device {{hw_id}}"}}},
				{lines, "Device wall by device, mean", "", "s", third, []query{{expr: mean("traces_span_metrics_duration_seconds", all.and(`strace_stage="run.runner_run.device_wall"`), "host_name, hw_id"), legend: "{{host_name}} device {{hw_id}}"}}},
				{lines, "Device gap, mean", "Idle on a device since its previous run, by the device's own counter (newest log format only).", "s", third, []query{{expr: mean(phaseDuration, of("device_gap", l), "strace_callable"), legend: "before {{strace_callable}}"}}},
				{lines, "Device idle", "Share of gap in gap and device wall.", "percentunit", third, []query{{
					expr:   rate(phaseDuration+"_sum", of("device_gap", l), "host_name") + "\n/\n(" + rate(phaseDuration+"_sum", of("device_gap", l), "host_name") + " + " + rate(phaseDuration+"_sum", of("device_wall", l), "host_name") + ")",
					legend: "{{host_name}}",
				}}},
			}},
		},
	}
}

func shareOf(part, whole string, l labels) string {
	return rate(phaseDuration+"_sum", of(part, l), "") + "\n/\n" + rate(phaseDuration+"_sum", of(whole, l), "")
}

func engineGapShare(l labels) string {
	gap := rate(phaseDuration+"_sum", of("engine_gap", l), "")
	return gap + "\n/\n(" + gap + " + " + rate(phaseDuration+"_sum", of("host_busy", l), "") + ")"
}

func perRun(l labels, phases ...string) []query {
	out := make([]query, 0, len(phases))
	for _, p := range phases {
		out = append(out, query{expr: per(p, "host_wall", l), legend: strings.ReplaceAll(p, "_", " ")})
	}
	return out
}
