// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "slices"

// enforce keeps the bounds. Closed invocations only lose the rest of their
// linger; then what was silent longest leaves, incomplete before complete. It
// is emitted, not dropped.
func (a *Assembler) enforce(now int64) {
	for a.held > a.cfg.MaxInvocations && a.evictOne(now) {
		a.stats.EvictedInvocations++
	}
	for a.openRuns.n > a.cfg.MaxRuns {
		a.stats.EvictedRuns++
		a.finishRun(a.openRuns.oldest, now)
	}
	for a.stats.HeldBytes > a.cfg.MaxBytes && a.evictOne(now) {
		a.stats.EvictedBytes++
	}
}

// evictOne sends on one unit; false when nothing is held.
func (a *Assembler) evictOne(now int64) bool {
	closing, waiting := a.oldestSettled()
	switch {
	case closing != nil:
		a.release(closing.proc, now)
	case a.open.oldest != nil && now-a.open.oldest.touched >= int64(a.cfg.StitchWait):
		a.finishOpen(a.open.oldest, now)
	case waiting != nil:
		s := waiting.proc.scope
		s.waiting = slices.Delete(s.waiting, 0, 1)
		a.giveUp(waiting, now)
	case a.openRuns.oldest != nil:
		a.finishRun(a.openRuns.oldest, now)
	case a.open.oldest != nil: // in full flow, but there is nothing else
		a.finishOpen(a.open.oldest, now)
	default:
		return false
	}
	return true
}

// oldestSettled finds the closed and the waiting invocation that have been
// here longest. It looks at the head of each queue only.
func (a *Assembler) oldestSettled() (closing, waiting *invocation) {
	older := func(v, than *invocation) bool { return than == nil || v.since < than.since }
	for _, s := range a.ordered {
		if len(s.waiting) > 0 && older(s.waiting[0], waiting) {
			waiting = s.waiting[0]
		}
		for _, p := range s.ordered {
			if p.closing.len() > 0 && older(p.closing.first(), closing) {
				closing = p.closing.first()
			}
		}
	}
	return closing, waiting
}

// idle reports whether nothing of p is on its way.
func (p *process) idle() bool { return len(p.open) == 0 && p.closing.len() == 0 && len(p.runs) == 0 }

// evictProcess forgets the process that was silent longest, its clock with
// it; one with nothing on its way where there is one.
func (a *Assembler) evictProcess() {
	var victim *process
	for _, s := range a.ordered {
		for _, p := range s.ordered {
			if victim == nil || (p.idle() && !victim.idle()) || (p.idle() == victim.idle() && p.used < victim.used) {
				victim = p
			}
		}
	}
	if victim != nil {
		a.stats.EvictedProcesses++
		a.dropProcess(victim)
	}
}

// dropProcess sends on what p holds and forgets it.
func (a *Assembler) dropProcess(p *process) {
	now := p.used
	for p.closing.len() > 0 {
		a.release(p, now)
	}
	for _, v := range sortedOpen(p) {
		a.finishOpen(v, now)
	}
	s := p.scope
	a.giveUpWhere(s, now, func(v *invocation) bool { return v.proc == p })
	for u := a.openRuns.oldest; u != nil; {
		next := u.age.newer
		if u.proc == p || u.holdsChildOf(p) {
			a.finishRun(u, now)
		}
		u = next
	}
	delete(s.processes, p.pid)
	s.ordered = slices.DeleteFunc(s.ordered, func(o *process) bool { return o == p })
	s.parents = slices.DeleteFunc(s.parents, func(o *process) bool { return o == p })
	a.stats.Processes--
}

func (u *run) holdsChildOf(p *process) bool {
	return slices.ContainsFunc(u.children, func(c child) bool { return c.proc == p })
}

// sortedOpen returns p's open invocations by their number, so that output does
// not depend on a map's order.
func sortedOpen(p *process) []*invocation {
	open := make([]*invocation, 0, len(p.open))
	for _, v := range p.open {
		open = append(open, v)
	}
	slices.SortFunc(open, func(x, y *invocation) int {
		if x.inv < y.inv {
			return -1
		}
		return 1
	})
	return open
}

// evictScope forgets the scope that was silent longest.
func (a *Assembler) evictScope() {
	victim := slices.MinFunc(a.ordered, func(x, y *Scope) int { return int(min(max(x.used-y.used, -1), 1)) })
	for len(victim.ordered) > 0 {
		a.dropProcess(victim.ordered[0])
	}
	delete(a.scopes, victim.Key)
	a.ordered = slices.DeleteFunc(a.ordered, func(s *Scope) bool { return s == victim })
	a.stats.EvictedScopes++
}
