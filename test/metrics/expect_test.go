// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// expectation judges the result of one query.
type expectation func(t *testing.T, what string, got []sample)

// values are expected numbers by label value, the empty key being no label.
type values map[string]float64

func one(v float64) values { return values{"": v} }

// equal wants exactly these series with these values, as exact as sums of
// doubles in any order are.
func equal(want values) expectation { return near(want, 1e-9) }

// rateOf wants events spread over the window. Prometheus extrapolates a rate to
// the edges of its window by at most one scrape interval, so it is not exact;
// what it is a rate of is checked exactly elsewhere.
func rateOf(counts values, window float64) expectation {
	want := values{}
	for k, n := range counts {
		want[k] = n / window
	}
	return near(want, 2.5/window)
}

func near(want values, tolerance float64) expectation {
	return func(t *testing.T, what string, got []sample) {
		seen := values{}
		for _, s := range got {
			seen[s.key()] = s.value
		}
		for k, w := range want {
			v, ok := seen[k]
			if assert.True(t, ok, "%s: no series %q in %v", what, k, seen) {
				assert.LessOrEqual(t, math.Abs(v-w), tolerance*math.Abs(w)+1e-12, "%s: series %q is %v, want %v", what, k, v, w)
			}
			delete(seen, k)
		}
		assert.Empty(t, seen, "%s: series that should not be", what)
	}
}

// quantileOf wants estimates from the right buckets.
func quantileOf(q float64, bounds []float64, of map[string][]float64) expectation {
	return func(t *testing.T, what string, got []sample) {
		assert.Len(t, got, len(of), what)
		for _, s := range got {
			all, ok := of[s.key()]
			if !assert.True(t, ok, "%s: series %q should not be", what, s.key()) {
				continue
			}
			low, high := within(q, all, bounds)
			assert.GreaterOrEqual(t, s.value, low, "%s: series %q", what, s.key())
			assert.LessOrEqual(t, s.value, high, "%s: series %q", what, s.key())
		}
	}
}

// some wants data: finite, and not negative.
func some(t *testing.T, what string, got []sample) {
	assert.NotEmpty(t, got, "%s: no data", what)
	for _, s := range got {
		assert.False(t, math.IsNaN(s.value) || math.IsInf(s.value, 0), "%s: series %q is %v", what, s.key(), s.value)
		assert.GreaterOrEqual(t, s.value, 0.0, "%s: series %q", what, s.key())
	}
}

// atMost wants data of one series, between 0 and high.
func atMost(high float64) expectation {
	return func(t *testing.T, what string, got []sample) {
		some(t, what, got)
		for _, s := range got {
			assert.LessOrEqual(t, s.value, high, "%s: series %q", what, s.key())
		}
	}
}
