// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// tick is the device counter's period, nanoseconds: 50 MHz.
const tick = 20

// counterHz is the device counter's frequency.
const counterHz = 50_000_000

func whole(ns int64) int64 { return ns / tick * tick }

// window is a device phase, counted from the earliest stamped one.
type window struct {
	st      stage
	ts, dur int64
}

// launch is runner_run and validate, and the device's records once they are back.
func (c *call) launch(base int64) {
	s, n, inv := c.s, c.s.st, c.inv
	wall := whole(max(30_000, int64(float64(base)*(1+0.015*s.rnd.NormFloat64()))))
	if s.cfg.Runtime == RuntimeSim {
		wall += s.nanos(0, tick-1) // a host clock there
	}
	start := c.at
	inv.Placed = start
	delay := s.nanos(6_000, 15_000) + s.scaled(20, 120)
	if s.cfg.Generation >= 9 {
		c.at += s.nanos(2_000, 5_000)
		inv.Placed = c.at
		c.point(n.launch, 2)
		c.joinedPoint()
	}
	// What the device does starts and ends on ticks of its counter.
	inv.DeviceStart = max(start+delay, c.at)
	ticks := inv.DeviceStart / tick
	inv.DeviceStart = ticks * tick
	end := inv.DeviceStart + wall + s.nanos(4_000, 12_000) + s.scaled(10, 90)
	site := logfmt.SiteScope
	if s.cfg.Generation >= 4 {
		site = logfmt.SiteSpanAt
	}
	inv.runnerEnd = end
	c.emit(n.runner, site, 1, start, end-start, end+s.nanos(1_200, 3_500), nil)
	c.scope(n.validate, 1, s.nanos(800, 9_000))
	if !inv.Failed && s.cfg.DeviceSpans {
		inv.Wall = wall
		inv.Slack = end - inv.Placed - wall
		c.deviceRecords(ticks)
	}
	if s.cfg.Generation >= 9 {
		c.point(n.boundaries, 2, logfmt.Str("clk", "dev"), logfmt.Int("dev_id", int64(c.w.proc.Device)),
			logfmt.Int("aic_start", 9_000_000_000+ticks/50), logfmt.Int("aic_rc", 0),
			logfmt.Int("wo_end", 0), logfmt.Int("wo_rc", 107_002), logfmt.Int("ts_hz", 1_000_000))
	}
	if inv.Failed {
		c.failure()
	}
}

func (c *call) failure() {
	r := c.s.record()
	r.Kind, r.Level, r.Func = logfmt.KindLog, "ERROR", "wait_execution"
	r.Text = "[device_runner.cpp:512] run failed: aicpu returned 507018"
	c.s.print(&c.w.thread, &c.w.drops, r, c.at)
	c.at = max(c.at, c.w.thread.at+1_000)
}

func (c *call) deviceRecords(ticks int64) {
	s, n, inv := c.s, c.s.st, c.inv
	clk := logfmt.Str("clk", "dev")
	attrs := []logfmt.Attr{clk}
	if s.cfg.Generation >= 9 {
		start := c.w.cycleBase + ticks
		inv.StartCycle, inv.EndCycle = uint64(start), uint64(start+inv.Wall/tick)
		inv.CounterHz = counterHz
		attrs = append(attrs, logfmt.Int("dev_id", int64(c.w.proc.Device)), logfmt.Int("dev_start_cycle", start),
			logfmt.Int("dev_end_cycle", start+inv.Wall/tick), logfmt.Int("dev_cnt_hz", counterHz))
	}
	c.device(n.wall, 2, 0, inv.Wall, attrs)
	var first, last int64
	for _, w := range c.windows() {
		c.device(w.st, 3, w.ts, w.dur, []logfmt.Attr{clk})
		switch w.st {
		case n.orch:
			first, last = w.ts, max(last, w.ts+w.dur)
		case n.sched:
			first, last = min(first, w.ts), max(last, w.ts+w.dur)
		}
	}
	inv.Effective = last - first
}

// device prints a record of the device's clock.
func (c *call) device(st stage, depth int32, ts, dur int64, attrs []logfmt.Attr) {
	c.emit(st, logfmt.SiteSpanAt, depth, ts, dur, c.at+c.s.nanos(2_000, 4_500), attrs)
}

// windows are the device phases in the order of the runtime's table, which is
// not the order of time, then the task windows.
func (c *call) windows() []window {
	s, n := c.s, c.s.st
	var out []window
	taskOrigin := int64(0)
	if s.cfg.Runtime != RuntimeHBG {
		out, taskOrigin = c.phases()
	}
	span := c.inv.Wall - taskOrigin - 200
	for i := range s.cfg.TaskSlots {
		ts := whole(taskOrigin + span*int64(i)/int64(2*s.cfg.TaskSlots))
		if s.cfg.Runtime == RuntimeHBG {
			ts -= taskOrigin // counted from the first task there
		}
		out = append(out, window{n.taskSlots[i], ts, max(tick, whole(span/3))})
	}
	return out
}

func (c *call) phases() (out []window, orchStart int64) {
	s, n, wall := c.s, c.s.st, c.inv.Wall
	sim := s.cfg.Runtime == RuntimeSim
	// What comes before orch takes a fixed time, or a tenth of a tiny wall.
	unit := min(wall/100, 1_000)
	t := int64(0)
	take := func(st stage, dur int64) {
		dur = max(tick, whole(dur))
		out = append(out, window{st, t, dur})
		t += dur + 2*tick
	}
	var graph int
	if !sim {
		take(n.preamble, unit*6/5+s.nanos(0, 80))
		if key := "so:" + c.inv.Run.Callable; !c.w.warm[key] {
			c.w.warm[key] = true
			take(n.soLoad, wall/20)
		}
		graph = len(out)
		out = append(out, window{st: n.graphBuild, ts: t})
		t += 2 * tick
	}
	graphStart := t - 2*tick
	if s.cfg.Generation >= 2 {
		take(n.config, unit*2/5)
		take(n.arena, unit*9/10)
		take(n.smReset, unit*5)
	}
	orchStart = t
	schedStart := t + 3*tick
	post := whole(unit * 5)
	schedEnd := whole(wall - post - 10*unit - s.nanos(0, 400))
	orchEnd := orchStart + whole((schedEnd-orchStart)*(40+s.rnd.Int64N(20))/100)
	if !sim {
		out[graph].dur = schedEnd - graphStart
	}
	out = append(out, window{n.postOrch, schedEnd + 2*tick, post},
		window{n.orch, orchStart, orchEnd - orchStart}, window{n.sched, schedStart, schedEnd - schedStart})
	return out, orchStart
}

// overlapPoint says whether this launch shares memory with the one before.
func (c *call) overlapPoint() {
	slot := strconv.Itoa(c.inv.Run.Slot)
	epoch := c.w.launches
	attrs := []logfmt.Attr{
		logfmt.Int("shares", 0), logfmt.Int("decl_depth", int64(c.s.cfg.Pipeline)),
		logfmt.Int("heap_class", 1), logfmt.Int("image_class", 1), logfmt.Int("live", 1),
		logfmt.Str("r0", "self/slot"+slot+"/bank"+slot+"/epoch"+strconv.FormatInt(epoch, 10)+"/heap0x12c140000000/img0x12c180000000"),
	}
	if c.w.prev != nil && c.s.cfg.Pipeline == 2 {
		other := strconv.Itoa(c.w.prev.Run.Slot)
		attrs[4].Num = 2
		attrs = append(attrs, logfmt.Str("r1", "peer/slot"+other+"/bank"+other+"/epoch"+strconv.FormatInt(epoch-1, 10)+"/heap0x12c0c0000000/img0x12c100000000"))
	}
	c.point(c.s.st.overlap, 1, attrs...)
}

// joinedPoint is printed when a launch was queued behind the one before it.
func (c *call) joinedPoint() {
	prev := c.w.prev
	if prev == nil || c.s.cfg.Pipeline != 2 {
		return
	}
	inv := c.inv
	c.point(c.s.st.joined, 1,
		logfmt.Int("s_epoch", c.w.launches), logfmt.Int("s_slot", int64(inv.Run.Slot)), logfmt.Int("s_disp", int64(inv.DispatchID)),
		logfmt.Int("p_epoch", c.w.launches-1), logfmt.Int("p_slot", int64(prev.Run.Slot)), logfmt.Int("p_disp", int64(prev.DispatchID)),
		logfmt.Int("observed", 1), logfmt.Int("unfired", 1), logfmt.Int("rc", 0))
}
