// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// History remembers the last runs of every process and device, for the phases
// that need the run before. Its owner serialises access.
type History struct {
	procs   *simplelru.LRU[uint64, *procState]
	devices *simplelru.LRU[deviceKey, *deviceState]

	evictedProcs, evictedDevices int64
}

// depth is how many runs are kept per process: pipelines are two deep, and
// files of one host are read a few calls apart.
const historyDepth = 8

type deviceKey struct {
	machine uint64
	device  int64
}

type procRun struct {
	inv    int64
	host   Interval
	runner Interval
}

type procState struct {
	runs  [historyDepth]procRun
	count int
}

type deviceState struct {
	walls [historyDepth]Ticks
	count int
}

// NewHistory bounds the processes and the devices remembered to maxEntries
// each; those unused for longest go first. It fails when maxEntries is not
// positive.
func NewHistory(maxEntries int) (*History, error) {
	var h History
	var err error
	if h.procs, err = simplelru.NewLRU[uint64, *procState](maxEntries, nil); err != nil {
		return nil, fmt.Errorf("remembering processes: %w", err)
	}
	if h.devices, err = simplelru.NewLRU[deviceKey, *deviceState](maxEntries, nil); err != nil {
		return nil, fmt.Errorf("remembering devices: %w", err)
	}
	return &h, nil
}

// Fill sets the phases of v that need its predecessors, and remembers v.
func (h *History) Fill(v *Invocation, p *Proc) {
	if v.Bad {
		return
	}
	if v.HasInv {
		h.fillOverlap(v, p)
	}
	if v.HasTicks {
		h.fillGap(v, p)
	}
}

// Evicted returns and clears how many processes and devices were given up.
func (h *History) Evicted() (procs, devices int64) {
	procs, devices = h.evictedProcs, h.evictedDevices
	h.evictedProcs, h.evictedDevices = 0, 0
	return procs, devices
}

func (h *History) proc(key uint64) *procState {
	s, ok := h.procs.Get(key)
	if !ok {
		s = &procState{}
		if h.procs.Add(key, s) {
			h.evictedProcs++
		}
	}
	return s
}

func (h *History) device(key deviceKey) *deviceState {
	s, ok := h.devices.Get(key)
	if !ok {
		s = &deviceState{}
		if h.devices.Add(key, s) {
			h.evictedDevices++
		}
	}
	return s
}

// fillOverlap looks for the invocation of the number before: any other one
// would make the share a guess when lines were lost or a worker was reopened.
func (h *History) fillOverlap(v *Invocation, p *Proc) {
	s := h.proc(p.Key)
	known := false
	var before *procRun
	for i := range min(s.count, historyDepth) {
		r := &s.runs[i]
		if r.inv == v.Inv && r.host == v.Host {
			known = true
		}
		if r.inv == v.Inv-1 && r.host.Start <= v.Host.Start && (before == nil || r.host.Start > before.host.Start) {
			before = r
		}
	}
	if before != nil && before.runner.Valid() && v.Bind.Len() > 0 {
		hidden := min(before.runner.End, v.Bind.End) - max(before.runner.Start, v.Bind.Start)
		v.PrepareOverlap = float64(max(0, hidden)) / float64(v.Bind.Len())
		v.HasPrepareOverlap = true
	}
	if !known {
		s.runs[s.count%historyDepth] = procRun{inv: v.Inv, host: v.Host, runner: v.Runner}
		s.count++
	}
}

// fillGap measures from the latest end of the walls that began before this one
// on the same counter. Ticks are subtracted as integers: a counter of fifty-odd
// bits converted first would lose the nanoseconds.
func (h *History) fillGap(v *Invocation, p *Proc) {
	t := v.Ticks
	s := h.device(deviceKey{p.Machine, t.Device})
	known, found := false, false
	var busyUntil int64
	for i := range min(s.count, historyDepth) {
		w := s.walls[i]
		switch {
		case w == t:
			known = true
		case w.Hz == t.Hz && w.Start < t.Start:
			if !found || w.End > busyUntil {
				busyUntil = w.End
			}
			found = true
		}
	}
	if found {
		v.DeviceGap = float64(max(0, t.Start-busyUntil)) / float64(t.Hz)
		v.HasDeviceGap = true
	}
	if !known {
		s.walls[s.count%historyDepth] = t
		s.count++
	}
}
