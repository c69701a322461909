// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"encoding/binary"
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// base is a point in time whose nanoseconds a float64 cannot hold.
const base = uint64(1_764_459_181_123_456_789)

func traceID(n uint64) (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

func spanID(n uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

// want describes a span in few words; times are nanoseconds after base.
type want struct {
	name       string
	trace, id  uint64
	parent     uint64
	start, end uint64
	kind       ptrace.SpanKind
	attrs      map[string]any
}

func addSpan(ss ptrace.ScopeSpans, w want) ptrace.Span {
	span := ss.Spans().AppendEmpty()
	span.SetName(w.name)
	span.SetTraceID(traceID(w.trace))
	span.SetSpanID(spanID(w.id))
	span.SetParentSpanID(spanID(w.parent))
	span.SetStartTimestamp(pcommon.Timestamp(base + w.start))
	span.SetEndTimestamp(pcommon.Timestamp(base + w.end))
	span.SetKind(w.kind)
	putAll(span.Attributes(), w.attrs)
	return span
}

func addResource(td ptrace.Traces, attrs map[string]any) ptrace.ScopeSpans {
	rs := td.ResourceSpans().AppendEmpty()
	putAll(rs.Resource().Attributes(), attrs)
	return rs.ScopeSpans().AppendEmpty()
}

// putAll keeps to an order, so that a file can be compared byte by byte.
func putAll(m pcommon.Map, attrs map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		if err := m.PutEmpty(key).FromRaw(attrs[key]); err != nil {
			panic(err)
		}
	}
}

func hostAttrs(tid int64, family, stage string, more ...any) map[string]any {
	attrs := map[string]any{
		"thread.id": tid, semconv.Family: family, semconv.Stage: stage, semconv.Clock: semconv.ClockHost,
	}
	for i := 0; i+1 < len(more); i += 2 {
		attrs[more[i].(string)] = more[i+1]
	}
	return attrs
}

func deviceAttrs(tid int64, stage string) map[string]any {
	return map[string]any{
		"thread.id": tid, semconv.Family: semconv.FamilyChip, semconv.Stage: stage, semconv.Clock: semconv.ClockDevice,
	}
}

// addInvocation adds a chip invocation of nine spans: the root lasts 900, the
// device block lies in runner_run, orch and sched overlap.
func addInvocation(ss ptrace.ScopeSpans, tid int64, trace, id, parent, at uint64, more ...any) {
	chip := semconv.FamilyChip
	add := func(name string, n, up, start, end uint64, attrs map[string]any) {
		addSpan(ss, want{name: name, trace: trace, id: id + n, parent: up, start: at + start, end: at + end, kind: ptrace.SpanKindInternal, attrs: attrs})
	}
	add("chip.run.bind.args", 2, id+1, 20, 80, hostAttrs(tid, chip, "run.bind.args"))
	add("chip.run.bind", 1, id, 10, 100, hostAttrs(tid, chip, "run.bind"))
	add("chip.run.runner_run", 3, id, 150, 800, hostAttrs(tid, chip, "run.runner_run"))
	add("chip.run.validate", 4, id, 810, 850, hostAttrs(tid, chip, "run.validate"))
	add("chip.run.runner_run.device_wall", 5, id+3, 150, 790, deviceAttrs(tid, "run.runner_run.device_wall"))
	add("chip.run.runner_run.device_wall.preamble", 6, id+5, 150, 160, deviceAttrs(tid, "run.runner_run.device_wall.preamble"))
	add("chip.run.runner_run.device_wall.orch", 7, id+5, 160, 400, deviceAttrs(tid, "run.runner_run.device_wall.orch"))
	add("chip.run.runner_run.device_wall.sched", 8, id+5, 300, 780, deviceAttrs(tid, "run.runner_run.device_wall.sched"))
	add("chip.run", 0, parent, 0, 900, hostAttrs(tid, chip, "run", more...))
}

var (
	nodeResource  = map[string]any{"service.name": "simpler", "host.name": "h1", "process.pid": int64(16084)}
	chip0Resource = map[string]any{"service.name": "simpler", "host.name": "h1", "process.pid": int64(16154), "hw.id": "0", "hw.type": "npu"}
	chip1Resource = map[string]any{"service.name": "simpler", "host.name": "h1", "process.pid": int64(16155), "hw.id": "1", "hw.type": "npu"}
	apiResource   = map[string]any{"service.name": "atom", "host.name": "h2", "process.pid": int64(300)}
	engResource   = map[string]any{"service.name": "atom-engine", "host.name": "h2", "process.pid": int64(301)}
)

// runTrace is one L3 run on two chips: the run, its build, two dispatches and
// the chip invocation of each.
func runTrace(trace, at uint64) ptrace.Traces {
	td := ptrace.NewTraces()
	node := addResource(td, nodeResource)
	id := trace * 1000
	level := semconv.FamilyNode
	more := []any{semconv.Level, "node"}
	add := func(name string, n, up, start, end uint64, tid int64, role string) {
		stage := "level." + name[len("node."):]
		addSpan(node, want{
			name: name, trace: trace, id: id + n, parent: up, start: at + start, end: at + end,
			attrs: hostAttrs(tid, level, stage, append([]any{semconv.AttrPrefix + "role", role}, more...)...),
		})
	}
	addSpan(node, want{
		name: "node.run", trace: trace, id: id, start: at, end: at + 2000,
		attrs: map[string]any{semconv.Family: level, semconv.Stage: semconv.StageLevelRun, semconv.Level: "node", semconv.Clock: semconv.ClockHost, semconv.Synthetic: true},
	})
	add("node.graph_build", 1, id, 0, 200, 16084, "facade")
	add("node.submit", 2, id+1, 50, 60, 16084, "facade")
	add("node.submit", 3, id+1, 90, 100, 16084, "facade")
	add("node.dispatch", 4, id, 210, 260, 16156, "scheduler")
	add("node.frame_submit", 5, id+4, 215, 230, 16156, "worker")
	add("node.complete", 6, id+4, 1300, 1310, 16156, "worker")
	add("node.dispatch", 7, id, 270, 300, 16156, "scheduler")
	add("node.complete", 8, id+7, 1400, 1410, 16156, "worker")
	addInvocation(addResource(td, chip0Resource), 16154, trace, id+100, id+4, at+300, semconv.Stitch, semconv.StitchIdentity)
	addInvocation(addResource(td, chip1Resource), 16155, trace, id+200, id+7, at+350, semconv.Stitch, semconv.StitchTime)
	return td
}

// requestTrace is one HTTP request of two processes: its decode phase links to
// the host runs named.
func requestTrace(trace, at uint64, runs ...[2]uint64) ptrace.Traces {
	td := ptrace.NewTraces()
	id := trace * 1000
	api := addResource(td, apiResource)
	root := addSpan(api, want{name: "atom.request", trace: trace, id: id, start: at, end: at + 5000, kind: ptrace.SpanKindServer, attrs: map[string]any{"http.response.status_code": int64(200)}})
	event := root.Events().AppendEmpty()
	event.SetName("first_token")
	event.SetTimestamp(pcommon.Timestamp(base + at + 1500))
	engine := addResource(td, engResource)
	addSpan(engine, want{name: "engine.request", trace: trace, id: id + 1, parent: id, start: at + 100, end: at + 4900})
	addSpan(engine, want{name: "prefill_waiting", trace: trace, id: id + 2, parent: id + 1, start: at + 100, end: at + 500})
	addSpan(engine, want{name: "prefill_forward", trace: trace, id: id + 3, parent: id + 1, start: at + 500, end: at + 1500})
	decode := addSpan(engine, want{name: "decode_forward", trace: trace, id: id + 4, parent: id + 1, start: at + 1500, end: at + 4900})
	for _, run := range runs {
		link := decode.Links().AppendEmpty()
		link.SetTraceID(traceID(run[0]))
		link.SetSpanID(spanID(run[1]))
		link.Attributes().PutStr(semconv.PhaseLink, semconv.PhaseLinkHostRun)
	}
	return td
}
