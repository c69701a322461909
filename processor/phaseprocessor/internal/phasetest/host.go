// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package phasetest writes the spans that tests feed to the processor: host
// traces as the receiver makes them and request traces as engines do.
package phasetest

import (
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// TraceID makes a trace id of a number.
func TraceID(n uint64) (id pcommon.TraceID) {
	id[0] = 0xaa
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

// SpanID makes a span id of a number.
func SpanID(n uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

// Resource appends a ResourceSpans with one scope for a host process.
func Resource(td ptrace.Traces, host string, pid int64) ptrace.SpanSlice {
	rs := td.ResourceSpans().AppendEmpty()
	attrs := rs.Resource().Attributes()
	attrs.PutStr("service.name", "simpler")
	if host != "" {
		attrs.PutStr("host.name", host)
	}
	attrs.PutInt("process.pid", pid)
	return rs.ScopeSpans().AppendEmpty().Spans()
}

// Part is one span of an invocation below its root.
type Part struct {
	// Stage is the strace.stage; the parent is the longest dotted prefix.
	Stage string
	// Depth is strace.depth.
	Depth int64
	// From is the offset from the root's start, Dur the length, nanoseconds.
	From, Dur int64
	// Attrs are further attributes.
	Attrs map[string]any
}

// Chip is one invocation.
type Chip struct {
	Trace  uint64
	Span   uint64
	Parent uint64
	Inv    int64
	HID    string
	// Start is Unix nanoseconds, Dur the root's length.
	Start, Dur int64
	ClockError float64
	Parts      []Part
}

// Usual is the parts of an invocation whose stages fill dur: bind, runner_run
// with a device wall, validate.
func Usual(dur int64) []Part {
	bind, run := dur/10, dur*8/10
	return []Part{
		{Stage: "run.bind.args", Depth: 2, From: 0, Dur: bind / 2},
		{Stage: "run.bind.prebuilt", Depth: 2, From: bind / 2, Dur: bind / 4},
		{Stage: "run.bind", Depth: 1, From: 0, Dur: bind},
		{Stage: "run.runner_run", Depth: 1, From: bind, Dur: run},
		{Stage: "run.validate", Depth: 1, From: bind + run, Dur: bind / 2},
		{Stage: "run.runner_run.device_wall", Depth: 2, From: bind, Dur: run / 2},
		{Stage: "run.runner_run.device_wall.config_validate", Depth: 3, From: bind, Dur: run / 100},
		{Stage: "run.runner_run.device_wall.arena_wire", Depth: 3, From: bind + run/100, Dur: run / 100},
		{Stage: "run.runner_run.device_wall.sm_reset", Depth: 3, From: bind + run/50, Dur: run / 100},
		{Stage: "run.runner_run.device_wall.post_orch", Depth: 3, From: bind + run*4/10, Dur: run / 100},
		{Stage: "run.runner_run.device_wall.orch", Depth: 3, From: bind + run/10, Dur: run / 10},
		{Stage: "run.runner_run.device_wall.sched", Depth: 3, From: bind + run/10 + run/100, Dur: run / 5},
	}
}

// Append writes the invocation, children first as the runtime prints them.
func (c Chip) Append(spans ptrace.SpanSlice) {
	ids := map[string]uint64{"run": c.Span}
	for i, p := range c.Parts {
		ids[p.Stage] = c.Span + 1 + uint64(i)
	}
	for i, p := range c.Parts {
		span := c.span(spans, p.Stage, c.Span+1+uint64(i), p.From, p.Dur, p.Depth)
		parent := p.Stage
		for {
			parent = parent[:max(0, strings.LastIndexByte(parent, '.'))]
			if id, ok := ids[parent]; ok {
				span.SetParentSpanID(SpanID(id))
				break
			}
			if parent == "" {
				break
			}
		}
		put(span.Attributes(), p.Attrs)
	}
	root := c.span(spans, "run", c.Span, 0, c.Dur, 0)
	if c.Parent != 0 {
		root.SetParentSpanID(SpanID(c.Parent))
	}
}

func (c Chip) span(spans ptrace.SpanSlice, stage string, id uint64, from, dur, depth int64) ptrace.Span {
	span := spans.AppendEmpty()
	span.SetTraceID(TraceID(c.Trace))
	span.SetSpanID(SpanID(id))
	span.SetName("chip." + stage)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetStartTimestamp(pcommon.Timestamp(c.Start + from))
	span.SetEndTimestamp(pcommon.Timestamp(c.Start + from + dur))
	a := span.Attributes()
	a.EnsureCapacity(12)
	a.PutInt("thread.id", 7)
	a.PutInt("strace.inv", c.Inv)
	a.PutStr("strace.hid", c.HID)
	a.PutInt("strace.depth", depth)
	a.PutStr("strace.stage", stage)
	a.PutStr("strace.family", "chip")
	clock := "host"
	if strings.Contains(stage, "device_wall") {
		clock = "device"
	}
	a.PutStr("strace.clock", clock)
	a.PutStr("strace.clock.source", "anchor")
	a.PutDouble("strace.clock.error", c.ClockError)
	return span
}

// Node appends a span of the node family.
func Node(spans ptrace.SpanSlice, trace, id, parent uint64, stage string, start, dur int64) ptrace.Span {
	span := spans.AppendEmpty()
	span.SetTraceID(TraceID(trace))
	span.SetSpanID(SpanID(id))
	if parent != 0 {
		span.SetParentSpanID(SpanID(parent))
	}
	span.SetName(strings.Replace(stage, "level.", "node.", 1))
	span.SetStartTimestamp(pcommon.Timestamp(start))
	span.SetEndTimestamp(pcommon.Timestamp(start + dur))
	a := span.Attributes()
	a.PutStr("strace.stage", stage)
	a.PutStr("strace.family", "node")
	a.PutStr("strace.level", "node")
	a.PutInt("strace.depth", 0)
	if stage == "level.run" {
		a.PutBool("strace.synthetic", true)
	}
	return span
}

// Ext appends a span of an external producer.
func Ext(spans ptrace.SpanSlice, trace, id, parent uint64, start, dur int64, attrs map[string]any) ptrace.Span {
	span := Node(spans, trace, id, parent, "ext", start, dur)
	span.SetName("ext.engine.step")
	span.Attributes().PutStr("strace.family", "external")
	put(span.Attributes(), attrs)
	return span
}

func put(to pcommon.Map, attrs map[string]any) {
	for k, v := range attrs {
		// FromRaw knows every type a test writes down.
		_ = to.PutEmpty(k).FromRaw(v)
	}
}

// Attr returns a span's attribute as a plain value, nil when absent.
func Attr(span ptrace.Span, key string) any {
	if v, ok := span.Attributes().Get(key); ok {
		return v.AsRaw()
	}
	return nil
}

// Spans lists all spans of a set of traces.
func Spans(all ...ptrace.Traces) []ptrace.Span {
	var out []ptrace.Span
	for _, td := range all {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					out = append(out, span)
				}
			}
		}
	}
	return out
}

// Named returns the spans of a name.
func Named(name string, all ...ptrace.Traces) []ptrace.Span {
	var out []ptrace.Span
	for _, span := range Spans(all...) {
		if span.Name() == name {
			out = append(out, span)
		}
	}
	return out
}
