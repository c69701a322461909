// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "github.com/phasecol/phasecol/pkg/strace/semconv"

// TraceKind says what a trace holds.
type TraceKind uint8

const (
	// TraceInvocation is a chip invocation that hangs under no run.
	TraceInvocation TraceKind = iota
	// TraceRun is an L3 run with the invocations stitched into it.
	TraceRun
	// TraceLate is an invocation whose run had left before it: a further
	// part of that run's trace.
	TraceLate
	// TraceSingle is one record on its own: prewarm, scheduler_loop, ext.
	TraceSingle
	// TraceIncomplete is an invocation that left without its root.
	TraceIncomplete

	// NumTraceKinds sizes arrays indexed by TraceKind.
	NumTraceKinds
)

// String returns the kind as telemetry names it.
func (k TraceKind) String() string {
	switch k {
	case TraceInvocation:
		return "invocation"
	case TraceRun:
		return "run"
	case TraceLate:
		return "late"
	case TraceSingle:
		return "single"
	case TraceIncomplete:
		return "incomplete"
	default:
		return "unknown"
	}
}

// Stitch says how an invocation found its run.
type Stitch uint8

// The ways.
const (
	StitchNone Stitch = iota
	StitchIdentity
	StitchTime
	StitchRun

	// NumStitches sizes arrays indexed by Stitch.
	NumStitches
)

// String returns the value of strace.stitch.
func (s Stitch) String() string {
	switch s {
	case StitchIdentity:
		return semconv.StitchIdentity
	case StitchTime:
		return semconv.StitchTime
	case StitchRun:
		return semconv.StitchRun
	default:
		return semconv.StitchNone
	}
}

// Process identifies the producer of a span.
type Process struct {
	// Scope is the scope the caller opened; its value is the caller's own.
	Scope *Scope
	PID   int32
	// Device is the NPU's number; HasDevice is false when no line told it.
	Device    int32
	HasDevice bool
}

// Span is one span of a Trace. Times are Unix nanoseconds and End-Start is
// the record's dur exactly.
type Span struct {
	ID, Parent SpanID
	Name       *Name
	// Text is the name to show; it differs from Name.Text only for synthetic
	// spans, whose Name is that of a record they stand for.
	Text string
	// Process indexes Trace.Processes.
	Process    int
	Start, End int64
	TID        int64
	Inv        uint64
	HID        uint64
	HIDDigits  uint8
	Depth      int32
	// TS is the record's ts as written.
	TS int64
	// Attrs is the raw attribute text, valid as long as the Trace.
	Attrs    []byte
	Verbatim bool
	Device   bool
	// Source and ErrorNS say where the wall time came from and how wrong it
	// can be, nanoseconds.
	Source  ClockSource
	ErrorNS int64
	// SlackNS is the room the device block had; Fits false where it had none.
	SlackNS int64
	Fits    bool
	// Synthetic spans were made here, of no record.
	Synthetic  bool
	Guessed    bool
	Incomplete bool
	// IsRoot marks the root of a chip invocation; Stitch is set on it.
	IsRoot bool
	Stitch Stitch
	// FirstEvent and NumEvents select its points in Trace.Events.
	FirstEvent, NumEvents int
}

// Event is a point: a record whose dur is 0.
type Event struct {
	Name     *Name
	Time     int64
	Attrs    []byte
	Verbatim bool

	parent int
}

// Trace is what the assembler hands out: a whole trace, or a late part of
// one. It and all it refers to belong to the assembler and are reused after
// the emit callback returns; copy what is to be kept.
type Trace struct {
	Kind TraceKind
	ID   TraceID
	// Remote is true when ID and the topmost parent come from a traceparent.
	Remote    bool
	Processes []Process
	Spans     []Span
	Events    []Event
	// Invocations counts the chip invocations inside.
	Invocations int
}

func (t *Trace) reset() {
	*t = Trace{Processes: t.Processes[:0], Spans: t.Spans[:0], Events: t.Events[:0]}
}

// process returns the index for p, adding it when new: there are few.
func (t *Trace) process(p *process) int {
	for i := range t.Processes {
		if t.Processes[i].PID == p.pid && t.Processes[i].Scope == p.scope {
			return i
		}
	}
	t.Processes = append(t.Processes, Process{Scope: p.scope, PID: p.pid, Device: p.dev, HasDevice: p.dev >= 0})
	return len(t.Processes) - 1
}
