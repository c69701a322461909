// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One test for each known trap of the marker language, by its letter.

// a: the root is printed last, but must not end invocations of other keys.
func TestTrapA_RootEndsItsOwnInvocationOnly(t *testing.T) {
	p := played(t,
		mark(1, 1, 1, "chip.run.bind", 10, 5, ""), mark(1, 2, 1, "chip.run.bind", 20, 5, ""), mark(2, 1, 1, "chip.run.bind", 30, 5, ""),
		mark(1, 1, 0, "chip.run", 9, 90, ""), mark(2, 1, 0, "chip.run", 29, 90, ""), mark(1, 2, 0, "chip.run", 19, 90, ""))
	require.Len(t, p.byName("chip.run"), 3)
	for _, s := range p.byName("chip.run.bind") {
		up := p.spans[s.Trace+s.Parent]
		require.Equal(t, []int64{s.PID, int64(s.Inv), s.TS - 1}, []int64{up.PID, int64(up.Inv), up.TS})
		require.False(t, s.Incomplete)
	}
}

// b: device spans come after validate, and still hang under runner_run.
func TestTrapB_DeviceAfterValidate(t *testing.T) {
	p := played(t, mark(1, 1, 1, "chip.run.runner_run", 10, 50, ""), mark(1, 1, 1, "chip.run.validate", 60, 5, ""),
		mark(1, 1, 2, "chip.run.runner_run.device_wall", 0, 30, "clk=dev"), mark(1, 1, 3, "chip.run.runner_run.device_wall.sched", 5, 3, "clk=dev"),
		mark(1, 1, 0, "chip.run", 5, 70, ""))
	require.Equal(t, "chip.run.runner_run", p.parentName(p.only("chip.run.runner_run.device_wall")))
	require.Equal(t, "chip.run.runner_run.device_wall", p.parentName(p.only("chip.run.runner_run.device_wall.sched")))
}

// c: compatibility and overlap are named under bind, have its depth and come
// before it.
func TestTrapC_NamedUnderBindBesideIt(t *testing.T) {
	p := played(t, mark(1, 1, 1, "chip.run.bind.overlap", 6, 0, "shares=0"), mark(1, 1, 1, "chip.run.bind.compatibility", 7, 2, ""),
		mark(1, 1, 2, "chip.run.bind.args", 12, 2, ""), mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 0, "chip.run", 5, 70, ""))
	require.Equal(t, "chip.run", p.parentName(p.only("chip.run.bind.compatibility")))
	require.Equal(t, "chip.run.bind", p.parentName(p.only("chip.run.bind.args")))
	require.Equal(t, "chip.run.bind.overlap", p.only("chip.run").Events[0].Name)
	require.Zero(t, p.asm.Stats().GuessedParents)
}

// d: all node records have depth 0; identity makes their tree.
func TestTrapD_NodeDepthIsUseless(t *testing.T) {
	p := played(t, oneRun())
	depths := map[string]string{}
	for _, s := range p.all() {
		require.Zero(t, s.Depth)
		depths[s.Name] = p.parentName(s)
	}
	require.Equal(t, "node.dispatch", depths["node.complete"])
	require.Equal(t, "node.graph_build", depths["node.submit"])
}

// e: every worker has a dispatch_id 1.
func TestTrapE_DispatchIDPerWorker(t *testing.T) {
	p := played(t, ready2, chip(12, 1, 210, 100, "run_id=1 dispatch_id=1 slot_id=0 generation=4"),
		chip(11, 1, 200, 100, "run_id=1 dispatch_id=1 slot_id=0 generation=4"), oneRun())
	for pid, w := range map[int64]string{11: "0", 12: "1"} {
		root, parent := stitched(p, pid)
		require.Equal(t, "identity", root.Stitch)
		require.Equal(t, w, worker(parent))
	}
}

// f: a worker that is opened again in the same process counts from 1 again.
func TestTrapF_InvRestarts(t *testing.T) {
	one := func(at int64) string {
		return mark(1, 1, 2, "chip.run.bind.args", at+1, 2, "") + mark(1, 1, 1, "chip.run.bind", at+1, 5, "") + mark(1, 1, 1, "chip.run.runner_run", at+10, 5, "") + mark(1, 1, 0, "chip.run", at, 20, "")
	}
	t.Run("after its root", func(t *testing.T) {
		p := played(t, one(100), one(200))
		require.Len(t, p.byName("chip.run"), 2)
		traces := map[string]int{}
		for _, s := range p.all() {
			traces[s.Trace]++
			require.False(t, s.Incomplete)
		}
		require.Len(t, traces, 2)
	})
	// Killed in the middle, at every line, and opened again: the new one is
	// whole, the old one apart from it.
	lines := strings.SplitAfter(one(100), "\n")
	for n := 1; n < 4; n++ {
		t.Run(fmt.Sprintf("after %d lines", n), func(t *testing.T) {
			p := played(t, strings.Join(lines[:n], ""), one(200))
			root := p.only("chip.run")
			whole, rest := 0, 0
			for _, s := range p.all() {
				if s.Trace == root.Trace {
					whole++
					require.GreaterOrEqual(t, s.TS, int64(200))
					require.False(t, s.Incomplete)
				} else {
					rest++
					require.Less(t, s.TS, int64(200))
				}
			}
			require.Equal(t, []int{4, n}, []int{whole, rest})
			p.accounted()
		})
		t.Run(fmt.Sprintf("after %d lines, and killed again", n), func(t *testing.T) {
			again := strings.SplitAfter(one(200), "\n")
			p := played(t, strings.Join(lines[:n], ""), strings.Join(again[:3], ""))
			p.accounted()
			require.Len(t, p.spans, n+3)
		})
	}
	// Two stages that occur once, the second use before any root.
	p := played(t, mark(1, 1, 1, "chip.run.bind", 101, 5, ""), mark(1, 1, 2, "chip.run.bind.args", 201, 2, ""), mark(1, 1, 1, "chip.run.bind", 200, 5, ""))
	require.Len(t, p.traces, 2)
	require.Equal(t, int64(200), p.spans[p.only("chip.run.bind.args").Trace+p.only("chip.run.bind.args").Parent].TS)
}

// g: hid=0 is legal and names nothing; it is kept as written.
func TestTrapG_HIDZero(t *testing.T) {
	s := NewScanner(NewNames())
	for text, want := range map[string]struct {
		hid    uint64
		digits uint8
	}{"0": {0, 1}, "00ff": {255, 4}, "8f3a11c07be2d945": {0x8f3a11c07be2d945, 16}} {
		s.Reset([]byte("[STRACE] v=1 pid=1 tid=1 inv=0 hid="+text+" depth=0 name=chip.run ts=1 dur=1 "), true)
		require.Equal(t, KindRecord, s.Next())
		require.Equal(t, want.hid, s.Record.HID)
		require.Equal(t, want.digits, s.Record.HIDDigits)
	}
}

// h: a node's inv is its run, a chip's counts in its own process: equal
// numbers mean nothing.
func TestTrapH_NodeInvIsNoInvocation(t *testing.T) {
	p := played(t, mark(10, 1, 1, "chip.run.bind", 15, 3, ""), mark(10, 1, 0, "node.graph_build", 10, 50, "run_id=1"), mark(10, 1, 0, "chip.run", 14, 10, ""),
		mark(10, 1, 0, "node.post_fence_retirement", 90, 5, "run_id=1"))
	require.Equal(t, uint64(1), p.asm.Stats().Runs)
	require.Equal(t, uint64(1), p.asm.Stats().Invocations)
	require.NotEqual(t, p.only("chip.run").Trace, p.only("node.run").Trace)
	// Without run_id among its attributes, inv is the run.
	p = played(t, mark(10, 7, 0, "node.graph_build", 10, 50, ""), mark(10, 7, 0, "node.post_fence_retirement", 90, 5, "run_id=7"))
	require.Equal(t, uint64(7), p.only("node.run").Inv)
}

// i: run_id=0 on the direct lane is no link to a node.
func TestTrapI_RunIDZero(t *testing.T) {
	zero := strings.ReplaceAll(oneRun(), "run_id=1", "run_id=0")
	p := played(t, zero, chip(11, 1, 200, 100, "run_id=0 dispatch_id=0 slot_id=0 generation=4"))
	root, _ := stitched(p, 11)
	require.Equal(t, "none", root.Stitch)
}

// k: submit is printed after dispatch, and their times overlap.
func TestTrapK_SubmitAfterDispatch(t *testing.T) {
	p := played(t, mark(10, 1, 0, "node.frame_submit", 22, 3, "run_id=1 "+task(0, 1)), mark(10, 1, 0, "node.dispatch", 20, 10, "run_id=1 "+task(0, 1)),
		mark(10, 1, 0, "node.submit", 15, 40, "run_id=1 task_slot=0 group_size=1 worker_id=0"), mark(10, 1, 0, "node.graph_build", 10, 60, "run_id=1"),
		mark(10, 1, 0, "node.complete", 90, 3, "run_id=1 "+task(0, 1)), mark(10, 1, 0, "node.post_fence_retirement", 100, 5, "run_id=1"))
	require.Equal(t, "node.graph_build", p.parentName(p.only("node.submit")))
	require.Equal(t, "node.run", p.parentName(p.only("node.dispatch")))
	require.Equal(t, "node.dispatch", p.parentName(p.only("node.frame_submit")))
}

// l: device_boundaries says clk=dev, but its ts is the host's.
func TestTrapL_BoundariesOnHostClock(t *testing.T) {
	p := played(t, anchorLine(1, 0, wallBase), mark(1, 1, 1, "chip.run.runner_run", 2000, 500, ""), mark(1, 1, 2, "chip.run.runner_run.device_wall", 0, 30, "clk=dev"),
		mark(1, 1, 2, "chip.run.runner_run.device_boundaries", 2450, 0, "clk=dev dev_id=3 ts_hz=1000000"), mark(1, 1, 0, "chip.run", 1990, 600, ""))
	e := p.only("chip.run.runner_run").Events
	require.Len(t, e, 1)
	require.Equal(t, wallBase+2450, e[0].Time)
}

// m: dur=0 is a point.
func TestTrapM_Points(t *testing.T) {
	p := played(t, mark(1, 1, 2, "chip.run.runner_run.aicpu_launch", 15, 0, ""), mark(1, 1, 1, "chip.run.joined_launch", 18, 0, "rc=0"), mark(1, 1, 1, "chip.run.runner_run", 10, 50, ""), mark(1, 1, 0, "chip.run", 5, 70, ""))
	require.Len(t, p.spans, 2)
	require.Equal(t, uint64(2), p.asm.Stats().Records[OutcomePoint])
	require.Equal(t, int64(15), p.only("chip.run.runner_run").Events[0].Time)
	require.Equal(t, "rc=0", p.only("chip.run").Events[0].Attrs)
	// A root may be one, too.
	p = played(t, mark(1, 1, 1, "chip.run.bind", 5, 0, ""), mark(1, 1, 0, "chip.run", 5, 0, ""))
	require.Len(t, p.spans, 1)
	require.Len(t, p.only("chip.run").Events, 1)
}

// n: sub-phases count from the earliest of them, not from the wall's begin;
// task slots alone count from their own.
func TestTrapN_OriginOfDeviceTime(t *testing.T) {
	p := played(t, mark(1, 1, 1, "chip.run.runner_run", 1000, 500, ""), mark(1, 1, 2, "chip.run.runner_run.device_wall", 0, 300, "clk=dev"),
		mark(1, 1, 3, "chip.run.runner_run.device_wall.task_slot_0", 20, 100, "clk=dev"), mark(1, 1, 0, "chip.run", 900, 700, ""))
	slot, wall := p.only("chip.run.runner_run.device_wall.task_slot_0"), p.only("chip.run.runner_run.device_wall")
	require.Equal(t, int64(20), slot.Start-wall.Start, "the block's start is the origin: nothing tells better")
	require.Equal(t, slot.Slack, wall.Slack)
}

// o: the wall prefix of generations 1 to 5 is local time of a zone unknown:
// see TestWallPrefixPlaces. A prefix that may be another record's is no clock.
func TestTrapO_StackedWallPrefix(t *testing.T) {
	prefix := "[2026-06-28 22:06:28.255626][T0x1][TIMING] f: "
	body := "[strace.h:131] [STRACE] v=1 pid=5 tid=5 inv=1 hid=a depth=0 name=simpler_run ts=1 dur=1 "
	for text, source := range map[string]string{prefix + body: "record", prefix + prefix + body: "none", body: "none"} {
		p := newPlayer(t, func(c *Config) { c.TimeZone = time.UTC })
		p.text("dir", text+"\n")
		p.flush()
		require.Equal(t, source, p.only("simpler_run").Source, text)
	}
}

// p: a record without attributes ends in a blank, which agents may trim.
func TestTrapP_TrailingBlank(t *testing.T) {
	for _, end := range []string{" \n", "\n", " \r\n", "   \n"} {
		p := played(t, "[STRACE] v=1 pid=5 tid=5 inv=1 hid=a depth=0 name=chip.run ts=1 dur=12"+end)
		require.Empty(t, p.only("chip.run").Attrs)
		require.Equal(t, int64(13), p.only("chip.run").End)
	}
}

// q: attribute values hold blanks and '='.
func TestTrapQ_BlanksInValues(t *testing.T) {
	require.Equal(t, []string{"msg", "a b%5Bc%5D%25d%09e%0Af", "utf8", "%E4%B8%AD", "eq", "x=y"}, pairs("msg=a b%5Bc%5D%25d%09e%0Af utf8=%E4%B8%AD eq=x=y"))
}

// r: '~' marks what the emitter cut; a value may also just end so.
func TestTrapR_Tilde(t *testing.T) {
	name := NewNames().Intern([]byte("ext.app.abc~"), false)
	require.True(t, name.Truncated)
	p := played(t, mark(5, 1, 0, "ext.app.x", 1, 2, "k=v~"))
	require.Equal(t, "k=v~", p.only("ext.app.x").Attrs)
}

// s: two records on a line, stacked prefixes, blank lines: see also
// TestScannerPrefixes and the samples of forked writers.
func TestTrapS_SharedLines(t *testing.T) {
	child := strings.TrimSuffix(mark(1, 1, 1, "chip.run.bind", 10, 5, ""), "\n")
	p := played(t, "\n\n", "[mono_ns=1][T0x1][TIMING] f: ", child, mark(2, 1, 0, "chip.run", 1, 2, ""), "\n", mark(1, 1, 0, "chip.run", 9, 20, ""))
	require.Len(t, p.spans, 3)
	require.Equal(t, "chip.run", p.parentName(p.only("chip.run.bind")))
}

// t: log text may mention [STRACE].
func TestTrapT_MentionsInText(t *testing.T) {
	p := played(t, "plain error mentioning [STRACE] but not a record\n", "[STRACE] name=x dur=1\n", "see [STRACE]\n")
	require.Empty(t, p.spans)
	require.Zero(t, p.asm.Stats().Records)
}

// u: TIMING lines of the simulator's AICPU have no mono_ns and are none of ours.
func TestTrapU_ForeignTimingLines(t *testing.T) {
	p := played(t, "[TIMING] QPROBE: task 1 queue=3\n", "[mono_ns=5][T0x1][TIMING] host: [host_phase_trace.cpp:12] bind phase=args start_ns=1 dur_ns=2 n=1\n", mark(1, 1, 0, "chip.run", 1, 2, ""))
	require.Len(t, p.spans, 1)
}

// v: one anchor per pid, repeated, late, or none at all.
func TestTrapV_Anchors(t *testing.T) {
	root := mark(1, 1, 0, "chip.run", 5*sec, 2, "")
	for name, c := range map[string]struct {
		text   string
		start  int64
		source string
	}{
		"its own":             {anchorLine(2, 0, 7) + anchorLine(1, 0, 100) + anchorLine(3, 0, 9) + root, 5*sec + 100, "anchor"},
		"another pid's":       {anchorLine(2, 0, 7) + root, 5 * sec, "none"},
		"repeated":            {anchorLine(1, 0, 100) + anchorLine(1, 0, 100) + root, 5*sec + 100, "anchor"},
		"printed behind":      {root + anchorLine(1, 4*sec, 100), 5*sec + 100, "anchor"},
		"taken after":         {anchorLine(1, 6*sec, 100) + root, 5*sec + 100, "anchor"},
		"the latest before":   {anchorLine(1, 1*sec, 1) + anchorLine(1, 4*sec, 4) + anchorLine(1, 6*sec, 6) + root, 5*sec + 4, "anchor"},
		"absent":              {root, 5 * sec, "none"},
		"cut":                 {strings.TrimSuffix(anchorLine(1, 0, 100), "00\n") + "[" + root, 5 * sec, "none"},
		"in another file":     {anchorLine(1, 0, 100) + root, 5*sec + 100, "anchor"},
		"of a version unseen": {strings.Replace(anchorLine(1, 0, 100), "v=1", "v=2", 1) + root, 5 * sec, "none"},
	} {
		p := played(t, c.text)
		s := p.only("chip.run")
		require.Equal(t, c.start, s.Start, name)
		require.Equal(t, c.source, s.Source, name)
	}
}

// w: equal pids in two containers, and on two hosts, are different processes.
func TestTrapW_EqualPids(t *testing.T) {
	p := newPlayer(t)
	for _, scope := range []string{"pod/a", "pod/b"} {
		p.text(scope, anchorLine(14, 0, int64(len(p.spans)))+mark(14, 1, 1, "chip.run.bind", 10, 5, ""))
	}
	p.text("pod/b", mark(14, 1, 0, "chip.run", 9, 20, ""))
	p.text("pod/a", mark(14, 1, 0, "chip.run", 9, 20, ""))
	p.flush()
	require.Len(t, p.spans, 4)
	for _, s := range p.byName("chip.run.bind") {
		require.Equal(t, s.Scope, p.spans[s.Trace+s.Parent].Scope)
	}
	other := newPlayer(t, func(c *Config) { c.Host = "node-b" })
	other.text("pod/a", mark(14, 1, 1, "chip.run.bind", 10, 5, "")+mark(14, 1, 0, "chip.run", 9, 20, ""))
	other.flush()
	for key := range other.spans {
		require.NotContains(t, p.spans, key)
	}
}

// x: prewarm has depth 0, inv 0 and hid 0 and is no invocation.
func TestTrapX_Prewarm(t *testing.T) {
	for _, name := range []string{"chip.prewarm.build", "simpler_prewarm.build"} {
		p := played(t, mark(1, 0, 0, name, 1, 5, ""), mark(1, 0, 0, name, 10, 5, ""), chip(1, 1, 20, 5, ""))
		require.Equal(t, uint64(1), p.asm.Stats().Invocations)
		require.Len(t, p.byName(name), 2)
		for _, s := range p.byName(name) {
			require.Empty(t, s.Stitch)
			require.Empty(t, s.Parent)
			require.Equal(t, "prewarm.build", s.Stage)
		}
		require.ElementsMatch(t, []TraceKind{TraceSingle, TraceSingle, TraceInvocation}, p.traces)
	}
}

// y: task_slot_N is a window over all tasks with that tag: one span.
func TestTrapY_TaskSlots(t *testing.T) {
	var lines []string
	lines = append(lines, mark(1, 1, 1, "chip.run.runner_run", 1000, 500, ""), mark(1, 1, 2, "chip.run.runner_run.device_wall", 0, 300, "clk=dev"))
	for i := range 16 {
		lines = append(lines, mark(1, 1, 3, fmt.Sprintf("chip.run.runner_run.device_wall.task_slot_%d", i), int64(i), 100, "clk=dev"))
	}
	p := played(t, append(lines, mark(1, 1, 0, "chip.run", 900, 700, ""))...)
	for i := range 16 {
		require.Equal(t, "chip.run.runner_run.device_wall", p.parentName(p.only(fmt.Sprintf("chip.run.runner_run.device_wall.task_slot_%d", i))))
	}
}

// z: nothing in the grammar says that a run failed; a failed prepare or launch
// is just shorter, and complete.
func TestTrapZ_FailedRunsAreComplete(t *testing.T) {
	p := played(t, mark(1, 1, 1, "chip.run.bind", 10, 5, ""), mark(1, 1, 0, "chip.run", 9, 20, ""))
	for _, s := range p.all() {
		require.False(t, s.Incomplete)
	}
	require.Equal(t, []TraceKind{TraceInvocation}, p.traces)
}

// Swapped neighbours: an asynchronous writer may print a record just behind
// its root.
func TestTrapSwappedNeighbours(t *testing.T) {
	root, release := mark(1, 1, 0, "chip.run", 9, 20, ""), mark(1, 1, 1, "chip.run.claim_release", 25, 3, "")
	bind := mark(1, 1, 1, "chip.run.bind", 10, 5, "")
	want := played(t, bind, release, root)
	require.Equal(t, want.spans, played(t, bind, root, release).spans)
	// A repeated one is known there as well.
	p := played(t, bind, release, root, release)
	require.Equal(t, want.spans, p.spans)
	require.Equal(t, uint64(1), p.asm.Stats().Records[OutcomeDuplicate])
	// One that begins after the root's end is the next invocation's.
	p = played(t, bind, root, mark(1, 1, 1, "chip.run.claim_release", 30, 3, ""))
	require.True(t, p.only("chip.run.claim_release").Incomplete)
}

// Reports of losses mark what they may have hit, and nothing else.
func TestTrapDrops(t *testing.T) {
	drops := func(pid int, mono int64) string {
		return fmt.Sprintf("[mono_ns=%d][T0xabc][ERROR] host_log_drops: [HOSTLOG_DROPS] v=1 pid=%d new=3 total=5 queue_full=5 claim_exhausted=0 output_failed=0 not_admitted=0\n", mono, pid)
	}
	for name, c := range map[string]struct {
		lines []string
		want  bool
	}{
		"while it is open":        {[]string{mark(1, 1, 1, "chip.run.bind", 10, 5, ""), drops(1, 20), mark(1, 1, 0, "chip.run", 9, 20, "")}, true},
		"right behind its root":   {[]string{mark(1, 1, 1, "chip.run.bind", 10, 5, ""), mark(1, 1, 0, "chip.run", 9, 20, ""), drops(1, 40)}, true},
		"its begin was lost":      {[]string{drops(1, 20), mark(1, 1, 1, "chip.run.bind", 22, 5, ""), mark(1, 1, 0, "chip.run", 9, 20, "")}, true},
		"before it":               {[]string{drops(1, 5), mark(1, 1, 1, "chip.run.bind", 10, 5, ""), mark(1, 1, 0, "chip.run", 9, 20, "")}, false},
		"of another process":      {[]string{mark(1, 1, 1, "chip.run.bind", 10, 5, ""), drops(2, 20), mark(1, 1, 0, "chip.run", 9, 20, "")}, false},
		"long after it, log time": {[]string{mark(1, 1, 1, "chip.run.bind", 10, 5, ""), mark(1, 1, 0, "chip.run", 9, 20, ""), mark(1, 2, 1, "chip.run.bind", sec, 5, ""), drops(1, 2*sec)}, false},
	} {
		p := played(t, c.lines...)
		require.Equal(t, c.want, p.only("chip.run").Incomplete, name)
	}
	p := played(t, oneRun()[:lineOf(oneRun(), "node.complete")], drops(10, 500), oneRun()[lineOf(oneRun(), "node.complete"):])
	require.True(t, p.only("node.run").Incomplete)
}
