// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"github.com/phasecol/phasecol/pkg/strace/semconv"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// unsupportedPD is what an engine states on a request whose prefill and decode
// run in different processes: it has no engine spans then.
const unsupportedPD = "pd"

// ranks orders the results: of several breaches the lowest is reported.
var ranks = map[string]int{
	semconv.ContractOrphanPhase:  1,
	semconv.ContractMissingPhase: 2,
	semconv.ContractOrder:        3,
	semconv.ContractGap:          4,
	semconv.ContractOverlap:      5,
	semconv.ContractStatus:       6,
	semconv.ContractLatency:      7,
}

// Check sets the Contract of every sequence and HTTP span; tolerance is in
// nanoseconds. A late piece is not judged: what it lacks has been here.
func (t *Trace) Check(tolerance int64) {
	if t.Late && !t.Complete(0, false) {
		return
	}
	for i := range t.Sequences {
		t.Sequences[i].Contract = t.checkSequence(&t.Sequences[i], tolerance)
	}
	for i := range t.HTTPs {
		t.HTTPs[i].Contract = t.checkHTTP(&t.HTTPs[i], tolerance)
	}
}

func (t *Trace) checkSequence(q *Sequence, tolerance int64) string {
	s := &t.Spans[q.Span]
	switch {
	case q.foreign:
		return semconv.ContractOrphanPhase
	case q.missing():
		return semconv.ContractMissingPhase
	case s.bad || q.disordered(tolerance):
		return semconv.ContractOrder
	case q.gaps(tolerance):
		return semconv.ContractGap
	case q.overlaps(s.time, tolerance) || !s.Table.Loose && q.repeated():
		return semconv.ContractOverlap
	case s.Table.MarksPhase && q.misplacedError(s):
		return semconv.ContractStatus
	case q.disagrees(s, tolerance):
		return semconv.ContractLatency
	}
	return semconv.ContractOK
}

// missing says whether a phase that must have run is not there. Every phase
// needs the one before; a normal end needs all three, or the first two when
// there was but one token to generate.
func (q *Sequence) missing() bool {
	queue, prefill, decode := q.Role(engine.RoleQueue), q.Role(engine.RolePrefill), q.Role(engine.RoleDecode)
	if !queue.Present || decode.Present && !prefill.Present {
		return true
	}
	if q.Abnormal {
		return false
	}
	return !prefill.Present || !decode.Present && q.Facts.OutputTokens > 1
}

// disordered says whether a phase starts or ends before the one before it does.
func (q *Sequence) disordered(tolerance int64) bool {
	var before *Phase
	for i := range q.Phases {
		p := &q.Phases[i]
		if !p.Present {
			continue
		}
		if p.Bad {
			return true
		}
		if before != nil && (p.Time.Start < before.Time.Start-tolerance || p.Time.End < before.Time.End-tolerance) {
			return true
		}
		before = p
	}
	return false
}

// gaps says whether a phase starts after the one before has ended.
func (q *Sequence) gaps(tolerance int64) bool {
	for i := 1; i < len(q.Phases); i++ {
		a, b := &q.Phases[i-1], &q.Phases[i]
		if a.Present && b.Present && b.Time.Start-a.Time.End > tolerance {
			return true
		}
	}
	return false
}

// overlaps says whether phases run into each other or out of their request.
func (q *Sequence) overlaps(request phases.Interval, tolerance int64) bool {
	for i := range q.Phases {
		p := &q.Phases[i]
		if !p.Present {
			continue
		}
		if request.Start-p.Time.Start > tolerance || p.Time.End-request.End > tolerance {
			return true
		}
		if i > 0 && q.Phases[i-1].Present && q.Phases[i-1].Time.End-p.Time.Start > tolerance {
			return true
		}
	}
	return false
}

func (q *Sequence) repeated() bool {
	for i := range q.Phases {
		if len(q.Phases[i].Spans) > 1 {
			return true
		}
	}
	return false
}

// misplacedError says whether the error sits elsewhere than on the sequence and
// the last phase that ran.
func (q *Sequence) misplacedError(s *Span) bool {
	active := -1
	for i := range q.Phases {
		if q.Phases[i].Present {
			active = i
		}
	}
	for i := range q.Phases {
		p := &q.Phases[i]
		if !p.Present {
			continue
		}
		if i == active && q.Abnormal {
			if !p.failed || !p.errorType {
				return true
			}
			continue
		}
		if p.failed || p.errorType {
			return true
		}
	}
	return q.Abnormal && !s.failed()
}

// disagrees says whether attributes and spans tell different stories: a stated
// latency that its span does not have, one of a phase that never ran, or a
// decode phase where there was one token.
func (q *Sequence) disagrees(s *Span, tolerance int64) bool {
	off := func(stated engine.Latency, measured int64) bool {
		return stated.OK && (stated.NS-measured > tolerance || measured-stated.NS > tolerance)
	}
	for r := engine.RoleQueue; r <= engine.RoleDecode; r++ {
		p, stated := q.Role(r), q.Facts.Phase(r)
		if !p.Present && stated.OK && stated.NS > tolerance {
			return true
		}
		if p.Present && off(stated, p.Time.Len()) {
			return true
		}
	}
	decode := q.Role(engine.RoleDecode)
	if len(decode.Spans) > 0 && !q.Abnormal && q.Facts.OutputTokens == 1 && decode.Time.Len() > tolerance {
		return true
	}
	return off(q.Facts.E2E, s.time.Len())
}

// excused says whether a request may have no sequence at all: it was refused,
// or it failed before the engine had it.
func (h *HTTP) excused(s *Span) bool {
	return h.settled() || h.Facts.StatusCode >= 500 || s.failed()
}

// settled says whether no engine span will come at all: the request was turned
// away, or the engine does not trace its kind.
func (h *HTTP) settled() bool {
	return h.Facts.Unsupported == unsupportedPD || h.Facts.StatusCode >= 400 && h.Facts.StatusCode < 500
}

func (t *Trace) checkHTTP(h *HTTP, tolerance int64) string {
	s := &t.Spans[h.Span]
	if h.Facts.Unsupported == unsupportedPD {
		return semconv.ContractPD
	}
	worst := t.checkOwn(h, s, tolerance)
	for _, k := range h.Sequences {
		q := &t.Sequences[k]
		if q.Contract == semconv.ContractOK {
			continue
		}
		if worst == semconv.ContractOK || ranks[q.Contract] < ranks[worst] {
			worst = q.Contract
		}
		break
	}
	return worst
}

// checkOwn holds the span itself to the rules.
func (t *Trace) checkOwn(h *HTTP, s *Span, tolerance int64) string {
	if len(h.Sequences) == 0 {
		if t.orphansOf(s) {
			return semconv.ContractOrphanPhase
		}
		if !h.excused(s) {
			return semconv.ContractMissingPhase
		}
	}
	if s.bad {
		return semconv.ContractOrder
	}
	for _, k := range h.Sequences {
		q := &t.Spans[t.Sequences[k].Span]
		if !q.bad && (s.time.Start-q.time.Start > tolerance || q.time.End-s.time.End > tolerance) {
			return semconv.ContractOverlap
		}
	}
	server, client := h.Facts.StatusCode >= 500, h.Facts.StatusCode >= 400 && h.Facts.StatusCode < 500
	if server && !s.failed() || client && s.failed() {
		return semconv.ContractStatus
	}
	return semconv.ContractOK
}

// orphansOf says whether phases without a sequence are this request's: its
// engine spans were lost on the way.
func (t *Trace) orphansOf(s *Span) bool {
	for _, i := range t.Orphans {
		if t.Spans[i].Table == s.Table {
			return true
		}
	}
	return false
}
