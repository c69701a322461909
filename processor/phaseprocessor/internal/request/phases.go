// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

func toSeconds(ns int64) float64 { return float64(ns) / 1e9 }

// Write puts the request phases and contract results on the spans, after Check.
func (t *Trace) Write() {
	for i := range t.Sequences {
		t.writeSequence(&t.Sequences[i])
	}
	for i := range t.HTTPs {
		t.writeHTTP(&t.HTTPs[i])
	}
	t.writePartial()
}

func (t *Trace) writeSequence(q *Sequence) {
	s := &t.Spans[q.Span]
	attrs := s.Attributes()
	attrs.EnsureCapacity(attrs.Len() + 16)
	if q.Contract != "" && !s.judged {
		attrs.PutStr(semconv.PhaseContract, q.Contract)
		for _, i := range q.Role(engine.RoleQueue).Spans {
			t.Spans[i].Attributes().PutBool(semconv.PhaseSeen, true)
		}
	}
	if s.bad || present(attrs, semconv.PhaseE2E) {
		return
	}
	attrs.PutDouble(semconv.PhaseE2E, toSeconds(s.time.Len()))
	put := func(r engine.Role, key string) {
		if p := q.Role(r); p.Present && !p.Bad {
			attrs.PutDouble(key, toSeconds(p.Time.Len()))
		}
	}
	put(engine.RoleQueue, semconv.PhaseQueue)
	put(engine.RolePrefill, semconv.PhasePrefill)
	put(engine.RoleDecode, semconv.PhaseDecode)

	ttft, estimated, ok := q.ttft()
	if !ok {
		return
	}
	attrs.PutDouble(semconv.PhaseTTFT, toSeconds(ttft))
	if estimated {
		attrs.PutBool(semconv.PhaseTTFTEstimated, true)
	}
	if rest := s.time.Len() - ttft; q.Facts.OutputTokens > 1 && !q.Abnormal && rest >= 0 {
		attrs.PutDouble(semconv.PhaseTPOT, toSeconds(rest)/float64(q.Facts.OutputTokens-1))
	}
}

// ttft is the time to the first token in nanoseconds: the engine's own number,
// else an estimate. There is none where the prefill did not come to its end.
func (q *Sequence) ttft() (ns int64, estimated, ok bool) {
	prefill := q.Role(engine.RolePrefill)
	if !prefill.Present || prefill.Bad || prefill.failed {
		return 0, false, false
	}
	if q.Facts.TTFT.OK {
		return q.Facts.TTFT.NS, false, true
	}
	queue := q.Role(engine.RoleQueue)
	if !queue.Present || queue.Bad {
		return 0, false, false
	}
	return queue.Time.Len() + prefill.Time.Len(), true, true
}

func (t *Trace) writeHTTP(h *HTTP) {
	s := &t.Spans[h.Span]
	attrs := s.Attributes()
	if h.Contract != "" && !s.judged {
		attrs.PutStr(semconv.PhaseContract, h.Contract)
	}
	if s.bad || len(h.Sequences) == 0 || present(attrs, semconv.PhaseHTTPOverhead) {
		return
	}
	spans := make([]phases.Interval, 0, len(h.Sequences))
	for _, k := range h.Sequences {
		if q := &t.Spans[t.Sequences[k].Span]; !q.bad {
			spans = append(spans, q.time)
		}
	}
	if len(spans) == 0 {
		return
	}
	attrs.PutDouble(semconv.PhaseHTTPOverhead, toSeconds(s.time.Len()-covered(spans, s.time)))
}

// covered is the length of the union of spans inside of in. It sorts spans.
func covered(spans []phases.Interval, in phases.Interval) int64 {
	slices.SortFunc(spans, func(a, b phases.Interval) int { return cmp.Compare(a.Start, b.Start) })
	var sum int64
	at := in.Start
	for _, span := range spans {
		from, to := max(span.Start, at), min(span.End, in.End)
		if to > from {
			sum += to - from
			at = to
		}
	}
	return sum
}

// Partial says whether a piece of the request is missing here.
func (t *Trace) Partial() bool {
	if len(t.Orphans) > 0 {
		return true
	}
	for i := range t.Sequences {
		if t.lacksHTTP(&t.Sequences[i]) {
			return true
		}
	}
	return t.Late && !t.Complete(0, false)
}

func (t *Trace) lacksHTTP(q *Sequence) bool {
	s := &t.Spans[q.Span]
	return s.Table.HTTP && q.HTTP < 0 && !s.ParentSpanID().IsEmpty() && !s.judged
}

func (t *Trace) writePartial() {
	if !t.Partial() {
		return
	}
	mark := func(i int) { t.Spans[i].Attributes().PutBool(semconv.PhasePartial, true) }
	for _, i := range t.Orphans {
		mark(i)
	}
	late := t.Late && !t.Complete(0, false)
	for i := range t.Sequences {
		if late || t.lacksHTTP(&t.Sequences[i]) {
			mark(t.Sequences[i].Span)
		}
	}
	for i := range t.HTTPs {
		if late {
			mark(t.HTTPs[i].Span)
		}
	}
}

// Complete says whether every span that the request must have is there, so
// that nothing more has to be waited for. When quiet is set, an HTTP span that
// outlasts its sequences by more than tolerance nanoseconds also counts as
// incomplete: another sequence may still be on its way.
func (t *Trace) Complete(tolerance int64, quiet bool) bool {
	if len(t.Orphans) > 0 || len(t.Sequences) == 0 && len(t.HTTPs) == 0 {
		return false
	}
	for i := range t.Sequences {
		q := &t.Sequences[i]
		if t.lacksHTTP(q) || q.missing() {
			return false
		}
	}
	for i := range t.HTTPs {
		h := &t.HTTPs[i]
		if len(h.Sequences) == 0 {
			// A failed request's engine spans may only be late: they come from
			// another process.
			if h.settled() || !quiet && h.excused(&t.Spans[h.Span]) {
				continue
			}
			return false
		}
		if quiet && t.Spans[h.Span].time.End-t.lastEnd(h) > tolerance {
			return false
		}
	}
	return true
}

func (t *Trace) lastEnd(h *HTTP) int64 {
	var last int64
	for _, k := range h.Sequences {
		last = max(last, t.Spans[t.Sequences[k].Span].time.End)
	}
	return last
}

// Extent is the earliest start and the latest end of the request's spans, in
// Unix nanoseconds.
func (t *Trace) Extent() (start, end int64) {
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.bad {
			continue
		}
		if start == 0 || s.time.Start < start {
			start = s.time.Start
		}
		end = max(end, s.time.End)
	}
	return start, end
}

// Results counts the contract results found here, once for each request: that
// of its HTTP span, or of its sequences where it has none. What came before or
// was judged before is left out.
func (t *Trace) Results() map[string]int64 {
	out := make(map[string]int64)
	count := func(result string, span int) {
		if s := &t.Spans[span]; result != "" && !s.Repeat && !s.judged {
			out[result]++
		}
	}
	for i := range t.HTTPs {
		count(t.HTTPs[i].Contract, t.HTTPs[i].Span)
	}
	for i := range t.Sequences {
		if t.Sequences[i].HTTP < 0 {
			count(t.Sequences[i].Contract, t.Sequences[i].Span)
		}
	}
	return out
}

// CopyToRepeats gives the repeats of a span what the first one got. Call it
// last: a span that arrives twice leaves twice, and only one is to be counted.
func (t *Trace) CopyToRepeats() {
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.dupOf >= 0 {
			first := &t.Spans[s.dupOf]
			copyPhases(first.Attributes(), s.Attributes())
			if s.Links().Len() < first.Links().Len() {
				first.Links().CopyTo(s.Links())
			}
		}
		if s.dupOf >= 0 || s.Repeat {
			s.Attributes().PutBool(semconv.PhaseDuplicate, true)
		}
	}
}

func copyPhases(from, to pcommon.Map) {
	for k, v := range from.All() {
		if len(k) > 6 && k[:6] == "phase." && k != semconv.PhaseDuplicate {
			v.CopyTo(to.PutEmpty(k))
		}
	}
}
