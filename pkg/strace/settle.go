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
			for p.closing.len() > 0 {
				a.release(p, now)
			}
		}
	}
	for a.openRuns.oldest != nil {
		a.finishRun(a.openRuns.oldest, now)
	}
	for _, s := range a.ordered {
		a.giveUpWhere(s, now, func(*invocation) bool { return true })
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

// pollEnded reports whether every file was read to its end since poll n, where
// that is to be waited for.
func (a *Assembler) pollEnded(n uint64) bool { return !a.cfg.HoldForPoll || a.poll > n }

// settleProcess releases closed invocations behind which the process has
// printed far enough, or which have waited long enough.
func (a *Assembler) settleProcess(p *process, now int64) {
	for p.closing.len() > 0 {
		v := p.closing.first()
		switch {
		case now-v.since >= int64(a.cfg.Linger) && a.pollEnded(v.poll):
		case p.progress-v.end() >= int64(a.cfg.Linger) && !a.cfg.HoldForPoll:
		default:
			return
		}
		a.release(p, now)
	}
}

// release takes the first one out of p's closing: into the run it belongs to,
// into the queue for one, or out.
func (a *Assembler) release(p *process, now int64) {
	v := p.closing.pop()
	if p.closed[v.inv] == v {
		delete(p.closed, v.inv)
	}
	if !v.isRun() {
		a.emitSingle(v, now)
		return
	}
	a.stats.Invocations++
	// An announced worker, or one whose root names a run, has an L3 parent
	// even if nothing of it was read yet. Where that was waited for in vain,
	// its log is not among those read.
	if len(p.scope.parents) == 0 && v.identity.RunID == 0 && (p.dev < 0 || p.scope.parentless) {
		a.emitInvocation(v, now)
		return
	}
	a.wait(v, now)
}

// isRun tells a chip invocation from a prewarm.
func (v *invocation) isRun() bool {
	return v.root >= 0 && v.list[v.root].name.role != rolePrewarm && v.list[v.root].name.Stage != semconv.StagePrewarm
}

// settleRun ends a run by quiet, and sends on one that has waited long enough
// for its invocations.
func (a *Assembler) settleRun(u *run, now int64) {
	// Its invocations may lie in a file that the same poll reads more slowly:
	// the wait for them begins when the poll ends.
	if a.cfg.HoldForPoll && !u.polled && a.poll > u.poll {
		u.polled, u.touched = true, now
	}
	quiet := now - u.touched
	switch {
	case u.shaped != nil && (u.full() || (quiet >= int64(a.cfg.StitchWait) && a.pollEnded(u.poll))):
		a.finishRun(u, now)
	case u.shaped == nil && u.announcedAllOver() && a.poll > u.poll:
		a.endRun(u, now)
	case u.shaped == nil && (quiet >= int64(a.cfg.MaxOpen) || ((u.retired || u.complete()) && quiet >= int64(a.cfg.Linger) && a.pollEnded(u.poll))):
		a.endRun(u, now)
	}
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
		a.collect(u, now)
	}
	a.lastChance(u, now)
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

func (a *Assembler) freeInvocation(v *invocation) {
	a.stats.HeldBytes -= v.bytes()
	a.held--
	v.reset()
	if len(a.freeInvocations) < maxFree && v.keepable() {
		a.freeInvocations = append(a.freeInvocations, v)
	}
}

func (a *Assembler) freeRun(u *run) {
	a.stats.HeldBytes -= u.bytes()
	u.reset()
	if len(a.freeRuns) < maxFree && u.keepable() {
		a.freeRuns = append(a.freeRuns, u)
	}
}

const (
	// maxFree bounds the units kept for reuse, maxFreeArena and maxFreeList the
	// sizes above which one is given back instead.
	maxFree      = 1024
	maxFreeArena = 64 << 10
	maxFreeList  = 512
)

func (rs *records) keepable() bool {
	return cap(rs.arena) <= maxFreeArena && cap(rs.list) <= maxFreeList
}
