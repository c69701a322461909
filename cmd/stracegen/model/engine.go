// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "math/rand/v2"

// work is what a step does for one sequence: so many prompt tokens, or one
// decoded token when there are none.
type work struct {
	seq    *Sequence
	tokens int
}

// compose chooses what the next step does. Prefill goes first, but never twice
// in a row while sequences wait for their next token.
func (s *Sim) compose() (callable string, items []work) {
	room := s.cfg.Batch - len(s.running) - len(s.prefilling)
	prefill := len(s.prefilling) > 0 || (len(s.waiting) > 0 && room > 0)
	if !prefill || (s.lastPrefill && len(s.running) > 0) {
		s.lastPrefill = false
		for _, seq := range s.running {
			items = append(items, work{seq: seq})
		}
		return Decode, items
	}
	s.lastPrefill = true
	budget := s.cfg.ChunkTokens
	take := func(seq *Sequence) {
		n := min(budget, seq.Prompt-seq.Cached-seq.computed)
		budget -= n
		items = append(items, work{seq, n})
	}
	for _, seq := range s.prefilling {
		if budget == 0 {
			return Prefill, items
		}
		take(seq)
	}
	for len(s.waiting) > 0 && room > 0 && budget > 0 {
		seq := s.waiting[0]
		s.waiting = s.waiting[1:]
		room--
		s.prefilling = append(s.prefilling, seq)
		take(seq)
	}
	return Prefill, items
}

// step runs one step that begins at an instant and returns when the next may begin.
func (s *Sim) step(begin int64) int64 {
	callable, items := s.compose()
	run, finish, next := s.execute(callable, items, begin)
	run.Sequences = make([]*Sequence, len(items))
	for i, w := range items {
		run.Sequences[i] = w.seq
		if callable == Prefill {
			s.settlePrefill(run, w, begin, finish)
		} else {
			s.settleDecode(run, w.seq, begin, finish)
		}
	}
	s.prefilling = active(s.prefilling)
	s.running = active(s.running)
	// Those whose prompt is done decode from now on.
	rest := s.prefilling[:0]
	for _, seq := range s.prefilling {
		if seq.Generated > 0 {
			s.running = append(s.running, seq)
		} else {
			rest = append(rest, seq)
		}
	}
	clear(s.prefilling[len(rest):])
	s.prefilling = rest
	if s.cfg.ReopenEvery > 0 && s.runs%s.cfg.ReopenEvery == 0 {
		return s.reopen(max(next, finish))
	}
	return next
}

func active(in []*Sequence) []*Sequence {
	out := in[:0]
	for _, seq := range in {
		if seq.End == 0 {
			out = append(out, seq)
		}
	}
	clear(in[len(out):])
	return out
}

func (s *Sim) settlePrefill(run *Run, w work, begin, finish int64) {
	seq := w.seq
	if seq.computed == 0 {
		seq.Phases = append(seq.Phases,
			Phase{Name: PhaseWaiting, Start: seq.Start, End: begin},
			Phase{Name: PhasePrefill, Start: begin})
	}
	seq.computed += w.tokens
	seq.PrefillRuns = append(seq.PrefillRuns, run.Index)
	last := seq.computed == seq.Prompt-seq.Cached
	switch {
	case run.Failed:
		s.fail(seq, finish)
	case !last:
	case seq.end.phase == PhasePrefill:
		s.abandon(seq, within(begin, finish, seq.end.fraction))
	default:
		seq.Generated = 1
		seq.Phases[1].End = finish
		// The first token is kept a little after the prompt's last chunk is done.
		seq.FirstToken = finish + s.scaled(20, 80)
		if seq.output == 1 {
			s.finish(seq, seq.FirstToken+s.scaled(10, 40))
			return
		}
		seq.Phases = append(seq.Phases, Phase{Name: PhaseDecode, Start: finish})
	}
}

func (s *Sim) settleDecode(run *Run, seq *Sequence, begin, finish int64) {
	seq.DecodeRuns = append(seq.DecodeRuns, run.Index)
	began := seq.Phases[len(seq.Phases)-1].Start
	switch {
	case run.Failed:
		s.fail(seq, finish)
	case seq.end.phase == PhaseDecode && seq.Generated >= seq.end.afterTokens:
		s.abandon(seq, within(max(begin, began, seq.FirstToken), finish, seq.end.fraction))
	default:
		seq.Generated++
		if seq.Generated == seq.output {
			s.finish(seq, finish)
		}
	}
}

func within(begin, end int64, fraction float64) int64 {
	return begin + max(1, int64(float64(end-begin)*fraction))
}

// fail ends a sequence whose run reported an error.
func (s *Sim) fail(seq *Sequence, at int64) {
	req := seq.Request
	if req.Outcome == OutcomeOK && !req.PD {
		req.Outcome, req.HTTPStatus, req.ErrorType = OutcomeError, 500, "EngineError"
	}
	seq.end = ending{errorType: "RunFailed", reason: "error"}
	s.abandon(seq, at)
}

// abandon ends a sequence before its time: its last phase is the active one.
func (s *Sim) abandon(seq *Sequence, at int64) {
	ph := &seq.Phases[len(seq.Phases)-1]
	ph.Error = true
	seq.FinishReason, seq.ErrorType = seq.end.reason, seq.end.errorType
	s.finish(seq, at)
}

// finish ends a sequence at an instant, and its request with the last one.
func (s *Sim) finish(seq *Sequence, at int64) {
	seq.End = at
	if ph := &seq.Phases[len(seq.Phases)-1]; ph.End == 0 {
		ph.End = at
	}
	ids := newRand(s.cfg.Seed, streamIDs, uint64(seq.ID)|1<<40)
	for i := range seq.Phases {
		seq.Phases[i].SpanID = spanID(ids)
	}
	req := seq.Request
	s.push(Event{At: at, Sequence: seq})
	req.unfinished--
	req.End = max(req.End, at)
	if req.unfinished == 0 {
		req.End += teardown(ids, s.cfg.TimeScale)
		s.push(Event{At: req.End, Request: req})
	}
}

// teardown is how long the HTTP side takes to close the stream.
func teardown(r *rand.Rand, scale float64) int64 { return scaled(r, scale, 100, 800) }

// reopen closes the worker and opens it again, idle.
func (s *Sim) reopen(t int64) int64 {
	s.epoch++
	s.runID, s.lease = 0, 0
	for _, w := range s.workers {
		w.thread.at = max(w.thread.at, t) + s.scaled(500, 900)
		s.open(w)
		t = max(t, w.thread.at)
	}
	return t + s.scaled(100, 300)
}
