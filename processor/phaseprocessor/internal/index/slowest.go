// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"slices"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// slowest are the k longest overlapping runs, longest first, earlier ones first
// among equals. Pages are read in the order of their longest run, until none
// left can hold one that counts.
func (l *runList) slowest(in phases.Interval, k int) []*Run {
	if k <= 0 {
		return nil
	}
	type candidate struct {
		from, to int
		maxDur   int64
	}
	var pages []candidate
	l.pagesOf(in, func(p, from, to int, _ bool) bool {
		pages = append(pages, candidate{from, to, l.pages[p].maxDur})
		return true
	})
	slices.SortStableFunc(pages, func(a, b candidate) int { return cmp.Compare(b.maxDur, a.maxDur) })
	top := make(topRuns, 0, k)
	for _, p := range pages {
		if len(top) == k && p.maxDur < top[0].Host.Len() {
			break
		}
		for i := p.from; i < p.to; i++ {
			if r := &l.sorted[i]; overlap(r, in) {
				top.offer(r, k)
			}
		}
	}
	slices.SortFunc(top, func(a, b *Run) int {
		switch {
		case slower(a, b):
			return -1
		case slower(b, a):
			return 1
		}
		return 0
	})
	return top
}

// topRuns is a heap with the least of the longest runs on top.
type topRuns []*Run

// slower says whether a ranks before b.
func slower(a, b *Run) bool {
	if c := cmp.Compare(a.Host.Len(), b.Host.Len()); c != 0 {
		return c > 0
	}
	if c := cmp.Compare(a.Host.Start, b.Host.Start); c != 0 {
		return c < 0
	}
	return string(a.ID[:]) < string(b.ID[:])
}

func (h *topRuns) offer(r *Run, k int) {
	s := *h
	if len(s) < k {
		s = append(s, r)
		*h = s
		for i := len(s) - 1; i > 0; {
			up := (i - 1) / 2
			if !slower(s[up], s[i]) {
				break
			}
			s[up], s[i] = s[i], s[up]
			i = up
		}
		return
	}
	if !slower(r, s[0]) {
		return
	}
	s[0] = r
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < len(s) && slower(s[least], s[down]) {
				least = down
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
