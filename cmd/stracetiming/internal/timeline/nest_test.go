// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLayoutKeepsWhatNestsOnOneRow(t *testing.T) {
	bars := []bar{{start: 10, end: 20, index: 1}, {start: 0, end: 100, index: 0}, {start: 20, end: 30, index: 2}, {start: 12, end: 12, index: 3}}
	assert.Equal(t, 1, layout(bars))
	var order []int32
	for _, b := range bars {
		order = append(order, b.index)
		assert.Zero(t, b.layer)
	}
	assert.Equal(t, []int32{0, 1, 3, 2}, order, "outermost first, in time")
}

func TestLayoutPutsWhatCrossesOnFurtherRows(t *testing.T) {
	// 0-60 and 50-100 cross; 55-58 fits into either, 40-52 crosses the second
	// but not the first.
	bars := []bar{{start: 0, end: 60}, {start: 50, end: 100}, {start: 55, end: 58}, {start: 40, end: 52}}
	assert.Equal(t, 2, layout(bars))
	got := map[int64]uint8{}
	for _, b := range bars {
		got[b.start] = b.layer
	}
	assert.Equal(t, map[int64]uint8{0: 0, 40: 0, 50: 1, 55: 0}, got)
}

func TestSortManyBars(t *testing.T) {
	bars := make([]bar, 200)
	for i := range bars {
		bars[i] = bar{start: int64(200 - i), end: 1000, index: int32(i)}
	}
	layout(bars)
	assert.Equal(t, int32(199), bars[0].index)
	assert.Equal(t, int32(0), bars[199].index)
}

func TestLaneFits(t *testing.T) {
	var l lane
	l.add([]interval{{0, 100, false}, {200, 300, true}})
	for _, c := range []struct {
		in   interval
		want bool
	}{
		{interval{300, 400, false}, true},  // behind all
		{interval{120, 180, false}, true},  // between
		{interval{10, 20, false}, true},    // inside what may hold more
		{interval{210, 220, false}, false}, // inside what may not
		{interval{50, 150, false}, false},  // across an end
		{interval{190, 310, false}, true},  // around
		{interval{190, 310, true}, false},  // around, but nothing may be inside
	} {
		assert.Equal(t, c.want, l.fits([]interval{c.in}), c.in)
	}
}

func TestLaneForgetsButVouchesForNothingBefore(t *testing.T) {
	var l lane
	for i := range int64(maxRemembered + 1) {
		l.add([]interval{{i * 10, i*10 + 5, true}})
	}
	assert.LessOrEqual(t, len(l.recent), maxRemembered)
	assert.False(t, l.fits([]interval{{6, 7, true}}), "free, but forgotten")
	assert.True(t, l.fits([]interval{{maxRemembered*10 - 4, maxRemembered*10 - 3, true}}))
}
