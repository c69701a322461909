// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// ExtSpan is an external producer's span that names a request.
type ExtSpan struct {
	Group *Group
	Proc  uint64
	Time  phases.Interval
	// Parent is the span of the request's trace it was made under, empty when
	// it named the request by its id.
	Parent pcommon.SpanID
}

// extList holds the external spans of one process by start, whichever request
// they name.
type extList struct {
	sorted []phases.Interval
	late   bool
}

func (l *extList) add(in phases.Interval) {
	if n := len(l.sorted); n > 0 && in.Start < l.sorted[n-1].Start {
		l.late = true
	}
	l.sorted = append(l.sorted, in)
}

func (l *extList) settle() {
	if l.late {
		slices.SortStableFunc(l.sorted, func(a, b phases.Interval) int { return cmp.Compare(a.Start, b.Start) })
		l.late = false
	}
}

func (l *extList) dropUpTo(h int64) (dropped int) {
	l.settle()
	n := sort.Search(len(l.sorted), func(i int) bool { return l.sorted[i].Start > h })
	for n > 0 && l.sorted[n-1].End > h {
		n--
	}
	l.sorted = l.sorted[n:]
	return n
}

func (l *extList) len() int { return len(l.sorted) }

// next is the start of the first external span from t on.
func (l *extList) next(t int64) int64 {
	l.settle()
	i := sort.Search(len(l.sorted), func(i int) bool { return l.sorted[i].Start >= t })
	if i == len(l.sorted) {
		return math.MaxInt64
	}
	return l.sorted[i].Start
}

// window selects runs of a process: started in [from, before), ended by end.
type window struct {
	proc         uint64
	from, before int64
	end          int64
}

// windows are the runs that an external span names: those it encloses; when it
// encloses none, those that follow it on its process until that process gives
// the next external span. Several spans before the same run, one for each
// request of a batch, all name it.
func (g *Group) windows(e ExtSpan) []window {
	p := g.procs[e.Proc]
	if p == nil || !p.works {
		return nil
	}
	enclosed := window{proc: e.Proc, from: e.Time.Start, before: e.Time.End, end: e.Time.End}
	following := int64(math.MaxInt64)
	for i := g.runs.firstFrom(e.Time.Start); i < len(g.runs.sorted); i++ {
		r := &g.runs.sorted[i]
		if r.Proc != e.Proc && r.StepProc != e.Proc {
			continue
		}
		if r.Host.Start < e.Time.End && r.Host.End <= e.Time.End {
			return []window{enclosed}
		}
		if r.Host.Start >= e.Time.End {
			following = r.Host.Start
			break
		}
	}
	if following == math.MaxInt64 {
		return nil
	}
	return []window{{proc: e.Proc, from: following, before: p.exts.next(following), end: math.MaxInt64}}
}

// extKey names a request: by its trace or by its id.
type extKey struct {
	trace pcommon.TraceID
	id    string
}

// evidence finds external spans by what they name. It is bounded: the oldest
// go first.
type evidence struct {
	max   int
	byKey map[extKey][]ExtSpan
	order []extKey
}

func (e *evidence) add(k extKey, span ExtSpan) (evicted int) {
	for len(e.order) >= e.max && len(e.order) > 0 {
		e.dropOldest()
		evicted++
	}
	if e.max > 0 {
		e.byKey[k] = append(e.byKey[k], span)
		e.order = append(e.order, k)
	}
	return evicted
}

// dropOldest forgets the span that was added first: order repeats a key once
// for each of its spans, which are kept in the order they came.
func (e *evidence) dropOldest() {
	k := e.order[0]
	e.order = e.order[1:]
	if rest := e.byKey[k][1:]; len(rest) > 0 {
		e.byKey[k] = rest
	} else {
		delete(e.byKey, k)
	}
}

// expire forgets spans that their group has left behind.
func (e *evidence) expire() {
	for len(e.order) > 0 {
		first := e.byKey[e.order[0]][0]
		if first.Time.End > first.Group.horizon {
			return
		}
		e.dropOldest()
	}
}
