// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package join finds the host runs of a request's phases, writes what they
// amount to on the request's spans and copies the slowest into its trace. It
// also names callables, since the join is what teaches which is which.
package join

import (
	"math"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/index"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/request"
)

// Reasons for a phase without host runs, besides those of index.Reason.
const (
	noRuns     = index.Reason("no_runs")
	clockError = index.Reason("clock_error")
	forgotten  = index.Reason("evicted")
	malformed  = index.Reason("malformed")
)

// Settings are the join's.
type Settings struct {
	// RemoteClockError is in seconds.
	RemoteClockError float64
	MaxLinks         int
	Embed            int
}

// Observer counts the join's outcomes.
type Observer interface {
	Joined(evidence string)
	Unjoined(reason string)
	Embedded(runs int)
}

// Joiner joins. Its owner serialises access to it and to the three stores.
type Joiner struct {
	Settings
	Index     *index.Index
	Callables *Callables
	Bodies    *Bodies
}

// outcome is the result for one phase.
type outcome struct {
	index.Found
	evidence string
	reason   index.Reason
	// err is the sum of both sides' clock errors, seconds; hasErr is set when
	// runs were found, even if they could not be used.
	err    float64
	hasErr bool
	length int64
	bodies []*Body
}

func (o *outcome) joined() bool { return o.evidence != "" }

// Join joins one request. Copies of host runs go to out, as does nothing else.
func (j *Joiner) Join(t *request.Trace, out ptrace.Traces, seen Observer) {
	for i := range t.Sequences {
		j.joinSequence(t, i, out, seen)
	}
	for _, i := range t.Orphans {
		s := &t.Spans[i]
		if s.Role == engine.RoleQueue || request.Joined(s.Attributes()) {
			continue
		}
		time, ok := s.Interval()
		o := j.find(t, -1, s, &request.Phase{Time: time, Bad: !ok}, seen)
		j.learn(&o, s.Role)
		j.write(s, &o, out, seen, t)
	}
}

// joinSequence joins the two phases that use the device, and sums them up.
func (j *Joiner) joinSequence(t *request.Trace, i int, out ptrace.Traces, seen Observer) {
	q := &t.Sequences[i]
	span := &t.Spans[q.Span]
	done := request.Joined(span.Attributes())
	var sum outcome
	tried := false
	for _, role := range [...]engine.Role{engine.RolePrefill, engine.RoleDecode} {
		p := q.Role(role)
		if !p.Present {
			continue
		}
		at := span
		if len(p.Spans) > 0 {
			at = &t.Spans[p.Spans[0]]
			if request.Joined(at.Attributes()) {
				continue
			}
		} else if done {
			continue
		}
		tried = true
		o := j.find(t, i, at, p, seen)
		j.learn(&o, role)
		if len(p.Spans) > 0 {
			j.write(at, &o, out, seen, t)
		} else if o.joined() {
			j.link(at, &o)
			j.embed(at, &o, out, seen, t)
		}
		sum.add(&o)
	}
	if tried && !done {
		j.put(span, &sum)
	}
}

// find decides which runs belong to a phase: by what an external span says,
// else by time.
func (j *Joiner) find(t *request.Trace, seq int, at *request.Span, p *request.Phase, seen Observer) outcome {
	o := j.search(t, seq, at, p)
	o.length = p.Time.Len()
	if o.reason == "" {
		// A clock that may be off by more than the phase is long cannot say
		// what was in it.
		o.err += float64(p.Slack) / 1e9
		o.hasErr = true
		if o.err*1e9 > float64(o.length) {
			o.reason = clockError
		}
	}
	if o.reason != "" {
		o.evidence = ""
		seen.Unjoined(string(o.reason))
		return o
	}
	seen.Joined(o.evidence)
	o.bodies = j.Bodies.Of(o.Slowest, j.Embed)
	return o
}

func (j *Joiner) search(t *request.Trace, seq int, at *request.Span, p *request.Phase) outcome {
	if p.Bad || p.Time.Len() <= 0 {
		return outcome{reason: malformed}
	}
	slowest := max(j.MaxLinks, 8*min(j.Embed, 1)+j.Embed)
	for _, try := range [...]struct {
		evidence string
		exts     []index.ExtSpan
	}{
		{semconv.JoinTraceparent, j.mine(t, seq, j.Index.ByTrace(t.ID))},
		{semconv.JoinRequestID, j.byRequest(t, seq)},
	} {
		if f, ok := j.named(try.exts, p.Time, slowest, at.Host); ok {
			return j.outcome(f, try.evidence)
		}
	}
	g, reason := j.Index.Find(at.Groups)
	switch {
	case g == nil:
		return outcome{reason: reason}
	case g.Forgotten(p.Time):
		return outcome{reason: forgotten}
	}
	f := g.Overlap(p.Time, slowest, at.Host)
	if f.Runs == 0 {
		return outcome{reason: noRuns}
	}
	return j.outcome(f, semconv.JoinOverlap)
}

func (j *Joiner) outcome(f index.Found, evidence string) outcome {
	o := outcome{Found: f, evidence: evidence, err: f.Err}
	if f.Foreign {
		o.err += j.RemoteClockError
	}
	return o
}

func (j *Joiner) byRequest(t *request.Trace, seq int) []index.ExtSpan {
	if seq < 0 {
		return nil
	}
	return j.Index.ByRequest(t.Sequences[seq].Facts.RequestID)
}

// mine leaves out the external spans made under a sibling's spans.
func (j *Joiner) mine(t *request.Trace, seq int, exts []index.ExtSpan) []index.ExtSpan {
	if seq < 0 || len(t.Sequences) < 2 {
		return exts
	}
	var out []index.ExtSpan
	for _, e := range exts {
		if owner := t.Owner(e.Parent); owner < 0 || owner == seq {
			out = append(out, e)
		}
	}
	return out
}

// named asks the group that the external spans are of; spans of several groups
// make no common timeline, the first one's counts.
func (j *Joiner) named(exts []index.ExtSpan, in phases.Interval, slowest int, host string) (index.Found, bool) {
	if len(exts) == 0 {
		return index.Found{}, false
	}
	g := exts[0].Group
	mine := exts
	for i := range exts {
		if exts[i].Group != g {
			mine = nil
			break
		}
	}
	if mine == nil {
		for _, e := range exts {
			if e.Group == g {
				mine = append(mine, e)
			}
		}
	}
	if g.Forgotten(in) {
		return index.Found{}, false
	}
	f := g.Named(in, mine, slowest, host)
	return f, f.Runs > 0
}

// learn notes which callables ran wholly inside of the phase.
func (j *Joiner) learn(o *outcome, role engine.Role) {
	if !o.joined() {
		return
	}
	for i := range o.Inside {
		j.Callables.Learn(o.Inside[i].Proc, o.Inside[i].HID, role)
	}
}

// add sums a phase up into the sequence's result: lengths and counts add, the
// evidence is the weaker one's.
func (o *outcome) add(p *outcome) {
	if p.hasErr {
		o.err, o.hasErr = math.Max(o.err, p.err), true
	}
	if !p.joined() {
		return
	}
	if o.evidence == "" || weight(p.evidence) < weight(o.evidence) {
		o.evidence = p.evidence
	}
	o.Runs += p.Runs
	o.Steps += p.Steps
	o.Host += p.Host
	o.Device += p.Device
	o.HasDevice = o.HasDevice || p.HasDevice
	o.length += p.length
}

func weight(evidence string) int {
	switch evidence {
	case semconv.JoinTraceparent:
		return 3
	case semconv.JoinRequestID:
		return 2
	default:
		return 1
	}
}

// write puts a phase's result on its span.
func (j *Joiner) write(at *request.Span, o *outcome, out ptrace.Traces, seen Observer, t *request.Trace) {
	j.put(at, o)
	if o.joined() {
		j.link(at, o)
		j.embed(at, o, out, seen, t)
	}
}

// put writes the attributes.
func (j *Joiner) put(at *request.Span, o *outcome) {
	attrs := at.Attributes()
	attrs.EnsureCapacity(attrs.Len() + 7)
	if o.hasErr && !math.IsInf(o.err, 0) {
		attrs.PutDouble(semconv.PhaseJoinError, o.err)
	}
	if !o.joined() {
		attrs.PutStr(semconv.PhaseJoin, semconv.JoinNone)
		return
	}
	attrs.PutStr(semconv.PhaseJoin, o.evidence)
	attrs.PutInt(semconv.PhaseHostRuns, int64(o.Runs))
	attrs.PutInt(semconv.PhaseSteps, int64(o.Steps))
	attrs.PutDouble(semconv.PhaseHostBusy, float64(o.Host)/1e9)
	if o.HasDevice {
		attrs.PutDouble(semconv.PhaseDeviceBusy, float64(o.Device)/1e9)
	}
	attrs.PutDouble(semconv.PhaseEngineGap, float64(o.length-o.Host)/1e9)
}

// link links the first, the last and the slowest runs.
func (j *Joiner) link(at *request.Span, o *outcome) {
	room := j.MaxLinks
	links := at.Links()
	put := func(r index.Ref) {
		if room == 0 {
			return
		}
		room--
		l := links.AppendEmpty()
		l.SetTraceID(r.Trace)
		l.SetSpanID(r.ID)
		l.Attributes().PutStr(semconv.PhaseLink, semconv.PhaseLinkHostRun)
	}
	put(o.First)
	if o.Last.ID != o.First.ID {
		put(o.Last)
	}
	links.EnsureCapacity(links.Len() + min(room, len(o.Slowest)+2))
	for _, r := range o.Slowest {
		if r.ID != o.First.ID && r.ID != o.Last.ID {
			put(r)
		}
	}
}

func (j *Joiner) embed(at *request.Span, o *outcome, out ptrace.Traces, seen Observer, t *request.Trace) {
	if at.Repeat {
		return // its copies left with the first arrival
	}
	for _, body := range o.bodies {
		embed(out, body, t.ID, at.SpanID())
	}
	if len(o.bodies) > 0 {
		seen.Embedded(len(o.bodies))
	}
}
