// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

// The buckets of config/metrics.yaml, written down once more: changing one
// there changes what dashboards can tell, which should not happen by accident.
var (
	short = []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7.5e-3, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1, 10}
	long  = []float64{1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 7.5, 10, 15, 30, 60, 120, 300}
	fine  = []float64{
		5e-4, 1e-3, 1.5e-3, 2e-3, 2.5e-3, 3e-3, 3.5e-3, 4e-3, 4.5e-3, 5e-3, 6e-3, 7e-3, 8e-3, 9e-3, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03,
		0.04, 0.05, 0.075, 0.1, 0.25, 1, 2.5,
	}
	spans = []float64{5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

	// OpenTelemetry's, semantic conventions v1.41.1.
	genAIDuration = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	genAITTFT     = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	genAITPOT     = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
)

// bucketsOf are a phase's.
func bucketsOf(phase string) []float64 {
	switch phase {
	case "tpot":
		return fine
	case "e2e", "queue", "prefill", "decode", "ttft", "http_overhead", "host_busy", "device_busy", "engine_gap":
		return long
	default:
		return short
	}
}
