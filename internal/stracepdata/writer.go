// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package stracepdata writes the traces that pkg/strace assembles as pdata,
// by the names of docs/conventions.md. The receiver and the connector share it.
package stracepdata // import "github.com/phasecol/phasecol/internal/stracepdata"

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Options say what a Writer adds to what the records hold.
type Options struct {
	// ScopeName and ScopeVersion name the instrumentation scope.
	ScopeName, ScopeVersion string
	// Resource writes the attributes of a process beside process.pid, hw.id
	// and hw.type.
	Resource func(scope *strace.Scope, pid int32, attrs pcommon.Map)
}

// Writer collects traces into one ptrace.Traces: one ResourceSpans for each
// producing process. It is not safe for concurrent use.
type Writer struct {
	opts   Options
	traces ptrace.Traces
	spans  int
	// processes finds the span list of a process in traces.
	processes map[processKey]ptrace.SpanSlice
	hids      map[hid]string
	attrKeys  map[string]string
	decoded   []byte
	// lists is reused for the span lists of one trace's processes.
	lists []ptrace.SpanSlice
}

type processKey struct {
	scope  *strace.Scope
	pid    int32
	device int32
}

type hid struct {
	value  uint64
	digits uint8
}

// maxCached bounds the tables of formatted hashes and attribute keys: real
// logs have a dozen of each.
const maxCached = 4096

// NewWriter returns an empty Writer.
func NewWriter(opts Options) *Writer {
	return &Writer{
		opts: opts, traces: ptrace.NewTraces(), processes: map[processKey]ptrace.SpanSlice{},
		hids: map[hid]string{}, attrKeys: map[string]string{},
	}
}

// Len is the number of spans collected since the last Take.
func (w *Writer) Len() int { return w.spans }

// Take returns what was collected; the caller owns it.
func (w *Writer) Take() ptrace.Traces {
	t := w.traces
	w.traces, w.spans = ptrace.NewTraces(), 0
	clear(w.processes)
	return t
}

// Append writes t. Nothing of t is kept.
func (w *Writer) Append(t *strace.Trace) {
	w.lists = w.lists[:0]
	for i := range t.Processes {
		w.lists = append(w.lists, w.spansOf(&t.Processes[i]))
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		w.span(t, s, w.lists[s.Process].AppendEmpty())
	}
	w.spans += len(t.Spans)
}

func (w *Writer) spansOf(p *strace.Process) ptrace.SpanSlice {
	key := processKey{p.Scope, p.PID, -1}
	if p.HasDevice {
		key.device = p.Device
	}
	if spans, ok := w.processes[key]; ok {
		return spans
	}
	rs := w.traces.ResourceSpans().AppendEmpty()
	attrs := rs.Resource().Attributes()
	attrs.EnsureCapacity(12)
	if w.opts.Resource != nil {
		w.opts.Resource(p.Scope, p.PID, attrs)
	}
	attrs.PutInt("process.pid", int64(p.PID))
	if p.HasDevice {
		attrs.PutStr("hw.id", strconv.Itoa(int(p.Device)))
		attrs.PutStr("hw.type", "npu")
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(w.opts.ScopeName)
	ss.Scope().SetVersion(w.opts.ScopeVersion)
	w.processes[key] = ss.Spans()
	return ss.Spans()
}

func (w *Writer) span(t *strace.Trace, s *strace.Span, out ptrace.Span) {
	out.SetTraceID(pcommon.TraceID(t.ID))
	out.SetSpanID(pcommon.SpanID(s.ID))
	out.SetParentSpanID(pcommon.SpanID(s.Parent))
	out.SetName(s.Text)
	out.SetKind(ptrace.SpanKindInternal)
	out.SetStartTimestamp(pcommon.Timestamp(s.Start))
	out.SetEndTimestamp(pcommon.Timestamp(s.End))
	w.attributes(s, out.Attributes())
	for i := range s.NumEvents {
		e := &t.Events[s.FirstEvent+i]
		event := out.Events().AppendEmpty()
		event.SetName(e.Name.Last)
		event.SetTimestamp(pcommon.Timestamp(e.Time))
		w.recordAttributes(event.Attributes(), e.Attrs, e.Verbatim)
	}
}

// attributes writes them in the order of docs/conventions.md. Every key is
// distinct by construction but those of the record, which come last.
func (w *Writer) attributes(s *strace.Span, attrs pcommon.Map) {
	attrs.EnsureCapacity(16)
	if !s.Synthetic {
		attrs.PutInt("thread.id", s.TID)
		attrs.PutStr(semconv.HID, w.hid(s.HID, s.HIDDigits))
		attrs.PutInt(semconv.Depth, int64(s.Depth))
	}
	if s.Inv > 1<<63-1 {
		attrs.PutStr(semconv.Inv, strconv.FormatUint(s.Inv, 10))
	} else {
		attrs.PutInt(semconv.Inv, int64(s.Inv))
	}
	attrs.PutStr(semconv.Stage, s.Name.Stage)
	attrs.PutStr(semconv.Family, s.Name.Family)
	putNonEmpty(attrs, semconv.Level, s.Name.Level)
	putNonEmpty(attrs, semconv.Producer, s.Name.Producer)
	if s.Device {
		attrs.PutStr(semconv.Clock, semconv.ClockDevice)
		attrs.PutInt(semconv.DeviceTS, s.TS)
		attrs.PutDouble(semconv.DeviceSlack, seconds(s.SlackNS))
		if !s.Fits {
			attrs.PutBool(semconv.DeviceFits, false)
		}
	} else {
		attrs.PutStr(semconv.Clock, semconv.ClockHost)
	}
	attrs.PutStr(semconv.ClockSource, s.Source.String())
	if s.ErrorNS != strace.UnknownError {
		attrs.PutDouble(semconv.ClockError, seconds(s.ErrorNS))
	}
	if s.IsRoot {
		attrs.PutStr(semconv.Stitch, s.Stitch.String())
	}
	if s.Synthetic {
		attrs.PutBool(semconv.Synthetic, true)
	}
	if s.Guessed {
		attrs.PutStr(semconv.Parent, semconv.ParentGuessed)
	}
	if s.Incomplete {
		attrs.PutBool(semconv.Incomplete, true)
	}
	if !s.Synthetic && (s.Name.Truncated || (!s.Verbatim && bytes.HasSuffix(s.Attrs, tilde))) {
		attrs.PutBool(semconv.Truncated, true)
	}
	w.recordAttributes(attrs, s.Attrs, s.Verbatim)
}

// tilde ends a field that the emitter cut (grammar v1, encoding generations).
var tilde = []byte("~")

func putNonEmpty(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// recordAttributes writes the record's own k=v pairs; clk is told by
// strace.clock already.
func (w *Writer) recordAttributes(attrs pcommon.Map, raw []byte, verbatim bool) {
	for it := strace.NewAttrIter(raw); ; {
		key, value, ok := it.Next()
		if !ok {
			return
		}
		if string(key) == "clk" {
			continue
		}
		name := w.attrKey(key, verbatim)
		if n, isInt := strace.ParseInt(value); isInt {
			attrs.PutInt(name, n)
			continue
		}
		attrs.PutStr(name, w.text(value, verbatim))
	}
}

func (w *Writer) text(raw []byte, verbatim bool) string {
	if verbatim {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	w.decoded = strace.AppendDecoded(w.decoded[:0], raw)
	return strings.ToValidUTF8(string(w.decoded), "\uFFFD")
}

func (w *Writer) attrKey(raw []byte, verbatim bool) string {
	if !verbatim {
		if key, ok := w.attrKeys[string(raw)]; ok {
			return key
		}
	}
	key := semconv.AttrPrefix + w.text(raw, verbatim)
	if !verbatim && len(w.attrKeys) < maxCached {
		w.attrKeys[string(raw)] = key
	}
	return key
}

// hid formats a hash as it was written: lower-case, with its leading zeros.
func (w *Writer) hid(value uint64, digits uint8) string {
	key := hid{value, digits}
	if text, ok := w.hids[key]; ok {
		return text
	}
	text := strconv.FormatUint(value, 16)
	if pad := int(digits) - len(text); pad > 0 {
		text = strings.Repeat("0", pad) + text
	}
	if len(w.hids) < maxCached {
		w.hids[key] = text
	}
	return text
}
