// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// maxSegments bounds the bind segments of one invocation; the runtime has ten.
const maxSegments = 32

// Span times are integers; attributes are seconds.
func toSeconds(ns int64) float64 { return float64(ns) / 1e9 }

// Interval is [Start, End) in Unix nanoseconds; Start == End is empty.
type Interval struct{ Start, End int64 }

// Len is the length in nanoseconds.
func (i Interval) Len() int64 { return i.End - i.Start }

// Valid says whether the interval was set.
func (i Interval) Valid() bool { return i.Start != 0 || i.End != 0 }

// hull widens i to hold o.
func (i Interval) hull(o Interval) Interval {
	if !i.Valid() {
		return o
	}
	return Interval{Start: min(i.Start, o.Start), End: max(i.End, o.End)}
}

// Invocation is one run of a callable on one chip.
type Invocation struct {
	// Root is the root span; the zero value when it left in an earlier piece.
	Root ptrace.Span
	Past bool
	// Trace and ID identify the root.
	Trace pcommon.TraceID
	ID    pcommon.SpanID
	// Proc indexes Batch.Procs.
	Proc int32
	// Run is the node of the <level>.run above, or -1; StepProc its process.
	Run int32
	// Inv is the invocation number, HasInv false when it was no int.
	Inv    int64
	HasInv bool
	HID    string
	// ClockErr bounds the wall placement, seconds; infinite when not stated.
	ClockErr float64
	// Host is the root's interval; Device the hull of its device walls, zero
	// when there are none; Bind and Runner the hulls of those stages.
	Host, Device, Bind, Runner Interval
	Ticks                      Ticks
	HasTicks                   bool
	// Done is true when the root already carries phases: they stay.
	Done bool
	// Partial is true when a piece of the invocation is missing.
	Partial bool
	// Bad is true when the root's times make no interval.
	Bad bool

	// The rest is filled from History, under its owner's lock.

	// PrepareOverlap is a share, 0..1.
	PrepareOverlap    float64
	HasPrepareOverlap bool
	// DeviceGap is in seconds.
	DeviceGap    float64
	HasDeviceGap bool
	Callable     string

	node       int32
	size       int
	copies     []ptrace.Span
	sums       [numStages]int64
	has        uint32
	segments   []segment
	depth1     []Interval
	effective  Interval
	attributed int64
}

type segment struct {
	attr string
	ns   int64
}

// Size is how many spans the invocation has here, its root among them.
func (v *Invocation) Size() int { return v.size + 1 }

// release drops what points into spans and keeps the small slices.
func (v *Invocation) release() {
	clear(v.copies)
	clear(v.segments)
	*v = Invocation{copies: v.copies[:0], segments: v.segments[:0], depth1: v.depth1[:0]}
}

func (b *Batch) startInvocation(i int32) {
	n := &b.nodes[i]
	in := b.infoOf(n)
	if len(b.Invs) < cap(b.Invs) {
		b.Invs = b.Invs[:len(b.Invs)+1]
	} else {
		b.Invs = append(b.Invs, Invocation{})
	}
	v := &b.Invs[len(b.Invs)-1]
	*v = Invocation{
		Root: n.span, Past: n.past, Trace: n.trace, ID: n.id, Proc: n.proc, Run: none,
		Inv: n.inv, HasInv: n.hasInv, HID: in.hid, ClockErr: in.clockErr,
		Host: Interval{n.start, n.end}, Done: in.done, Bad: n.bad, node: i,
		copies: v.copies[:0], segments: v.segments[:0], depth1: v.depth1[:0],
	}
}

// add counts one span below the root.
func (v *Invocation) add(n *node, in *info) {
	v.size++
	if n.bad {
		return
	}
	span := Interval{n.start, n.end}
	if n.depth == 1 && !n.device {
		v.depth1 = append(v.depth1, span)
	}
	switch s := n.stage; {
	case s.hostStage() && n.depth == 1:
		v.sum(s, span.Len())
		switch s {
		case stageBind:
			v.Bind = v.Bind.hull(span)
		case stageRunnerRun:
			v.Runner = v.Runner.hull(span)
		}
	case s == stageBindSegment && n.depth == 2:
		v.addSegment(segmentAttr(n.segment), span.Len())
	case s.deviceStage():
		v.sum(s, span.Len())
		switch s {
		case stageDeviceWall:
			v.addDeviceWall(span, in)
		case stageOrch, stageSched:
			v.effective = v.effective.hull(span)
		}
	}
}

func (v *Invocation) addDeviceWall(span Interval, in *info) {
	if in.hasTicks && !v.HasTicks {
		v.Ticks, v.HasTicks = in.ticks, true
	}
	if in.misfit {
		// Its length is true, its place is not: no wall clock joins on it.
		span = Interval{max(span.Start, v.Host.Start), min(span.End, v.Host.End)}
		if span.Len() <= 0 {
			return
		}
	}
	v.Device = v.Device.hull(span)
}

func (v *Invocation) sum(s stage, ns int64) {
	v.sums[s] += ns
	v.has |= 1 << s
}

func (v *Invocation) hasStage(s stage) bool { return v.has&(1<<s) != 0 }

func (v *Invocation) addSegment(attr string, ns int64) {
	for i := range v.segments {
		if v.segments[i].attr == attr {
			v.segments[i].ns += ns
			return
		}
	}
	if len(v.segments) < maxSegments {
		v.segments = append(v.segments, segment{attr, ns})
	}
}

// finish works out what needs all spans.
func (v *Invocation) finish() {
	slices.SortFunc(v.depth1, func(a, b Interval) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	at := v.Host.Start
	for _, span := range v.depth1 {
		from, to := max(span.Start, at), min(span.End, v.Host.End)
		if to > from {
			v.attributed += to - from
			at = to
		}
	}
	if len(v.depth1) == 0 && !v.Bad {
		// The runtime never prints a root alone: the rest is elsewhere.
		v.Partial = true
	}
}

// Write puts the phases on the root and on its duplicates.
func (v *Invocation) Write() {
	if v.Past {
		return
	}
	v.write(v.Root.Attributes())
	for _, span := range v.copies {
		v.write(span.Attributes())
	}
}

func (v *Invocation) write(attrs pcommon.Map) {
	if v.Done || v.Bad {
		return
	}
	attrs.EnsureCapacity(attrs.Len() + 27 + len(v.segments))
	v.put(attrs)
	if v.HasDeviceGap {
		attrs.PutDouble(semconv.PhaseDeviceGap, v.DeviceGap)
	}
	if v.HasPrepareOverlap {
		attrs.PutDouble(semconv.PhasePrepareOverlap, v.PrepareOverlap)
	}
	if v.Callable != "" {
		if _, ok := attrs.Get(semconv.Callable); !ok {
			attrs.PutStr(semconv.Callable, v.Callable)
		}
	}
	if v.Partial {
		attrs.PutBool(semconv.PhasePartial, true)
	}
}

// put writes the phases that come from this invocation's own spans.
func (v *Invocation) put(attrs pcommon.Map) {
	attrs.PutDouble(semconv.PhaseHostWall, toSeconds(v.Host.Len()))
	for s := stageBind; s < numStages; s++ {
		if v.hasStage(s) {
			attrs.PutDouble(sumAttr[s], toSeconds(v.sums[s]))
		}
	}
	for _, seg := range v.segments {
		attrs.PutDouble(seg.attr, toSeconds(seg.ns))
	}
	if v.effective.Valid() {
		attrs.PutDouble(semconv.PhaseEffective, toSeconds(v.effective.Len()))
	}
	if v.hasStage(stageConfigValidate) || v.hasStage(stageArenaWire) || v.hasStage(stageSmReset) {
		prep := v.sums[stageConfigValidate] + v.sums[stageArenaWire] + v.sums[stageSmReset]
		attrs.PutDouble(semconv.PhasePrep, toSeconds(prep))
	}
	if v.hasStage(stageDeviceWall) {
		// A device wall longer than what holds it is a clock at odds with
		// itself; a negative overhead would be a number without a meaning.
		device := v.sums[stageDeviceWall]
		if rest := v.Host.Len() - device; rest >= 0 {
			attrs.PutDouble(semconv.PhaseHostOverhead, toSeconds(rest))
		}
		if rest := v.sums[stageRunnerRun] - device; v.hasStage(stageRunnerRun) && rest >= 0 {
			attrs.PutDouble(semconv.PhaseLaunchOverhead, toSeconds(rest))
		}
	}
	if len(v.depth1) > 0 {
		attrs.PutDouble(semconv.PhaseUnattributed, toSeconds(v.Host.Len()-v.attributed))
	}
}
