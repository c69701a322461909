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

func TestNewAssemblerChecks(t *testing.T) {
	cfg := DefaultConfig()
	_, err := NewAssembler(cfg, NewNames())
	require.ErrorContains(t, err, "Emit")
	cfg.Emit = func(*Trace) {}
	for _, limit := range []*int{&cfg.MaxInvocations, &cfg.MaxRuns, &cfg.MaxBytes, &cfg.MaxProcesses, &cfg.MaxScopes} {
		was := *limit
		*limit = 0
		_, err = NewAssembler(cfg, NewNames())
		require.ErrorContains(t, err, "limit")
		*limit = was
	}
	_, err = NewAssembler(cfg, NewNames())
	require.NoError(t, err)
}

// TestMaxInvocations: closed ones leave first, then the open one that was
// silent longest; the bound holds at every line and nothing is lost.
func TestMaxInvocations(t *testing.T) {
	p := newPlayer(t, func(c *Config) { c.MaxInvocations = 3 })
	for i := range 10 {
		p.now += int64(time.Second)
		p.text("dir", mark(100+i, 1, 1, "chip.run.bind", 10, 5, ""))
		s := p.asm.Stats()
		require.LessOrEqual(t, s.Open+s.Waiting, 3)
	}
	require.Len(t, p.spans, 7)
	require.Equal(t, uint64(7), p.asm.Stats().EvictedInvocations)
	for _, s := range p.all() {
		require.True(t, s.Incomplete)
		require.Less(t, s.PID, int64(107), "the newest stay")
	}
	p.text("dir", mark(109, 1, 0, "chip.run", 5, 50, "")+mark(120, 1, 1, "chip.run.bind", 10, 5, ""))
	require.Equal(t, "invocation", p.traces[len(p.traces)-1].String(), "what is complete goes first")
	p.flush()
	p.accounted()
}

func TestMaxBytes(t *testing.T) {
	p := newPlayer(t, func(c *Config) { c.MaxBytes = 10_000 })
	for i := range 500 {
		p.now += int64(time.Second)
		p.text("dir", mark(100+i%50, i, 1, "chip.run.bind", int64(10+i), 5, "note="+strings.Repeat("x", i)))
		require.LessOrEqual(t, p.asm.Stats().HeldBytes, 10_000)
	}
	require.NotZero(t, p.asm.Stats().EvictedBytes)
	// One invocation alone can be too much.
	p.text("dir", mark(7, 1, 1, "chip.run.bind", 1, 5, "note="+strings.Repeat("x", 20_000)))
	require.LessOrEqual(t, p.asm.Stats().HeldBytes, 10_000)
	p.flush()
	p.accounted()
	require.Len(t, p.spans, 501)
}

func TestMaxRuns(t *testing.T) {
	p := newPlayer(t, func(c *Config) { c.MaxRuns = 2 })
	for r := 1; r <= 9; r++ {
		p.now += int64(time.Second)
		p.text("dir", mark(10, r, 0, "node.graph_build", int64(1000*r), 5, fmt.Sprintf("run_id=%d", r)))
		require.LessOrEqual(t, p.asm.Stats().OpenRuns, 2)
	}
	require.Equal(t, uint64(7), p.asm.Stats().EvictedRuns)
	require.Len(t, p.byName("node.run"), 7)
	for _, s := range p.byName("node.run") {
		require.True(t, s.Incomplete)
		require.LessOrEqual(t, s.Inv, uint64(7))
	}
	p.flush()
	p.accounted()
}

func TestMaxProcesses(t *testing.T) {
	p := newPlayer(t, func(c *Config) { c.MaxProcesses = 4 })
	for i := range 20 {
		p.now += int64(time.Second)
		p.text("dir", anchorLine(i, 0, wallBase)+mark(i, 1, 1, "chip.run.bind", 10, 5, ""))
		require.LessOrEqual(t, p.asm.Stats().Processes, 4)
		if i == 10 {
			p.text("dir", mark(i, 1, 0, "chip.run", 5, 50, ""))
			p.now += int64(time.Second)
			p.asm.Tick(p.now)
			// An idle process goes before those that are silent longer.
			p.text("dir", anchorLine(99, 0, wallBase))
			require.NotContains(t, pids(p.asm), int32(10))
			require.Contains(t, pids(p.asm), int32(7))
		}
	}
	require.Equal(t, uint64(17), p.asm.Stats().EvictedProcesses)
	p.flush()
	p.accounted()
	require.Len(t, p.spans, 21)
	for _, s := range p.all() {
		require.Equal(t, "anchor", s.Source, "what an evicted process held is placed by its own clock")
	}
}

func pids(a *Assembler) (all []int32) {
	for _, s := range a.ordered {
		for _, p := range s.ordered {
			all = append(all, p.pid)
		}
	}
	return all
}

// TestEvictedProcessTakesItsRuns: neither a run of the process nor one that
// holds an invocation of it stays behind.
func TestEvictedProcessTakesItsRuns(t *testing.T) {
	for _, victim := range []int32{10, 11} {
		p := newPlayer(t)
		p.text("dir", ready2+oneRun()+chip(11, 1, 200, 100, "")+mark(12, 1, 1, "chip.run.bind", 5, 6, "")+mark(12, 2, 1, "chip.run.bind", 5, 6, ""))
		p.now += int64(250 * time.Millisecond)
		p.asm.Tick(p.now)
		require.Equal(t, 1, p.asm.Stats().OpenRuns)
		p.asm.dropProcess(p.asm.scopes["dir"].processes[victim])
		require.Zero(t, p.asm.Stats().OpenRuns)
		p.flush()
		p.accounted()
	}
}

func TestMaxScopes(t *testing.T) {
	p := newPlayer(t, func(c *Config) { c.MaxScopes = 3 })
	for i := range 10 {
		p.now += int64(time.Second)
		scope := fmt.Sprintf("pod/%d", i)
		p.text(scope, mark(5, 1, 1, "chip.run.bind", 10, 5, ""))
		p.text("pod/0", mark(5, 1+i, 1, "chip.run.bind", 10, 6, ""))
		require.LessOrEqual(t, p.asm.Stats().Scopes, 3)
	}
	require.Contains(t, p.asm.scopes, "pod/0", "it was in use")
	require.Equal(t, uint64(7), p.asm.Stats().EvictedScopes)
	p.flush()
	p.accounted()
	require.Len(t, p.spans, 20)
}

// TestMaxOpen: an invocation without root leaves when it was silent for so long.
func TestMaxOpen(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", mark(5, 1, 1, "chip.run.bind", 10, 5, ""))
	p.now += int64(30 * time.Second)
	p.text("dir", mark(5, 1, 1, "chip.run.validate", 30, 5, ""))
	p.now += int64(time.Minute) - 1
	p.asm.Tick(p.now)
	require.Empty(t, p.spans)
	p.now++
	p.asm.Tick(p.now)
	require.Len(t, p.spans, 2)
	require.True(t, p.only("chip.run.bind").Incomplete)
}

// TestDevicesBounded: a log that announces devices without end.
func TestDevicesBounded(t *testing.T) {
	p := newPlayer(t)
	for i := range 3 * maxDevices {
		p.text("dir", fmt.Sprintf("[chip_process pid=%d dev=%d] ready\n", 10+i%100, i))
	}
	require.Len(t, p.asm.scopes["dir"].devices, maxDevices)
	require.IsIncreasing(t, p.asm.scopes["dir"].devices)
}

// TestLeftRunsBounded: what is remembered of runs that left is bounded and
// forgotten.
func TestLeftRunsBounded(t *testing.T) {
	p := newPlayer(t)
	for r := 1; r <= maxLeft+50; r++ {
		p.text("dir", mark(10, r, 0, "node.graph_build", int64(1000*r), 5, fmt.Sprintf("run_id=%d", r))+
			mark(10, r, 0, "node.post_fence_retirement", int64(1000*r+100), 5, fmt.Sprintf("run_id=%d", r)))
	}
	s := p.asm.scopes["dir"]
	require.Len(t, s.left, maxLeft)
	require.Equal(t, uint64(51), s.left[0].runID, "the earliest are gone")
	p.now += int64(time.Minute)
	p.asm.Tick(p.now)
	require.Len(t, s.left, maxLeft)
	p.now++
	p.asm.Tick(p.now)
	require.Empty(t, s.left)
}

// TestBacklogIsLinear reads a long time of chip logs before the parent's, as
// happens when files are read one after the other: each run must find its own
// without looking at all others.
func TestBacklogIsLinear(t *testing.T) {
	runs := 20_000
	if underRace {
		runs = 2000
	}
	p := newPlayer(t)
	p.text("dir", ready2)
	for w := range 2 {
		for r := range int64(runs) {
			p.text("dir", mark(11+w, int(r), 0, "chip.run", r*sec+200, 100, ""))
		}
	}
	require.GreaterOrEqual(t, p.asm.Stats().Waiting, 2*(runs-1))
	for r := range int64(runs) {
		l := &l3{pid: 10}
		for w := range 2 {
			l.node(int(r), "dispatch", r*sec+100, 20, task(w, int(r)))
			l.node(int(r), "complete", r*sec+900, 20, task(w, int(r)))
		}
		l.node(int(r), "post_fence_retirement", r*sec+950, 20, "")
		p.text("dir", l.b.String())
	}
	p.flush()
	require.Equal(t, uint64(2*runs), p.asm.Stats().Stitched[StitchTime])
	p.accounted()
}

// TestGiantsAreNotKept: units are reused, but not one that has grown huge.
func TestGiantsAreNotKept(t *testing.T) {
	p := newPlayer(t)
	for i := range 5000 {
		p.text("dir", mark(5, 1, 2, "chip.run.bind.x", int64(10+i), 1, "k="+strings.Repeat("v", 50)))
	}
	p.text("dir", mark(5, 2, 1, "chip.run.bind", 10, 5, ""))
	p.flush()
	require.Len(t, p.asm.freeInvocations, 1)
	require.LessOrEqual(t, cap(p.asm.freeInvocations[0].list), maxFreeList)
}
