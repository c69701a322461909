// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

func runAt(n uint64, start int64) Run {
	return Run{ID: spanID(n), Host: phases.Interval{Start: start, End: start + 10}, Proc: 1}
}

func procOf(group string) *phases.Proc {
	return &phases.Proc{Key: 1, Groups: phases.GroupValues{group}}
}

func TestGroupsAreBounded(t *testing.T) {
	x := New(Settings{MaxRuns: 100, MaxGroups: 3, Retention: 1000})
	for i := range uint64(5) {
		x.AddRun(procOf(fmt.Sprint("g", i)), runAt(i, 100), int64(i))
	}
	require.Equal(t, 3, x.Groups())
	require.Equal(t, 3, x.Runs())
	require.Equal(t, 2, x.TakeEvicted().Groups)
	require.Zero(t, x.TakeEvicted().Groups)
	g, reason := x.Find(phases.GroupValues{"g1"})
	require.Nil(t, g, "the quiet ones went")
	require.Equal(t, NoGroup, reason)
	g, _ = x.Find(phases.GroupValues{"g4"})
	require.NotNil(t, g)
}

// The group that is largest pays for room, not the one that is new.
func TestLargestGroupPays(t *testing.T) {
	x := New(Settings{MaxRuns: 64, MaxGroups: 3, Retention: 1000})
	for i := range uint64(64) {
		x.AddRun(procOf("large"), runAt(i, int64(i)*100), 1)
	}
	x.AddRun(procOf("small"), runAt(1000, 100), 1)
	require.LessOrEqual(t, x.Runs(), 64)
	small, _ := x.Find(phases.GroupValues{"small"})
	require.Equal(t, 1, small.Overlap(phases.Interval{Start: 0, End: 1000}, 0, "").Runs)
	large, _ := x.Find(phases.GroupValues{"large"})
	require.True(t, large.Forgotten(phases.Interval{Start: 0, End: 1}))
	require.False(t, large.Forgotten(phases.Interval{Start: 3000, End: 3001}))
}

func TestEvidenceIsBounded(t *testing.T) {
	x := New(Settings{MaxRuns: 10, MaxGroups: 3, Retention: 1000})
	p := procOf("g")
	for i := range int64(25) {
		x.AddExt(p, &phases.Ext{RequestIDs: [2]string{fmt.Sprint("r", i%5)}, Start: 100 + i, End: 101 + i}, 1)
	}
	require.Len(t, x.ext.order, 10)
	total := 0
	for i := range 5 {
		total += len(x.ByRequest(fmt.Sprint("r", i)))
	}
	require.Equal(t, 10, total)
	require.Positive(t, x.TakeEvicted().Evidence)
	require.Empty(t, x.ByRequest(""))
	require.Empty(t, x.ByTrace(pcommon.TraceID{1}))
	x.Expire(5000)
	require.Empty(t, x.ext.byKey)
	require.Empty(t, x.ext.order)
}

func TestStepsAreBounded(t *testing.T) {
	x := New(Settings{MaxRuns: 10, MaxGroups: 3, Retention: 1000})
	for i := range uint64(20) {
		x.AddStep(procOf("g"), spanID(i), phases.Interval{Start: 5, End: 9}, 1)
		x.AddStep(procOf("g"), spanID(i), phases.Interval{Start: 5, End: 9}, 1)
	}
	g, _ := x.Find(phases.GroupValues{"g"})
	require.Equal(t, 10, g.steps.len())
}

// External spans out of order are put in order before they are asked for.
func TestExternalSpansOutOfOrder(t *testing.T) {
	x := New(Settings{MaxRuns: 100, MaxGroups: 3, Retention: 1000})
	p := procOf("g")
	for _, at := range []int64{300, 100, 200} {
		x.AddExt(p, &phases.Ext{RequestIDs: [2]string{strconv.FormatInt(at, 10)}, Start: at, End: at + 5}, 1)
	}
	for i, at := range []int64{110, 150, 210, 310} {
		x.AddRun(p, runAt(uint64(i+1), at), 1)
	}
	g, _ := x.Find(phases.GroupValues{"g"})
	all := phases.Interval{Start: 0, End: 1000}
	require.Equal(t, 2, g.Named(all, x.ByRequest("100"), 1, "").Runs)
	require.Equal(t, 1, g.Named(all, x.ByRequest("200"), 1, "").Runs)
	require.Equal(t, spanID(4), g.Named(all, x.ByRequest("300"), 1, "").First.ID)
	g.dropUpTo(250, true)
	require.Equal(t, 1, g.exts)
}

// More late entries than wait unsorted change nothing.
func TestManyLateEntries(t *testing.T) {
	const n = 3*lateLimit + 5
	g := newGroup(0)
	for i := range int64(n) {
		r := runAt(uint64(i+1), (n-i)*20)
		r.Device = r.Host
		g.addRun(r, "")
	}
	f := g.Overlap(phases.Interval{Start: 1000, End: 1000 + 2000*20}, 3, "")
	require.Equal(t, 2000, f.Runs)
	require.Equal(t, int64(20_000), f.Host)
	require.Equal(t, int64(20_000), f.Device)
}

func BenchmarkAddRun(b *testing.B) {
	x := New(Settings{MaxRuns: 500_000, MaxGroups: 10, Retention: 1 << 60})
	p := procOf("g")
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		r := runAt(n, int64(n)*20)
		r.Device = r.Host
		x.AddRun(p, r, int64(n))
	}
}

// BenchmarkOverlap shows that the numbers do not get dearer with the runs.
func BenchmarkOverlap(b *testing.B) {
	for _, n := range []int64{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint("runs=", n), func(b *testing.B) {
			x := New(Settings{MaxRuns: 1_000_000, MaxGroups: 10, Retention: 1 << 60})
			p := procOf("g")
			for i := range n {
				r := runAt(uint64(i+1), i*20)
				r.Host.End += i * 7919 % 9
				r.Device = r.Host
				x.AddRun(p, r, 1)
			}
			g, _ := x.Find(phases.GroupValues{"g"})
			b.ReportAllocs()
			for b.Loop() {
				g.Overlap(phases.Interval{Start: 15, End: n*20 - 15}, 0, "")
			}
		})
	}
}

// Enough runs for whole chapters to go: what is left answers as before.
func TestForgettingChapters(t *testing.T) {
	g := newGroup(0)
	const n = 3 * chapterSize * pageSize
	for i := range int64(n) {
		r := runAt(uint64(i+1), i*20)
		r.Err = float64(i%977) / 1e9
		g.addRun(r, "")
	}
	ask := phases.Interval{Start: 2*n*20/3 + 5, End: n*20 - 5}
	before := g.Overlap(ask, 5, "")
	require.InDelta(t, 976e-9, before.Err, 1e-15)
	require.Equal(t, n-2*n/3, before.Runs)
	gone := g.dropUpTo(2*n*20/3, false)
	require.Equal(t, 2*chapterSize*pageSize, gone)
	require.Len(t, g.seen, n-gone)
	require.Equal(t, before, g.Overlap(ask, 5, ""))
	for i := range int64(100) {
		g.addRun(runAt(uint64(n+1+i), (n+i)*20), "")
	}
	require.Equal(t, before, g.Overlap(ask, 5, ""))
	require.Equal(t, 100, g.Overlap(phases.Interval{Start: n * 20, End: n * 40}, 5, "").Runs)
}
