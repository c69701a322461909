// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package series summarises durations in bounded memory.
package series // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/series"

import (
	"math"
	"math/bits"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch"
)

const (
	// MaxExact is how many values one series keeps. Beyond, its quantiles come
	// from a sketch with SketchError.
	MaxExact = 1 << 20
	// MaxExactTotal bounds the values kept by all series of a Pool: 32 MiB.
	MaxExactTotal = 1 << 22
	// SketchError is the relative error of a sketch's quantiles.
	SketchError = 0.001
)

// Pool is the memory that series share.
type Pool struct{ used, max int }

// NewPool returns a pool for MaxExactTotal values.
func NewPool() *Pool { return &Pool{max: MaxExactTotal} }

// Series summarises non-negative durations in nanoseconds. Count, sum, mean,
// minimum and maximum are exact always.
type Series struct {
	n        int64
	hi, lo   uint64 // the sum: 64 bits do not hold what a log may claim
	min, max int64

	pool   *Pool // nil: quantiles are not wanted
	chunks [][]int64
	sketch *ddsketch.DDSketch
}

// New returns a series without quantiles, or with them where pool is given.
func New(pool *Pool) Series { return Series{pool: pool, min: math.MaxInt64} }

// Chunks grow from the first size to the last, so that many short series cost
// little and long ones do not move.
const firstChunk, lastChunk = 16, 8192

// Add adds one duration.
func (s *Series) Add(v int64) {
	s.n++
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v), 0)
	s.hi += carry
	s.min, s.max = min(s.min, v), max(s.max, v)
	if s.pool == nil {
		return
	}
	if s.sketch != nil {
		s.addToSketch(v)
		return
	}
	last := len(s.chunks) - 1
	if last < 0 || len(s.chunks[last]) == cap(s.chunks[last]) {
		if !s.grow() {
			s.addToSketch(v)
			return
		}
		last++
	}
	s.chunks[last] = append(s.chunks[last], v)
}

// grow adds a chunk, or turns to a sketch where no memory is left for one.
func (s *Series) grow() bool {
	size := firstChunk
	if n := len(s.chunks); n > 0 {
		size = min(cap(s.chunks[n-1])*2, lastChunk)
	}
	kept := int(s.n - 1)
	// A short series stays exact whatever the others took: they are few.
	if kept+size > MaxExact || (s.pool.used+size > s.pool.max && kept >= lastChunk) {
		s.toSketch()
		return false
	}
	s.pool.used += size
	s.chunks = append(s.chunks, make([]int64, 0, size))
	return true
}

func (s *Series) toSketch() {
	sketch, err := ddsketch.NewDefaultDDSketch(SketchError)
	if err != nil {
		panic(err) // the accuracy is a constant that the library accepts
	}
	s.sketch = sketch
	for _, c := range s.chunks {
		s.pool.used -= cap(c)
		for _, v := range c {
			s.addToSketch(v)
		}
	}
	s.chunks = nil
}

func (s *Series) addToSketch(v int64) {
	// It refuses only NaN and what no int64 reaches.
	_ = s.sketch.Add(float64(v))
}

// N is how many values were added.
func (s *Series) N() int64 { return s.n }

// Mean is the mean in whole nanoseconds, truncated; 0 of nothing.
func (s *Series) Mean() int64 {
	if s.n == 0 {
		return 0
	}
	mean, _ := bits.Div64(s.hi, s.lo, uint64(s.n))
	return int64(mean)
}

// Sum is the sum in nanoseconds, the largest int64 when it is more.
func (s *Series) Sum() int64 {
	if s.hi > 0 || s.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.lo)
}

// Min and Max are 0 of nothing.
func (s *Series) Min() int64 {
	if s.n == 0 {
		return 0
	}
	return s.min
}

// Max is the largest value.
func (s *Series) Max() int64 { return s.max }

// Exact tells whether quantiles are exact.
func (s *Series) Exact() bool { return s.sketch == nil }

// Sorted returns the values in order, or nil where a sketch replaced them. The
// series keeps them sorted in one piece; it must not grow meanwhile.
func (s *Series) Sorted() []int64 {
	if s.sketch != nil || s.n == 0 {
		return nil
	}
	if len(s.chunks) > 1 {
		all := make([]int64, 0, s.n)
		for _, c := range s.chunks {
			s.pool.used -= cap(c)
			all = append(all, c...)
		}
		s.pool.used += cap(all)
		s.chunks = [][]int64{all}
	}
	slices.Sort(s.chunks[0])
	return s.chunks[0]
}

// Quantile is the q-quantile, 0 <= q <= 1, in nanoseconds, interpolated between
// the two nearest values: the median of an even number is their middle.
func (s *Series) Quantile(q float64) float64 {
	if s.n == 0 {
		return 0
	}
	if s.sketch != nil {
		v, err := s.sketch.GetValueAtQuantile(q)
		if err != nil {
			return 0
		}
		return min(max(v, float64(s.min)), float64(s.max))
	}
	return quantile(s.Sorted(), q)
}

func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return float64(sorted[len(sorted)-1])
	}
	low, high := float64(sorted[i]), float64(sorted[i+1])
	return low + (high-low)*(at-float64(i))
}

// Median is the 0.5-quantile.
func (s *Series) Median() float64 { return s.Quantile(0.5) }

// MedianInterval returns bounds between which the true median lies with 95 %
// confidence, from the order of the values alone: they may be distributed in
// any way. ok is false for fewer than six values, which bound nothing.
func (s *Series) MedianInterval() (low, high float64, ok bool) {
	if s.n < 6 {
		return 0, 0, false
	}
	// The number of values under the median is binomial with p = 1/2.
	n := float64(s.n)
	half := 1.96 * math.Sqrt(n) / 2
	from, to := math.Floor(n/2-half), math.Ceil(n/2+half)
	return s.Quantile(max(from-1, 0) / (n - 1)), s.Quantile(min(to, n-1) / (n - 1)), true
}
