// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"cmp"
	"math"
	"slices"
)

// fit is a place where an invocation can hang.
type fit struct {
	// run is set while the run is here, and nil when it has left.
	run      *run
	shape    *runShape
	dispatch int
	how      Stitch
}

// fit finds the one place for v among the runs of the scope that are over or
// have left: the only dispatch that fits, else the only run that does. With
// several there is no telling, so there is none.
func (s *Scope) fit(v *invocation) (only fit, ok bool) {
	dispatches, runs := 0, 0
	start := v.start()
	consider := func(u *run, shape *runShape) {
		if start < shape.start || start > shape.end {
			return
		}
		d, how := shape.match(v)
		switch {
		case how == StitchNone:
			return
		case d >= 0:
			dispatches++
		default:
			runs++
		}
		if dispatches == 0 || d >= 0 {
			only = fit{u, shape, d, how}
		}
	}
	for _, u := range s.over {
		consider(u, u.shaped)
	}
	// They are sorted by their ends; what ended before v began cannot be it.
	for i := len(s.left) - 1; i >= 0 && s.left[i].end >= start; i-- {
		consider(nil, s.left[i])
	}
	return only, dispatches == 1 || (dispatches == 0 && runs == 1)
}

// maxContest bounds how many records of open runs are looked at for one
// invocation.
const maxContest = 4096

// contested reports whether a run that is not over yet may have caused v too.
func (s *Scope) contested(v *invocation) bool {
	if id := v.identity.RunID; v.external || id != 0 {
		return slices.ContainsFunc(s.parents, func(p *process) bool {
			u := p.runs[id]
			return u != nil && u.shaped == nil && u.start <= v.start()
		})
	}
	worker, known := s.worker(v.proc)
	if !known {
		return false
	}
	looked := 0
	for _, p := range s.parents {
		for _, u := range p.runs {
			if u.shaped != nil || u.start > v.start() {
				continue
			}
			if looked += len(u.list); looked > maxContest {
				return false
			}
			if u.mayHold(v, worker) {
				return true
			}
		}
	}
	return false
}

// mayHold reports whether a dispatch of the open run u to worker spans v, as
// far as u is known.
func (u *run) mayHold(v *invocation, worker int64) bool {
	for i := range u.list {
		r, id := &u.list[i], &u.ids[i]
		if r.name.role == roleDispatch && !r.point() && id.Has&HasWorkerID != 0 && id.WorkerID == worker &&
			r.ts <= v.start() && v.end() <= u.completeEnd(id, math.MaxInt64) {
			return true
		}
	}
	return false
}

// wait hangs v under the run that caused it, or queues it until that is known.
func (a *Assembler) wait(v *invocation, now int64) {
	s := v.proc.scope
	v.since = now
	if u, ok := a.attach(v, now, false); ok {
		if u != nil && u.full() {
			a.finishRun(u, now)
		}
		return
	}
	i, _ := slices.BinarySearchFunc(s.waiting, v, byStart)
	s.waiting = slices.Insert(s.waiting, i, v)
}

// byStart orders invocations independently of the order of arrival.
func byStart(x, y *invocation) int {
	return cmp.Or(cmp.Compare(x.start(), y.start()), cmp.Compare(x.proc.pid, y.proc.pid), cmp.Compare(x.inv, y.inv))
}

// attach hangs v where it fits: into a run that is here, which it returns, or
// behind one that has left. Unless it is the last chance, a run that is still
// open may speak up first.
func (a *Assembler) attach(v *invocation, now int64, last bool) (*run, bool) {
	s := v.proc.scope
	if v.contested {
		v.contested = false
		s.contests--
	}
	f, ok := s.fit(v)
	if !ok {
		return nil, false
	}
	if !last {
		if s.contested(v) {
			v.contested = true
			s.contests++
			return nil, false
		}
		// The line that tells v's worker, and so its dispatch, may still come.
		if _, known := s.worker(v.proc); !known && s.workers > 1 && !v.external {
			return nil, false
		}
	}
	if f.run == nil {
		a.emitLate(v, f.shape, f.dispatch, f.how, now)
		return nil, true
	}
	f.run.children = append(f.run.children, child{v, f.dispatch, f.how})
	if !v.external {
		f.run.invocations++
	}
	return f.run, true
}

// full reports whether no invocation of the run is missing.
func (u *run) full() bool { return u.invocations >= len(u.shaped.dispatches) }

// endRun lets a run that is over collect its invocations, and sends it on if
// none is missing.
func (a *Assembler) endRun(u *run, now int64) {
	a.collect(u, now)
	if u.full() {
		a.finishRun(u, now)
	}
}

// collect fixes u's shape, again when records came after it was over, and lets
// the invocations that wait look for their place once more.
func (a *Assembler) collect(u *run, now int64) {
	s := u.proc.scope
	if u.shaped == nil {
		u.shaped = &runShape{}
		s.over = append(s.over, u)
	}
	u.shape(u.shaped)
	from, _ := slices.BinarySearchFunc(s.waiting, u.start, startsAt)
	kept := s.waiting[:from]
	for i, v := range s.waiting[from:] {
		if v.start() > u.shaped.end && s.contests == 0 {
			kept = append(kept, s.waiting[from+i:]...)
			break
		}
		_, how := u.shaped.match(v)
		if how != StitchNone || v.contested {
			// Another run that gets it here leaves with the next tick.
			if _, ok := a.attach(v, now, false); ok {
				continue
			}
		}
		kept = append(kept, v)
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// lastChance hangs what waits for certainty under u, which is about to leave.
func (a *Assembler) lastChance(u *run, now int64) {
	s := u.proc.scope
	from, _ := slices.BinarySearchFunc(s.waiting, u.start, startsAt)
	kept := s.waiting[:from]
	for i, v := range s.waiting[from:] {
		if v.start() > u.shaped.end {
			kept = append(kept, s.waiting[from+i:]...)
			break
		}
		if _, how := u.shaped.match(v); how != StitchNone && !v.contested {
			if _, ok := a.attach(v, now, true); ok {
				continue
			}
		}
		kept = append(kept, v)
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

func startsAt(v *invocation, start int64) int { return cmp.Compare(v.start(), start) }

// settleWaiting gives up on invocations that no run will claim.
func (a *Assembler) settleWaiting(s *Scope, now int64) {
	wait := int64(a.cfg.StitchWait)
	a.giveUpWhere(s, now, func(v *invocation) bool {
		// Those behind the first that waited in vain must not leave after ones
		// that come later.
		if s.parentless && v.identity.RunID == 0 && !v.external {
			return true
		}
		waited := now - v.since
		if waited >= int64(a.cfg.MaxOpen) {
			return true
		}
		return (waited >= wait || s.passed(v.end()+wait)) && a.pollEnded(v.poll) && !s.mayBeClaimed(v.start())
	})
}

// giveUpWhere sends on the waiting invocations that due selects.
func (a *Assembler) giveUpWhere(s *Scope, now int64, due func(*invocation) bool) {
	kept := s.waiting[:0]
	for _, v := range s.waiting {
		if due(v) {
			a.giveUp(v, now)
		} else {
			kept = append(kept, v)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// giveUp sends on an invocation that waited: where it fits if no open run
// spoke up, else on its own. The caller takes it out of waiting.
func (a *Assembler) giveUp(v *invocation, now int64) {
	switch _, ok := a.attach(v, now, true); {
	case ok:
	case v.external:
		a.emitSingle(v, now)
	default:
		s := v.proc.scope
		s.parentless = len(s.parents) == 0
		a.emitInvocation(v, now)
	}
}

// maxLeft bounds the runs remembered per scope after they were emitted.
const maxLeft = 1024

// remember keeps what a run that was emitted looked like, sorted by its end.
func (s *Scope) remember(shape *runShape) {
	if len(s.left) == maxLeft {
		s.left = slices.Delete(s.left, 0, 1)
	}
	i := len(s.left)
	for i > 0 && s.left[i-1].end > shape.end {
		i--
	}
	s.left = slices.Insert(s.left, i, shape)
}

// forget drops runs that left before the wall time since.
func (s *Scope) forget(since int64) {
	s.left = slices.DeleteFunc(s.left, func(shape *runShape) bool { return shape.emitted < since })
}

// leftRun finds the run that a node record printed after its run had left
// still belongs to.
func (s *Scope) leftRun(pid int32, runID uint64, r *Record, id *Identity) *runShape {
	for i := len(s.left) - 1; i >= 0; i-- {
		shape := s.left[i]
		if shape.pid == pid && shape.runID == runID && shape.takes(r, id) {
			return shape
		}
	}
	return nil
}

// takes reports whether r, which carries the run's number, is of this use of
// it: begun before the run was over, or what the run still lacked when it left.
func (s *runShape) takes(r *Record, id *Identity) bool {
	switch {
	case r.TS < s.start:
		return false
	case r.TS <= s.end && !s.cutShort():
		return true
	case r.Name.role == roleRetirement:
		return !s.retired
	default:
		return under(r.Name.role) && slices.ContainsFunc(s.dispatches, func(d dispatchShape) bool {
			return sameTask(&d.identity, id) && !d.completed
		})
	}
}
