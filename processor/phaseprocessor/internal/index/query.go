// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// Found is what lies in an interval. All lengths are nanoseconds, clipped to it.
type Found struct {
	Runs  int
	Steps int
	Host  int64
	// Device is meaningful only when HasDevice is set.
	Device    int64
	HasDevice bool
	// Err is the largest clock error of the runs, seconds.
	Err float64
	// Foreign is true when a run is of another host than asked for.
	Foreign bool
	// Slowest are the longest runs, longest first; First and Last those that
	// start first and last.
	Slowest     []Ref
	First, Last Ref
	// Inside are the callables of up to sampleSize runs that lie in the
	// interval wholly.
	Inside []Sighting
}

// Ref points to a run.
type Ref struct {
	Trace pcommon.TraceID
	ID    pcommon.SpanID
}

// Ref points to the run.
func (r *Run) Ref() Ref { return Ref{r.Trace, r.ID} }

// Sighting is a callable that a process ran.
type Sighting struct {
	Proc uint64
	HID  string
}

// sampleSize bounds the runs looked at to learn what callables are.
const sampleSize = 64

// see notes a run's callable.
func (f *Found) see(r *Run) {
	s := Sighting{r.Proc, r.HID}
	if n := len(f.Inside); n > 0 && f.Inside[n-1] == s || slices.Contains(f.Inside, s) {
		return
	}
	f.Inside = append(f.Inside, s)
}

// Forgotten says whether the group may have lost runs of the interval.
func (g *Group) Forgotten(in phases.Interval) bool { return in.Start < g.horizon }

// Overlap finds the runs that overlap in. slowest is how many of the longest to
// return; host is where the asker runs, empty when unknown.
func (g *Group) Overlap(in phases.Interval, slowest int, host string) Found {
	f := Found{Runs: g.all.overlapping(in.Start, in.End)}
	if f.Runs == 0 {
		return f
	}
	f.Host = g.host.covered(in)
	if f.HasDevice = g.withDevice.overlapping(in.Start, in.End) > 0; f.HasDevice {
		f.Device = g.device.covered(in)
	}
	f.Steps = g.steps.overlapping(in.Start, in.End)
	most := 0
	for _, p := range g.procs {
		n := p.overlapping(in.Start, in.End)
		most = max(most, n)
		if n > 0 && host != "" && p.host != "" && p.host != host {
			f.Foreign = true
		}
	}
	if f.Steps == 0 {
		f.Steps = most
	}
	f.Err = g.runs.maxErr(in)
	if r := g.runs.first(in); r != nil {
		f.First, f.Last = r.Ref(), g.runs.last(in).Ref()
	}
	f.Slowest = g.runs.slowest(in, slowest)
	from := g.runs.firstFrom(in.Start)
	for i := from; i < min(len(g.runs.sorted), from+sampleSize); i++ {
		r := &g.runs.sorted[i]
		if r.Host.Start >= in.End {
			break
		}
		if r.Host.End <= in.End && r.Host.Len() > 0 {
			f.see(r)
		}
	}
	return f
}

// Named finds, among the runs that overlap in, those that the external spans
// exts name.
func (g *Group) Named(in phases.Interval, exts []ExtSpan, slowest int, host string) Found {
	g.runs.settle()
	named := make(map[*Run]struct{})
	for i := range exts {
		for _, w := range g.windows(exts[i]) {
			g.collect(w, in, named)
		}
	}
	runs := make([]*Run, 0, len(named))
	for r := range named {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, byStart)
	return g.sum(runs, in, slowest, host)
}

// collect adds the runs of a window that overlap in.
func (g *Group) collect(w window, in phases.Interval, into map[*Run]struct{}) {
	for i := g.runs.firstFrom(w.from); i < len(g.runs.sorted); i++ {
		r := &g.runs.sorted[i]
		if r.Host.Start >= w.before || r.Host.Start >= in.End {
			return
		}
		if (r.Proc == w.proc || r.StepProc == w.proc) && r.Host.End <= w.end && overlap(r, in) {
			into[r] = struct{}{}
		}
	}
}

// sum is Overlap for runs that are given, by start.
func (g *Group) sum(runs []*Run, in phases.Interval, slowest int, host string) Found {
	f := Found{Runs: len(runs)}
	if f.Runs == 0 {
		return f
	}
	var hosts, devices union
	steps := make(map[pcommon.SpanID]struct{})
	perProc := make(map[uint64]int)
	for n, r := range runs {
		hosts.add(r.Host)
		if r.Device.Valid() {
			f.HasDevice = true
			devices.add(r.Device)
		}
		if !r.Step.IsEmpty() {
			steps[r.Step] = struct{}{}
		}
		perProc[r.Proc]++
		f.Steps = max(f.Steps, perProc[r.Proc])
		f.Err = max(f.Err, r.Err)
		if p := g.procs[r.Proc]; p != nil && host != "" && p.host != "" && p.host != host {
			f.Foreign = true
		}
		if n < sampleSize && r.Host.Start >= in.Start && r.Host.End <= in.End {
			f.see(r)
		}
	}
	if len(steps) > 0 {
		f.Steps = len(steps)
	}
	f.Host, f.Device = hosts.covered(in), devices.covered(in)
	f.First, f.Last = runs[0].Ref(), runs[len(runs)-1].Ref()
	slices.SortStableFunc(runs, func(a, b *Run) int { return cmp.Compare(b.Host.Len(), a.Host.Len()) })
	for _, r := range runs[:min(slowest, len(runs))] {
		f.Slowest = append(f.Slowest, r.Ref())
	}
	return f
}
