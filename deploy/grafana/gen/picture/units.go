// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
)

// format writes a value as a person would read it.
func format(v float64, unit string) string {
	switch unit {
	case "s":
		return scaled(v, []step{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}})
	case "percentunit":
		return short(v*100) + " %"
	case "bytes":
		return scaled(v, []step{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}})
	case "reqps":
		return short(v) + " req/s"
	case "ops", "cps":
		return scaled(v, []step{{1e6, "M/s"}, {1e3, "k/s"}, {1, "/s"}})
	default:
		return scaled(v, []step{{1e6, "M"}, {1e3, "k"}, {1, ""}})
	}
}

type step struct {
	factor float64
	unit   string
}

func scaled(v float64, steps []step) string {
	if v == 0 || math.IsNaN(v) {
		return "0"
	}
	for _, s := range steps {
		if math.Abs(v) >= s.factor {
			return short(v/s.factor) + " " + s.unit
		}
	}
	last := steps[len(steps)-1]
	return short(v/last.factor) + " " + last.unit
}

// short has three digits.
func short(v float64) string {
	return strconv.FormatFloat(v, 'g', 3, 64)
}
