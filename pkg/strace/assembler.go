// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"errors"
	"math"
	"slices"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Assembler files records under their invocation or run and emits whole
// traces. It holds only what is incomplete, within the bounds of its Config.
type Assembler struct {
	cfg   Config
	names *Names
	build builder
	stats Stats

	scopes map[string]*Scope
	// ordered are the scopes in order of appearance.
	ordered []*Scope
	// open holds invocations without root, and openRuns runs, by last record.
	open     ageList[invocation]
	openRuns ageList[run]
	// held counts invocations that have not left, open or not.
	held int
	// poll counts calls of EndPoll.
	poll uint64

	freeInvocations []*invocation
	freeRuns        []*run
	host            HostClock
}

// NewAssembler checks cfg and returns an empty assembler. All records it gets
// must be interned in one table, and in names where Restore is used.
func NewAssembler(cfg Config, names *Names) (*Assembler, error) {
	if cfg.Emit == nil {
		return nil, errors.New("strace: Config.Emit is required")
	}
	if cfg.MaxInvocations <= 0 || cfg.MaxRuns <= 0 || cfg.MaxBytes <= 0 || cfg.MaxProcesses <= 0 || cfg.MaxScopes <= 0 {
		return nil, errors.New("strace: every limit in Config must be positive")
	}
	return &Assembler{
		cfg: cfg, names: names, scopes: map[string]*Scope{},
		build:    builder{ids: idHasher{host: cfg.Host}},
		open:     ageList[invocation]{of: func(v *invocation) *links[invocation] { return &v.age }},
		openRuns: ageList[run]{of: func(u *run) *links[run] { return &u.age }},
	}, nil
}

// Stats returns the counts so far.
func (a *Assembler) Stats() Stats {
	s := a.stats
	s.Open, s.OpenRuns = a.open.n, a.openRuns.n
	s.Scopes = len(a.scopes)
	s.Waiting = a.held - a.open.n
	return s
}

// Scope opens, or finds, the scope named key. Opening one may evict another,
// so look it up again for each batch of records rather than keeping it.
func (a *Assembler) Scope(key string, now int64) *Scope {
	if s, ok := a.scopes[key]; ok {
		s.used = now
		return s
	}
	if len(a.scopes) >= a.cfg.MaxScopes {
		a.evictScope()
	}
	s := &Scope{Key: key, asm: a, processes: map[int32]*process{}, used: now}
	a.scopes[key] = s
	a.ordered = append(a.ordered, s)
	return s
}

// SetHostClock gives the machine's clocks for the records that follow.
func (a *Assembler) SetHostClock(c HostClock) { a.host = c }

// NoteBad counts a marker that is no record.
func (a *Assembler) NoteBad(o Outcome) { a.stats.Records[o]++ }

// NoteAnchor files a clock anchor.
func (a *Assembler) NoteAnchor(s *Scope, anchor Anchor, now int64) {
	s.process(anchor.PID, now).clock.addAnchor(anchor)
}

// NoteReady files a worker announcement.
func (a *Assembler) NoteReady(s *Scope, r Ready, now int64) {
	s.setDevice(s.process(r.PID, now), r.Dev)
}

// NoteSample files one pairing of a wall time (Unix ns) with the monotonic
// time of the same moment or a little before it.
func (a *Assembler) NoteSample(s *Scope, pid int32, mono, wall, now int64) {
	c := &s.process(pid, now).clock
	before := c.samples.jumps
	c.samples.add(mono, wall-mono)
	a.stats.ClockJumps += c.samples.jumps - before
}

// NoteFile tells what the file system knows of the file that pid's records
// come from.
func (a *Assembler) NoteFile(s *Scope, pid int32, f FileClock, now int64) {
	s.process(pid, now).file = f
}

// NoteDrops marks what pid has on its way: the runtime lost records of it.
func (a *Assembler) NoteDrops(s *Scope, d Drops, now int64) {
	p := s.process(d.PID, now)
	for _, v := range p.open {
		v.lost = true
	}
	for _, v := range p.closing.all() {
		v.lost = true
	}
	for _, u := range p.runs {
		u.lost = true
	}
	p.dropped = max(p.dropped, d.Mono)
}

// Add files one record of scope s, read at the wall time now (Unix ns). It
// copies what it keeps of r.
func (a *Assembler) Add(s *Scope, r *Record, now int64) {
	s.used = now
	p := s.process(r.PID, now)
	a.sampleWallPrefix(p, r)
	switch {
	case r.Name.role == roleSchedulerLoop, r.Name.Family == semconv.FamilyExternal:
		a.addSingle(p, r, now)
	case r.Name.Family == semconv.FamilyNode:
		a.addToRun(p, r, now)
	default:
		a.addToInvocation(p, r, now)
	}
	if !r.Device && r.End() > p.progress {
		p.progress = r.End()
		a.settleProcess(p, now)
	}
	a.enforce(now)
}

func (a *Assembler) count(r *Record) {
	if r.Dur == 0 {
		a.stats.Records[OutcomePoint]++
		return
	}
	a.stats.Records[OutcomeSpan]++
}

func (a *Assembler) sampleWallPrefix(p *process, r *Record) {
	if r.Wall == nil || a.cfg.TimeZone == nil || r.Device {
		return
	}
	if wall, ok := parseWall(r.Wall, a.cfg.TimeZone); ok {
		before := p.clock.samples.jumps
		p.clock.samples.add(r.End(), wall-r.End())
		a.stats.ClockJumps += p.clock.samples.jumps - before
	}
}

// addToInvocation files a record of (pid, inv).
func (a *Assembler) addToInvocation(p *process, r *Record, now int64) {
	v := p.open[r.Inv]
	if v == nil {
		if c := p.closingFor(r); c != nil {
			a.addLate(c, r)
			return
		}
	}
	root := r.Depth == 0 && a.closes(v, r)
	if r.Depth == 0 && !root && !r.Name.structured {
		a.addSingle(p, r, now)
		return
	}
	if v != nil && v.holds(r) {
		a.stats.Records[OutcomeDuplicate]++
		return
	}
	if v != nil {
		v = a.splitOff(v, v.restartAt(r), now)
	}
	if v == nil {
		v = a.openInvocation(p, r, now)
	}
	a.count(r)
	a.store(v, r)
	v.touched = now
	a.open.touch(v)
	if root {
		v = a.splitOff(v, v.strangers(), now)
		a.close(v, now)
	}
}

func (a *Assembler) openInvocation(p *process, r *Record, now int64) *invocation {
	v := a.newInvocation(p, r.Inv, now)
	if r.Device {
		// What happened on the host was lost. It was printed by then.
		v.born = r.Mono
		if v.born == 0 {
			v.born = p.progress
		}
	}
	p.open[r.Inv] = v
	a.open.push(v)
	return v
}

// closes tells whether a depth-0 record ends invocation v: the runtime's own
// roots do; another name only where it is the prefix of what is open.
func (a *Assembler) closes(v *invocation, r *Record) bool {
	if r.Name.role == roleRoot || r.Name.role == rolePrewarm {
		return true
	}
	if v == nil || r.Name.structured {
		return false
	}
	for i := range v.list[:min(len(v.list), maxCandidates)] {
		if slices.Contains(v.list[i].name.prefixes, r.Name) {
			return true
		}
	}
	return false
}

// closingFor finds the closed invocation that r, printed after its root,
// still belongs to: its host time lies inside, or it has none.
func (p *process) closingFor(r *Record) *invocation {
	v := p.closed[r.Inv]
	if v == nil {
		return nil
	}
	root := &v.list[v.root]
	if r.Device || (r.TS >= root.ts && r.End() <= root.end()) {
		return v
	}
	return nil
}

// awaitLinger queues v, whose root was seen.
func (p *process) awaitLinger(v *invocation) {
	p.closing.push(v)
	p.closed[v.inv] = v
}

func (a *Assembler) addLate(v *invocation, r *Record) {
	if v.holds(r) {
		a.stats.Records[OutcomeDuplicate]++
		return
	}
	a.count(r)
	a.store(v, r)
}

func (a *Assembler) store(v *invocation, r *Record) {
	before := v.bytes()
	v.add(r)
	a.stats.HeldBytes += v.bytes() - before
	if !r.Device {
		v.hostEnd = max(v.hostEnd, r.End())
	}
}

// close moves v from open to closing: its root is its last record.
func (a *Assembler) close(v *invocation, now int64) {
	v.root = len(v.list) - 1
	root := &v.list[v.root]
	v.identity = ParseIdentity(v.attrs(root))
	v.lost = v.lost || root.ts < v.proc.dropped
	v.proc.learnDevice(v)
	delete(v.proc.open, v.inv)
	a.open.remove(v)
	v.since, v.poll = now, a.poll
	v.proc.awaitLinger(v)
}

// learnDevice takes the device number from device_wall's dev_id, for logs
// without announcements.
func (p *process) learnDevice(v *invocation) {
	if p.dev >= 0 {
		return
	}
	for i := range v.list {
		if v.list[i].name.role != roleDeviceWall {
			continue
		}
		if text, ok := Attr(v.attrs(&v.list[i]), "dev_id"); ok {
			if dev, ok := ParseInt(text); ok && dev >= 0 && dev <= math.MaxInt32 {
				p.scope.setDevice(p, int32(dev))
			}
		}
		return
	}
}

// addSingle emits a record that is a trace of its own, or lets an ext record
// that names a run wait for it.
func (a *Assembler) addSingle(p *process, r *Record, now int64) {
	a.count(r)
	v := a.newInvocation(p, r.Inv, now)
	a.store(v, r)
	v.root = 0
	if r.Name.Family == semconv.FamilyExternal && !hasTraceparent(r.Attrs) {
		v.identity = ParseIdentity(r.Attrs)
		if v.identity.Has&HasRunID != 0 && v.identity.RunID != 0 {
			v.external = true
			a.wait(v, now)
			return
		}
	}
	a.emitSingle(v, now)
}

func hasTraceparent(attrs []byte) bool {
	v, ok := Attr(attrs, "traceparent")
	if !ok {
		return false
	}
	_, _, ok = parseTraceparent(v)
	return ok
}

// addToRun files a node-family record of (pid, run_id).
func (a *Assembler) addToRun(p *process, r *Record, now int64) {
	p.scope.isParent(p)
	id := ParseIdentity(r.Attrs)
	if id.Has&HasRunID == 0 {
		id.RunID = r.Inv // node.inv is the run id
	}
	p.scope.noteWorker(&id)
	u := p.runs[id.RunID]
	if u != nil && u.holds(r) {
		a.stats.Records[OutcomeDuplicate]++
		return
	}
	if u != nil && (u.repeats(r, &id) || (u.retired && r.TS > u.end && !u.misses(r, &id))) {
		a.finishRun(u, now)
		u = nil
	}
	if u == nil {
		if shape := p.scope.leftRun(p.pid, id.RunID, r, &id); shape != nil {
			a.emitStraggler(shape, p, r, &id, now)
			return
		}
		u = a.newRun(p, id.RunID, now)
	}
	a.count(r)
	before := u.bytes()
	u.add(r)
	u.ids = append(u.ids, id)
	a.stats.HeldBytes += u.bytes() - before
	u.start = min(u.start, r.TS)
	u.end = max(u.end, r.End())
	u.lost = u.lost || r.TS < p.dropped
	u.noteTask(r.Name.role, r.Attrs)
	u.touched, u.poll, u.polled = now, a.poll, false
	a.openRuns.touch(u)
	// Of files read side by side, one may bring the retirement before another
	// brings what was printed ahead of it: the end of the poll tells.
	if (u.announcedAllOver() && !a.cfg.HoldForPoll) || u.shaped != nil {
		a.endRun(u, now)
	}
}

// noteTask counts what the run announced and what is over.
func (u *run) noteTask(what role, attrs []byte) {
	switch what {
	case roleSubmit:
		u.expected++
		if text, ok := Attr(attrs, "group_size"); ok {
			if size, ok := ParseInt(text); ok && size > 1 {
				u.expected += int(size) - 1
			}
		}
	case roleGraphBuild:
		u.built = true
	case roleComplete:
		u.completes++
	case roleRetirement:
		u.retired = true
	}
}

func (a *Assembler) newProcess(s *Scope, pid int32) *process {
	if a.stats.Processes >= a.cfg.MaxProcesses {
		a.evictProcess()
	}
	p := &process{scope: s, pid: pid, dev: -1, open: map[uint64]*invocation{}, closed: map[uint64]*invocation{}, runs: map[uint64]*run{}}
	s.processes[pid] = p
	s.ordered = append(s.ordered, p)
	a.stats.Processes++
	return p
}

func (a *Assembler) newInvocation(p *process, inv uint64, now int64) *invocation {
	var v *invocation
	if n := len(a.freeInvocations); n > 0 {
		v, a.freeInvocations = a.freeInvocations[n-1], a.freeInvocations[:n-1]
	} else {
		v = &invocation{root: -1}
	}
	v.proc, v.inv, v.touched, v.since = p, inv, now, now
	a.held++
	return v
}

func (a *Assembler) newRun(p *process, id uint64, now int64) *run {
	var u *run
	if n := len(a.freeRuns); n > 0 {
		u, a.freeRuns = a.freeRuns[n-1], a.freeRuns[:n-1]
	} else {
		u = &run{}
	}
	u.proc, u.id, u.touched, u.start = p, id, now, math.MaxInt64
	p.runs[id] = u
	a.openRuns.push(u)
	return u
}
