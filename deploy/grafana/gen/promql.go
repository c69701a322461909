// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
)

type dashboardQuery = variants.Dataquery

// window is how far each query looks back: Grafana sets it to at least four scrapes.
const window = "[$__rate_interval]"

// labels is the inside of a selector's braces.
type labels string

func (l labels) and(more string) labels { return l + labels(","+more) }

func of(phase string, l labels) labels { return labels(`phase_name="` + phase + `",` + string(l)) }

const phaseDuration = "phase_duration_seconds"

// rate is the increase per second, summed by labels.
func rate(metric string, l labels, by string) string {
	return fmt.Sprintf("sum%s (rate(%s{%s}%s))", group(by), metric, l, window)
}

func group(by string) string {
	if by == "" {
		return ""
	}
	return " by (" + by + ")"
}

// mean is the average of a histogram over the window.
func mean(metric string, l labels, by string) string {
	return rate(metric+"_sum", l, by) + "\n/\n" + rate(metric+"_count", l, by)
}

// quantile is an estimate within the bucket it falls into.
func quantile(q, metric string, l labels, by string) string {
	le := "le"
	if by != "" {
		le += ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%s, %s)", q, rate(metric+"_bucket", l, le))
}

// quantiles are three lines of one phase.
func quantiles(phase string, l labels) []query {
	var out []query
	for _, q := range []struct{ q, name string }{{"0.5", "p50"}, {"0.95", "p95"}, {"0.99", "p99"}} {
		out = append(out, query{expr: quantile(q.q, phaseDuration, of(phase, l), ""), legend: q.name})
	}
	return out
}

// per is the average of phases per event of another phase: the share of a
// phase in something that not every event has.
func per(phase, event string, l labels) string {
	return rate(phaseDuration+"_sum", of(phase, l), "") + "\n/\n" + rate(phaseDuration+"_count", of(event, l), "")
}

// events is the rate of what seldom or never happens: a metric that is absent
// until its first event shows as 0, not as a hole.
func events(metric string, l labels, by string) string {
	return rate(metric, l, by) + " or vector(0)"
}

// exemplarsOf are two queries for the traces behind a span's durations: with
// everything stored they hang on all spans, with config/retention.yaml on those kept.
func exemplarsOf(l labels) []query {
	return []query{
		{expr: quantile("0.95", "traces_span_metrics_duration_seconds", l, ""), legend: "p95 of all spans", exemplars: true},
		{expr: quantile("0.95", "traces_kept_duration_seconds", l, ""), legend: "p95 of the traces kept", exemplars: true},
	}
}
