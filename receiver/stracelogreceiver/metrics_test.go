// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// sumOf adds the points of a metric that have all the attribute values asked
// for; 0 where there is no such metric.
func sumOf(t *testing.T, tel *componenttest.Telemetry, name string, values ...string) int64 {
	t.Helper()
	m, err := tel.GetMetric(name)
	if err != nil {
		return 0
	}
	var points []metricdata.DataPoint[int64]
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		points = data.DataPoints
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	default:
		require.Fail(t, "not a number", name)
	}
	var sum int64
	for _, p := range points {
		matches := true
		for _, v := range values {
			has := false
			for _, kv := range p.Attributes.ToSlice() {
				has = has || kv.Value.AsString() == v
			}
			matches = matches && has
		}
		if matches {
			sum += p.Value
		}
	}
	return sum
}
