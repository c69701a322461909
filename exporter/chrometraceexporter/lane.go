// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"slices"
	"sort"
)

// interval is a closed piece of time, Unix nanoseconds, start <= end.
type interval struct {
	start, end uint64
}

// laneHistory is how many intervals a lane remembers apart from each other.
// Older ones are joined, gaps included, so a span that comes very late may go
// to another lane although its place was free.
const laneHistory = 128

// maxAbsorbWork bounds the comparisons of placing one tree around others.
const maxAbsorbWork = 1 << 14

// occupancy is where on a lane the topmost spans lie: sorted, disjoint (they
// may touch), and bounded. A viewer drops a span that overlaps another one of
// its lane without lying inside it, so nothing is ever drawn without asking.
type occupancy struct {
	tops []interval
	// strictEdges is set on asynchronous tracks. There begin and end are events
	// of their own, and where two have one time the order of writing decides,
	// so a later written span must not end where an earlier written one begins.
	strictEdges bool
}

// place takes the room for a tree whose outer span is root and whose inner
// spans inner calls back with; it reports false, and changes nothing, where
// the tree does not nest with what is there.
func (o *occupancy) place(root interval, size int, inner func(yield func(interval) bool)) bool {
	n := len(o.tops)
	if n == 0 || root.start >= o.tops[n-1].end {
		o.push(root)
		return true
	}
	// The first that ends after root starts, and the first that starts at its
	// end or later: those between overlap.
	first := sort.Search(n, func(i int) bool { return o.tops[i].end > root.start })
	last := first + sort.Search(n-first, func(i int) bool { return o.tops[first+i].start >= root.end })
	if o.strictEdges && last < n && o.tops[last].start == root.end {
		return false
	}
	if first >= last {
		if root.start < root.end {
			o.tops = slices.Insert(o.tops, first, root)
			o.compact()
		}
		return true
	}
	if root.start == root.end {
		// A point is inside or outside of everything, never across an edge.
		return !o.strictEdges
	}
	if !o.encloses(root, o.tops[first:last], size, inner) {
		return false
	}
	o.tops[first] = root
	o.tops = slices.Delete(o.tops, first+1, last)
	return true
}

// encloses reports whether the whole tree goes around those that are there.
// An equal start is refused: the outer span would have to be written first.
func (o *occupancy) encloses(root interval, there []interval, size int, inner func(yield func(interval) bool)) bool {
	if size*len(there) > maxAbsorbWork {
		return false
	}
	for _, t := range there {
		if t.start <= root.start || t.end > root.end {
			return false
		}
	}
	for in := range inner {
		for _, t := range there {
			around := in.start < t.start && t.end <= in.end
			apart := in.end < t.start || in.start >= t.end || (in.end == t.start && !o.strictEdges)
			if !around && !apart {
				return false
			}
		}
	}
	return true
}

func (o *occupancy) push(top interval) {
	n := len(o.tops)
	if n > 0 && o.tops[n-1].end == top.start && !o.strictEdges {
		o.tops[n-1].end = top.end
		return
	}
	o.tops = append(o.tops, top)
	o.compact()
}

// compact joins the older half in one go, so that its cost is spread.
func (o *occupancy) compact() {
	if len(o.tops) < 2*laneHistory {
		return
	}
	o.tops[0].end = o.tops[laneHistory-1].end
	o.tops = slices.Delete(o.tops, 1, laneHistory)
}

func (o *occupancy) reset() {
	o.tops = o.tops[:0]
}
