// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"slices"
	"sort"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// union is the union of intervals as disjoint pieces, with the length of all
// that comes before each.
type union struct {
	pieces  []piece
	late    []phases.Interval
	scratch []piece
}

type piece struct {
	start, end int64
	// before is the summed length of the pieces before this one, counted from
	// some origin: only differences mean anything.
	before int64
}

func (u *union) add(in phases.Interval) {
	if in.End <= in.Start {
		return
	}
	n := len(u.pieces)
	if n == 0 {
		u.pieces = append(u.pieces, piece{start: in.Start, end: in.End})
		return
	}
	last := &u.pieces[n-1]
	switch {
	case in.Start > last.end:
		u.pieces = append(u.pieces, piece{in.Start, in.End, last.before + last.end - last.start})
	case in.Start >= last.start:
		last.end = max(last.end, in.End)
	default:
		u.late = append(u.late, in)
		if len(u.late) >= lateLimit {
			u.settle()
		}
	}
}

// settle merges late. Only the pieces from the earliest late interval on are
// rebuilt.
func (u *union) settle() {
	if len(u.late) == 0 {
		return
	}
	late := u.late
	u.late = nil
	slices.SortFunc(late, func(a, b phases.Interval) int { return cmp.Compare(a.Start, b.Start) })
	from := sort.Search(len(u.pieces), func(i int) bool { return u.pieces[i].end >= late[0].Start })
	rest := append(u.scratch[:0], u.pieces[from:]...)
	u.scratch = rest
	u.pieces = u.pieces[:from]
	i, j := 0, 0
	for i < len(rest) || j < len(late) {
		if j == len(late) || i < len(rest) && rest[i].start <= late[j].Start {
			u.add(phases.Interval{Start: rest[i].start, End: rest[i].end})
			i++
		} else {
			u.add(late[j])
			j++
		}
	}
	u.late = late[:0]
}

// covered is how much of in the union covers, in nanoseconds.
func (u *union) covered(in phases.Interval) int64 {
	u.settle()
	first := sort.Search(len(u.pieces), func(i int) bool { return u.pieces[i].end > in.Start })
	after := sort.Search(len(u.pieces), func(i int) bool { return u.pieces[i].start >= in.End })
	if first >= after {
		return 0
	}
	a, b := u.pieces[first], u.pieces[after-1]
	whole := b.before + b.end - b.start - a.before
	return whole - max(0, in.Start-a.start) - max(0, b.end-in.End)
}

// dropUpTo forgets the pieces that end by h.
func (u *union) dropUpTo(h int64) {
	u.settle()
	n := sort.Search(len(u.pieces), func(i int) bool { return u.pieces[i].end > h })
	u.pieces = u.pieces[n:]
}
