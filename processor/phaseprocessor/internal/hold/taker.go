// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/request"
)

// Taker takes request spans out of one call's traces, into one entry a trace.
type Taker struct {
	Entries []*Entry
	// Spans is how many spans were taken.
	Spans int

	byTrace map[pcommon.TraceID]*taken
}

// taken is an entry and where its last span went, so that spans of one scope
// stay in one scope.
type taken struct {
	entry *Entry
	rs    int
	ss    int
	spans ptrace.SpanSlice
	home  ptrace.ScopeSpansSlice
}

// Take moves a span, which sits in the rs-th resource's ss-th scope, to its
// trace's entry and returns it at its new place.
func (t *Taker) Take(span ptrace.Span, rs int, rspans ptrace.ResourceSpans, ss int, sspans ptrace.ScopeSpans) *request.Span {
	if t.byTrace == nil {
		t.byTrace = make(map[pcommon.TraceID]*taken)
	}
	id := span.TraceID()
	k, ok := t.byTrace[id]
	if !ok {
		k = &taken{entry: &Entry{ID: id, Data: ptrace.NewTraces()}, rs: -1}
		t.byTrace[id] = k
		t.Entries = append(t.Entries, k.entry)
	}
	if k.rs != rs {
		to := k.entry.Data.ResourceSpans().AppendEmpty()
		rspans.Resource().CopyTo(to.Resource())
		to.SetSchemaUrl(rspans.SchemaUrl())
		k.rs, k.ss, k.home = rs, -1, to.ScopeSpans()
	}
	if k.ss != ss {
		to := k.home.AppendEmpty()
		sspans.Scope().CopyTo(to.Scope())
		to.SetSchemaUrl(sspans.SchemaUrl())
		k.ss, k.spans = ss, to.Spans()
	}
	to := k.spans.AppendEmpty()
	span.MoveTo(to)
	k.entry.Spans = append(k.entry.Spans, request.Span{Span: to})
	t.Spans++
	return &k.entry.Spans[len(k.entry.Spans)-1]
}

// Restore puts the spans back: the call failed and its caller keeps them.
func (t *Taker) Restore(td ptrace.Traces) {
	for _, e := range t.Entries {
		e.Data.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	t.Entries, t.byTrace, t.Spans = nil, nil, 0
}
