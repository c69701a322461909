// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// startUp prints what processes print before the first run, and returns when
// the service is ready.
func (s *Sim) startUp() int64 {
	t := s.cfg.StartMono
	s.push(Event{At: t, Process: s.api})
	s.push(Event{At: t, Process: s.engine})
	s.facade.at = t
	shared := s.workers[0].proc.PID == s.engine.PID
	s.anchor(s.engine, &s.facade, t+s.scaled(200, 900))
	ready := s.facade.at
	// The last child forked says hello first as often as not: ranks in reverse.
	for _, w := range slices.Backward(s.workers) {
		w.thread.at = t
		if shared {
			w.thread.at = s.facade.at
		}
		w.proc.AnchorMono = s.engine.AnchorMono
		if !shared {
			w.proc.AnchorMono = 0
			s.anchor(w.proc, &w.thread, t+s.scaled(5_000, 9_000))
		}
		s.push(Event{At: t, Process: w.proc})
		if s.word != "" || s.cfg.Ranks > 1 {
			r := s.record()
			r.Kind, r.Device = logfmt.KindReady, w.proc.Device
			s.print(&w.thread, &w.drops, r, w.thread.at+s.scaled(2_000, 6_000))
		}
		s.open(w)
		ready = max(ready, w.thread.at)
	}
	s.facade.at = ready + s.scaled(100, 300)
	s.sched.at = ready
	return s.facade.at
}

func (s *Sim) anchor(p *Process, th *thread, at int64) {
	th.at = at
	if !s.cfg.anchored() {
		return
	}
	p.AnchorMono = at
	r := s.record()
	r.Kind, r.TS, r.AnchorWall = logfmt.KindAnchor, at, s.clock.AnchorWall(at)
	s.print(th, nil, r, at+s.nanos(140, 1_300))
}

// open starts a worker: counters at their beginning, arenas built.
func (s *Sim) open(w *worker) {
	w.inv, w.dispatch, w.prev = 0, 0, nil
	name := logfmt.PrewarmName(s.cfg.Generation)
	if !s.cfg.Prewarm || name == "" || s.cfg.Runtime == RuntimeSim {
		return
	}
	start := w.thread.at + s.nanos(20_000, 60_000)
	dur := s.scaled(4_000, 9_000)
	r := s.record()
	r.Name, r.TS, r.Dur = name, start, dur
	s.print(&w.thread, &w.drops, r, start+dur+s.nanos(1_500, 5_000))
}
