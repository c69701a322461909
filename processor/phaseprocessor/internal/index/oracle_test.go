// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// oracle answers by looking at every run, marking nanoseconds off one by one
// where lengths are asked for.
type oracle struct{ runs []Run }

func (o *oracle) overlap(in phases.Interval) []Run {
	var out []Run
	for _, r := range o.runs {
		if r.Host.Start < in.End && r.Host.End > in.Start {
			out = append(out, r)
		}
	}
	return out
}

func covered(in phases.Interval, spans []phases.Interval) (n int64) {
	for t := in.Start; t < in.End; t++ {
		if slices.ContainsFunc(spans, func(s phases.Interval) bool { return s.Start <= t && t < s.End }) {
			n++
		}
	}
	return n
}

func spanID(n uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

// randomRuns makes runs on a short time line, so that all kinds of overlap and
// touching ends happen, zero-length runs among them.
func randomRuns(rng *rand.Rand, n int) []Run {
	runs := make([]Run, n)
	for i := range runs {
		start := rng.Int64N(600) + 1
		dur := rng.Int64N(30)
		r := Run{
			ID: spanID(uint64(i + 1)), Host: phases.Interval{Start: start, End: start + dur},
			Err: float64(rng.IntN(5)) / 1e9, Proc: uint64(rng.IntN(4)), HID: "abcdef",
		}
		if dur > 2 && rng.IntN(4) > 0 {
			r.Device = phases.Interval{Start: start + 1, End: start + 1 + rng.Int64N(dur-1)}
		}
		runs[i] = r
	}
	return runs
}

func TestOverlapAgainstOracle(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			runs := randomRuns(rng, 20+rng.IntN(400))
			if seed%3 == 0 { // in order, as they usually come
				slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Host.End, b.Host.End) })
			}
			x := New(Settings{MaxRuns: 10_000, MaxGroups: 10, Retention: 1 << 60})
			var o oracle
			for i, r := range runs {
				p := &phases.Proc{Key: r.Proc, Host: fmt.Sprint("h", r.Proc%2), Groups: phases.GroupValues{"g"}}
				require.True(t, x.AddRun(p, r, 1))
				require.False(t, x.AddRun(p, r, 1), "a run that comes twice counts once")
				o.runs = append(o.runs, r)
				if i%10 != 0 && i < len(runs)-5 {
					continue
				}
				g, _ := x.Find(phases.GroupValues{"g"})
				for range 4 {
					from := rng.Int64N(640)
					check(t, g, &o, phases.Interval{Start: from, End: from + 1 + rng.Int64N(200)})
				}
			}
		})
	}
}

func check(t *testing.T, g *Group, o *oracle, in phases.Interval) {
	t.Helper()
	const k = 7
	got := g.Overlap(in, k, "h0")
	want := o.overlap(in)
	require.Len(t, want, got.Runs)
	if len(want) == 0 {
		return
	}
	var hosts, devices []phases.Interval
	perProc := map[uint64]int{}
	var worst float64
	withDevice, foreign := false, false
	for _, r := range want {
		hosts = append(hosts, r.Host)
		if r.Device.Valid() {
			devices = append(devices, r.Device)
			withDevice = true
		}
		perProc[r.Proc]++
		foreign = foreign || r.Proc%2 == 1
		worst = max(worst, r.Err)
	}
	most := 0
	for _, n := range perProc {
		most = max(most, n)
	}
	require.Equal(t, most, got.Steps)
	require.Equal(t, covered(in, hosts), got.Host)
	require.Equal(t, withDevice, got.HasDevice)
	// A run's device window may reach into an interval that its host run
	// overlaps; windows of runs that do not overlap cannot.
	require.Equal(t, covered(in, devices), got.Device)
	require.GreaterOrEqual(t, got.Err, worst)
	require.Equal(t, foreign, got.Foreign)

	slices.SortFunc(want, func(a, b Run) int {
		return cmp.Or(cmp.Compare(b.Host.Len(), a.Host.Len()), cmp.Compare(a.Host.Start, b.Host.Start),
			cmp.Compare(string(a.ID[:]), string(b.ID[:])))
	})
	var ids, gotIDs []pcommon.SpanID
	for _, r := range want[:min(k, len(want))] {
		ids = append(ids, r.ID)
	}
	for _, r := range got.Slowest {
		gotIDs = append(gotIDs, r.ID)
	}
	require.Equal(t, ids, gotIDs)
	slices.SortFunc(want, func(a, b Run) int { return cmp.Compare(a.Host.Start, b.Host.Start) })
	startOf := func(ref Ref) int64 {
		return want[slices.IndexFunc(want, func(r Run) bool { return r.ID == ref.ID })].Host.Start
	}
	require.Equal(t, want[0].Host.Start, startOf(got.First))
	require.Equal(t, want[len(want)-1].Host.Start, startOf(got.Last))
}

// What is forgotten must not change any answer that is still given.
func TestForgettingKeepsTheRestRight(t *testing.T) {
	for seed := range uint64(40) {
		for _, hard := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 2))
			runs := randomRuns(rng, 700)
			g := newGroup(0)
			o := oracle{runs: runs}
			for _, r := range runs {
				g.addRun(r, "h0")
			}
			h := rng.Int64N(500)
			g.dropUpTo(h, hard)
			for range 20 {
				from := h + rng.Int64N(100)
				in := phases.Interval{Start: from, End: from + 1 + rng.Int64N(100)}
				require.False(t, g.Forgotten(in))
				check1(t, g, &o, in)
			}
			require.True(t, g.Forgotten(phases.Interval{Start: h - 1, End: h + 5}))
			late := randomRuns(rng, 50)
			for i := range late {
				late[i].ID = spanID(uint64(5_000 + i))
				if g.addRun(late[i], "h0") {
					o.runs = append(o.runs, late[i])
				} else {
					require.LessOrEqual(t, late[i].Host.End, h)
				}
			}
			in := phases.Interval{Start: h, End: h + 300}
			check1(t, g, &o, in)
		}
	}
}

func check1(t *testing.T, g *Group, o *oracle, in phases.Interval) {
	t.Helper()
	got, want := g.Overlap(in, 3, ""), o.overlap(in)
	require.Len(t, want, got.Runs)
	var hosts, devices []phases.Interval
	for _, r := range want {
		hosts = append(hosts, r.Host)
		if r.Device.Valid() {
			devices = append(devices, r.Device)
		}
	}
	require.Equal(t, covered(in, hosts), got.Host)
	require.Equal(t, covered(in, devices), got.Device)
}
