// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package request puts the spans of one request together, whatever the order
// and the batches they came in, derives its phases and checks its contract.
package request

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// Span is a span with a role.
type Span struct {
	ptrace.Span
	Table *engine.Table
	Role  engine.Role
	// Groups and Host are its resource's.
	Groups phases.GroupValues
	Host   string
	// Repeat is true when the span was seen in an earlier release.
	Repeat bool

	// dupOf is the first span with the same id, or -1.
	dupOf int
	up    int
	time  phases.Interval
	bad   bool
	// judged is true when the span came with a contract result.
	judged bool
}

// Interval is the span's time; ok is false when it ends before it starts.
func (s *Span) Interval() (t phases.Interval, ok bool) { return s.time, !s.bad }

func (s *Span) failed() bool { return s.Status().Code() == ptrace.StatusCodeError }

// Phase is one of a sequence's phases.
type Phase struct {
	// Spans index Trace.Spans; empty when the engine states phases only as
	// attributes.
	Spans []int
	Time  phases.Interval
	// Slack is how far the place of the interval may be off, in nanoseconds:
	// zero where it comes from spans.
	Slack   int64
	Present bool
	Bad     bool

	failed    bool
	errorType bool
}

// Sequence is one engine.request.
type Sequence struct {
	// Span indexes Trace.Spans, HTTP Trace.HTTPs or is -1.
	Span  int
	HTTP  int
	Facts engine.Facts
	// Phases are indexed by engine.Role.Phase.
	Phases [engine.Phases]Phase
	// Abnormal is true when the sequence failed or was cut short.
	Abnormal bool
	// Contract is the result, empty when it cannot be told.
	Contract string

	foreign bool
}

// HTTP is one atom.request.
type HTTP struct {
	Span      int
	Facts     engine.Facts
	Sequences []int
	Contract  string
}

// Trace is one request: all its spans that have a role.
type Trace struct {
	ID        pcommon.TraceID
	Spans     []Span
	Sequences []Sequence
	HTTPs     []HTTP
	// Orphans are phases whose sequence is not there.
	Orphans []int
	// Late is set when spans of this trace were let go before.
	Late bool

	// sequenceAt is the place in Sequences of a span's sequence.
	sequenceAt map[int]int
}

// Build relates the spans of one trace. It keeps the slice.
func Build(id pcommon.TraceID, spans []Span) *Trace {
	t := &Trace{ID: id, Spans: spans}
	byID := make(map[pcommon.SpanID]int, len(spans))
	for i := range spans {
		s := &spans[i]
		s.up, s.dupOf = -1, -1
		s.judged = present(s.Attributes(), semconv.PhaseContract)
		start, end := s.StartTimestamp(), s.EndTimestamp()
		s.bad = end < start || end > math.MaxInt64
		if !s.bad {
			s.time = phases.Interval{Start: int64(start), End: int64(end)}
		}
		if first, ok := byID[s.SpanID()]; ok && !s.SpanID().IsEmpty() {
			s.dupOf = first
			continue
		}
		byID[s.SpanID()] = i
	}
	for i := range spans {
		if up, ok := byID[spans[i].ParentSpanID()]; ok && up != i && !spans[i].ParentSpanID().IsEmpty() {
			spans[i].up = up
		}
	}
	t.collectHTTPs()
	t.collectSequences()
	t.collectPhases()
	for i := range t.Sequences {
		t.Sequences[i].close(t)
	}
	return t
}

func (t *Trace) collectHTTPs() {
	for i := range t.Spans {
		if s := &t.Spans[i]; s.Role == engine.RoleRequest && s.dupOf < 0 {
			t.HTTPs = append(t.HTTPs, HTTP{Span: i, Facts: s.Table.Facts(s.Attributes())})
		}
	}
}

func (t *Trace) collectSequences() {
	t.sequenceAt = make(map[int]int)
	http := make(map[int]int, len(t.HTTPs))
	for h := range t.HTTPs {
		http[t.HTTPs[h].Span] = h
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Role != engine.RoleEngine || s.dupOf >= 0 {
			continue
		}
		seq := Sequence{Span: i, HTTP: -1, Facts: s.Table.Facts(s.Attributes())}
		seq.Abnormal = s.failed() || seq.Facts.HasError || seq.Facts.Aborted
		if h, ok := http[s.up]; ok {
			seq.HTTP = h
			t.HTTPs[h].Sequences = append(t.HTTPs[h].Sequences, len(t.Sequences))
		}
		t.sequenceAt[i] = len(t.Sequences)
		t.Sequences = append(t.Sequences, seq)
	}
}

func (t *Trace) collectPhases() {
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Role.Phase() < 0 || s.dupOf >= 0 {
			continue
		}
		seq := t.sequenceOf(s)
		if seq == nil {
			t.Orphans = append(t.Orphans, i)
			continue
		}
		seq.add(t, i)
	}
}

// sequenceOf finds the sequence a phase belongs to.
func (t *Trace) sequenceOf(s *Span) *Sequence {
	at := s.up
	for range len(t.Spans) {
		if at < 0 {
			break
		}
		if t.Spans[at].Role == engine.RoleEngine {
			return t.bySpan(at)
		}
		if t.Spans[at].Role != engine.RoleThread {
			return nil
		}
		at = t.Spans[at].up
	}
	if !s.Table.Loose {
		return nil
	}
	var only *Sequence
	for i := range t.Sequences {
		if t.Spans[t.Sequences[i].Span].Table != s.Table {
			continue
		}
		if only != nil {
			return nil
		}
		only = &t.Sequences[i]
	}
	return only
}

func (t *Trace) bySpan(i int) *Sequence {
	if first := t.Spans[i].dupOf; first >= 0 {
		i = first
	}
	if k, ok := t.sequenceAt[i]; ok {
		return &t.Sequences[k]
	}
	return nil
}

// add counts a phase span to the sequence. Where a phase has several spans,
// one for each thread, it lasts from the first start to the last end.
func (q *Sequence) add(t *Trace, i int) {
	s := &t.Spans[i]
	p := &q.Phases[s.Role.Phase()]
	request, sequence := s.Table.IDs(s.Attributes())
	if differ(request, q.Facts.RequestID) || differ(sequence, q.Facts.SequenceID) {
		q.foreign = true
	}
	if len(p.Spans) == 0 {
		p.Time = s.time
	} else {
		p.Time = phases.Interval{Start: min(p.Time.Start, s.time.Start), End: max(p.Time.End, s.time.End)}
	}
	p.Spans = append(p.Spans, i)
	p.Present = true
	p.Bad = p.Bad || s.bad
	p.failed = p.failed || s.failed()
	p.errorType = p.errorType || s.Table.HasError(s.Attributes())
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// close fills in the phases that the engine stated only as attributes.
//
// Such an engine measures the first token from the start of the request; the
// prefill ends there and the decode begins there. Without that number the
// phases are laid back from the end.
func (q *Sequence) close(t *Trace) {
	s := &t.Spans[q.Span]
	f := &q.Facts
	if s.bad || !s.Table.AttributePhases {
		return
	}
	if !f.Queue.OK && !f.Prefill.OK && !f.Decode.OK {
		return
	}
	q.place(s.time)
}

func (q *Sequence) place(span phases.Interval) {
	f := &q.Facts
	first := span.End - f.Decode.NS
	slack := int64(0)
	if f.TTFT.OK && f.TTFT.NS <= span.Len() {
		first = span.Start + f.TTFT.NS
		slack = max(span.End-first-f.Decode.NS, first+f.Decode.NS-span.End)
	}
	prefill := first - f.Prefill.NS
	set := func(r engine.Role, l engine.Latency, from, to int64) {
		if l.OK {
			q.Phases[r.Phase()] = Phase{Time: phases.Interval{Start: from, End: to}, Slack: slack, Present: true}
		}
	}
	set(engine.RoleQueue, f.Queue, prefill-f.Queue.NS, prefill)
	set(engine.RolePrefill, f.Prefill, prefill, first)
	set(engine.RoleDecode, f.Decode, first, first+f.Decode.NS)
}

// Role returns a sequence's phase.
func (q *Sequence) Role(r engine.Role) *Phase { return &q.Phases[r.Phase()] }

// Owner is the sequence that a span of the trace is or belongs to, or -1.
func (t *Trace) Owner(id pcommon.SpanID) int {
	if id.IsEmpty() {
		return -1
	}
	for k := range t.Sequences {
		q := &t.Sequences[k]
		if t.Spans[q.Span].SpanID() == id {
			return k
		}
		for r := range q.Phases {
			for _, i := range q.Phases[r].Spans {
				if t.Spans[i].SpanID() == id {
					return k
				}
			}
		}
	}
	return -1
}

// present says whether an attribute is there, which another processor wrote.
func present(attrs pcommon.Map, key string) bool {
	_, ok := attrs.Get(key)
	return ok
}

// Joined says whether a span already carries a join that holds.
func Joined(attrs pcommon.Map) bool {
	v, ok := attrs.Get(semconv.PhaseJoin)
	return ok && v.AsString() != semconv.JoinNone
}
