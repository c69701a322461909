// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// Run is one host run in the index.
type Run struct {
	Trace pcommon.TraceID
	ID    pcommon.SpanID
	// Step is the <level>.run it belongs to, empty when none; StepProc the
	// process of that run.
	Step     pcommon.SpanID
	StepProc uint64
	Host     phases.Interval
	// Device is zero when the run has no device wall.
	Device phases.Interval
	// Err bounds the wall placement, seconds.
	Err  float64
	Proc uint64
	HID  string
}

// pageSize is how many runs share a summary. A question about the slowest run
// reads summaries first and only those pages that can matter.
const pageSize = 32

// chapterSize is how many pages share a second summary, for the one question
// that needs no more than that.
const chapterSize = 64

type page struct {
	maxEnd, maxDur int64
	maxErr         float64
	// endSoFar is the latest end up to and including this page: pages before
	// the first that exceeds a time hold nothing that reaches it.
	endSoFar int64
}

// runList holds runs by start.
type runList struct {
	sorted []Run
	late   []Run
	pages  []page
	// chapters are the largest clock errors of chapterSize pages each.
	chapters []float64
	// summed is how many runs the pages cover.
	summed int
}

func byStart(a, b *Run) int {
	if c := cmp.Compare(a.Host.Start, b.Host.Start); c != 0 {
		return c
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}

func (l *runList) add(r Run) {
	if n := len(l.sorted); n == 0 || byStart(&r, &l.sorted[n-1]) >= 0 {
		l.sorted = append(l.sorted, r)
		return
	}
	l.late = append(l.late, r)
	if len(l.late) >= lateLimit {
		l.settle()
	}
}

// settle merges late and brings the summaries up to date.
func (l *runList) settle() {
	if len(l.late) > 0 {
		slices.SortFunc(l.late, func(a, b Run) int { return byStart(&a, &b) })
		from := sort.Search(len(l.sorted), func(i int) bool { return byStart(&l.sorted[i], &l.late[0]) > 0 })
		l.merge(from)
		l.summed = min(l.summed, from)
	}
	if l.summed == len(l.sorted) {
		return
	}
	first := l.summed / pageSize
	for i := first * pageSize; i < len(l.sorted); i += pageSize {
		s := summarise(l.sorted[i:min(i+pageSize, len(l.sorted))])
		p := i / pageSize
		s.endSoFar = s.maxEnd
		if p > 0 {
			s.endSoFar = max(s.maxEnd, l.pages[p-1].endSoFar)
		}
		if p < len(l.pages) {
			l.pages[p] = s
		} else {
			l.pages = append(l.pages, s)
		}
	}
	l.summarisePages(first)
	l.summed = len(l.sorted)
}

// summarisePages brings the chapters up to date from a page on.
func (l *runList) summarisePages(from int) {
	for c := from / chapterSize; c*chapterSize < len(l.pages); c++ {
		worst := 0.0
		for _, p := range l.pages[c*chapterSize : min((c+1)*chapterSize, len(l.pages))] {
			worst = max(worst, p.maxErr)
		}
		if c < len(l.chapters) {
			l.chapters[c] = worst
		} else {
			l.chapters = append(l.chapters, worst)
		}
	}
}

func (l *runList) merge(from int) {
	i := len(l.sorted) - 1
	l.sorted = append(l.sorted, l.late...)
	k := len(l.sorted) - 1
	for j := len(l.late) - 1; j >= 0; k-- {
		if i >= from && byStart(&l.sorted[i], &l.late[j]) > 0 {
			l.sorted[k] = l.sorted[i]
			i--
		} else {
			l.sorted[k] = l.late[j]
			j--
		}
	}
	clear(l.late)
	l.late = l.late[:0]
}

func summarise(runs []Run) page {
	var p page
	for i := range runs {
		r := &runs[i]
		p.maxEnd = max(p.maxEnd, r.Host.End)
		p.maxDur = max(p.maxDur, r.Host.Len())
		p.maxErr = max(p.maxErr, r.Err)
	}
	return p
}

// dropUpTo forgets leading pages whose runs all end by h; gone gets each run.
func (l *runList) dropUpTo(h int64, gone func(*Run)) {
	l.settle()
	n := 0
	for n < len(l.pages) && (n+1)*pageSize <= len(l.sorted) && l.pages[n].maxEnd <= h {
		n++
	}
	n -= n % chapterSize
	if n == 0 {
		return
	}
	for i := range l.sorted[:n*pageSize] {
		gone(&l.sorted[i])
	}
	l.sorted = l.sorted[n*pageSize:]
	l.pages = l.pages[n:]
	l.chapters = l.chapters[n/chapterSize:]
	l.summed = len(l.sorted)
}

// compact forgets every run that ends by h.
func (l *runList) compact(h int64, gone func(*Run)) {
	l.settle()
	kept := make([]Run, 0, len(l.sorted))
	for i := range l.sorted {
		if l.sorted[i].Host.End <= h {
			gone(&l.sorted[i])
			continue
		}
		kept = append(kept, l.sorted[i])
	}
	l.sorted, l.pages, l.chapters, l.summed = kept, nil, nil, 0
	l.settle()
}

func (l *runList) len() int { return len(l.sorted) + len(l.late) }

func overlap(r *Run, in phases.Interval) bool {
	return r.Host.Start < in.End && r.Host.End > in.Start
}

// firstFrom is the index of the first run that starts at or after t.
func (l *runList) firstFrom(t int64) int {
	return sort.Search(len(l.sorted), func(i int) bool { return l.sorted[i].Host.Start >= t })
}

// pagesOf calls f with the bounds of every page that may hold an overlapping
// run; inside is true when all its runs start within in.
func (l *runList) pagesOf(in phases.Interval, f func(p, from, to int, inside bool) bool) {
	l.settle()
	end := l.firstFrom(in.End)
	first := sort.Search(len(l.pages), func(p int) bool { return l.pages[p].endSoFar > in.Start })
	for p := first; p*pageSize < end; p++ {
		if l.pages[p].maxEnd <= in.Start {
			continue
		}
		from, to := p*pageSize, min((p+1)*pageSize, len(l.sorted))
		inside := to <= end && l.sorted[from].Host.Start >= in.Start
		if !f(p, from, min(to, end), inside) {
			return
		}
	}
}

// first is the overlapping run that starts first.
func (l *runList) first(in phases.Interval) (found *Run) {
	l.pagesOf(in, func(_, from, to int, _ bool) bool {
		for i := from; i < to; i++ {
			if overlap(&l.sorted[i], in) {
				found = &l.sorted[i]
				return false
			}
		}
		return true
	})
	return found
}

// last is the overlapping run that starts last.
func (l *runList) last(in phases.Interval) *Run {
	l.settle()
	for i := l.firstFrom(in.End) - 1; i >= 0; i-- {
		if overlap(&l.sorted[i], in) {
			return &l.sorted[i]
		}
	}
	return nil
}

// maxErr is the largest clock error of the overlapping runs.
func (l *runList) maxErr(in phases.Interval) float64 {
	l.settle()
	end := l.firstFrom(in.End)
	worst := 0.0
	p := sort.Search(len(l.pages), func(p int) bool { return l.pages[p].endSoFar > in.Start })
	for p*pageSize < end {
		c := p / chapterSize
		if last := (c + 1) * chapterSize * pageSize; p%chapterSize == 0 && last <= end && l.sorted[p*pageSize].Host.Start >= in.Start {
			worst = max(worst, l.chapters[c])
			p += chapterSize
			continue
		}
		if pg := &l.pages[p]; pg.maxEnd > in.Start && pg.maxErr > worst {
			for i := p * pageSize; i < min((p+1)*pageSize, end); i++ {
				if r := &l.sorted[i]; overlap(r, in) {
					worst = max(worst, r.Err)
				}
			}
		}
		p++
	}
	return worst
}
