// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package index remembers where on the wall clock host runs lay, group by
// group, and answers what of them falls into an interval: how many, how long
// the hosts and devices were busy, which were the slowest. Counts and unions
// cost a few binary searches, however many runs there are.
//
// Nothing in it is safe for concurrent use: its owner holds one lock.
package index

import (
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// Group is what shares a clock domain: the runs that one request may have used.
type Group struct {
	// key is the index of the attribute that made the group, has which of the
	// attributes its runs carry.
	key int
	has [phases.MaxGroupKeys]bool
	ids []attrValue

	runs         runList
	all          spans
	host, device union
	// withDevice counts the runs that have a device wall.
	withDevice spans
	steps      spans
	stepIDs    map[pcommon.SpanID]int64
	procs      map[uint64]*proc
	seen       map[pcommon.SpanID]struct{}
	// exts is how many external spans the processes have.
	exts int

	// horizon is the time up to which runs may have been forgotten.
	horizon int64
	// lastAt is when the newest run arrived, marks how far the runs reached at
	// earlier times: what was there long enough ago may go.
	lastAt int64
	// grownAt is when a process was first heard of.
	grownAt int64
	marks   []mark
	end     int64
}

type mark struct{ at, end int64 }

// proc is one process within a group.
type proc struct {
	spans
	host string
	// last is the latest end of its runs.
	last int64
	// works is true once a run was its own or of a step it scheduled.
	works bool
	exts  extList
	// hid is that of its last run: runs of one callable share one string, not
	// one from each call's buffer.
	hid string
}

func newGroup(key int) *Group {
	return &Group{
		key: key, horizon: math.MinInt64, end: math.MinInt64,
		stepIDs: make(map[pcommon.SpanID]int64),
		procs:   make(map[uint64]*proc),
		seen:    make(map[pcommon.SpanID]struct{}),
	}
}

func (g *Group) proc(key uint64, host string) *proc {
	p, ok := g.procs[key]
	if !ok {
		p = &proc{host: host, last: math.MinInt64}
		g.procs[key] = p
		g.grownAt = g.lastAt
	}
	return p
}

// addRun takes a run unless it has it, or has forgotten its time already.
func (g *Group) addRun(r Run, host string) bool {
	if _, ok := g.seen[r.ID]; ok || r.Host.End <= g.horizon {
		return false
	}
	g.seen[r.ID] = struct{}{}
	p := g.proc(r.Proc, host)
	p.add(r.Host.Start, r.Host.End)
	p.last = max(p.last, r.Host.End)
	p.works = true
	if p.hid != r.HID {
		p.hid = strings.Clone(r.HID)
	}
	r.HID = p.hid
	if !r.Step.IsEmpty() {
		g.proc(r.StepProc, "").works = true
	}
	g.end = max(g.end, r.Host.End)
	g.runs.add(r)
	g.all.add(r.Host.Start, r.Host.End)
	g.host.add(r.Host)
	if r.Device.Valid() {
		g.device.add(r.Device)
		g.withDevice.add(r.Host.Start, r.Host.End)
	}
	return true
}

func (g *Group) addStep(id pcommon.SpanID, in phases.Interval) {
	if _, ok := g.stepIDs[id]; ok || in.End <= g.horizon {
		return
	}
	g.stepIDs[id] = in.End
	g.steps.add(in.Start, in.End)
}

// dropUpTo forgets what ends by h. With hard set it gives back all that
// room at once; without, some runs may stay for a while, unheard.
func (g *Group) dropUpTo(h int64, hard bool) (runs int) {
	if h <= g.horizon {
		return 0
	}
	g.horizon = h
	gone := func(r *Run) {
		delete(g.seen, r.ID)
		runs++
	}
	g.all.dropUpTo(h)
	if !hard {
		g.runs.dropUpTo(h, gone)
	}
	// Whole chapters go at once; what else is stale goes when it is most of it.
	if stale := g.runs.len() - g.all.len(); hard || stale > g.all.len() {
		g.runs.compact(h, gone)
	}
	g.withDevice.dropUpTo(h)
	g.steps.dropUpTo(h)
	g.host.dropUpTo(h)
	g.device.dropUpTo(h)
	for id, end := range g.stepIDs {
		if end <= h {
			delete(g.stepIDs, id)
		}
	}
	for key, p := range g.procs {
		p.dropUpTo(h)
		g.exts -= p.exts.dropUpTo(h)
		if p.len() == 0 && p.last <= h && p.exts.len() == 0 {
			delete(g.procs, key)
		}
	}
	return runs
}

// expire forgets what was known for longer than retention nanoseconds.
func (g *Group) expire(now, retention int64) (runs int) {
	if n := len(g.marks); n == 0 || now-g.marks[n-1].at >= retention/16 {
		g.marks = append(g.marks, mark{now, g.end})
	}
	old := -1
	for i := range g.marks {
		if g.marks[i].at <= now-retention {
			old = i
		}
	}
	if old < 0 {
		return 0
	}
	h := g.marks[old].end
	g.marks = g.marks[old+1:]
	return g.dropUpTo(h, false)
}

// evict makes room by forgetting an eighth of the runs, those that end first.
func (g *Group) evict() (runs int) {
	g.all.ends.settle()
	if g.all.len() == 0 {
		return 0
	}
	return g.dropUpTo(g.all.ends.sorted[g.all.len()/8], true)
}

// Passed says whether every process that was running at the time of a request
// has been seen beyond its end: then no run of the request is still to come.
// Those not heard of for idle nanoseconds before it count as gone. While
// processes are still turning up, as they do when logs are caught up with,
// others may not have been seen at all.
func (g *Group) Passed(start, end, idle int64) bool {
	if g.lastAt-g.grownAt < idle {
		return false
	}
	passed := false
	for _, p := range g.procs {
		switch {
		case p.last >= end:
			passed = true
		case p.last >= start-idle:
			return false
		}
	}
	return passed
}
