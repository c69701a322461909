// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package unit cuts a trace into what the tables and timelines are about:
// single invocations, and the spans of an L3 run.
package unit // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"

import (
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Kind is what a unit is.
type Kind uint8

const (
	// Invocation is a chip invocation, with its root or without.
	Invocation Kind = iota
	// Prewarm is the set-up of a worker: no invocation.
	Prewarm
	// Run is the node records of one L3 run.
	Run
	// Other is a record of its own: ext, scheduler_loop.
	Other
)

// Unit is a part of a trace. It is valid as long as the trace.
type Unit struct {
	Kind  Kind
	Trace *strace.Trace
	// Spans are consecutive spans of Trace.
	Spans []strace.Span
	// Root is the depth-0 span of an invocation, the only span of a Prewarm or
	// Other, the synthetic root of a Run; nil for an invocation without.
	Root *strace.Span
	// Offset is what was added to host times to get wall times, nanoseconds.
	Offset int64
	// NodeHID is the callable's digest as the run's dispatch printed it, for a
	// chip invocation that was stitched to one; 0 otherwise.
	NodeHID uint64
}

// Each calls f for every unit of t.
func Each(t *strace.Trace, f func(*Unit)) {
	for from := 0; from < len(t.Spans); {
		to := from + 1
		for to < len(t.Spans) && together(&t.Spans[from], &t.Spans[to]) {
			to++
		}
		u := cut(t, t.Spans[from:to])
		f(&u)
		from = to
	}
}

// together tells whether b continues the unit of a: all node records of a
// trace are one unit, chip records are one by process and number.
func together(a, b *strace.Span) bool {
	if a.Name.Family != b.Name.Family && (a.Name.Family == semconv.FamilyNode || b.Name.Family == semconv.FamilyNode) {
		return false
	}
	if a.Name.Family == semconv.FamilyNode {
		return true
	}
	if a.Name.Family == semconv.FamilyExternal || b.Name.Family == semconv.FamilyExternal {
		return false
	}
	return a.Process == b.Process && a.Inv == b.Inv
}

func cut(t *strace.Trace, spans []strace.Span) Unit {
	first := &spans[0]
	u := Unit{Trace: t, Spans: spans}
	for i := range spans {
		if !spans[i].Device {
			u.Offset = spans[i].Start - spans[i].TS
			break
		}
	}
	switch {
	case first.Name.Family == semconv.FamilyNode && t.Kind != strace.TraceSingle:
		u.Kind = Run
		if first.Synthetic {
			u.Root = first
		}
	case first.Name.Stage == semconv.StagePrewarm:
		u.Kind, u.Root = Prewarm, first
	case t.Kind == strace.TraceSingle || first.Name.Family == semconv.FamilyExternal:
		u.Kind, u.Root = Other, first
	default:
		u.Root = root(spans)
		u.NodeHID = nodeHID(t, u.Root)
	}
	return u
}

// root finds the invocation's root: the span the assembler marked, or the
// depth-0 span of a name that is none of the runtime's.
func root(spans []strace.Span) *strace.Span {
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].IsRoot {
			return &spans[i]
		}
	}
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].Depth == 0 && !spans[i].Device {
			return &spans[i]
		}
	}
	return nil
}

func nodeHID(t *strace.Trace, root *strace.Span) uint64 {
	if root == nil || root.Parent.IsZero() || t.Kind != strace.TraceRun {
		return 0
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.ID == root.Parent && s.Name.Stage == semconv.StageLevelDispatch {
			return s.HID
		}
	}
	return 0
}

// Process is the producer of the unit.
func (u *Unit) Process() *strace.Process { return &u.Trace.Processes[u.Spans[0].Process] }

// Mono is a span's start on the host's monotonic clock, nanoseconds: as
// written for host spans, as placed for device spans.
func (u *Unit) Mono(s *strace.Span) int64 { return s.Start - u.Offset }

// Stage finds the first span of a stage, nil when there is none.
func (u *Unit) Stage(stage string) *strace.Span {
	for i := range u.Spans {
		if u.Spans[i].Name.Stage == stage {
			return &u.Spans[i]
		}
	}
	return nil
}

// Events are the points of the unit's spans.
func (u *Unit) Events(f func(parent *strace.Span, e *strace.Event)) {
	for i := range u.Spans {
		s := &u.Spans[i]
		for k := range s.NumEvents {
			f(s, &u.Trace.Events[s.FirstEvent+k])
		}
	}
}

// HID is the callable's number in hexadecimal, with the digits it was written
// with.
func HID(hid uint64, digits uint8) string {
	text := strconv.FormatUint(hid, 16)
	if pad := int(digits) - len(text); pad > 0 {
		return strings.Repeat("0", pad) + text
	}
	return text
}
