// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"encoding/hex"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

const (
	// maxName of a span or event, bytes.
	maxName = 256
	// asyncCategory is one for all: begin and end are matched by it.
	asyncCategory = "trace"
)

// finish hands an event back to the file.
func (t *timeline) finish(b []byte, mark int) {
	t.file.end(b, mark)
	t.tally.events++
}

func (t *timeline) appendName(b []byte, name string) []byte {
	b = append(b, `,"name":`...)
	if name == "" {
		name = "unnamed"
	}
	b, cut := appendString(b, name, maxName)
	if cut {
		t.tally.cut++
	}
	return b
}

func (t *timeline) writeSlice(n *node, l *lane) {
	b, mark := t.file.begin()
	from := len(b)
	b = append(b, `{"ph":"X","ts":`...)
	b = t.appendTime(b, n.start)
	b = append(b, `,"dur":`...)
	b = appendMicros(b, n.end-n.start)
	b = append(b, l.address...)
	b = t.appendName(b, n.span.Name())
	b = append(b, `,"cat":"`...)
	b = append(b, category(n)...)
	b = append(b, '"')
	if n.span.Status().Code() == ptrace.StatusCodeError {
		b = append(b, `,"cname":"terrible"`...)
	}
	t.finish(t.appendArgs(b, from, n), mark)
}

func (t *timeline) writeAsyncBegin(n *node, l *lane) {
	b, mark := t.file.begin()
	from := len(b)
	b = append(b, `{"ph":"b","ts":`...)
	b = t.appendTime(b, n.start)
	b = append(b, l.address...)
	b = t.appendName(b, n.span.Name())
	b = append(b, `,"cat":"`+asyncCategory+`"`...)
	t.finish(t.appendArgs(b, from, n), mark)
}

func (t *timeline) writeAsyncEnd(n *node, l *lane) {
	b, mark := t.file.begin()
	b = append(b, `{"ph":"e","ts":`...)
	b = t.appendTime(b, n.end)
	b = append(b, l.address...)
	b = t.appendName(b, n.span.Name())
	b = append(b, `,"cat":"`+asyncCategory+`"}`...)
	t.finish(b, mark)
}

// writeAnchor writes the slice that arrows of an asynchronous span start from.
func (t *timeline) writeAnchor(n *node, l *lane) {
	b, mark := t.file.begin()
	b = append(b, `{"ph":"X","ts":`...)
	b = t.appendTime(b, n.start)
	b = append(b, `,"dur":`...)
	b = appendMicros(b, n.end-n.start)
	b = append(b, l.address...)
	b = t.appendName(b, n.span.Name())
	b = append(b, `,"cat":"link"`...)
	b = appendIDs(append(b, `,"args":{"anchor_of":`...), n.span.TraceID(), n.span.SpanID())
	t.finish(append(b, `}}`...), mark)
}

// writeTick writes the slice that one arrow leaves from. Viewers draw an arrow
// from its slice's end: it must end when the run begins, or the arrow points
// back in time. Nothing crosses a slice of 1 ns.
func (t *timeline) writeTick(name string, at uint64, from *endpoint, run spanKey) {
	b, mark := t.file.begin()
	b = append(b, `{"ph":"X","ts":`...)
	b = t.appendTime(b, at)
	b = append(b, `,"dur":0.001`...)
	b = append(b, from.address...)
	b = append(b, `,"name":"`...)
	b = append(b, name...)
	b = append(b, `","cat":"link","args":{"anchor_of":`...)
	b = appendIDs(b, from.span.trace, from.span.span)
	b = append(b, `,"run":`...)
	t.finish(append(appendIDs(b, run.trace, run.span), `}}`...), mark)
}

// writePoints writes a span's events as instants of its lane.
func (t *timeline) writePoints(n *node, l *lane, async bool) {
	for _, event := range n.span.Events().All() {
		at := uint64(event.Timestamp())
		if !t.zero.covers(at) {
			t.tally.points++
			continue
		}
		b, mark := t.file.begin()
		from := len(b)
		if async {
			b = append(b, `{"ph":"n","ts":`...)
		} else {
			b = append(b, `{"ph":"i","s":"t","ts":`...)
		}
		b = t.appendTime(b, at)
		b = append(b, l.address...)
		b = t.appendName(b, event.Name())
		if async {
			b = append(b, `,"cat":"`+asyncCategory+`"`...)
		} else {
			b = append(b, `,"cat":"`...)
			b = append(b, category(n)...)
			b = append(b, '"')
		}
		b = append(b, `,"args":{"time_ns":"`...)
		b = strconv.AppendUint(b, at, 10)
		b = append(b, `","span_id":"`...)
		id := n.span.SpanID()
		b = hex.AppendEncode(b, id[:])
		b = append(b, '"')
		a := args{b: b, room: from + maxEvent - tail, limit: t.cfg.MaxValueBytes}
		a.attributes(event.Attributes())
		t.finish(t.close(&a), mark)
	}
}

func (t *timeline) writeProcess(p *process) {
	order := p.order + p.ordinal
	if p.device != "" {
		if dev, err := strconv.Atoi(p.device); err == nil && dev >= 0 && dev < orderNode {
			order = p.order + dev
		}
	}
	b := t.beginMetadata("process_name", p.pid, 0)
	b.text, _ = appendString(append(b.text, `"name":`...), p.label, maxKey*4)
	t.endMetadata(b)
	b = t.beginMetadata("process_sort_index", p.pid, 0)
	b.text = strconv.AppendInt(append(b.text, `"sort_index":`...), int64(order), 10)
	t.endMetadata(b)
}

func (t *timeline) writeThread(tr *track, l *lane, slot int) {
	b := t.beginMetadata("thread_name", tr.proc.pid, l.tid)
	b.text, _ = appendString(append(b.text, `"name":`...), tr.laneName(slot), maxKey)
	t.endMetadata(b)
	b = t.beginMetadata("thread_sort_index", tr.proc.pid, l.tid)
	b.text = strconv.AppendInt(append(b.text, `"sort_index":`...), tr.sortIndex(slot), 10)
	t.endMetadata(b)
}

// metadataEvent is one in the making.
type metadataEvent struct {
	text []byte
	mark int
}

func (t *timeline) beginMetadata(name string, pid, tid uint32) metadataEvent {
	b, mark := t.file.begin()
	b = append(b, `{"ph":"M","pid":`...)
	b = strconv.AppendUint(b, uint64(pid), 10)
	if tid == 0 {
		tid = pid
	}
	b = append(b, `,"tid":`...)
	b = strconv.AppendUint(b, uint64(tid), 10)
	b = append(b, `,"name":"`...)
	b = append(b, name...)
	b = append(b, `","args":{`...)
	return metadataEvent{text: b, mark: mark}
}

func (t *timeline) endMetadata(b metadataEvent) {
	t.finish(append(b.text, `}}`...), b.mark)
}

func category(n *node) string {
	switch {
	case n.device:
		return semconv.ClockDevice
	case n.strace:
		return semconv.ClockHost
	}
	switch n.span.Kind() {
	case ptrace.SpanKindServer:
		return "server"
	case ptrace.SpanKindClient:
		return "client"
	case ptrace.SpanKindProducer:
		return "producer"
	case ptrace.SpanKindConsumer:
		return "consumer"
	default:
		return "internal"
	}
}

// appendIDs appends "trace/span" in hexadecimal, quoted.
func appendIDs(b []byte, trace pcommon.TraceID, id pcommon.SpanID) []byte {
	b = append(b, '"')
	b = hex.AppendEncode(b, trace[:])
	b = append(b, '/')
	b = hex.AppendEncode(b, id[:])
	return append(b, '"')
}

// appendArgs appends what a person or a script needs of a span: exact times,
// ids, status, attributes. from is where the event starts in b.
func (t *timeline) appendArgs(b []byte, from int, n *node) []byte {
	trace, id, parent := n.span.TraceID(), n.span.SpanID(), n.span.ParentSpanID()
	b = append(b, `,"args":{"start_ns":"`...)
	b = strconv.AppendUint(b, n.start, 10)
	b = append(b, `","dur_ns":"`...)
	b = strconv.AppendUint(b, n.end-n.start, 10)
	b = append(b, `","trace_id":"`...)
	b = hex.AppendEncode(b, trace[:])
	b = append(b, `","span_id":"`...)
	b = hex.AppendEncode(b, id[:])
	if !parent.IsEmpty() {
		b = append(b, `","parent_id":"`...)
		b = hex.AppendEncode(b, parent[:])
	}
	b = append(b, '"')
	a := args{b: b, room: from + maxEvent - tail, limit: t.cfg.MaxValueBytes}
	if n.track.proc != n.proc {
		a.text("process", n.proc.label)
	}
	switch n.span.Status().Code() {
	case ptrace.StatusCodeError:
		a.text("status", "error")
	case ptrace.StatusCodeOk:
		a.text("status", "ok")
	}
	if message := n.span.Status().Message(); message != "" {
		a.text("status_message", message)
	}
	if name := n.scope.Name(); name != "" && !n.strace {
		a.text("scope", name)
	}
	a.links(n.span.Links())
	a.attributes(n.span.Attributes())
	return t.close(&a)
}

// close ends args and event.
func (t *timeline) close(a *args) []byte {
	t.tally.cut += int64(a.cut + a.left)
	if a.left > 0 {
		a.b = append(a.b, `,"args_left_out":`...)
		a.b = strconv.AppendInt(a.b, int64(a.left), 10)
	}
	return append(a.b, `}}`...)
}
