// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// embed copies a run into the trace of a request, below one of its spans. The
// new ids are functions of where the copy hangs and what it copies, so that
// doing it twice gives the same spans, and one run under two phases does not
// give one id twice.
func embed(to ptrace.Traces, body *Body, trace pcommon.TraceID, under pcommon.SpanID) {
	rs := to.ResourceSpans().AppendEmpty()
	body.Spans.CopyTo(rs)
	inside := make(map[pcommon.SpanID]struct{})
	for _, ss := range rs.ScopeSpans().All() {
		for _, span := range ss.Spans().All() {
			inside[span.SpanID()] = struct{}{}
		}
	}
	from := body.Trace.String()
	for _, ss := range rs.ScopeSpans().All() {
		for _, span := range ss.Spans().All() {
			original := span.SpanID()
			attrs := span.Attributes()
			attrs.EnsureCapacity(attrs.Len() + 3)
			attrs.PutBool(semconv.PhaseCopy, true)
			attrs.PutStr(semconv.PhaseCopyOfTraceID, from)
			attrs.PutStr(semconv.PhaseCopyOfSpanID, original.String())
			span.SetTraceID(trace)
			span.SetSpanID(copyID(trace, under, original))
			parent := span.ParentSpanID()
			if _, ok := inside[parent]; ok && original != body.ID {
				span.SetParentSpanID(copyID(trace, under, parent))
			} else {
				span.SetParentSpanID(under)
			}
		}
	}
}

func copyID(trace pcommon.TraceID, under, original pcommon.SpanID) (id pcommon.SpanID) {
	var b [32]byte
	copy(b[:16], trace[:])
	copy(b[16:24], under[:])
	copy(b[24:], original[:])
	sum := xxhash.Sum64(b[:])
	if sum == 0 {
		sum = 1
	}
	binary.BigEndian.PutUint64(id[:], sum)
	return id
}
