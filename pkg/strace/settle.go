// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"cmp"
	"slices"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Tick lets time pass: now is the wall time, Unix ns. Call it every few
// hundred milliseconds; what is due is emitted in order.
func (a *Assembler) Tick(now int64) {
	for a.open.oldest != nil && now-a.open.oldest.touched >= int64(a.cfg.MaxOpen) {
		a.finishOpen(a.open.oldest, now)
	}
	for _, s := range a.ordered {
		for _, p := range s.ordered {
			a.settleProcess(p, now)
		}
	}
	for u := a.openRuns.oldest; u != nil; {
		next := u.age.newer
		a.settleRun(u, now)
		u = next
	}
	for _, s := range a.ordered {
		a.settleWaiting(s, now)
		s.forget(now - int64(a.cfg.MaxOpen))
	}
}

// Flush sends on everything as it is: at the end of input, or at shutdown
// without storage.
func (a *Assembler) Flush(now int64) {
	for _, s := range a.ordered {
		for _, p := range s.ordered {
			for len(p.closing) > 0 {
				a.release(p.closing[0], now)
			}
		}
	}
	for a.openRuns.oldest != nil {
		a.finishRun(a.openRuns.oldest, now)
	}
	for _, s := range a.ordered {
		for len(s.waiting) > 0 {
			a.giveUp(s.waiting[0], now)
		}
	}
	for a.open.oldest != nil {
		a.finishOpen(a.open.oldest, now)
	}
}

// EndPoll says that every file was read to its end: no line that was written
// by then is still to come.
func (a *Assembler) EndPoll(now int64) {
	a.poll++
	a.Tick(now)
}

// settleProcess releases closed invocations behind which the process has
// printed far enough, or which have waited long enough.
func (a *Assembler) settleProcess(p *process, now int64) {
	for len(p.closing) > 0 {
		v := p.closing[0]
		switch {
		case now-v.since >= int64(a.cfg.Linger) && (!a.cfg.HoldForPoll || a.poll > v.poll):
		case p.progress-v.end() >= int64(a.cfg.Linger) && !a.cfg.HoldForPoll:
		default:
			return
		}
		a.release(v, now)
	}
}

// release takes v out of closing: into the run it belongs to, into the queue
// for one, or out.
func (a *Assembler) release(v *invocation, now int64) {
	p := v.proc
	p.closing = slices.DeleteFunc(p.closing, func(c *invocation) bool { return c == v })
	if !v.isRun() {
		a.emitSingle(v, now)
		return
	}
	a.stats.Invocations++
	// An announced worker, or one whose root names a run, has an L3 parent
	// even if nothing of it was read yet.
	if len(p.scope.parents) == 0 && p.dev < 0 && v.identity.RunID == 0 {
		a.emitInvocation(v, now)
		return
	}
	a.wait(v, now)
}

// isRun tells a chip invocation from a prewarm.
func (v *invocation) isRun() bool {
	return v.root >= 0 && v.list[v.root].name.role != rolePrewarm && v.list[v.root].name.Stage != semconv.StagePrewarm
}

// wait looks for the run that v belongs to among those that are over or have
// left, else queues it.
func (a *Assembler) wait(v *invocation, now int64) {
	s := v.proc.scope
	v.state, v.since = stateWaiting, now
	for _, u := range s.over {
		if a.claim(u, v) {
			if len(u.children) >= len(u.shaped.dispatches) {
				a.finishRun(u, now)
			}
			return
		}
	}
	for i := len(s.left) - 1; i >= 0; i-- {
		if d, how := s.left[i].match(v); how != StitchNone {
			a.emitLate(v, s.left[i], d, how, now)
			return
		}
	}
	s.waiting = append(s.waiting, v)
}

func (a *Assembler) claim(u *run, v *invocation) bool {
	d, how := u.shaped.match(v)
	if how == StitchNone {
		return false
	}
	u.children = append(u.children, child{v, d, how})
	return true
}

// endRun lets a run that is over collect its invocations, and sends it on when
// none is missing.
func (a *Assembler) endRun(u *run, now int64) {
	if u.shaped != nil {
		return
	}
	a.collect(u)
	if len(u.children) >= len(u.shaped.dispatches) {
		a.finishRun(u, now)
	}
}

// collect fixes u's shape and takes the invocations that wait for it.
func (a *Assembler) collect(u *run) {
	s := u.proc.scope
	u.shaped = u.shape()
	s.over = append(s.over, u)
	s.waiting = slices.DeleteFunc(s.waiting, func(v *invocation) bool { return a.claim(u, v) })
}

// settleRun ends a run by quiet, and sends on one that has waited long enough
// for its invocations.
func (a *Assembler) settleRun(u *run, now int64) {
	quiet := now - u.touched
	switch {
	case u.shaped != nil && quiet >= int64(a.cfg.StitchWait):
		a.finishRun(u, now)
	case u.shaped == nil && (quiet >= int64(a.cfg.MaxOpen) || (u.complete() && quiet >= int64(a.cfg.Linger))):
		a.endRun(u, now)
	}
}

// settleWaiting gives up on invocations that no run will claim.
func (a *Assembler) settleWaiting(s *Scope, now int64) {
	for i := 0; i < len(s.waiting); {
		v := s.waiting[i]
		waited := now - v.since
		passed := waited >= int64(a.cfg.StitchWait) || s.passed(v.end()+int64(a.cfg.StitchWait))
		if waited < int64(a.cfg.MaxOpen) && (!passed || s.mayBeClaimed(v.start())) {
			i++
			continue
		}
		a.giveUp(v, now)
	}
}

// giveUp emits a waiting invocation on its own.
func (a *Assembler) giveUp(v *invocation, now int64) {
	s := v.proc.scope
	s.waiting = slices.DeleteFunc(s.waiting, func(w *invocation) bool { return w == v })
	if v.external {
		a.emitSingle(v, now)
		return
	}
	a.emitInvocation(v, now)
}

// finishOpen sends on an invocation whose root did not come.
func (a *Assembler) finishOpen(v *invocation, now int64) {
	delete(v.proc.open, v.inv)
	a.open.remove(v)
	a.emitIncomplete(v, now)
}

// finishRun emits u with the invocations it has, complete or not.
func (a *Assembler) finishRun(u *run, now int64) {
	if u.shaped == nil {
		a.collect(u)
	}
	s := u.proc.scope
	s.over = slices.DeleteFunc(s.over, func(o *run) bool { return o == u })
	delete(u.proc.runs, u.id)
	a.openRuns.remove(u)
	slices.SortStableFunc(u.children, func(x, y child) int {
		return cmp.Or(cmp.Compare(x.start(), y.start()), cmp.Compare(x.proc.pid, y.proc.pid))
	})
	a.emitRun(u, now)
	u.shaped.emitted = now
	s.remember(u.shaped)
	a.freeRun(u)
}

// leftRun finds the run that a node record printed after its run had left
// still belongs to.
func (s *Scope) leftRun(pid int32, runID uint64, r *Record) *runShape {
	for i := len(s.left) - 1; i >= 0; i-- {
		shape := s.left[i]
		if shape.pid != pid || shape.runID != runID {
			continue
		}
		if r.TS < shape.start || r.TS > shape.end+int64(s.asm.cfg.Linger) {
			return nil
		}
		return shape
	}
	return nil
}

// forget drops runs that left before the wall time since.
func (s *Scope) forget(since int64) {
	n := 0
	for n < len(s.left) && s.left[n].emitted < since {
		n++
	}
	if n > 0 {
		s.left = slices.Delete(s.left, 0, n)
	}
}

func (a *Assembler) freeInvocation(v *invocation) {
	a.stats.HeldBytes -= v.bytes()
	a.held--
	v.reset()
	if len(a.freeInvocations) < maxFree && cap(v.arena) <= maxFreeArena {
		a.freeInvocations = append(a.freeInvocations, v)
	}
}

func (a *Assembler) freeRun(u *run) {
	a.stats.HeldBytes -= u.bytes()
	u.reset()
	if len(a.freeRuns) < maxFree && cap(u.arena) <= maxFreeArena {
		a.freeRuns = append(a.freeRuns, u)
	}
}

const (
	// maxFree bounds the units kept for reuse, maxFreeArena the size above
	// which one is given back instead.
	maxFree      = 1024
	maxFreeArena = 64 << 10
)
