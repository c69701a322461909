// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// Settings bound an Index.
type Settings struct {
	MaxRuns   int
	MaxGroups int
	// Retention is how long what has arrived is kept, nanoseconds.
	Retention int64
}

// attrValue is one value of one of the join.group_by attributes.
type attrValue struct {
	attr  int
	value string
}

// Index holds the groups.
type Index struct {
	set    Settings
	groups map[attrValue]*Group
	byAttr map[attrValue][]*Group
	ext    evidence
	runs   int
	// Evictions since the last TakeEvicted.
	evicted Evicted
}

// Evicted counts what had to go for want of room.
type Evicted struct{ Runs, Groups, Evidence int }

// New makes an Index.
func New(set Settings) *Index {
	return &Index{
		set:    set,
		groups: make(map[attrValue]*Group),
		byAttr: make(map[attrValue][]*Group),
		ext:    evidence{max: set.MaxRuns, byKey: make(map[extKey][]ExtSpan)},
	}
}

// Runs is how many runs the index holds.
func (x *Index) Runs() int { return x.runs }

// Groups is how many groups the index holds.
func (x *Index) Groups() int { return len(x.groups) }

// TakeEvicted returns and clears the evictions.
func (x *Index) TakeEvicted() Evicted {
	e := x.evicted
	x.evicted = Evicted{}
	return e
}

// AddRun takes a run of a process at the arrival time now, Unix nanoseconds. It
// is false when the run was there already or is too old.
func (x *Index) AddRun(p *phases.Proc, r Run, now int64) bool {
	g := x.group(p)
	g.lastAt = now
	if !g.addRun(r, p.Host) {
		return false
	}
	x.runs++
	for x.runs > x.set.MaxRuns {
		n := x.largest(g).evict()
		if n == 0 {
			break
		}
		x.runs -= n
		x.evicted.Runs += n
	}
	return true
}

// AddStep takes a <level>.run. A group takes no more steps than runs.
func (x *Index) AddStep(p *phases.Proc, id pcommon.SpanID, in phases.Interval, now int64) {
	g := x.group(p)
	g.lastAt = now
	if len(g.stepIDs) >= x.set.MaxRuns {
		x.evicted.Runs++
		return
	}
	g.addStep(id, in)
}

// AddExt takes an external span that names a request.
func (x *Index) AddExt(p *phases.Proc, e *phases.Ext, now int64) {
	g := x.group(p)
	g.lastAt = now
	span := ExtSpan{Group: g, Proc: p.Key, Time: phases.Interval{Start: e.Start, End: e.End}}
	if span.Time.End <= g.horizon {
		return
	}
	if g.exts >= x.set.MaxRuns {
		x.evicted.Evidence++
		return
	}
	g.exts++
	g.proc(p.Key, p.Host).exts.add(span.Time)
	for _, id := range e.RequestIDs {
		if id != "" {
			x.evicted.Evidence += x.ext.add(extKey{id: id}, span)
		}
	}
	if !e.Parent.IsEmpty() {
		span.Parent = e.Parent
		x.evicted.Evidence += x.ext.add(extKey{trace: e.Trace}, span)
	}
}

// ByTrace are the external spans made in the context of a request. The slice
// belongs to the index.
func (x *Index) ByTrace(id pcommon.TraceID) []ExtSpan { return x.ext.byKey[extKey{trace: id}] }

// ByRequest are the external spans that carry a request's id, likewise.
func (x *Index) ByRequest(id string) []ExtSpan {
	if id == "" {
		return nil
	}
	return x.ext.byKey[extKey{id: id}]
}

// group finds or makes the group of a process: that of the first attribute it
// has. Processes with none share one group.
func (x *Index) group(p *phases.Proc) *Group {
	key := attrValue{attr: -1}
	for i, v := range p.Groups {
		if v != "" {
			key = attrValue{i, v}
			break
		}
	}
	g, ok := x.groups[key]
	if !ok {
		x.makeRoom()
		g = newGroup(key.attr)
		x.groups[key] = g
	}
	for i, v := range p.Groups {
		if v != "" {
			x.register(g, attrValue{i, v})
		}
	}
	return g
}

func (x *Index) register(g *Group, id attrValue) {
	if slices.Contains(g.ids, id) {
		return
	}
	g.has[id.attr] = true
	g.ids = append(g.ids, id)
	x.byAttr[id] = append(x.byAttr[id], g)
}

// makeRoom gives up the group that has been quiet for longest when there are
// too many.
func (x *Index) makeRoom() {
	if len(x.groups) < x.set.MaxGroups {
		return
	}
	var oldest attrValue
	var found *Group
	for key, g := range x.groups {
		if found == nil || g.lastAt < found.lastAt {
			oldest, found = key, g
		}
	}
	if found != nil {
		x.remove(oldest, found)
		x.evicted.Groups++
	}
}

func (x *Index) remove(key attrValue, g *Group) {
	x.runs -= g.runs.len()
	g.horizon = 1<<63 - 1
	delete(x.groups, key)
	for _, id := range g.ids {
		rest := x.byAttr[id][:0]
		for _, other := range x.byAttr[id] {
			if other != g {
				rest = append(rest, other)
			}
		}
		if len(rest) == 0 {
			delete(x.byAttr, id)
		} else {
			x.byAttr[id] = rest
		}
	}
}

// largest is the group with the most runs; current wins a tie, so that the one
// that grows pays.
func (x *Index) largest(current *Group) *Group {
	for _, g := range x.groups {
		if g.runs.len() > current.runs.len() {
			current = g
		}
	}
	return current
}

// Expire forgets what arrived longer than the retention before now.
func (x *Index) Expire(now int64) {
	for key, g := range x.groups {
		if now-g.lastAt > x.set.Retention {
			x.remove(key, g)
			continue
		}
		x.runs -= g.expire(now, x.set.Retention)
	}
	x.ext.expire()
}

// Reason says why there is no group for a request.
type Reason string

// Reasons.
const (
	NoGroup        Reason = "no_group"
	AmbiguousGroup Reason = "ambiguous_group"
)

// Find is the group whose runs a request with these attributes may have used:
// the first attribute that both sides have must be equal. A request that has
// none of them may only have used the one group there is.
func (x *Index) Find(values phases.GroupValues) (*Group, Reason) {
	if values == (phases.GroupValues{}) {
		if len(x.groups) > 1 {
			return nil, AmbiguousGroup
		}
		for _, g := range x.groups {
			return g, ""
		}
		return nil, NoGroup
	}
	for i, v := range values {
		if v == "" {
			continue
		}
		var only *Group
		for _, g := range x.byAttr[attrValue{i, v}] {
			if differsBefore(g, values, i) {
				continue
			}
			if g.key == i {
				return g, ""
			}
			if only != nil {
				return nil, AmbiguousGroup
			}
			only = g
		}
		if only != nil {
			return only, ""
		}
	}
	return nil, NoGroup
}

// differsBefore says whether both sides have an attribute before i: it was not
// equal, or it would have decided.
func differsBefore(g *Group, values phases.GroupValues, i int) bool {
	for k := range i {
		if values[k] != "" && g.has[k] {
			return true
		}
	}
	return false
}
