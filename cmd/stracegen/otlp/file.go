// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"fmt"
	"io"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Collector gets spans offline: one resource of at most a batch of spans at a
// time, in the order in which they end, so that the same spans give the same
// calls. It is not safe for concurrent use, nor are the providers behind it.
type Collector struct {
	take func(ptrace.Traces) error
	err  error
}

// NewCollector returns one that hands traces to take, which then owns them. After
// the first error take is not called again.
func NewCollector(take func(ptrace.Traces) error) *Collector { return &Collector{take: take} }

// NewFileWriter returns a Collector that writes OTLP JSON to out, one export
// request per line.
func NewFileWriter(out io.Writer) *Collector {
	m := ptrace.JSONMarshaler{}
	return NewCollector(func(td ptrace.Traces) error {
		line, err := m.MarshalTraces(td)
		if err != nil {
			return err
		}
		_, err = out.Write(append(line, '\n'))
		return err
	})
}

// Err is the first error.
func (c *Collector) Err() error { return c.err }

// processor returns a span processor for one provider: no goroutine, no timer.
func (c *Collector) processor() sdktrace.SpanProcessor { return &collectProcessor{c: c} }

type collectProcessor struct {
	c     *Collector
	spans []sdktrace.ReadOnlySpan
}

func (*collectProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (p *collectProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p.spans = append(p.spans, s); len(p.spans) >= batchSize {
		p.write()
	}
}

func (p *collectProcessor) write() {
	if len(p.spans) == 0 || p.c.err != nil {
		return
	}
	if err := p.c.take(toTraces(p.spans)); err != nil {
		p.c.err = fmt.Errorf("writing spans: %w", err)
	}
	clear(p.spans)
	p.spans = p.spans[:0]
}

// ForceFlush does nothing: batches are cut by number alone, so that a flush meant
// for the network does not change them.
func (*collectProcessor) ForceFlush(context.Context) error { return nil }

func (p *collectProcessor) Shutdown(context.Context) error {
	p.write()
	return p.c.err
}

// toTraces builds one resource of one scope; all spans are of one provider.
func toTraces(spans []sdktrace.ReadOnlySpan) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	putAttributes(rs.Resource().Attributes(), spans[0].Resource().Attributes())
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(spans[0].InstrumentationScope().Name)
	ss.Scope().SetVersion(spans[0].InstrumentationScope().Version)
	ss.Spans().EnsureCapacity(len(spans))
	for _, s := range spans {
		toSpan(ss.Spans().AppendEmpty(), s)
	}
	return td
}

// Bits of a span's flags that tell whether its parent is remote.
const (
	flagsHasIsRemote = 0x100
	flagsIsRemote    = 0x200
)

func toSpan(out ptrace.Span, s sdktrace.ReadOnlySpan) {
	sc, parent := s.SpanContext(), s.Parent()
	out.SetTraceID(pcommon.TraceID(sc.TraceID()))
	out.SetSpanID(pcommon.SpanID(sc.SpanID()))
	out.SetParentSpanID(pcommon.SpanID(parent.SpanID()))
	out.TraceState().FromRaw(sc.TraceState().String())
	flags := uint32(sc.TraceFlags()) | flagsHasIsRemote
	if parent.IsRemote() {
		flags |= flagsIsRemote
	}
	out.SetFlags(flags)
	out.SetName(s.Name())
	out.SetKind(spanKind(s.SpanKind()))
	out.SetStartTimestamp(pcommon.NewTimestampFromTime(s.StartTime()))
	out.SetEndTimestamp(pcommon.NewTimestampFromTime(s.EndTime()))
	putAttributes(out.Attributes(), s.Attributes())
	if st := s.Status(); st.Code == codes.Error {
		out.Status().SetCode(ptrace.StatusCodeError)
		out.Status().SetMessage(st.Description)
	}
}

func spanKind(k trace.SpanKind) ptrace.SpanKind {
	if k == trace.SpanKindServer {
		return ptrace.SpanKindServer
	}
	return ptrace.SpanKindInternal
}

func putAttributes(m pcommon.Map, attrs []attribute.KeyValue) {
	m.EnsureCapacity(len(attrs))
	for _, kv := range attrs {
		k := string(kv.Key)
		switch kv.Value.Type() {
		case attribute.INT64:
			m.PutInt(k, kv.Value.AsInt64())
		case attribute.FLOAT64:
			m.PutDouble(k, kv.Value.AsFloat64())
		case attribute.BOOL:
			m.PutBool(k, kv.Value.AsBool())
		case attribute.STRINGSLICE:
			list := m.PutEmptySlice(k)
			for _, v := range kv.Value.AsStringSlice() {
				list.AppendEmpty().SetStr(v)
			}
		default:
			m.PutStr(k, kv.Value.AsString())
		}
	}
}
