// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"cmp"
	"slices"
)

// bar is what is drawn of one unit on one thread: a span, a bind phase, or a
// point, which has no length.
type bar struct {
	start, end int64 // monotonic, nanoseconds
	index      int32
	kind       barKind
	layer      uint8
}

type barKind uint8

const (
	barSpan barKind = iota
	barPhase
)

// maxLayers bounds how many rows one unit can take on one thread; what does
// not nest in any of them goes to the last.
const maxLayers = 8

// layout sorts bars as they nest, outermost first, and gives each a layer so
// that those of one layer nest: any two are apart, or one holds the other. It
// returns the number of layers. A row of a timeline that breaks this shows
// slices under strangers.
func layout(bars []bar) int {
	sortBars(bars)
	var ends [maxLayers][]int64
	var room [maxLayers][16]int64
	layers := 0
	for i := range bars {
		b := &bars[i]
		for l := range maxLayers {
			if l == layers {
				ends[l] = room[l][:0]
				layers++
			}
			stack := ends[l]
			for len(stack) > 0 && stack[len(stack)-1] <= b.start {
				stack = stack[:len(stack)-1]
			}
			if len(stack) == 0 || b.end <= stack[len(stack)-1] || l == maxLayers-1 {
				ends[l] = append(stack, b.end)
				b.layer = uint8(l)
				break
			}
			ends[l] = stack
		}
	}
	return layers
}

// sortBars orders by start, longer first. They come nearly ordered, or in the
// reverse, and are few.
func sortBars(bars []bar) {
	if len(bars) > 64 {
		slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
		return
	}
	for i := 1; i < len(bars); i++ {
		b := bars[i]
		k := i
		for ; k > 0 && before(&b, &bars[k-1]); k-- {
			bars[k] = bars[k-1]
		}
		bars[k] = b
	}
}

func before(a, b *bar) bool {
	if a.start != b.start {
		return a.start < b.start
	}
	return a.end > b.end
}

// interval is what a lane remembers of what was drawn on it.
type interval struct {
	start, end int64
	// solid intervals stand for all that is drawn inside them, so that nothing
	// more may be put there.
	solid bool
}

// maxRemembered bounds the intervals a lane remembers.
const maxRemembered = 1024

// lane is one row of the timeline.
type lane struct {
	tid    int64
	maxEnd int64
	recent []interval
	// horizon is the latest end of what was forgotten: nothing before it can
	// be vouched for.
	horizon int64
}

// fits reports whether list can be drawn on the lane and all still nests.
func (l *lane) fits(list []interval) bool {
	for _, n := range list {
		if n.start >= l.maxEnd {
			continue
		}
		if n.start < l.horizon {
			return false
		}
		for i := range l.recent {
			if !nests(&n, &l.recent[i]) {
				return false
			}
		}
	}
	return true
}

func nests(a, b *interval) bool {
	switch {
	case a.end <= b.start || b.end <= a.start:
		return true
	case a.start <= b.start && b.end <= a.end:
		return !a.solid
	case b.start <= a.start && a.end <= b.end:
		return !b.solid
	default:
		return false
	}
}

func (l *lane) add(list []interval) {
	for _, n := range list {
		if len(l.recent) == maxRemembered {
			for _, old := range l.recent[:maxRemembered/2] {
				l.horizon = max(l.horizon, old.end)
			}
			l.recent = append(l.recent[:0], l.recent[maxRemembered/2:]...)
		}
		l.recent = append(l.recent, n)
		l.maxEnd = max(l.maxEnd, n.end)
	}
}
