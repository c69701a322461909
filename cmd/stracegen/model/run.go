// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// plan is a run being executed.
type plan struct {
	run    *Run
	items  []work
	digest uint64
	// pipelined is set when the previous run is still on the devices.
	pipelined bool
	prevDone  int64
	// wall is what the device needs, before a rank's own luck.
	wall int64
}

// execute runs one step over all ranks. It returns the run, the instant at
// which the engine has its results, and when the next step may begin.
func (s *Sim) execute(callable string, items []work, begin int64) (run *Run, finish, next int64) {
	s.runID++
	s.lease++
	run = &Run{
		ID: s.runID, Callable: callable, Epoch: s.epoch, Index: s.runs, Lease: s.lease,
		Slot:   int(s.lease-1) % s.cfg.Pipeline,
		Failed: s.rnd.Float64() < s.cfg.RunFailRate,
		Start:  begin,
	}
	s.runs++
	p := &plan{run: run, items: items, digest: s.digest[callable], wall: s.deviceTime(callable, items)}
	for _, w := range s.workers {
		p.prevDone = max(p.prevDone, w.rootEnd)
		p.pipelined = p.pipelined || w.rootEnd > begin
	}
	var done int64
	if s.word == "" {
		done = s.runWithoutRecords(p, begin)
	} else {
		done = s.runLevel(p, begin)
	}
	finish = done + s.scaled(50, 150)
	next = max(finish, run.End) + s.scaled(200, 700)
	if s.cfg.Ext {
		s.ext(p, begin, finish)
	}
	s.declareDrops(&s.facade, &s.engineDrops)
	printed := max(run.End, s.facade.at, s.sched.at)
	for _, w := range s.workers {
		printed = max(printed, w.thread.at)
	}
	s.push(Event{At: printed, Run: run})
	if s.cfg.Pipeline == 2 {
		next = min(next, halfway(run, p.prevDone))
	}
	return run, finish, next
}

// deviceTime is the device's time for a step: decode grows a little with the
// batch, prefill with the prompt.
func (s *Sim) deviceTime(callable string, items []work) int64 {
	us := float64(7_500 + 60*len(items))
	if callable == Prefill {
		us = 4_000
		for _, w := range items {
			us += 18 * float64(w.tokens)
		}
	}
	us *= 1 + 0.02*s.rnd.NormFloat64()
	return max(30_000, int64(us*1_000*s.cfg.TimeScale))
}

// halfway is when the next step's preparation can begin: every device is busy
// with this run, and the previous one is over.
func halfway(run *Run, prevDone int64) int64 {
	t := prevDone
	for _, inv := range run.Invocations {
		t = max(t, inv.DeviceStart+inv.Wall/2)
	}
	return t
}

// runWithoutRecords starts all ranks at about the same time and waits for the last.
func (s *Sim) runWithoutRecords(p *plan, begin int64) int64 {
	start := begin + s.scaled(40, 120)
	first, last := int64(1<<62), int64(0)
	for _, w := range s.workers {
		inv := s.invoke(p, w, start+s.scaled(5, 60))
		first, last = min(first, inv.Start), max(last, inv.End)
	}
	p.run.Start, p.run.End = first, last
	return last
}

// runLevel is a run with records of its own: the facade builds the graph and
// submits a task per rank, the scheduler thread dispatches them to the workers'
// mailboxes and collects them, the facade retires the run.
func (s *Sim) runLevel(p *plan, begin int64) int64 {
	p.run.PID = s.engine.PID
	f := &s.facade
	busyFacade, busySched := f.at, s.sched.at
	if p.pipelined {
		// Both threads wait for the previous run now; what they print at its end
		// comes later.
		f.at, s.sched.at = 0, 0
	}
	f.at = max(f.at, begin+s.scaled(30, 100))
	build := f.at
	available := make([]int64, len(s.workers))
	cursor := build + s.nanos(3_000, 9_000)
	for r := range s.workers {
		dur := s.nanos(3_000, 8_000)
		if p.run.Index == 0 && r == 0 {
			dur += 300_000 // the first submit is cold, and the scheduler overtakes it
		}
		available[r] = cursor + dur*7/10
		s.level(p, f, s.names.submit, p.digest, cursor, dur, submitAttrs(p, r))
		cursor = max(f.at, cursor+dur) + s.nanos(400, 1_500)
	}
	s.level(p, f, s.names.graphBuild, 0, build, cursor-build, []logfmt.Attr{
		logfmt.Int("run_id", int64(p.run.ID)), logfmt.Str("role", "facade"),
	})
	for r, w := range s.workers {
		frameEnd := s.dispatch(p, w, r, available[r])
		s.invoke(p, w, frameEnd+s.scaled(20, 150))
	}
	f.at, s.sched.at = max(f.at, busyFacade), max(s.sched.at, busySched)
	done := s.collect(p)
	if s.cfg.Generation < 7 {
		p.run.Start, p.run.End = build, done
		return done
	}
	retire, dur := done+s.nanos(5_000, 20_000), s.scaled(50, 300)
	s.level(p, f, s.names.retirement, 0, retire, dur, []logfmt.Attr{
		logfmt.Int("run_id", int64(p.run.ID)), logfmt.Int("slot_id", int64(p.run.Slot)),
		logfmt.Int("generation", int64(p.run.Lease)), logfmt.Str("role", "facade"),
	})
	p.run.Start, p.run.End = build, retire+dur
	return done
}

// level prints one record of a run at its end.
func (s *Sim) level(p *plan, th *thread, name string, hid uint64, ts, dur int64, attrs []logfmt.Attr) {
	r := s.record()
	r.Site, r.Name, r.Inv, r.HID = logfmt.SiteHostSpan, name, p.run.ID, hid
	r.TS, r.Dur, r.Attrs = ts, dur, attrs
	if s.print(th, &s.engineDrops, r, ts+dur+s.nanos(1_200, 4_000)) {
		p.run.Records++
	} else {
		p.run.Lost++
	}
}

func submitAttrs(p *plan, rank int) []logfmt.Attr {
	return []logfmt.Attr{
		logfmt.Int("run_id", int64(p.run.ID)),
		logfmt.Int("task_slot", int64(rank)), logfmt.Int("group_index", 0), logfmt.Int("group_size", 1),
		logfmt.Int("worker_id", int64(rank)), logfmt.Str("role", "facade"),
	}
}

// taskAttrs begins the attributes of a task's records on the scheduler thread.
func taskAttrs(p *plan, w *worker, role string) []logfmt.Attr {
	prepareOnly := int64(0)
	if p.pipelined {
		prepareOnly = 1
	}
	attrs := make([]logfmt.Attr, 0, 10)
	return append(attrs,
		logfmt.Int("run_id", int64(p.run.ID)),
		logfmt.Int("task_slot", int64(w.proc.Worker)), logfmt.Int("group_index", 0),
		logfmt.Int("worker_id", int64(w.proc.Worker)), logfmt.Int("dispatch_id", int64(w.dispatch)),
		logfmt.Str("endpoint_kind", "local_mailbox"), logfmt.Int("prepare_only", prepareOnly), logfmt.Str("role", role),
	)
}

// dispatch hands a task to a worker's mailbox and returns when it is in there.
func (s *Sim) dispatch(p *plan, w *worker, rank int, available int64) int64 {
	w.dispatch++
	q := &s.sched
	if rank == 0 {
		q.at = max(q.at, available)
	}
	start := max(q.at, available) + s.nanos(800, 6_000)
	frame, frameDur := start+s.nanos(1_000, 4_000), s.nanos(500, 3_000)
	s.level(p, q, s.names.frameSubmit, p.digest, frame, frameDur, taskAttrs(p, w, "worker"))
	end := q.at + s.nanos(300, 1_500)
	attrs := taskAttrs(p, w, "scheduler")
	if s.cfg.Generation >= 7 {
		attrs = append(attrs, logfmt.Int("slot_id", int64(p.run.Slot)), logfmt.Int("generation", int64(p.run.Lease)))
	}
	s.level(p, q, s.names.dispatch, p.digest, start, max(end, frame+frameDur)-start, attrs)
	return frame + frameDur
}

// activate prints that a prepared task was let go, each as its worker became
// free, which may be while the scheduler still waits for the previous run's others.
func (s *Sim) activate(p *plan) {
	q := &s.sched
	busy := q.at
	q.at = 0
	order := slices.Clone(s.workers)
	slices.SortStableFunc(order, func(a, b *worker) int { return cmp.Compare(a.activated, b.activated) })
	for _, w := range order {
		s.level(p, q, s.names.activate, 0, w.activated, s.nanos(600, 2_000), taskAttrs(p, w, "worker"))
	}
	q.at = max(q.at, busy)
}

// collect prints a task's completion once its worker is done, in the order in
// which they are, and returns when the last one is known.
func (s *Sim) collect(p *plan) int64 {
	q := &s.sched
	if p.pipelined {
		s.activate(p)
	}
	order := slices.Clone(p.run.Invocations)
	slices.SortStableFunc(order, func(a, b *Invocation) int { return cmp.Compare(a.End, b.End) })
	outcome := int64(0)
	if p.run.Failed {
		outcome = 1
	}
	var done int64
	for _, inv := range order {
		w := s.workers[inv.Proc.Worker]
		// The root's own record may still be in print when the mailbox answers.
		start, dur := max(q.at, inv.End)+s.nanos(3_000, 25_000), s.nanos(1_500, 4_000)
		s.level(p, q, s.names.complete, p.digest, start, dur,
			append(taskAttrs(p, w, "worker"), logfmt.Int("outcome", outcome)))
		done = start + dur
	}
	if s.cfg.Generation >= 9 {
		s.schedulerLoop(p, done)
	}
	return done
}

// schedulerLoop prints the scheduler's own account of the work it did; it
// belongs to no run.
func (s *Sim) schedulerLoop(p *plan, at int64) {
	r := s.record()
	dur := s.nanos(4_000, 20_000)
	r.Site, r.Name, r.TS, r.Dur = logfmt.SiteHostSpan, s.names.loop, at-dur, dur
	n := int64(len(p.run.Invocations))
	r.Attrs = []logfmt.Attr{
		logfmt.Int("drained", n), logfmt.Int("dispatched", n),
		logfmt.Int("drain_ns", dur*3/4), logfmt.Int("spins", s.nanos(1, 9_000)),
	}
	s.print(&s.sched, &s.engineDrops, r, at+s.nanos(1_500, 3_000))
}

// ext prints what a producer outside the runtime says about a step: one record
// for each sequence it worked for, so that the evidence is complete.
func (s *Sim) ext(p *plan, begin, finish int64) {
	for _, w := range p.items {
		attrs := []logfmt.Attr{logfmt.Int("batch", int64(len(p.items)))}
		name := "ext.atom." + p.run.Callable
		if p.run.Callable == Prefill {
			attrs = append(attrs, logfmt.Int("tokens", int64(w.tokens)))
		}
		attrs = append(attrs, logfmt.Str("request_id", w.seq.Request.ID),
			logfmt.Str("traceparent", traceparent(w.seq)))
		r := s.record()
		r.Site, r.Name, r.TS, r.Dur, r.Attrs = logfmt.SiteHostSpan, name, begin, finish-begin, attrs
		s.print(&s.facade, &s.engineDrops, r, finish+s.nanos(4_000, 9_000))
	}
}
