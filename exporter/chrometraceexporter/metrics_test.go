// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// sumOf reads a metric of the exporter; 0 where it was never recorded.
func sumOf(t *testing.T, telemetry *componenttest.Telemetry, name string, reason ...string) int64 {
	t.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(t, telemetry.Reader.Collect(t.Context(), &collected))
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				return sumPoints(data.DataPoints, reason)
			case metricdata.Gauge[int64]:
				return sumPoints(data.DataPoints, reason)
			case metricdata.Histogram[float64]:
				var n int64
				for _, p := range data.DataPoints {
					n += int64(p.Count)
				}
				return n
			}
		}
	}
	return 0
}

func sumPoints(points []metricdata.DataPoint[int64], reason []string) int64 {
	var n int64
	for _, p := range points {
		v, _ := p.Attributes.Value("reason")
		if len(reason) == 0 || v.AsString() == reason[0] {
			n += p.Value
		}
	}
	return n
}
