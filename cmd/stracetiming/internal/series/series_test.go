// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExact(t *testing.T) {
	s := New(NewPool())
	for _, v := range []int64{5, 1, 4, 2, 3, 100} {
		s.Add(v)
	}
	assert.Equal(t, int64(6), s.N())
	assert.Equal(t, int64(19), s.Mean(), "115/6, truncated")
	assert.Equal(t, int64(115), s.Sum())
	assert.Equal(t, int64(1), s.Min())
	assert.Equal(t, int64(100), s.Max())
	assert.InDelta(t, 3.5, s.Median(), 0)
	assert.InDelta(t, 1, s.Quantile(0), 0)
	assert.InDelta(t, 100, s.Quantile(1), 0)
	assert.InDelta(t, 4.25+0.5, s.Quantile(0.75), 0, "between 4 and 5, at 3.75 of 0..5")
	assert.True(t, s.Exact())
	s.Add(6)
	assert.InDelta(t, 4, s.Median(), 0, "values may still come after a look")
}

func TestNothing(t *testing.T) {
	s := New(nil)
	assert.Zero(t, s.Mean())
	assert.Zero(t, s.Min())
	assert.Zero(t, s.Max())
	assert.Zero(t, s.Median())
	assert.Empty(t, s.Sorted())
	_, _, ok := s.MedianInterval()
	assert.False(t, ok)
}

func TestSumBeyond64Bits(t *testing.T) {
	s := New(nil)
	for range 4 {
		s.Add(math.MaxInt64)
	}
	assert.Equal(t, int64(math.MaxInt64), s.Mean())
	assert.Equal(t, int64(math.MaxInt64), s.Sum(), "no more can be said")
}

func TestSketchWithinItsError(t *testing.T) {
	s := New(NewPool())
	const n = MaxExact + 1000
	for i := range int64(n) {
		s.Add((i*7919)%n + 1) // 1..n, each once
	}
	require.False(t, s.Exact())
	assert.Nil(t, s.Sorted())
	assert.Equal(t, int64(n), s.N())
	assert.Equal(t, int64(n+1)/2, s.Mean(), "exact still")
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99} {
		assert.InEpsilon(t, q*n, s.Quantile(q), 2*SketchError, q)
	}
	assert.LessOrEqual(t, s.Quantile(1), float64(n))
}

func TestPoolBoundsAllSeries(t *testing.T) {
	pool := &Pool{max: 3 * lastChunk}
	long, short := New(pool), New(pool)
	for i := range int64(10 * lastChunk) {
		long.Add(i)
	}
	for i := range int64(100) {
		short.Add(i)
	}
	assert.False(t, long.Exact())
	assert.True(t, short.Exact(), "the long one gave its memory back")
	assert.InDelta(t, 49.5, short.Median(), 0)
	assert.LessOrEqual(t, pool.used, pool.max)
}

func TestMedianInterval(t *testing.T) {
	s := New(NewPool())
	for v := range int64(5) {
		s.Add(v)
	}
	_, _, ok := s.MedianInterval()
	assert.False(t, ok, "five values bound nothing at 95 %")
	for v := int64(5); v < 100; v++ {
		s.Add(v)
	}
	low, high, ok := s.MedianInterval()
	require.True(t, ok)
	// 100 values: ranks 50 ± 9.8, so the 40th to the 61st value of 0..99.
	assert.InDelta(t, 39, low, 0)
	assert.InDelta(t, 60, high, 0)
}

func BenchmarkAdd(b *testing.B) {
	for name, pool := range map[string]*Pool{"mean": nil, "quantiles": NewPool()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := New(pool)
			for i := int64(0); b.Loop(); i++ {
				s.Add(i & 0xffff)
			}
		})
	}
}
