// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// thread prints records; at is when it is free again.
type thread struct {
	proc   *Process
	tid    int64
	handle uint64
	at     int64
}

// worker is a rank: a chip process with the state that outlives an invocation.
type worker struct {
	proc   *Process
	thread thread
	// inv counts invocations since the worker was opened, epoch launches since
	// the process started.
	inv      uint64
	launches int64
	dispatch uint64
	// warm remembers the callables that have run once.
	warm map[string]bool
	// runnerEnd and rootEnd are those of the previous invocation.
	runnerEnd, rootEnd int64
	cycleBase          int64
	drops              drops
	prev               *Invocation
	// activated is when a prepared launch was let go.
	activated int64
}

// drops counts the records of a process that its full queue lost.
type drops struct{ fresh, total uint64 }

// Sim is one simulation. It runs once and is not safe for concurrent use.
type Sim struct {
	cfg   Config
	clock Clock
	rnd   *rand.Rand
	lose  *rand.Rand
	st    *stages
	word  string
	names levelNames

	api, engine   *Process
	facade, sched thread
	engineDrops   drops
	workers       []*worker
	arrivals      *arrivals
	hid, digest   map[string]uint64

	waiting, prefilling, running []*Sequence
	lastPrefill                  bool
	epoch                        int
	runID, lease                 uint64
	runs                         int

	pending []Event
	slab    []logfmt.Record
}

// New returns a simulation, or the first error of cfg.Validate.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Sim{
		cfg: cfg, clock: newClock(&cfg), st: newStages(cfg.Generation), word: cfg.levelWord(),
		rnd: newRand(cfg.Seed, streamSteps, 0), lose: newRand(cfg.Seed, streamDrops, 0), epoch: 1,
	}
	s.names = newLevelNames(s.word)
	s.makeProcesses()
	return s, nil
}

// Clock is the simulation's clock.
func (s *Sim) Clock() Clock { return s.clock }

// LevelWord is the first part of run records' names, empty where there are none.
func (s *Sim) LevelWord() string { return s.word }

func (s *Sim) makeProcesses() {
	r := newRand(s.cfg.Seed, streamProcesses, 0)
	drawn := int32(10_000) + r.Int32N(20_000)
	main := 0x7f0000000000 | r.Uint64N(1<<32)<<8&0xfffffff000 | 0x440
	if s.cfg.PIDBase > 0 {
		drawn = s.cfg.PIDBase
	}
	s.api = &Process{PID: drawn, Role: "api"}
	s.engine = &Process{PID: drawn + 1, Role: "engine"}
	s.facade = thread{proc: s.engine, tid: int64(s.engine.PID), handle: main}
	first := s.engine.PID + 1
	if s.cfg.Ranks == 1 && s.word == "" {
		first = s.engine.PID
	}
	for i := range s.cfg.Ranks {
		p := &Process{PID: first + int32(i), Role: "chip", Worker: i, Device: int32(s.cfg.DeviceBase + i)}
		s.workers = append(s.workers, &worker{
			proc: p, warm: map[string]bool{}, cycleBase: r.Int64N(1 << 40),
			// A forked child keeps its parent's main thread, handle and all.
			thread: thread{proc: p, tid: int64(p.PID), handle: main},
		})
	}
	// The scheduler thread starts after the forks.
	s.sched = thread{proc: s.engine, tid: int64(first) + int64(s.cfg.Ranks), handle: main - 0x1f1880}
	s.hid = map[string]uint64{Prefill: r.Uint64() | 1<<63, Decode: r.Uint64() | 1<<63}
	s.digest = map[string]uint64{Prefill: r.Uint64() | 1<<62, Decode: r.Uint64() | 1<<62}
	switch s.cfg.Runtime {
	case RuntimeHBG:
		s.hid = map[string]uint64{} // never set there
	case RuntimeSim:
		s.hid = map[string]uint64{Prefill: 0, Decode: 1}
	}
}

// Callables a step runs.
const (
	Prefill = "prefill"
	Decode  = "decode"
)

// Events runs the simulation and yields what happens in order of time. It can
// be ranged over once; leaving the loop ends the simulation.
func (s *Sim) Events() iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		t := s.startUp()
		s.arrivals = newArrivals(&s.cfg, t, s.api.PID, s.engine.PID)
		for {
			begin, ok := s.nextWork(t)
			if !ok {
				s.flush(math.MaxInt64, yield)
				return
			}
			if !s.flush(begin, yield) {
				return
			}
			t = s.step(begin)
		}
	}
}

// nextWork returns the instant at or after t when a step can begin.
func (s *Sim) nextWork(t int64) (int64, bool) {
	for {
		s.admit(t)
		if len(s.waiting)+len(s.prefilling)+len(s.running) > 0 {
			return t, true
		}
		if s.arrivals.next == nil {
			return 0, false
		}
		t = max(t, s.arrivals.receipt+s.scaled(40, 120))
	}
}

// admit takes the requests the engine has received by t.
func (s *Sim) admit(t int64) {
	for a := s.arrivals; a.next != nil && a.receipt <= t; a.advance() {
		req := a.next
		if req.Outcome == OutcomeReject {
			s.push(Event{At: req.End, Request: req})
			continue
		}
		for _, seq := range req.Sequences {
			if seq.end.phase == PhaseWaiting {
				seq.Phases = append(seq.Phases, Phase{Name: PhaseWaiting, Start: seq.Start})
				s.abandon(seq, seq.end.at)
				continue
			}
			s.waiting = append(s.waiting, seq)
		}
	}
}

func (s *Sim) push(e Event) { s.pending = append(s.pending, e) }

// flush yields everything that happened before limit.
func (s *Sim) flush(limit int64, yield func(*Event) bool) bool {
	slices.SortStableFunc(s.pending, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	n := 0
	for n < len(s.pending) && s.pending[n].At < limit {
		if !yield(&s.pending[n]) {
			return false
		}
		n++
	}
	rest := copy(s.pending, s.pending[n:])
	clear(s.pending[rest:])
	s.pending = s.pending[:rest]
	if rest == 0 {
		s.slab = s.slab[:0]
	}
	return true
}

// record returns a zeroed record that lives until the next flush has yielded it.
func (s *Sim) record() *logfmt.Record {
	if len(s.slab) == cap(s.slab) {
		s.slab = make([]logfmt.Record, 0, 512)
	}
	s.slab = append(s.slab, logfmt.Record{})
	return &s.slab[len(s.slab)-1]
}

// print pushes a record printed by a thread at an instant, and moves the thread
// on. It returns false when the process's queue lost it.
func (s *Sim) print(th *thread, d *drops, r *logfmt.Record, at int64) bool {
	at = max(at, th.at+200)
	th.at = at
	r.Mono, r.Wall = at, s.clock.Wall(at)
	r.Thread, r.PID, r.TID = th.handle, th.proc.PID, th.tid
	if s.cfg.DropRate > 0 && r.Kind == logfmt.KindSpan && s.lose.Float64() < s.cfg.DropRate {
		d.fresh++
		d.total++
		return false
	}
	s.push(Event{At: at, Record: r})
	return true
}

// declareDrops prints what the process has lost since it last said so.
func (s *Sim) declareDrops(th *thread, d *drops) {
	if d.fresh == 0 {
		return
	}
	r := s.record()
	r.Kind, r.DropsNew, r.DropsTotal = logfmt.KindDrops, d.fresh, d.total
	s.print(th, d, r, th.at+1_500)
	d.fresh = 0
}

// scaled draws between lo and hi microseconds, times the time scale.
func (s *Sim) scaled(lo, hi int64) int64 { return scaled(s.rnd, s.cfg.TimeScale, lo, hi) }

// nanos draws between lo and hi nanoseconds, unscaled: the cost of printing and
// of other host work that no model size changes.
func (s *Sim) nanos(lo, hi int64) int64 { return lo + s.rnd.Int64N(hi-lo+1) }

// PIDs are those of the API and the engine process.
func (s *Sim) PIDs() (api, engine int32) { return s.api.PID, s.engine.PID }

// Length is how long a simulation takes on its own clock, nanoseconds. It runs
// the simulation, which must have an end.
func Length(cfg Config) (int64, error) {
	if cfg.Requests == 0 && cfg.Duration == 0 {
		return 0, errors.New("length: a simulation without an end has none")
	}
	s, err := New(cfg)
	if err != nil {
		return 0, err
	}
	last := cfg.StartMono
	for e := range s.Events() {
		last = e.At
	}
	return last - cfg.StartMono, nil
}
