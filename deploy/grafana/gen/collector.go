// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

// collector is whether the numbers of the other two can be believed.
func collector() board {
	const l labels = `instance=~"$instance"`
	own := func(name string) string { return "otelcol_" + name }
	gauge := func(name string) string { return own(name) + "{" + string(l) + "}" }
	unjoined := events(own("processor_phase_unjoined"), l, "")
	return board{
		uid:   "phasecol-collector",
		title: "Collector health",
		help:  "What phasecol lost, guessed, or could not join; how far behind it is. Scraped from its own telemetry port.",
		variables: []variable{
			{"instance", "Instance", own("process_uptime"), "instance"},
		},
		rows: []row{
			{"Now", []panel{
				{number, "Lost spans", "Spans per second that were read or received and went nowhere.", "cps", sixth, []query{{
					expr: "(" + events(own("receiver_stracelog_spans_dropped"), l, "") + ")\n+ (" + events(own("processor_phase_request_spans_lost"), l, "") + ")\n+ (" + events(own("exporter_send_failed_spans"), l, "") + ")",
				}}},
				{number, "Clock error", "Bound on the wall placement of the newest trace, worst instance.", "s", sixth, []query{{expr: "max(" + gauge("receiver_stracelog_clock_error") + ")"}}},
				{number, "Unjoined", "Share of request phases without host runs.", "percentunit", sixth, []query{{
					expr: "(" + unjoined + ")\n/\n((" + unjoined + ") + " + rate(own("processor_phase_joined"), l, "") + ")",
				}}},
				{number, "Behind", "Bytes of logs not read yet.", "bytes", sixth, []query{{expr: "sum(" + gauge("receiver_stracelog_bytes_behind") + ")"}}},
				{number, "Series", "Tracked by delta_to_cumulative; new ones are refused at its limit.", "short", sixth, []query{{expr: "max(" + gauge("deltatocumulative_streams_tracked") + ")"}}},
				{number, "Memory", "Resident, largest instance.", "bytes", sixth, []query{{expr: "max(" + gauge("process_memory_rss") + ")"}}},
			}},
			{"In", []panel{
				{stacked, "Markers by outcome", "torn, malformed and unknown_version are skipped.", "cps", third, []query{{expr: rate(own("receiver_stracelog_records"), l, "outcome"), legend: "{{outcome}}"}}},
				{stacked, "Spans by what they are", "", "cps", third, []query{{expr: rate(own("processor_phase_spans"), l, "kind"), legend: "{{kind}}"}}},
				{lines, "Bytes behind", "Growing: the collector or what follows it is too slow.", "bytes", third, []query{{expr: "sum by (instance) (" + gauge("receiver_stracelog_bytes_behind") + ")", legend: "{{instance}}"}}},
				{lines, "Pending", "Units read but not complete or not accepted yet.", "short", third, []query{{expr: "sum by (unit) (" + gauge("receiver_stracelog_pending") + ")", legend: "{{unit}}"}}},
				{lines, "Delivery p99", "From offering a batch to its acceptance.", "s", third, []query{{expr: quantile("0.99", own("receiver_stracelog_delivery_duration"), l, "instance"), legend: "{{instance}}"}}},
				{lines, "Refusals", "By what follows the receiver; they are retried.", "cps", third, []query{
					{expr: events(own("receiver_stracelog_delivery_refusals"), l, ""), legend: "log receiver"},
					{expr: events(own("receiver_refused_spans"), l, ""), legend: "OTLP receiver"},
				}},
			}},
			{"Lost and given up", []panel{
				{lines, "Spans dropped by reason", "", "cps", third, []query{
					{expr: events(own("receiver_stracelog_spans_dropped"), l, "reason"), legend: "log: {{reason}}"},
					{expr: events(own("processor_phase_request_spans_lost"), l, "reason"), legend: "requests: {{reason}}"},
					{expr: events(own("exporter_send_failed_spans"), l, "exporter"), legend: "export: {{exporter}}"},
				}},
				{lines, "Records the runtime lost", "As the runtime declares in its log.", "cps", third, []query{{expr: events(own("receiver_stracelog_host_drops"), l, "reason"), legend: "{{reason}}"}}},
				{lines, "Given up for a limit", "Entries that left a bounded store before their time.", "cps", third, []query{
					{expr: events(own("receiver_stracelog_evictions"), l, "bound"), legend: "log: {{bound}}"},
					{expr: events(own("processor_phase_evictions"), l, "store"), legend: "phase: {{store}}"},
				}},
			}},
			{"Clocks and trees", []panel{
				{lines, "Clock error", "", "s", third, []query{{expr: "max by (instance) (" + gauge("receiver_stracelog_clock_error") + ")", legend: "{{instance}}"}}},
				{stacked, "Spans by clock source", "", "cps", third, []query{{expr: rate(own("receiver_stracelog_placed_spans"), l, "clock_source"), legend: "{{clock_source}}"}}},
				{lines, "Guesses and misfits", "", "cps", third, []query{
					{expr: events(own("receiver_stracelog_guessed_parents"), l, ""), legend: "guessed parents"},
					{expr: events(own("receiver_stracelog_device_misfits"), l, ""), legend: "device spans that do not fit"},
					{expr: events(own("receiver_stracelog_clock_jumps"), l, ""), legend: "clock jumps"},
				}},
			}},
			{"Join and contract", []panel{
				{stacked, "Phases joined, by evidence", "", "cps", third, []query{{expr: rate(own("processor_phase_joined"), l, "evidence"), legend: "{{evidence}}"}}},
				{stacked, "Phases unjoined, by reason", "", "cps", third, []query{{expr: events(own("processor_phase_unjoined"), l, "reason"), legend: "{{reason}}"}}},
				{stacked, "Contract results", "", "cps", third, []query{{expr: rate(own("processor_phase_contract_results"), l, "result"), legend: "{{result}}"}}},
				{lines, "Join error, p95", "How far a request and its host runs may be apart.", "s", third, []query{{expr: quantile("0.95", "phase_join_error_seconds", "", "host_name"), legend: "{{host_name}}"}}},
				{lines, "Requests held", "Waiting for their other spans.", "short", third, []query{{expr: "sum by (instance) (" + gauge("processor_phase_requests_held") + ")", legend: "{{instance}}"}}},
				{lines, "Stitched into runs", "identity, time and run hang under their run; none stays alone.", "cps", third, []query{{expr: rate(own("receiver_stracelog_stitched"), l, "stitch"), legend: "{{stitch}}"}}},
			}},
			{"Retention and export", []panel{
				{stacked, "Traces kept and not", "With config/retention.yaml.", "cps", third, []query{{expr: rate(own("processor_tail_sampling_global_count_traces_sampled"), l, "decision"), legend: "{{decision}}"}}},
				{lines, "Dropped before a decision", "num_traces or maximum_trace_size_bytes is too small.", "cps", third, []query{
					{expr: events(own("processor_tail_sampling_sampling_trace_dropped_too_early"), l, ""), legend: "too early"},
					{expr: events(own("processor_tail_sampling_traces_dropped_too_large"), l, ""), legend: "too large"},
				}},
				{lines, "Traces waiting for a decision", "", "short", third, []query{{expr: "sum by (instance) (" + gauge("processor_tail_sampling_sampling_traces_on_memory") + ")", legend: "{{instance}}"}}},
				{lines, "Spans sent", "", "cps", third, []query{{expr: rate(own("exporter_sent_spans"), l, "exporter"), legend: "{{exporter}}"}}},
				{lines, "Export queues", "Share of the queue that is full.", "percentunit", third, []query{{expr: "max by (exporter) (" + gauge("exporter_queue_size") + " / " + gauge("exporter_queue_capacity") + ")", legend: "{{exporter}}"}}},
				{lines, "Spans sent failed", "", "cps", third, []query{{expr: events(own("exporter_send_failed_spans"), l, "exporter"), legend: "{{exporter}}"}}},
			}},
			{"The process", []panel{
				{lines, "CPU", "", "percentunit", third, []query{{expr: "sum by (instance) (rate(" + gauge("process_cpu_seconds") + window + "))", legend: "{{instance}}"}}},
				{lines, "Memory", "", "bytes", third, []query{{expr: "sum by (instance) (" + gauge("process_memory_rss") + ")", legend: "{{instance}}"}}},
				{lines, "Series refused", "At a limit, or older than one already counted.", "cps", third, []query{
					{expr: events(own("deltatocumulative_datapoints"), l.and(`error!=""`), "error"), legend: "{{error}}"},
					{expr: events("traces_span_metrics_calls_total", `otel_metric_overflow="true"`, "service_name"), legend: "overflow {{service_name}}"},
				}},
			}},
		},
	}
}
