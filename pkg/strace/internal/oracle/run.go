// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package oracle // import "github.com/phasecol/phasecol/pkg/strace/internal/oracle"

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// run is one use of a run number.
type run struct {
	proc    *process
	id      uint64
	records []*record
	lost    bool
	// Set by emitRun.
	trace, root string
	spans       []string // parallel to records
}

// task is what tells one dispatch from another.
type task struct {
	slot, worker int64
	dispatch     uint64
}

func taskOf(r *record) task {
	a := attributes(r.attrs)
	slot, _ := integer(a["task_slot"])
	worker, _ := integer(a["worker_id"])
	dispatch, _ := natural(a["dispatch_id"])
	return task{slot, worker, dispatch}
}

func runID(r *record) uint64 {
	if id, ok := natural(attributes(r.attrs)["run_id"]); ok {
		return id
	}
	return r.inv
}

func natural(s string) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && !strings.HasPrefix(s, "+")
}

// integer reads a decimal in its shortest form.
func integer(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == s
}

func level(r *record, want string) bool {
	return family(r.name) == "node" && stage(r.name) == "level."+want
}

func (u *run) first(want string) *record {
	for _, r := range u.records {
		if level(r, want) {
			return r
		}
	}
	return nil
}

func (u *run) start() int64 {
	s := int64(math.MaxInt64)
	for _, r := range u.records {
		s = min(s, r.ts)
	}
	return s
}

func (u *run) end() int64 {
	e := int64(0)
	for _, r := range u.records {
		e = max(e, r.end())
	}
	return e
}

// over reports whether all that was announced has ended.
func (u *run) over() bool {
	if u.first("post_fence_retirement") != nil {
		return true
	}
	announced, completed := int64(0), int64(0)
	for _, r := range u.records {
		switch {
		case level(r, "submit"):
			announced++
			if size, ok := integer(attributes(r.attrs)["group_size"]); ok && size > 1 {
				announced += size - 1
			}
		case level(r, "complete"):
			completed++
		}
	}
	return u.first("graph_build") != nil && announced > 0 && completed >= announced
}

// repeats tells that r cannot be of this use of the number.
func (u *run) repeats(r *record) bool {
	if u.first("post_fence_retirement") != nil && r.ts > u.end() && !u.misses(r) {
		return true
	}
	switch {
	case level(r, "submit"):
		g := u.first("graph_build")
		return g != nil && g.end() <= r.ts
	case level(r, "graph_build"), level(r, "post_fence_retirement"):
		x := u.first(strings.TrimPrefix(stage(r.name), "level."))
		return x != nil && x.ts < r.ts
	case level(r, "dispatch"), ofTask(r):
		for _, x := range u.records {
			if stage(x.name) == stage(r.name) && taskOf(x) == taskOf(r) {
				return x.ts < r.ts
			}
		}
	}
	return false
}

// misses tells that r is what a dispatch of the run still lacks.
func (u *run) misses(r *record) bool {
	if !ofTask(r) {
		return false
	}
	dispatched := false
	for _, x := range u.records {
		if taskOf(x) != taskOf(r) {
			continue
		}
		if stage(x.name) == stage(r.name) {
			return false
		}
		dispatched = dispatched || level(x, "dispatch")
	}
	return dispatched
}

// ofTask tells the records that hang under their dispatch.
func ofTask(r *record) bool {
	return level(r, "frame_submit") || level(r, "activate") || level(r, "complete")
}

func (o *reading) addToRun(p *process, runs []*run, r *record, dropped int64) (all []*run, duplicate bool) {
	id := runID(r)
	var u *run
	for _, x := range runs {
		if x.id == id {
			u = x
		}
	}
	if u != nil && holds(u.records, r) {
		return runs, true
	}
	if u == nil || u.repeats(r) {
		u = &run{proc: p, id: id}
		runs = append(runs, u)
	}
	u.records = append(u.records, r)
	u.lost = u.lost || r.ts < dropped
	return runs, false
}

// emitRun makes the run's own tree: a root for it all, submits under
// graph_build, what belongs to a task under its dispatch.
func (o *reading) emitRun(u *run) {
	idTS := u.start()
	if g := u.first("graph_build"); g != nil {
		idTS = g.ts
	}
	p := u.proc
	at := o.place(p, u.start())
	u.trace = traceID('r', o.opt.Host, p.scope, p.pid, u.id, idTS, "")
	rootName := u.records[0].name[:strings.IndexByte(u.records[0].name, '.')] + ".run"
	u.root = spanID(u.trace, rootName, false, p.pid, u.id, idTS, idTS, 0, 0)
	root := Span{
		Trace: u.trace, ID: u.root, Scope: p.scope, PID: p.pid, Inv: u.id, Name: rootName, Stage: "level.run", TS: u.start(),
		Start: u.start() + at.offset, End: u.end() + at.offset, Source: at.source, Error: at.err, Fits: true, Synthetic: true,
		Incomplete: u.lost || !u.over(),
	}
	spans := make([]Span, len(u.records))
	u.spans = make([]string, len(u.records))
	for i, r := range u.records {
		if r.point() {
			continue
		}
		repeat := 0
		for j := range i {
			if x := u.records[j]; !x.point() && x.name == r.name && x.ts == r.ts && x.tid == r.tid && x.device == r.device {
				repeat++
			}
		}
		u.spans[i] = spanID(u.trace, r.name, r.device, p.pid, u.id, idTS, r.ts, r.tid, repeat)
		spans[i] = o.span(r, u.trace, u.spans[i], p, at)
		spans[i].Inv = u.id
	}
	for i, r := range u.records {
		parent := &root
		for j, x := range u.records {
			under := (level(r, "submit") && level(x, "graph_build")) ||
				(ofTask(r) && level(x, "dispatch") && taskOf(x) == taskOf(r))
			if under && !x.point() {
				parent = &spans[j]
				break
			}
		}
		if r.point() {
			parent.Events = append(parent.Events, Event{r.name, r.ts + at.offset, r.attrs})
			continue
		}
		spans[i].Parent = parent.ID
	}
	o.result.Spans = append(o.result.Spans, root)
	for i, r := range u.records {
		if !r.point() {
			o.result.Spans = append(o.result.Spans, spans[i])
		}
	}
}

// workersOf counts the worker numbers that the node records of a scope use.
func (o *reading) workersOf(scope string) int64 {
	if used, counted := o.workers[scope]; counted {
		return used
	}
	used := int64(0)
	for _, p := range o.processes {
		for _, r := range p.records {
			if p.scope != scope || family(r.name) != "node" || level(r, "scheduler_loop") {
				continue
			}
			if w, ok := integer(attributes(r.attrs)["worker_id"]); ok && w < 1024 {
				used = max(used, w+1)
			}
		}
	}
	o.workers[scope] = used
	return used
}

// worker is the number that the parent knows p by, when as many devices were
// announced as the scope uses worker numbers.
func (o *reading) worker(p *process) (int64, bool) {
	var devices []int64
	for _, x := range o.processes {
		if x.scope == p.scope && x.dev >= 0 && !slices.Contains(devices, x.dev) {
			devices = append(devices, x.dev)
		}
	}
	slices.Sort(devices)
	if p.dev < 0 || int64(len(devices)) < o.workersOf(p.scope) {
		return 0, false
	}
	return int64(slices.Index(devices, p.dev)), true
}

// hook is where an invocation may hang.
type hook struct {
	trace, span, how string
}

// hooks finds every dispatch of u that may have caused v, or u itself where
// only that is certain.
func (o *reading) hooks(v *unit, u *run) (hooks []hook) {
	if u.proc.scope != v.proc.scope {
		return nil
	}
	end := u.end()
	if !u.over() {
		end = math.MaxInt64
	}
	if v.start() < u.start() || v.end() > end {
		return nil
	}
	worker, known := o.worker(v.proc)
	root := v.attrs()
	id, _ := natural(root["run_id"])
	whole := hook{u.trace, u.root, "run"}
	if id == 0 && !known {
		return nil
	}
	if id != 0 && id != u.id {
		return nil
	}
	var numbers, times []hook // dispatches with its numbers, and those of its worker around it
	var mine, both []hook     // of the first, those of its worker, and those that are around it, too
	for i, r := range u.records {
		if !level(r, "dispatch") || r.point() {
			continue
		}
		over := end
		for _, x := range u.records {
			if level(x, "complete") && taskOf(x) == taskOf(r) {
				over = x.end()
				break
			}
		}
		a := attributes(r.attrs)
		w, hasWorker := integer(a["worker_id"])
		its := hasWorker && w == worker
		inside := r.ts <= v.start() && v.end() <= over
		same := agree(root, a, "dispatch_id", true) && agree(root, a, "slot_id", false) && agree(root, a, "generation", false)
		h := hook{u.trace, u.spans[i], "identity"}
		if its && inside {
			times = append(times, hook{u.trace, u.spans[i], "time"})
		}
		if same {
			numbers = append(numbers, h)
		}
		if same && (its || !known) {
			mine = append(mine, h)
		}
		if same && (its || !known) && inside {
			both = append(both, h)
		}
	}
	switch {
	case id != 0 && known && len(numbers) == 1 && len(mine) == 1:
		return mine
	case id != 0 && (!known || len(numbers) > 1) && len(both) == 1:
		return both
	case id != 0 || len(times) > 1:
		return []hook{whole}
	default:
		return times
	}
}

// agree compares one key of a root and a dispatch; where it may be missing, on
// either side, it does not count.
func agree(root, dispatch map[string]string, key string, required bool) bool {
	x, hasX := natural(root[key])
	y, hasY := natural(dispatch[key])
	if !required && (!hasX || !hasY) {
		return true
	}
	return x == y
}

// stitch finds the only place for v.
func (o *reading) stitch(v *unit, runs []*run) (hook, bool) {
	var certain, loose []hook
	for _, u := range runs {
		for _, h := range o.hooks(v, u) {
			if h.how == "run" {
				loose = append(loose, h)
			} else {
				certain = append(certain, h)
			}
		}
	}
	switch {
	case len(certain) == 1:
		return certain[0], true
	case len(certain) == 0 && len(loose) == 1:
		return loose[0], true
	default:
		return hook{}, false
	}
}
