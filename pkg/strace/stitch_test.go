// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/pkg/strace/internal/oracle"
)

// l3 writes the records of one L3 parent, pid 10.
type l3 struct {
	pid int
	b   strings.Builder
}

func (l *l3) node(run int, name string, ts, dur int64, attrs string) {
	l.b.WriteString(mark(l.pid, run, 0, "node."+name, ts, dur, strings.TrimSpace(fmt.Sprintf("run_id=%d %s", run, attrs))))
}

func task(worker, dispatch int) string {
	return fmt.Sprintf("task_slot=%d group_index=0 worker_id=%d dispatch_id=%d", worker, worker, dispatch)
}

// oneRun is run 1: one dispatch to each of workers 0 and 1, from 100 to 900.
func oneRun() string {
	l := &l3{pid: 10}
	for w := range 2 {
		l.node(1, "submit", 20+int64(w), 5, fmt.Sprintf("task_slot=%d group_index=0 group_size=1 worker_id=%d", w, w))
	}
	l.node(1, "graph_build", 10, 50, "role=facade")
	for w := range 2 {
		l.node(1, "frame_submit", 101+int64(w), 3, task(w, 1))
		l.node(1, "dispatch", 100+int64(w), 20, task(w, 1)+" slot_id=0 generation=4")
	}
	for w := range 2 {
		l.node(1, "complete", 890+int64(w), 10, task(w, 1)+" outcome=0")
	}
	l.node(1, "post_fence_retirement", 950, 20, "slot_id=0 generation=4")
	return l.b.String()
}

const ready2 = "[chip_process pid=12 dev=7] ready\n[chip_process pid=11 dev=3] ready\n"

func chip(pid, inv int, ts, dur int64, attrs string) string {
	return mark(pid, inv, 1, "chip.run.bind", ts+1, dur/2, "") + mark(pid, inv, 0, "chip.run", ts, dur, attrs)
}

func stitched(p *player, pid int64) (oracle.Span, oracle.Span) {
	p.t.Helper()
	for _, s := range p.byName("chip.run") {
		if s.PID == pid {
			return s, p.spans[s.Trace+s.Parent]
		}
	}
	require.Fail(p.t, "no chip.run", "pid %d", pid)
	return oracle.Span{}, oracle.Span{}
}

// TestRunTree checks every place in a run.
func TestRunTree(t *testing.T) {
	p := played(t, ready2, chip(11, 1, 200, 100, ""), chip(12, 1, 210, 100, ""), oneRun())
	require.Equal(t, []TraceKind{TraceRun}, p.traces)
	root := p.only("node.run")
	require.True(t, root.Synthetic)
	require.Empty(t, root.Parent)
	require.Equal(t, []int64{10, 970}, []int64{root.Start, root.End}, "earliest start to latest end")
	require.False(t, root.Incomplete)
	for _, s := range p.all() {
		require.Equal(t, root.Trace, s.Trace)
		want := map[string]string{
			"node.run": "", "node.graph_build": "node.run", "node.submit": "node.graph_build", "node.dispatch": "node.run",
			"node.frame_submit": "node.dispatch", "node.complete": "node.dispatch", "node.post_fence_retirement": "node.run",
			"chip.run": "node.dispatch", "chip.run.bind": "chip.run",
		}[s.Name]
		require.Equal(t, want, p.parentName(s), s.Name)
		if s.Name == "node.frame_submit" || s.Name == "node.complete" {
			require.Equal(t, worker(s), worker(p.spans[s.Trace+s.Parent]), "dispatch_id counts per worker")
		}
	}
	p.accounted()
}

// lineOf is where the first line with text begins.
func lineOf(log, text string) int {
	before, _, _ := strings.Cut(log, text)
	return strings.LastIndexByte(before, '\n') + 1
}

func worker(s oracle.Span) string {
	v, _ := Attr([]byte(s.Attrs), "worker_id")
	return string(v)
}

func TestStitching(t *testing.T) {
	id := func(run, dispatch, generation int) string {
		return fmt.Sprintf("run_id=%d dispatch_id=%d slot_id=0 generation=%d run_epoch=9", run, dispatch, generation)
	}
	for name, c := range map[string]struct {
		ready string
		chip  string
		how   string
		under string // name, or name/worker
	}{
		"time: the k-th device is worker k":          {ready2, chip(11, 1, 200, 100, ""), "time", "node.dispatch/0"},
		"time: second device":                        {ready2, chip(11, 1, 200, 100, "") + chip(12, 1, 200, 100, ""), "time", "node.dispatch/0"},
		"time: outside":                              {ready2, chip(11, 1, 850, 100, ""), "none", ""},
		"time: before the dispatch":                  {ready2, chip(11, 1, 99, 100, ""), "none", ""},
		"time: one device for two workers":           {"[chip_process pid=11 dev=3] ready\n", chip(11, 1, 200, 100, ""), "none", ""},
		"time: unannounced":                          {"[chip_process pid=12 dev=7] ready\n[chip_process pid=13 dev=8] ready\n", chip(11, 1, 200, 100, ""), "none", ""},
		"time: two chips on one device":              {ready2 + "[chip_process pid=13 dev=3] ready\n", chip(11, 1, 200, 100, ""), "time", "node.dispatch/0"},
		"identity":                                   {ready2, chip(11, 1, 200, 100, id(1, 1, 4)), "identity", "node.dispatch/0"},
		"identity: time does not confirm the worker": {ready2, chip(11, 1, 200, 750, id(1, 1, 4)), "run", "node.run"},
		"identity: worker unknown, two would fit":    {"", chip(11, 1, 200, 100, id(1, 1, 4)), "run", "node.run"},
		"identity: of another generation":            {ready2, chip(11, 1, 200, 100, id(1, 1, 5)), "run", "node.run"},
		"identity: of another dispatch":              {ready2, chip(11, 1, 200, 100, id(1, 2, 4)), "run", "node.run"},
		"identity: of another run":                   {ready2, chip(11, 1, 200, 100, id(2, 1, 4)), "none", ""},
		"identity: of a later use of the run number": {ready2, chip(11, 1, 5000, 100, id(1, 1, 4)), "none", ""},
		"identity: run_id=0 names none":              {ready2, chip(11, 1, 200, 100, id(0, 0, 4)), "time", "node.dispatch/0"},
		"identity: run_id=0, no worker":              {"", chip(11, 1, 200, 100, id(0, 0, 4)), "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]string{{c.ready, c.chip, oneRun()}, {oneRun(), c.ready, c.chip}, {c.ready, oneRun(), c.chip}, {c.chip, c.ready, oneRun()}} {
				p := played(t, order...)
				root, parent := stitched(p, 11)
				assert.Equal(t, c.how, root.Stitch)
				under := parent.Name
				if under == "node.dispatch" {
					under += "/" + worker(parent)
				}
				assert.Equal(t, c.under, under)
				if c.how == "none" {
					assert.NotEqual(t, p.only("node.run").Trace, root.Trace)
				}
				p.accounted()
			}
		})
	}
}

// TestStitchOverlappingDispatches: with two dispatches of one worker around
// it, only the run is certain.
func TestStitchOverlappingDispatches(t *testing.T) {
	l := &l3{pid: 10}
	for d := 1; d <= 2; d++ {
		l.node(1, "dispatch", int64(100*d), 20, fmt.Sprintf("task_slot=%d worker_id=0 dispatch_id=%d", d, d))
	}
	for d := 1; d <= 2; d++ {
		l.node(1, "complete", int64(800+d), 20, fmt.Sprintf("task_slot=%d worker_id=0 dispatch_id=%d", d, d))
	}
	l.node(1, "post_fence_retirement", 950, 20, "")
	p := played(t, ready2, chip(11, 1, 300, 100, ""), chip(11, 2, 150, 100, ""), l.b.String())
	roots := p.byName("chip.run")
	require.Equal(t, []string{"time", "run"}, []string{roots[0].Stitch, roots[1].Stitch}, "the first began before the second dispatch")
	require.Equal(t, "node.run", p.parentName(roots[1]))
}

// TestStitchTwoParents: two jobs log into one directory, and both had work for
// "worker 0" at the time. None is certain, whoever ends first.
func TestStitchTwoParents(t *testing.T) {
	other := strings.ReplaceAll(strings.ReplaceAll(oneRun(), "pid=10", "pid=20"), "ts=9", "ts=19")
	for _, order := range [][]string{
		{ready2, chip(11, 1, 200, 100, ""), oneRun(), other},
		{ready2, other, chip(11, 1, 200, 100, ""), oneRun()},
		{ready2, oneRun(), other, chip(11, 1, 200, 100, "")},
		// The other run is still open when the first one ends.
		{ready2, chip(11, 1, 200, 100, ""), other[:lineOf(other, "node.complete")], oneRun(), other[lineOf(other, "node.complete"):]},
	} {
		p := played(t, order...)
		root, _ := stitched(p, 11)
		require.Equal(t, "none", root.Stitch)
		require.Empty(t, root.Parent)
	}
	// Once the other job turns out to have completed earlier, one is left.
	early := strings.ReplaceAll(strings.ReplaceAll(oneRun(), "pid=10", "pid=20"), "ts=89", "ts=25")
	open := lineOf(early, "node.complete")
	p := played(t, ready2, chip(11, 1, 200, 100, ""), early[:open], oneRun(), early[open:])
	root, parent := stitched(p, 11)
	require.Equal(t, "time", root.Stitch)
	require.Equal(t, int64(10), parent.PID)
	p.accounted()
}

// TestStitchLate: what comes after its run has left joins its trace all the
// same, as does a node record; ids are those it would have had in time.
func TestStitchLate(t *testing.T) {
	inTime := played(t, ready2, chip(11, 1, 200, 100, ""), chip(12, 1, 210, 100, ""), oneRun())
	p := newPlayer(t)
	p.text("dir", ready2)
	run := oneRun()
	from := lineOf(run, "node.frame_submit") // of worker 0
	to := from + strings.IndexByte(run[from:], '\n') + 1
	p.text("dir", run[:from]+run[to:]) // the run is over
	p.text("dir", chip(11, 1, 200, 100, ""))
	p.now += int64(2 * time.Second)
	p.asm.Tick(p.now) // it waited for worker 1 in vain
	require.Equal(t, []TraceKind{TraceRun}, p.traces)
	p.text("dir", chip(12, 1, 210, 100, "")+run[from:to])
	p.now += int64(250 * time.Millisecond)
	p.asm.Tick(p.now)
	require.Equal(t, []TraceKind{TraceRun, TraceLate, TraceLate}, p.traces)
	require.Equal(t, inTime.spans, p.spans)
	require.Equal(t, uint64(2), p.asm.Stats().Stitched[StitchTime])
}

// TestStitchWaits: an invocation of an announced worker waits for its run, not
// for ever.
func TestStitchWaits(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", ready2+chip(11, 1, 200, 100, ""))
	wait := func(d time.Duration) {
		p.now += int64(d)
		p.asm.Tick(p.now)
	}
	wait(249 * time.Millisecond)
	require.Equal(t, 1, p.asm.Stats().Waiting)
	wait(time.Millisecond) // leaves linger, enters the queue
	wait(time.Second - 1)
	require.Empty(t, p.spans)
	wait(1)
	require.Len(t, p.spans, 2)
	root, _ := stitched(p, 11)
	require.Equal(t, "none", root.Stitch)
	// Once waited in vain, the next ones leave at once: nobody here prints runs.
	p.text("dir", chip(12, 1, 210, 100, ""))
	wait(250 * time.Millisecond)
	require.Len(t, p.spans, 4)
	// While a run is open that began before it, it waits on, to max_open.
	open := oneRun()
	p.text("dir", open[:lineOf(open, "node.complete")]+chip(11, 2, 300, 100, ""))
	wait(250 * time.Millisecond)
	wait(50 * time.Second)
	require.Len(t, p.byName("chip.run"), 2)
	wait(10 * time.Second) // the run is over for lack of news, and takes it
	wait(2 * time.Second)
	require.Len(t, p.byName("chip.run"), 3)
	require.Equal(t, "time", p.byName("chip.run")[2].Stitch)
	require.Zero(t, p.asm.Stats().OpenRuns)
	require.True(t, p.only("node.run").Incomplete)
	p.accounted()
}

// TestRunAcrossRotation reads the files of a rotated log side by side: the new
// one, with the run's last records, before the old one with its first. The run
// is whole, since it ends with the poll.
func TestRunAcrossRotation(t *testing.T) {
	whole := played(t, ready2, chip(11, 1, 200, 100, ""), chip(12, 1, 210, 100, ""), oneRun())
	run := oneRun()
	cut := lineOf(run, "node.complete")
	p := newPlayer(t, func(cfg *Config) { cfg.HoldForPoll = true })
	p.text("dir", run[cut:])
	p.text("dir", ready2+chip(11, 1, 200, 100, "")+chip(12, 1, 210, 100, "")+run[:cut])
	require.Empty(t, p.spans)
	p.asm.EndPoll(p.now)
	p.now += int64(250 * time.Millisecond)
	p.asm.EndPoll(p.now)
	require.Equal(t, []TraceKind{TraceRun}, p.traces)
	require.Equal(t, whole.spans, p.spans)
}

// TestRunsOutlastASlowPoll reads many runs before the first invocation of any:
// a file of node records is shorter than those of its chips. None leaves before
// the poll ends.
func TestRunsOutlastASlowPoll(t *testing.T) {
	p := newPlayer(t, func(cfg *Config) { cfg.HoldForPoll = true })
	p.text("dir", ready2+oneRun())
	p.asm.Tick(p.now)
	p.now += int64(5 * time.Second)
	p.asm.Tick(p.now) // in the middle of the poll
	require.Empty(t, p.spans)
	p.text("dir", chip(11, 1, 200, 100, "")+chip(12, 1, 210, 100, ""))
	p.asm.EndPoll(p.now)
	p.now += int64(250 * time.Millisecond)
	p.asm.EndPoll(p.now)
	require.Equal(t, []TraceKind{TraceRun}, p.traces)
	require.Equal(t, uint64(2), p.asm.Stats().Stitched[StitchTime])
}

// TestLoneInvocationLeavesAtOnce: where nothing hints at an L3 parent, nothing
// is waited for beyond linger.
func TestLoneInvocationLeavesAtOnce(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", chip(11, 1, 200, 100, ""))
	require.Empty(t, p.spans)
	p.now += int64(250 * time.Millisecond)
	p.asm.Tick(p.now)
	require.Len(t, p.spans, 2)
	// Log time counts as well: the process has printed far beyond.
	p.text("dir", chip(11, 2, 1000, 100, ""))
	p.text("dir", mark(11, 3, 1, "chip.run.bind", 1100, 250*ms-1, ""))
	require.Len(t, p.spans, 2)
	p.text("dir", mark(11, 3, 1, "chip.run.validate", 1100+250*ms-1, 1, ""))
	require.Len(t, p.spans, 4)
	// Held for the poll, it stays until that has ended.
	p = newPlayer(t, func(c *Config) { c.HoldForPoll = true })
	p.text("dir", chip(11, 2, 1000, 100, "")+mark(11, 3, 1, "chip.run.bind", 1100, 250*ms, ""))
	p.now += sec
	p.asm.Tick(p.now)
	require.Empty(t, p.spans)
	p.asm.EndPoll(p.now)
	require.Len(t, p.spans, 2)
}

// TestRunBreaks covers runs that do not end well.
func TestRunBreaks(t *testing.T) {
	cut := func(until string) string { return oneRun()[:lineOf(oneRun(), until)] }
	t.Run("killed before complete", func(t *testing.T) {
		p := played(t, ready2, cut("node.complete"), chip(11, 1, 200, 5000, ""))
		require.True(t, p.only("node.run").Incomplete)
		root, _ := stitched(p, 11)
		require.Equal(t, "time", root.Stitch, "nothing tells when the dispatch ended")
	})
	t.Run("no retirement in early generations", func(t *testing.T) {
		p := newPlayer(t)
		p.text("dir", cut("post_fence"))
		p.now += int64(250 * time.Millisecond)
		p.asm.Tick(p.now)
		p.now += int64(2 * time.Second)
		p.asm.Tick(p.now)
		require.False(t, p.only("node.run").Incomplete)
	})
	t.Run("ends after it was given up", func(t *testing.T) {
		p := newPlayer(t)
		p.text("dir", cut("node.complete"))
		p.now += int64(time.Minute)
		p.asm.Tick(p.now)
		p.now += int64(2 * time.Second)
		p.asm.Tick(p.now)
		require.Len(t, p.byName("node.run"), 1)
		p.text("dir", oneRun()[len(cut("node.complete")):])
		p.flush()
		require.Len(t, p.byName("node.run"), 1, "its last records do not make another run")
		require.Len(t, p.byName("node.complete"), 2)
		for _, s := range p.byName("node.complete") {
			require.Equal(t, "node.dispatch", p.parentName(s))
		}
		// But the next use of the number does.
		p.text("dir", strings.ReplaceAll(oneRun(), "ts=", "ts=7000"))
		p.flush()
		require.Len(t, p.byName("node.run"), 2)
	})
	t.Run("a dispatch after the retirement", func(t *testing.T) {
		p := newPlayer(t)
		p.text("dir", ready2+oneRun()+mark(10, 1, 0, "node.dispatch", 500, 20, "run_id=1 "+task(2, 1))+chip(11, 1, 200, 100, ""))
		p.flush()
		require.Len(t, p.byName("node.dispatch"), 3)
		p.accounted()
	})
	t.Run("a dispatch without duration", func(t *testing.T) {
		run := strings.Replace(oneRun(), "name=node.dispatch ts=100 dur=20", "name=node.dispatch ts=100 dur=0", 1)
		p := played(t, ready2, chip(11, 1, 200, 100, ""), chip(12, 1, 200, 100, ""), run)
		root, parent := stitched(p, 12)
		require.Equal(t, "time", root.Stitch)
		require.Equal(t, "1", worker(parent))
		root, _ = stitched(p, 11)
		require.Equal(t, "none", root.Stitch, "a point is no parent")
		require.Len(t, p.only("node.run").Events, 1)
	})
	t.Run("swapped retirement", func(t *testing.T) {
		lines := strings.Split(strings.TrimSuffix(oneRun(), "\n"), "\n")
		n := len(lines)
		lines[n-1], lines[n-2] = lines[n-2], lines[n-1]
		p := played(t, strings.Join(lines, "\n")+"\n")
		require.Equal(t, played(t, oneRun()).spans, p.spans)
	})
	t.Run("the number again", func(t *testing.T) {
		p := played(t, cut("node.complete"), strings.ReplaceAll(oneRun(), "ts=", "ts=7000"))
		runs := p.byName("node.run")
		require.Len(t, runs, 2)
		require.NotEqual(t, runs[0].Trace, runs[1].Trace)
		require.Equal(t, []bool{true, false}, []bool{runs[0].Incomplete, runs[1].Incomplete})
		p.accounted()
	})
	t.Run("task slots come round", func(t *testing.T) {
		l := &l3{pid: 10}
		for i := range int64(6) {
			l.node(1, "submit", 20+i, 1, fmt.Sprintf("task_slot=%d group_index=0 group_size=1 worker_id=0", i%2))
			l.node(1, "dispatch", 100*(i+1), 20, fmt.Sprintf("task_slot=%d worker_id=0 dispatch_id=%d", i%2, i+1))
			l.node(1, "complete", 100*(i+1)+50, 20, fmt.Sprintf("task_slot=%d worker_id=0 dispatch_id=%d", i%2, i+1))
		}
		l.node(1, "graph_build", 10, 800, "")
		l.node(1, "post_fence_retirement", 950, 20, "")
		p := played(t, l.b.String())
		require.Len(t, p.byName("node.run"), 1)
		for _, s := range p.byName("node.complete") {
			require.Equal(t, s.TS-50, p.spans[s.Trace+s.Parent].TS)
		}
	})
	t.Run("a group submit counts its tasks", func(t *testing.T) {
		l := &l3{pid: 10}
		l.node(1, "submit", 20, 5, "task_slot=0 group_index=-1 group_size=3")
		l.node(1, "graph_build", 10, 50, "")
		for w := range 3 {
			l.node(1, "dispatch", 100+int64(w), 20, task(w, 1))
			l.node(1, "complete", 890+int64(w), 10, task(w, 1))
			p := newPlayer(t)
			p.text("dir", l.b.String())
			p.now += int64(250 * time.Millisecond)
			p.asm.Tick(p.now)
			p.now += int64(2 * time.Second)
			p.asm.Tick(p.now)
			require.Equal(t, w == 2, len(p.spans) > 0, "after complete %d", w)
		}
	})
}

// TestExternal: ext records go where they say, else stand alone.
func TestExternal(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ext := func(ts int64, attrs string) string { return mark(10, 0, 0, "ext.app.step", ts, 3, attrs) }
	for _, order := range [][]string{{ext(50, "run_id=1 layer=2"), oneRun()}, {oneRun(), ext(50, "run_id=1 layer=2")}} {
		p := played(t, order...)
		s := p.only("ext.app.step")
		require.Equal(t, "node.run", p.parentName(s))
		require.Equal(t, p.only("node.run").Trace, s.Trace)
		require.Zero(t, p.asm.Stats().Invocations)
	}
	p := played(t, ext(50, "traceparent="+parent+" run_id=1"), oneRun())
	s := p.only("ext.app.step")
	require.Equal(t, []string{"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"}, []string{s.Trace, s.Parent})
	for _, attrs := range []string{"", "run_id=9", "run_id=0", "traceparent=broken", "request_id=r1"} {
		p = played(t, ext(50, attrs), oneRun())
		s = p.only("ext.app.step")
		require.Empty(t, s.Parent, attrs)
		require.NotEqual(t, p.only("node.run").Trace, s.Trace)
		require.Equal(t, attrs, s.Attrs)
	}
	// It does not keep the run from leaving once its invocations are there.
	p = newPlayer(t)
	p.text("dir", ready2+ext(50, "run_id=1")+chip(11, 1, 200, 100, "")+oneRun())
	p.now += int64(250 * time.Millisecond)
	p.asm.Tick(p.now)
	require.Empty(t, p.byName("node.run"), "one invocation is missing")
	p.text("dir", chip(12, 1, 200, 100, ""))
	p.now += int64(250 * time.Millisecond)
	p.asm.Tick(p.now)
	require.Len(t, p.byName("node.run"), 1)
}
