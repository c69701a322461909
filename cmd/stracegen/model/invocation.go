// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// call is an invocation being simulated: at is where its thread is, in the
// order of what it prints.
type call struct {
	s   *Sim
	w   *worker
	inv *Invocation
	at  int64
}

// invoke simulates one invocation on a worker, starting no earlier than start.
func (s *Sim) invoke(p *plan, w *worker, start int64) *Invocation {
	w.inv++
	w.launches++
	inv := &Invocation{
		Proc: w.proc, Run: p.run, Inv: w.inv, HID: s.hid[p.run.Callable], Failed: p.run.Failed,
		Phases: make(map[string]int64, 20), DispatchID: w.dispatch, RunID: p.run.ID,
	}
	if s.word == "" {
		inv.DispatchID, inv.RunID = 0, 0
	}
	c := &call{s: s, w: w, inv: inv, at: start}
	overlapped := p.pipelined && w.rootEnd > start
	if overlapped && start+s.prepareBudget() > w.runnerEnd {
		// No room to prepare before the thread is needed for the previous run.
		overlapped = false
	}
	if !overlapped {
		c.at = max(start, w.thread.at+1_000)
	}
	saved := w.thread.at
	if overlapped {
		// The thread waits for the device in the previous runner_run; what it
		// prints meanwhile comes before that record.
		w.thread.at = 0
	}
	inv.Start = c.at
	c.at += s.nanos(700, 3_000)
	c.prepare(overlapped || p.pipelined)
	if overlapped {
		w.thread.at = max(saved, w.thread.at)
		w.activated = saved + s.nanos(1_000, 4_000)
		c.at = w.activated + s.nanos(3_000, 9_000)
	} else if p.pipelined {
		w.activated = c.at
		c.at += s.nanos(3_000, 9_000)
	}
	c.launch(p.wall)
	c.finish()
	w.runnerEnd, w.rootEnd, w.prev = inv.runnerEnd, inv.End, inv
	p.run.Invocations = append(p.run.Invocations, inv)
	s.push(Event{At: w.thread.at, Invocation: inv})
	s.declareDrops(&w.thread, &w.drops)
	return inv
}

// prepareBudget is more than prepare ever takes.
func (s *Sim) prepareBudget() int64 {
	return 300_000 + int64(600_000*s.cfg.TimeScale)
}

// emit prints a record of the invocation at an instant; the thread is busy
// printing until c.at.
func (c *call) emit(st stage, site logfmt.Site, depth int32, ts, dur, at int64, attrs []logfmt.Attr) {
	r := c.s.record()
	r.Site, r.Name, r.Depth, r.TS, r.Dur, r.Attrs = site, st.name, depth, ts, dur, attrs
	r.Inv, r.HID = c.inv.Inv, c.inv.HID
	if c.s.print(&c.w.thread, &c.w.drops, r, at) {
		c.inv.Records++
	} else {
		c.inv.Lost++
	}
	if dur > 0 {
		c.inv.Phases[st.stage] += dur
	}
	c.at = max(c.at, c.w.thread.at+c.s.nanos(250, 900))
}

// scope runs a host scope that lasts dur nanoseconds from c.at and prints it.
func (c *call) scope(st stage, depth int32, dur int64, attrs ...logfmt.Attr) {
	ts := c.at
	c.emit(st, logfmt.SiteScope, depth, ts, dur, ts+dur+c.s.nanos(1_200, 3_500), attrs)
}

// point prints a record of no length at c.at.
func (c *call) point(st stage, depth int32, attrs ...logfmt.Attr) {
	ts := c.at
	c.emit(st, logfmt.SiteSpanAt, depth, ts, 0, ts+c.s.nanos(1_200, 3_500), attrs)
}

// prepare is everything up to the launch.
func (c *call) prepare(compat bool) {
	s, n := c.s, c.s.st
	modern := s.cfg.Generation >= 9
	if modern {
		c.overlapPoint()
	}
	if compat {
		c.scope(n.compat, 1, s.nanos(1_800, 2_600))
	}
	bind := c.at
	c.at += s.nanos(40, 300)
	switch {
	case s.cfg.Runtime == RuntimeHBG && modern:
		c.segments()
	case s.cfg.Runtime == RuntimeHBG:
		c.hostGraph()
	default:
		var attrs []logfmt.Attr
		if s.cfg.Generation == 1 {
			attrs = []logfmt.Attr{logfmt.Int("ntensor", 4)}
		}
		c.scope(n.bindArgs, 2, s.scaled(15, 45), attrs...)
		c.scope(n.bindPrebuilt, 2, c.prebuilt())
	}
	c.emit(n.bind, logfmt.SiteScope, 1, bind, c.at-bind, c.at+s.nanos(1_200, 3_500), nil)
	if modern {
		c.scope(n.publish, 1, s.scaled(15, 40))
		c.scope(n.stageInputs, 1, s.scaled(20, 60))
		c.scope(n.prepare, 1, s.scaled(60, 200))
	}
}

// prebuilt is a cache hit, or a build and an upload where nothing warmed it.
func (c *call) prebuilt() int64 {
	s := c.s
	if !c.w.warm["arena"] {
		c.w.warm["arena"] = true
		if !s.cfg.Prewarm || s.cfg.Generation <= 2 {
			return s.scaled(15_000, 25_000)
		}
	}
	return s.scaled(8, 25)
}

// hostGraph builds the graph on the host before there were records of it: timing
// lines at most, printed together at its end.
func (c *call) hostGraph() {
	s := c.s
	var lines []string
	for _, p := range []struct{ name, attrs string }{
		{"args", "ntensor=3 staged=0 bytes=0"},
		{"arena_build", "bytes=11515648 device=2242048"},
		{"runtime_init", ""},
		{"host_orch", "tasks=128 heap_used=4096"},
		{"graph_upload", "defs=0 bytes=0 submissions=0"},
		{"arena_h2d", "nt=1 bytes=1728 copied=704 sm=1024 subs=0 args=0/3/0"},
	} {
		dur := s.scaled(4, 30)
		lines = append(lines, "[host_phase_trace.cpp:393] bind phase="+p.name+" start_ns="+strconv.FormatInt(c.at, 10)+
			" dur_ns="+strconv.FormatInt(dur, 10)+" "+p.attrs)
		c.at += dur + s.nanos(20, 200)
	}
	if !s.cfg.BindPhases {
		return
	}
	for _, text := range lines {
		r := s.record()
		r.Kind, r.Level, r.Func = logfmt.KindLog, "TIMING", "host_phase_trace_end"
		r.Text = text
		s.print(&c.w.thread, &c.w.drops, r, c.at)
		c.at = c.w.thread.at + s.nanos(2_500, 3_500)
	}
}

// segments are the parts of bind where the graph is built on the host.
func (c *call) segments() {
	s, n := c.s, c.s.st
	c.scope(n.bindArgs, 2, s.scaled(3, 9), logfmt.Int("ntensor", 3), logfmt.Int("staged", 0), logfmt.Int("bytes", 0))
	c.scope(n.segArenaBuild, 2, s.scaled(10, 40), logfmt.Int("bytes", 11_515_648), logfmt.Int("device", 2_242_048))
	c.scope(n.segStaticArena, 2, s.scaled(5, 15), logfmt.Int("heap", 268_435_456), logfmt.Int("arena", 2_242_048))
	c.scope(n.segHeap, 2, s.nanos(300, 900))
	c.scope(n.segRuntimeInit, 2, s.scaled(5, 15))
	c.scope(n.segHostOrch, 2, s.scaled(20, 60), logfmt.Int("tasks", 128), logfmt.Int("heap_used", 4096))
	c.scope(n.segSharedMem, 2, s.nanos(900, 2_700), logfmt.Int("bytes", 1024))
	c.scope(n.segUpload, 2, s.scaled(2, 6), logfmt.Int("defs", 0), logfmt.Int("bytes", 0), logfmt.Int("submissions", 0))
	c.scope(n.segH2D, 2, s.scaled(2, 6), logfmt.Int("nt", 1), logfmt.Int("bytes", 1728), logfmt.Int("copied", 704))
	c.scope(n.segEnd, 2, s.nanos(500, 1_500), logfmt.Int("count", 0), logfmt.Int("bytes", 0))
}

// rootAttrs are the identity on the root: all or none.
func (c *call) rootAttrs() []logfmt.Attr {
	if c.s.cfg.Generation < 4 || c.s.cfg.Runtime == RuntimeSim {
		return nil
	}
	inv := c.inv
	return []logfmt.Attr{
		logfmt.Int("run_id", int64(inv.RunID)), logfmt.Int("dispatch_id", int64(inv.DispatchID)),
		logfmt.Int("slot_id", int64(inv.Run.Slot)), logfmt.Int("generation", int64(inv.Run.Lease)),
		logfmt.Int("run_epoch", c.w.launches),
	}
}

// finish is everything after the device records, and the root.
func (c *call) finish() {
	s, n := c.s, c.s.st
	if s.cfg.Generation >= 7 && s.cfg.Runtime != RuntimeSim {
		c.scope(n.claim, 1, s.nanos(1_500, 1_800))
	}
	c.inv.End = c.at
	site := logfmt.SiteScope
	if s.cfg.Generation >= 4 {
		site = logfmt.SiteSpanAt
	}
	c.emit(n.root, site, 0, c.inv.Start, c.at-c.inv.Start, c.at+s.nanos(1_000, 2_500), c.rootAttrs())
}
