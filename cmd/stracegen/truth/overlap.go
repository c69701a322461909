// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package truth

import (
	"cmp"
	"slices"
)

// Interval is [Start, End) in nanoseconds.
type Interval struct{ Start, End int64 }

// Clip returns the part of i inside [start, end); ok is false where there is none.
func (i Interval) Clip(start, end int64) (Interval, bool) {
	c := Interval{max(i.Start, start), min(i.End, end)}
	return c, c.Start < c.End
}

// Union is the length of the union of the intervals. It sorts its argument.
func Union(in []Interval) int64 {
	slices.SortFunc(in, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	var total int64
	covered := int64(-1 << 63)
	for _, i := range in {
		start := max(i.Start, covered)
		if i.End > start {
			total += i.End - start
			covered = i.End
		}
	}
	return total
}

// Fill sets what is derived in a complete File: the overlaps of every phase,
// the sums on sequences, and the totals of things it holds. It looks at every
// invocation for every phase on purpose: slow and plainly right.
func (f *File) Fill() {
	for r := range f.Requests {
		for s := range f.Requests[r].Sequences {
			seq := &f.Requests[r].Sequences[s]
			seq.HostRuns, seq.Steps, seq.HostBusyNS, seq.DeviceBusyNS, seq.EngineGapNS = 0, 0, 0, 0, 0
			for p := range seq.Phases {
				ph := &seq.Phases[p]
				if ph.Name != "prefill_forward" && ph.Name != "decode_forward" {
					continue
				}
				f.fillPhase(ph)
				seq.HostRuns += ph.HostRuns
				seq.Steps += ph.Steps
				seq.HostBusyNS += ph.HostBusyNS
				seq.DeviceBusyNS += ph.DeviceBusyNS
				seq.EngineGapNS += ph.EngineGapNS
			}
		}
	}
	f.Totals.Invocations = int64(len(f.Invocations))
	f.Totals.Runs = int64(len(f.Runs))
	f.Totals.Requests = int64(len(f.Requests))
}

func (f *File) fillPhase(ph *Phase) {
	ph.Invocations, ph.Runs = nil, nil
	var host, placed, device []Interval
	for i := range f.Invocations {
		inv := &f.Invocations[i]
		c, ok := Interval{inv.StartNS, inv.EndNS}.Clip(ph.StartNS, ph.EndNS)
		if !ok {
			continue
		}
		ph.Invocations = append(ph.Invocations, i)
		host = append(host, c)
		if b := inv.DeviceBlock; b != nil {
			if c, ok := (Interval{b.PlacedStartNS, b.PlacedEndNS}).Clip(ph.StartNS, ph.EndNS); ok {
				placed = append(placed, c)
			}
			if c, ok := (Interval{b.StartNS, b.EndNS}).Clip(ph.StartNS, ph.EndNS); ok {
				device = append(device, c)
			}
		}
	}
	for i := range f.Runs {
		if _, ok := (Interval{f.Runs[i].StartNS, f.Runs[i].EndNS}).Clip(ph.StartNS, ph.EndNS); ok {
			ph.Runs = append(ph.Runs, i)
		}
	}
	ph.HostRuns = len(ph.Invocations)
	ph.Steps = f.steps(ph)
	ph.HostBusyNS = Union(host)
	ph.DeviceBusyNS = Union(placed)
	ph.DeviceTrueNS = Union(device)
	ph.EngineGapNS = ph.EndNS - ph.StartNS - ph.HostBusyNS
	f.fillOwn(ph)
}

func (f *File) fillOwn(ph *Phase) {
	var host, placed []Interval
	ph.OwnHostRuns = 0
	for _, r := range ph.Own {
		for _, i := range f.Runs[r].Invocations {
			inv := &f.Invocations[i]
			if c, ok := (Interval{inv.StartNS, inv.EndNS}).Clip(ph.StartNS, ph.EndNS); ok {
				ph.OwnHostRuns++
				host = append(host, c)
			}
			if b := inv.DeviceBlock; b != nil {
				if c, ok := (Interval{b.PlacedStartNS, b.PlacedEndNS}).Clip(ph.StartNS, ph.EndNS); ok {
					placed = append(placed, c)
				}
			}
		}
	}
	ph.OwnHostBusyNS, ph.OwnDeviceBusyNS = Union(host), Union(placed)
}

// steps is the number of runs, or, where the log has no records of runs, the
// largest number of invocations of one process.
func (f *File) steps(ph *Phase) int {
	if f.Level != "" {
		return len(ph.Runs)
	}
	perPID := map[int32]int{}
	most := 0
	for _, i := range ph.Invocations {
		pid := f.Invocations[i].PID
		perPID[pid]++
		most = max(most, perPID[pid])
	}
	return most
}
