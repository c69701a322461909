// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// begin starts a trace in the reused buffers.
func (a *Assembler) begin(kind TraceKind, id TraceID) *Trace {
	t := &a.build.trace
	t.reset()
	t.Kind, t.ID = kind, id
	return t
}

// end counts the trace and hands it out.
func (a *Assembler) end(t *Trace) {
	if len(t.Spans) == 0 {
		return
	}
	a.stats.Traces[t.Kind]++
	a.stats.Spans += uint64(len(t.Spans))
	a.stats.Events += uint64(len(t.Events))
	for i := range t.Spans {
		s := &t.Spans[i]
		a.stats.Placed[s.Source]++
		if s.Guessed {
			a.stats.GuessedParents++
		}
		if s.Device && !s.Fits {
			a.stats.DeviceMisfits++
		}
	}
	a.stats.LastClockError = t.Spans[0].ErrorNS
	a.cfg.Emit(t)
}

// place finds the offset for records of p from ts to end; spans is how many
// depend on it.
func (a *Assembler) place(p *process, ts, end int64, spans int, now int64) (placement, bool) {
	before := p.clock.jumps
	at := p.clock.place(ts, end, a.cfg.ClockSources, a.host, p.file)
	a.stats.ClockJumps += p.clock.jumps - before
	if at.source != ClockNone {
		return at, true
	}
	a.stats.Unplaced += uint64(spans)
	switch a.cfg.OnNone {
	case NoneReadTime:
		return placement{offset: now - end, err: UnknownError, source: ClockNone}, true
	case NoneMonotonic:
		return placement{err: UnknownError, source: ClockNone}, true
	default:
		return at, false
	}
}

// UnknownError is Span.ErrorNS where nothing bounds the wall time.
const UnknownError = int64(-1)

func (a *Assembler) invocationTraceID(v *invocation) TraceID {
	return a.build.ids.trace(domainInvocation, v.proc.scope.Key, v.proc.pid, v.inv, v.start(), "")
}

// emitInvocation sends v on as a trace of its own.
func (a *Assembler) emitInvocation(v *invocation, now int64) {
	a.emitAlone(v, TraceInvocation, a.invocationTraceID(v), now)
	a.stats.Stitched[StitchNone]++
}

// emitIncomplete sends v on without its root.
func (a *Assembler) emitIncomplete(v *invocation, now int64) {
	a.emitAlone(v, TraceIncomplete, a.invocationTraceID(v), now)
}

func (a *Assembler) emitAlone(v *invocation, kind TraceKind, id TraceID, now int64) {
	defer a.freeInvocation(v)
	at, ok := a.place(v.proc, v.start(), v.end(), len(v.list), now)
	if !ok {
		return
	}
	t := a.begin(kind, id)
	if kind == TraceInvocation {
		t.Invocations = 1
	}
	a.build.invocation(v, SpanID{}, StitchNone, at)
	a.end(t)
}

// emitSingle sends on a record that is neither part of a run nor an
// invocation; under its W3C parent where it names one.
func (a *Assembler) emitSingle(v *invocation, now int64) {
	defer a.freeInvocation(v)
	at, ok := a.place(v.proc, v.start(), v.end(), len(v.list), now)
	if !ok {
		return
	}
	r := &v.list[v.root]
	parent := SpanID{}
	id, remote := TraceID{}, false
	if text, has := Attr(v.attrs(r), "traceparent"); has {
		id, parent, remote = parseTraceparent(text)
	}
	if !remote {
		parent = SpanID{}
		id = a.build.ids.trace(domainSingle, v.proc.scope.Key, v.proc.pid, v.inv, r.ts, r.name.Text)
	}
	t := a.begin(TraceSingle, id)
	t.Remote = remote
	a.build.invocation(v, parent, StitchNone, at)
	a.end(t)
}

// emitLate sends v on as a further part of a run that has left.
func (a *Assembler) emitLate(v *invocation, shape *runShape, dispatch int, how Stitch, now int64) {
	defer a.freeInvocation(v)
	at, ok := a.place(v.proc, v.start(), v.end(), len(v.list), now)
	if !ok {
		return
	}
	t := a.begin(TraceLate, shape.trace)
	a.stitch(t, v, shape, dispatch, how, at)
	a.end(t)
}

func (a *Assembler) stitch(t *Trace, v *invocation, shape *runShape, dispatch int, how Stitch, at placement) {
	parent := shape.root
	if dispatch >= 0 {
		parent = shape.dispatches[dispatch].span
	}
	if !v.external {
		t.Invocations++
		a.stats.Stitched[how]++
	}
	a.build.invocation(v, parent, how, at)
}

// emitStraggler sends on a node record that its run did not wait for, with
// the ids it would have had there.
func (a *Assembler) emitStraggler(shape *runShape, p *process, r *Record, id *Identity, now int64) {
	at := shape.at
	if at.source == ClockNone {
		var ok bool
		if at, ok = a.place(p, r.TS, r.End(), 1, now); !ok {
			a.count(r)
			return
		}
	}
	parent := shape.root
	switch {
	case r.Name.role == roleSubmit && !shape.graphBuild.IsZero():
		parent = shape.graphBuild
	case under(r.Name.role):
		for i := range shape.dispatches {
			if sameTask(&shape.dispatches[i].identity, id) {
				parent = shape.dispatches[i].span
				break
			}
		}
	}
	t := a.begin(TraceLate, shape.trace)
	var rs records
	s := rs.add(r)
	a.build.span(&rs, s, t.process(p), shape.runID, shape.idTS, at, &deviceBlock{fits: true}, 0)
	t.Spans[0].Parent = parent
	if t.Spans[0].ID == shape.last {
		a.stats.Records[OutcomeDuplicate]++
		return
	}
	shape.last = t.Spans[0].ID
	a.count(r)
	a.end(t)
}

// under tells the records of a task that hang under its dispatch.
func under(r role) bool {
	return r == roleFrameSubmit || r == roleActivate || r == roleComplete
}

// emitRun sends on a run with its invocations.
func (a *Assembler) emitRun(u *run, now int64) {
	a.stats.Runs++
	p := u.proc
	shape := u.shaped
	shape.idTS = u.idTS()
	shape.trace = a.build.ids.trace(domainRun, p.scope.Key, p.pid, u.id, shape.idTS, "")
	t := a.begin(TraceRun, shape.trace)
	at, ok := a.place(p, u.start, u.end, len(u.list)+1, now)
	shape.at = at
	if ok {
		a.build.run(u, at, a.names)
	}
	for _, c := range u.children {
		childAt, childOK := a.place(c.proc, c.start(), c.end(), len(c.list), now)
		if childOK {
			a.stitch(t, c.invocation, shape, c.dispatch, c.how, childAt)
		}
	}
	a.end(t)
	for _, c := range u.children {
		a.freeInvocation(c.invocation)
	}
}
