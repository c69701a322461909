// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// A worker that dies in an invocation leaves it without root, and one that is
// opened again in the same process, or gets the same pid, counts from 1 again:
// then records of two invocations come under one number.

// restartAt returns where in v the invocation begins that r belongs to: 0 but
// for an r whose stage, which occurs once, is already here and was over before
// r began. What was printed since the last such stage ended is r's own:
// children print before their parents.
func (v *invocation) restartAt(r *Record) int {
	if !once(r.Name.role) {
		return 0
	}
	again, over := false, int64(0)
	first := max(0, len(v.list)-maxCandidates)
	for i := first; i < len(v.list); i++ {
		s := &v.list[i]
		if !once(s.name.role) || s.end() > r.TS {
			continue
		}
		again = again || s.name == r.Name
		over = max(over, s.end())
	}
	if !again {
		return 0
	}
	at := len(v.list)
	for at > first && !v.list[at-1].device && v.list[at-1].ts >= over {
		at--
	}
	return at
}

func once(r role) bool { return r == roleOnce || r == roleRunnerRun }

// strangers returns how many records at v's beginning are not its own: those
// up to the last span that had ended when the root, v's last record, began. A
// point may be stamped ahead of the root and says nothing.
func (v *invocation) strangers() int {
	last := len(v.list) - 1
	begin := v.list[last].ts
	for i := last - 1; i >= max(0, last-maxCandidates); i-- {
		if r := &v.list[i]; !r.device && !r.point() && r.end() <= begin {
			return i + 1
		}
	}
	return 0
}

// splitOff sends on the first n records of v, incomplete, and returns the open
// invocation with the rest, nil when there is none. With n = 0 it is v.
func (a *Assembler) splitOff(v *invocation, n int, now int64) *invocation {
	if n == 0 {
		return v
	}
	p, inv := v.proc, v.inv
	var rest *invocation
	if n < len(v.list) {
		rest = a.newInvocation(p, inv, now)
		rest.lost = v.lost
		before := v.bytes()
		for i := n; i < len(v.list); i++ {
			r := &v.list[i]
			rest.copyOf(r, v.attrs(r))
			if !r.device {
				rest.hostEnd = max(rest.hostEnd, r.end())
			}
		}
		v.list = v.list[:n]
		v.hostEnd = 0
		for i := range v.list {
			if !v.list[i].device {
				v.hostEnd = max(v.hostEnd, v.list[i].end())
			}
		}
		a.stats.HeldBytes += v.bytes() + rest.bytes() - before
	}
	a.finishOpen(v, now)
	if rest != nil {
		p.open[inv] = rest
		a.open.push(rest)
	}
	return rest
}
