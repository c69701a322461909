// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"slices"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// slowest are the k longest overlapping runs, longest first, earlier ones first
// among equals. Only the k pages with the longest longest runs are read, and
// those at the edges: a run elsewhere has k longer ones before it.
func (l *runList) slowest(in phases.Interval, k int) []Ref {
	if k <= 0 {
		return nil
	}
	pages := make(top, 0, k)
	runs := make(top, 0, k)
	read := func(from, to int) {
		for i := from; i < to; i++ {
			if r := &l.sorted[i]; overlap(r, in) {
				runs.offer(ranked{r.Host.Len(), i}, k)
			}
		}
	}
	l.pagesOf(in, func(p, from, to int, inside bool) bool {
		if inside {
			pages.offer(ranked{l.pages[p].maxDur, p}, k)
		} else {
			read(from, to)
		}
		return true
	})
	for _, p := range pages {
		read(p.at*pageSize, min((p.at+1)*pageSize, len(l.sorted)))
	}
	slices.SortFunc(runs, ranked.compare)
	out := make([]Ref, len(runs))
	for i := range runs {
		out[i] = l.sorted[runs[i].at].Ref()
	}
	return out
}

// ranked is the place of something in a list, and the length it ranks by.
type ranked struct {
	length int64
	at     int
}

// compare puts the longer first, among equals the earlier.
func (r ranked) compare(o ranked) int {
	if c := cmp.Compare(o.length, r.length); c != 0 {
		return c
	}
	return cmp.Compare(r.at, o.at)
}

func (r ranked) before(o ranked) bool {
	return r.length > o.length || r.length == o.length && r.at < o.at
}

// top is a heap of those that rank first, with the last of them on top.
type top []ranked

func (h *top) offer(r ranked, k int) {
	s := *h
	if len(s) < k {
		s = append(s, r)
		*h = s
		for i := len(s) - 1; i > 0; {
			up := (i - 1) / 2
			if !s[up].before(s[i]) {
				break
			}
			s[up], s[i] = s[i], s[up]
			i = up
		}
		return
	}
	if !r.before(s[0]) {
		return
	}
	s[0] = r
	for i := 0; ; {
		last := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < len(s) && s[last].before(s[down]) {
				last = down
			}
		}
		if last == i {
			return
		}
		s[i], s[last] = s[last], s[i]
		i = last
	}
}
