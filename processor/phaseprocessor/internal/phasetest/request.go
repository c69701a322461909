// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phasetest

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Request is one ATOM request: atom.request, one engine.request for each
// sequence, and their phases.
type Request struct {
	Trace uint64
	// Span is the id of atom.request; all others follow it.
	Span uint64
	// Start is Unix nanoseconds; the rest are lengths in nanoseconds.
	Start                  int64
	Queue, Prefill, Decode int64
	// Front and Back are what atom.request lasts before and after the engine.
	Front, Back  int64
	OutputTokens int64
	CachedTokens int64
	Sequences    int
}

// IDs of the k-th sequence's spans.
func (r Request) engineID(k int) uint64 { return r.Span + 10*uint64(k) + 1 }

// End is when atom.request ends.
func (r Request) End() int64 {
	return r.Start + r.Front + r.Queue + r.Prefill + r.Decode + r.Back
}

// PrefillAt and DecodeAt are the phases' intervals.
func (r Request) PrefillAt() (from, to int64) {
	from = r.Start + r.Front + r.Queue
	return from, from + r.Prefill
}

// DecodeAt is the decode phase.
func (r Request) DecodeAt() (from, to int64) {
	_, from = r.PrefillAt()
	return from, from + r.Decode
}

// API appends the HTTP server's resource.
func (r Request) API(td ptrace.Traces, host string) ptrace.Span {
	span := requestSpan(atomResource(td, host, 1), r.Trace, r.Span, 0, "atom.request", r.Start, r.End()-r.Start)
	span.SetKind(ptrace.SpanKindServer)
	span.SetParentSpanID(SpanID(0xfeed)) // a remote parent never seen
	span.TraceState().FromRaw("nsdye=1")
	span.Attributes().PutStr("gen_ai.request.id", r.ID())
	span.Attributes().PutInt("http.response.status_code", 200)
	return span
}

// ID is the public request id.
func (r Request) ID() string { return "cmpl-" + strconv.FormatUint(r.Trace, 10) }

// Engine appends the engine's resource with the spans of every sequence,
// children first as the engine sends them.
func (r Request) Engine(td ptrace.Traces, host string) {
	spans := atomResource(td, host, 2)
	for k := range max(1, r.Sequences) {
		r.sequence(spans, k)
	}
}

// Sequence appends one sequence with a resource of its own.
func (r Request) Sequence(td ptrace.Traces, host string, k int) {
	r.sequence(atomResource(td, host, 2), k)
}

func (r Request) sequence(spans ptrace.SpanSlice, k int) {
	id := r.engineID(k)
	at := r.Start + r.Front
	phase := func(n uint64, name string, from, dur int64) {
		if dur <= 0 {
			return
		}
		span := requestSpan(spans, r.Trace, id+n, id, name, from, dur)
		span.Attributes().PutStr("gen_ai.request.id", r.ID())
		span.Attributes().PutInt("atom.sequence.id", int64(k))
	}
	phase(1, "prefill_waiting", at, r.Queue)
	phase(2, "prefill_forward", at+r.Queue, r.Prefill)
	phase(3, "decode_forward", at+r.Queue+r.Prefill, r.Decode)
	span := requestSpan(spans, r.Trace, id, r.Span, "engine.request", at, r.Queue+r.Prefill+r.Decode)
	a := span.Attributes()
	a.PutStr("gen_ai.request.id", r.ID())
	a.PutInt("atom.sequence.id", int64(k))
	a.PutStr("gen_ai.response.model", "m")
	a.PutStr("gen_ai.response.finish_reasons", "stop")
	a.PutInt("gen_ai.usage.prompt_tokens", 100)
	a.PutInt("gen_ai.usage.completion_tokens", r.OutputTokens)
	a.PutInt("gen_ai.usage.cached_tokens", r.CachedTokens)
	latency := func(key string, ns int64) {
		if ns > 0 {
			a.PutDouble("gen_ai.latency."+key, float64(ns)/1e9)
		}
	}
	latency("time_in_queue", r.Queue)
	latency("time_to_first_token", r.Queue+r.Prefill+1_000_000)
	latency("time_in_model_prefill", r.Prefill)
	latency("time_in_model_decode", r.Decode)
	latency("e2e", r.Queue+r.Prefill+r.Decode)
}

func atomResource(td ptrace.Traces, host string, pid int64) ptrace.SpanSlice {
	rs := td.ResourceSpans().AppendEmpty()
	a := rs.Resource().Attributes()
	a.PutStr("service.name", "atom")
	if host != "" {
		a.PutStr("host.name", host)
	}
	a.PutInt("process.pid", pid)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("atom")
	return ss.Spans()
}

func requestSpan(spans ptrace.SpanSlice, trace, id, parent uint64, name string, start, dur int64) ptrace.Span {
	span := spans.AppendEmpty()
	span.SetTraceID(TraceID(trace))
	span.SetSpanID(SpanID(id))
	if parent != 0 {
		span.SetParentSpanID(SpanID(parent))
	}
	span.SetName(name)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetStartTimestamp(pcommon.Timestamp(start))
	span.SetEndTimestamp(pcommon.Timestamp(start + dur))
	return span
}
