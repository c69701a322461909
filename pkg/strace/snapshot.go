// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "fmt"

// snapshotVersion changes whenever the layout does; another version is
// refused, since half-understood state would make wrong spans.
const snapshotVersion = 1

// AppendSnapshot appends all that is pending to dst: open, closed and waiting
// invocations, runs open and left, worker maps and clocks. Times of reading
// are left out: after a restart every wait begins anew, or the pause itself
// would make everything due.
func (a *Assembler) AppendSnapshot(dst []byte) []byte {
	e := encoder{b: dst}
	e.uint(snapshotVersion)
	e.count(len(a.ordered))
	for _, s := range a.ordered {
		e.string(s.Key)
		e.int(int64(s.workers))
		e.count(len(s.ordered))
		for _, p := range s.ordered {
			e.process(p)
		}
		e.count(len(s.left))
		for _, shape := range s.left {
			e.shape(shape)
		}
	}
	// Units follow in the order in which they age.
	e.count(a.open.n)
	for v := a.open.oldest; v != nil; v = v.age.newer {
		a.encodeUnit(&e, v)
	}
	for _, s := range a.ordered {
		for _, p := range s.ordered {
			e.count(p.closing.len())
			for _, v := range p.closing.all() {
				e.invocation(v)
			}
		}
	}
	e.count(a.openRuns.n)
	for u := a.openRuns.oldest; u != nil; u = u.age.newer {
		a.encodeOwner(&e, u.proc)
		e.run(u)
	}
	waiting := a.waiting()
	e.count(len(waiting))
	for _, v := range waiting {
		a.encodeUnit(&e, v)
	}
	return e.b
}

// waiting lists the invocations that wait for a run, claimed ones included:
// Restore claims them again.
func (a *Assembler) waiting() []*invocation {
	var all []*invocation
	for u := a.openRuns.oldest; u != nil; u = u.age.newer {
		for _, c := range u.children {
			all = append(all, c.invocation)
		}
	}
	for _, s := range a.ordered {
		all = append(all, s.waiting...)
	}
	return all
}

func (a *Assembler) encodeUnit(e *encoder, v *invocation) {
	a.encodeOwner(e, v.proc)
	e.invocation(v)
}

func (a *Assembler) encodeOwner(e *encoder, p *process) {
	e.string(p.scope.Key)
	e.int(int64(p.pid))
}

func (e *encoder) process(p *process) {
	e.int(int64(p.pid))
	e.int(int64(p.dev))
	e.int(p.progress)
	e.int(p.dropped)
	isParent := false
	for _, parent := range p.scope.parents {
		isParent = isParent || parent == p
	}
	e.bool(isParent)
	e.int(p.file.Birth)
	e.int(p.file.Written)
	e.int(p.file.LastEnd)
	e.int(p.file.Mtime)
	e.count(len(p.clock.anchors))
	for _, x := range p.clock.anchors {
		e.int(x.Mono)
		e.int(x.Wall)
	}
	w := &p.clock.samples
	e.count(w.n)
	for i := range w.n {
		e.int(w.ring[(w.next-w.n+i+maxSamples)%maxSamples])
	}
}

func (e *encoder) records(rs *records) {
	e.bytes(rs.arena)
	e.count(len(rs.list))
	for i := range rs.list {
		r := &rs.list[i]
		e.string(r.name.raw)
		e.int(r.ts)
		e.int(r.dur)
		e.int(r.tid)
		e.uint(r.hid)
		e.uint(uint64(r.hidDigits))
		e.int(int64(r.depth))
		e.bool(r.device)
		e.bool(r.verbatim)
		e.uint(uint64(r.attrOff))
		e.uint(uint64(r.attrLen))
	}
}

func (e *encoder) invocation(v *invocation) {
	e.uint(v.inv)
	e.int(int64(v.root))
	e.int(v.born)
	e.bool(v.lost)
	e.bool(v.external)
	e.records(&v.records)
}

func (e *encoder) run(u *run) {
	e.uint(u.id)
	e.bool(u.lost)
	e.bool(u.shaped != nil)
	e.records(&u.records)
}

func (e *encoder) shape(s *runShape) {
	e.int(int64(s.pid))
	e.uint(s.runID)
	e.bytes(s.trace[:])
	e.bytes(s.root[:])
	e.bytes(s.graphBuild[:])
	e.bytes(s.last[:])
	e.int(s.idTS)
	e.int(s.start)
	e.int(s.end)
	e.int(s.at.offset)
	e.int(s.at.err)
	e.uint(uint64(s.at.source))
	e.bool(s.retired)
	e.count(len(s.dispatches))
	for i := range s.dispatches {
		d := &s.dispatches[i]
		e.identity(&d.identity)
		e.bytes(d.span[:])
		e.int(d.start)
		e.int(d.end)
		e.bool(d.completed)
	}
}

func (e *encoder) identity(id *Identity) {
	e.uint(id.RunID)
	e.uint(id.DispatchID)
	e.uint(id.Generation)
	e.int(id.TaskSlot)
	e.int(id.WorkerID)
	e.int(id.SlotID)
	e.uint(uint64(id.Has))
}

// Restore fills an empty assembler from a snapshot, at the wall time now. A
// damaged snapshot is an error and leaves the assembler unusable.
func (a *Assembler) Restore(snapshot []byte, now int64) error {
	d := decoder{b: snapshot}
	if v := d.uint(); v != snapshotVersion && d.err == nil {
		return fmt.Errorf("strace: snapshot version %d, this build reads %d", v, snapshotVersion)
	}
	for range d.count() {
		s := a.Scope(string(d.bytes()), now)
		s.workers = int(d.int())
		for range d.count() {
			a.decodeProcess(&d, s, now)
		}
		for range d.count() {
			if shape := d.shape(now); d.err == nil {
				s.left = append(s.left, shape)
			}
		}
	}
	a.decodeOpen(&d, now)
	for _, s := range a.ordered {
		for _, p := range s.ordered {
			for range d.count() {
				if v := a.decodeInvocation(&d, p, now); d.err == nil {
					v.poll = a.poll
					p.awaitLinger(v)
				}
			}
		}
	}
	for range d.count() {
		if p := a.decodeOwner(&d, now); d.err == nil {
			a.decodeRun(&d, p, now)
		}
	}
	for range d.count() {
		if p := a.decodeOwner(&d, now); d.err == nil {
			if v := a.decodeInvocation(&d, p, now); d.err == nil {
				a.wait(v, now)
			}
		}
	}
	return d.err
}

func (a *Assembler) decodeOwner(d *decoder, now int64) *process {
	key, pid := string(d.bytes()), int32(d.int())
	if d.err != nil {
		return nil
	}
	return a.Scope(key, now).process(pid, now)
}

func (a *Assembler) decodeOpen(d *decoder, now int64) {
	for range d.count() {
		p := a.decodeOwner(d, now)
		if d.err != nil {
			return
		}
		v := a.decodeInvocation(d, p, now)
		if d.err != nil {
			return
		}
		p.open[v.inv] = v
		a.open.push(v)
	}
}

func (a *Assembler) decodeProcess(d *decoder, s *Scope, now int64) {
	pid, dev := int32(d.int()), int32(d.int())
	progress, dropped, isParent := d.int(), d.int(), d.bool()
	file := FileClock{Birth: d.int(), Written: d.int(), LastEnd: d.int(), Mtime: d.int()}
	if d.err != nil {
		return
	}
	p := s.process(pid, now)
	p.progress, p.dropped, p.file = progress, dropped, file
	if dev >= 0 {
		s.setDevice(p, dev)
	}
	if isParent {
		s.isParent(p)
	}
	for range d.count() {
		p.clock.addAnchor(Anchor{PID: pid, Mono: d.int(), Wall: d.int()})
	}
	for range min(d.count(), maxSamples) {
		p.clock.samples.put(d.int())
	}
}

func (a *Assembler) decodeRecords(d *decoder, rs *records) {
	rs.arena = append(rs.arena, d.bytes()...)
	for range d.count() {
		raw := d.bytes()
		r := stored{
			ts: d.int(), dur: d.int(), tid: d.int(), hid: d.uint(), hidDigits: uint8(d.uint()),
			depth: int32(d.int()), device: d.bool(), verbatim: d.bool(),
			attrOff: uint32(d.uint()), attrLen: uint32(d.uint()),
		}
		if d.err != nil {
			return
		}
		if uint64(r.attrOff)+uint64(r.attrLen) > uint64(len(rs.arena)) || r.ts < 0 || r.dur < 0 {
			d.fail()
			return
		}
		r.name = a.names.Intern(raw, r.verbatim)
		rs.list = append(rs.list, r)
	}
	a.stats.HeldBytes += rs.bytes()
}

func (a *Assembler) decodeInvocation(d *decoder, p *process, now int64) *invocation {
	v := a.newInvocation(p, d.uint(), now)
	root := int(d.int())
	v.born = d.int()
	v.lost, v.external = d.bool(), d.bool()
	a.decodeRecords(d, &v.records)
	if root < -1 || root >= len(v.list) || len(v.list) == 0 {
		d.fail()
		return v
	}
	v.root = root
	for i := range v.list {
		if !v.list[i].device {
			v.hostEnd = max(v.hostEnd, v.list[i].end())
		}
	}
	if root >= 0 {
		v.identity = ParseIdentity(v.attrs(&v.list[root]))
	}
	return v
}

func (a *Assembler) decodeRun(d *decoder, p *process, now int64) {
	u := a.newRun(p, d.uint(), now)
	u.lost = d.bool()
	over := d.bool()
	a.decodeRecords(d, &u.records)
	if d.err != nil || len(u.list) == 0 {
		d.fail()
		return
	}
	for i := range u.list {
		r := &u.list[i]
		id := ParseIdentity(u.attrs(r))
		if id.Has&HasRunID == 0 {
			id.RunID = u.id
		}
		u.ids = append(u.ids, id)
		u.start, u.end = min(u.start, r.ts), max(u.end, r.end())
		u.noteTask(r.name.role, u.attrs(r))
	}
	if over {
		a.collect(u, now)
	}
}

func (d *decoder) shape(now int64) *runShape {
	s := &runShape{pid: int32(d.int()), runID: d.uint(), emitted: now}
	copy(s.trace[:], d.bytes())
	copy(s.root[:], d.bytes())
	copy(s.graphBuild[:], d.bytes())
	copy(s.last[:], d.bytes())
	s.idTS = d.int()
	s.start, s.end = d.int(), d.int()
	s.at = placement{offset: d.int(), err: d.int(), source: ClockSource(d.uint())}
	s.retired = d.bool()
	for range d.count() {
		var x dispatchShape
		x.identity = d.identity()
		copy(x.span[:], d.bytes())
		x.start, x.end, x.completed = d.int(), d.int(), d.bool()
		s.dispatches = append(s.dispatches, x)
	}
	return s
}

func (d *decoder) identity() Identity {
	return Identity{
		RunID: d.uint(), DispatchID: d.uint(), Generation: d.uint(),
		TaskSlot: d.int(), WorkerID: d.int(), SlotID: d.int(), Has: IdentityBits(d.uint()),
	}
}
