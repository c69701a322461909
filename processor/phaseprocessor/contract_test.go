// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

// tree is the spans of one request, to be broken by a test.
type tree struct {
	td ptrace.Traces
	phasetest.Request
}

func newTree(change func(*phasetest.Request)) *tree {
	r := usualRequest()
	if change != nil {
		change(&r)
	}
	td := ptrace.NewTraces()
	r.API(td, "h1")
	r.Engine(td, "h1")
	return &tree{td, r}
}

func (x *tree) span(name string) ptrace.Span { return phasetest.Named(name, x.td)[0] }

func (x *tree) remove(name string) {
	for _, rs := range x.td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return s.Name() == name })
		}
	}
}

func (x *tree) unset(name, key string) { x.span(name).Attributes().Remove(key) }

func (x *tree) fail(name string) {
	x.span(name).Status().SetCode(ptrace.StatusCodeError)
	x.span(name).Attributes().PutStr("error.type", "cancelled")
}

// shift moves a span's ends by so many milliseconds.
func (x *tree) shift(name string, start, end int64) {
	s := x.span(name)
	s.SetStartTimestamp(pcommon.Timestamp(int64(s.StartTimestamp()) + start*ms))
	s.SetEndTimestamp(pcommon.Timestamp(int64(s.EndTimestamp()) + end*ms))
}

// abort ends the request abnormally in the phase given: later phases and their
// latencies are not there, and that phase alone carries the error.
func (x *tree) abort(phase string) {
	order := []string{"prefill_waiting", "prefill_forward", "decode_forward"}
	latency := []string{"time_in_queue", "time_in_model_prefill", "time_in_model_decode"}
	reached := false
	end := x.span(phase).EndTimestamp()
	for i, name := range order {
		if reached {
			x.remove(name)
			x.unset("engine.request", "gen_ai.latency."+latency[i])
		}
		reached = reached || name == phase
	}
	x.fail(phase)
	x.fail("engine.request")
	x.span("engine.request").SetEndTimestamp(end)
	x.unset("engine.request", "gen_ai.latency.e2e")
	x.span("atom.request").Status().SetCode(ptrace.StatusCodeError)
}

// Each sentence of the engine's trace contract, and every way to break it.
func TestTraceContract(t *testing.T) {
	const ok = "ok"
	for _, test := range []struct {
		sentence string
		request  func(*phasetest.Request)
		change   func(*tree)
		engine   string
		http     string
	}{
		{"atom.request holds engine.request, which holds the three phases", nil, nil, ok, ok},
		{
			"a normal request has five spans: waiting", nil,
			func(x *tree) { x.remove("prefill_waiting"); x.unset("engine.request", "gen_ai.latency.time_in_queue") },
			"missing_phase", "missing_phase",
		},
		{
			"a normal request has five spans: prefill", nil,
			func(x *tree) { x.remove("prefill_forward") }, "missing_phase", "missing_phase",
		},
		{
			"a normal request has five spans: decode", nil,
			func(x *tree) { x.remove("decode_forward") }, "missing_phase", "missing_phase",
		},
		{
			"waiting lasts until the first forward: a gap", nil,
			func(x *tree) { x.shift("prefill_waiting", 0, -6) }, "gap", "gap",
		},
		{
			"a gap within the tolerance is none", nil,
			func(x *tree) { x.shift("prefill_waiting", 0, -5) }, ok, ok,
		},
		{
			"decode begins where prefill ends: a gap", nil,
			func(x *tree) { x.shift("decode_forward", 7, 0) }, "gap", "gap",
		},
		{
			"decode begins where prefill ends: an overlap", nil,
			func(x *tree) { x.shift("decode_forward", -7, 0) }, "overlap", "overlap",
		},
		{
			"decode ends with the engine's termination: it outlasts it", nil,
			func(x *tree) { x.shift("decode_forward", 0, 7) }, "overlap", "overlap",
		},
		{
			"a phase longer than its request", nil,
			func(x *tree) { x.shift("prefill_waiting", -500, 0) }, "overlap", "overlap",
		},
		{
			"engine receipt comes before the first forward", nil,
			func(x *tree) { x.shift("prefill_forward", -40, -40) }, "order", "order",
		},
		{
			"atom.request is the HTTP lifetime: the engine outlasts it", nil,
			func(x *tree) { x.shift("atom.request", 0, -40) }, ok, "overlap",
		},
		{
			"a span that ends before it starts", nil,
			func(x *tree) { x.shift("decode_forward", 0, -130) }, "order", "order",
		},
		{
			"a single output token omits decode",
			func(r *phasetest.Request) { r.Decode, r.OutputTokens = 0, 1 }, nil, ok, ok,
		},
		{
			"a single output token has no decode to show",
			func(r *phasetest.Request) { r.OutputTokens = 1 }, nil, "latency", "latency",
		},
		{
			"cancelled while waiting: what never ran is omitted", nil,
			func(x *tree) { x.abort("prefill_waiting") }, ok, ok,
		},
		{"cancelled while prefilling", nil, func(x *tree) { x.abort("prefill_forward") }, ok, ok},
		{"cancelled while decoding", nil, func(x *tree) { x.abort("decode_forward") }, ok, ok},
		{
			"the phase active at an abnormal termination has the error: it has not", nil,
			func(x *tree) {
				x.abort("decode_forward")
				x.span("decode_forward").Status().SetCode(ptrace.StatusCodeUnset)
			},
			"status", "status",
		},
		{
			"the phase active at an abnormal termination has error.type: it has not", nil,
			func(x *tree) { x.abort("decode_forward"); x.unset("decode_forward", "error.type") },
			"status", "status",
		},
		{
			"completed phases keep their normal status: one does not", nil,
			func(x *tree) { x.abort("decode_forward"); x.fail("prefill_forward") }, "status", "status",
		},
		{
			"a normal end leaves no error on a phase", nil,
			func(x *tree) { x.fail("decode_forward") }, "status", "status",
		},
		{
			"engine.request holds the errors: it does not", nil,
			func(x *tree) {
				x.abort("decode_forward")
				x.span("engine.request").Status().SetCode(ptrace.StatusCodeUnset)
			},
			"status", "status",
		},
		{
			"an omitted phase has no latency attribute: it has", nil,
			func(x *tree) {
				x.abort("prefill_waiting")
				x.span("engine.request").Attributes().PutDouble("gen_ai.latency.time_in_model_prefill", 0.03)
			},
			"latency", "latency",
		},
		{
			"engine.request holds the latencies of its phases: one differs", nil,
			func(x *tree) {
				x.span("engine.request").Attributes().PutDouble("gen_ai.latency.time_in_model_decode", 0.106)
			},
			"latency", "latency",
		},
		{
			"engine.request holds the end-to-end latency: it differs", nil,
			func(x *tree) { x.span("engine.request").Attributes().PutDouble("gen_ai.latency.e2e", 0.144) },
			"latency", "latency",
		},
		{
			"the public response id is on every span: a phase has another", nil,
			func(x *tree) { x.span("decode_forward").Attributes().PutStr("gen_ai.request.id", "cmpl-other") },
			"orphan_phase", "orphan_phase",
		},
		{
			"atom.sequence.id tells siblings apart: a phase has another's", nil,
			func(x *tree) { x.span("decode_forward").Attributes().PutInt("atom.sequence.id", 9) },
			"orphan_phase", "orphan_phase",
		},
		{
			"a server error sets ERROR", nil,
			func(x *tree) {
				x.span("atom.request").Attributes().PutInt("http.response.status_code", 500)
				x.span("atom.request").Status().SetCode(ptrace.StatusCodeError)
			},
			ok, ok,
		},
		{
			"a server error sets ERROR: it does not", nil,
			func(x *tree) { x.span("atom.request").Attributes().PutInt("http.response.status_code", 503) },
			ok, "status",
		},
		{
			"an early disconnect sets ERROR whatever the response", nil,
			func(x *tree) { x.span("atom.request").Status().SetCode(ptrace.StatusCodeError) }, ok, ok,
		},
		{
			"a client error leaves the status unset: it does not", nil,
			func(x *tree) {
				x.span("atom.request").Attributes().PutInt("http.response.status_code", 404)
				x.span("atom.request").Status().SetCode(ptrace.StatusCodeError)
			},
			ok, "status",
		},
		{
			"a client error needs no engine", nil,
			func(x *tree) {
				for _, name := range []string{"engine.request", "prefill_waiting", "prefill_forward", "decode_forward"} {
					x.remove(name)
				}
				x.span("atom.request").Attributes().PutInt("http.response.status_code", 422)
			},
			"", ok,
		},
		{
			"a good answer without an engine is none", nil,
			func(x *tree) {
				for _, name := range []string{"engine.request", "prefill_waiting", "prefill_forward", "decode_forward"} {
					x.remove(name)
				}
			},
			"", "missing_phase",
		},
		{
			"phases without their engine.request are orphans", nil,
			func(x *tree) { x.remove("engine.request") }, "", "orphan_phase",
		},
		{
			"prefill and decode apart are marked and have no engine spans", nil,
			func(x *tree) {
				for _, name := range []string{"engine.request", "prefill_waiting", "prefill_forward", "decode_forward"} {
					x.remove(name)
				}
				x.span("atom.request").Attributes().PutStr("atom.trace.unsupported", "pd")
			},
			"", "unsupported_pd",
		},
		{
			"a cached prompt is no breach of anything",
			func(r *phasetest.Request) { r.CachedTokens, r.Prefill = 100, 1 }, nil, ok, ok,
		},
		{
			"the first rule broken is reported", nil,
			func(x *tree) {
				x.shift("prefill_waiting", 0, -10)
				x.fail("prefill_forward")
				x.span("engine.request").Attributes().PutDouble("gen_ai.latency.e2e", 9)
			},
			"gap", "gap",
		},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			b := newBench(t, nil)
			x := newTree(test.request)
			if test.change != nil {
				test.change(x)
			}
			n := x.td.SpanCount()
			b.send(t, x.td)
			b.pass(t, b.cfg.Join.Wait)
			require.Equal(t, n, b.sink.count(), "nothing is dropped")
			if spans := b.sink.named("engine.request"); test.engine != "" {
				require.Equal(t, test.engine, attr(one(t, spans), "phase.contract"))
			} else {
				require.Empty(t, spans)
			}
			require.Equal(t, test.http, attr(one(t, b.sink.named("atom.request")), "phase.contract"))
		})
	}
}

// Several sequences of one request are siblings; each is judged alone, and
// atom.request takes the first broken one's result.
func TestSiblings(t *testing.T) {
	b := newBench(t, nil)
	x := newTree(func(r *phasetest.Request) { r.Sequences = 3 })
	second := phasetest.Named("decode_forward", x.td)[1]
	second.SetStartTimestamp(second.StartTimestamp() + pcommon.Timestamp(20*ms))
	third := phasetest.Named("engine.request", x.td)[2]
	third.Attributes().PutDouble("gen_ai.latency.e2e", 7)
	b.send(t, x.td)
	b.pass(t, b.cfg.Join.Wait)
	got := map[any]any{}
	for _, s := range b.sink.named("engine.request") {
		got[attr(s, "atom.sequence.id")] = attr(s, "phase.contract")
	}
	require.Equal(t, map[any]any{int64(0): "ok", int64(1): "gap", int64(2): "latency"}, got)
	http := one(t, b.sink.named("atom.request"))
	require.Equal(t, "gap", attr(http, "phase.contract"))
	require.InDelta(t, 0.020, attr(http, "phase.http_overhead"), 0, "siblings at the same time count once")
}

// Phase spans carry correlation only: the processor copies neither usage nor
// aggregate latencies down to them.
func TestPhaseSpansStayLean(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, newTree(nil).td)
	b.pass(t, b.cfg.Join.Wait)
	for _, name := range []string{"prefill_waiting", "prefill_forward", "decode_forward"} {
		span := one(t, b.sink.named(name))
		for key := range span.Attributes().All() {
			require.Contains(t, []string{"gen_ai.request.id", "atom.sequence.id", "phase.join", "phase.seen"}, key, name)
		}
	}
}

func TestRequestPhasesAbsent(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*tree)
		want   map[string]any
	}{
		{
			"the engine sends no first-token latency",
			func(x *tree) { x.unset("engine.request", "gen_ai.latency.time_to_first_token") },
			map[string]any{"phase.ttft": 0.05, "phase.ttft.estimated": true, "phase.tpot": 0.01},
		},
		{
			"the prefill failed",
			func(x *tree) { x.abort("prefill_forward") },
			map[string]any{"phase.ttft": nil, "phase.tpot": nil, "phase.decode": nil, "phase.prefill": 0.03},
		},
		{
			"cancelled while waiting",
			func(x *tree) { x.abort("prefill_waiting") },
			map[string]any{"phase.ttft": nil, "phase.tpot": nil, "phase.prefill": nil, "phase.queue": 0.02, "phase.e2e": 0.02},
		},
		{
			"cancelled while decoding",
			func(x *tree) { x.abort("decode_forward") },
			map[string]any{"phase.ttft": 0.051, "phase.tpot": nil, "phase.decode": 0.1},
		},
		{
			"one token",
			func(x *tree) { x.span("engine.request").Attributes().PutInt("gen_ai.usage.completion_tokens", 1) },
			map[string]any{"phase.ttft": 0.051, "phase.tpot": nil},
		},
		{
			"tokens under the newer name",
			func(x *tree) {
				x.unset("engine.request", "gen_ai.usage.completion_tokens")
				x.span("engine.request").Attributes().PutInt("gen_ai.usage.output_tokens", 4)
			},
			map[string]any{"phase.tpot": 0.033},
		},
		{
			"numbers of types that hold none",
			func(x *tree) {
				a := x.span("engine.request").Attributes()
				a.PutEmptySlice("gen_ai.latency.time_to_first_token").AppendEmpty().SetInt(3)
				a.PutStr("gen_ai.usage.completion_tokens", "many")
				a.PutDouble("gen_ai.latency.e2e", -4)
			},
			map[string]any{"phase.ttft": 0.05, "phase.ttft.estimated": true, "phase.tpot": nil, "phase.contract": "ok"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, nil)
			x := newTree(nil)
			test.change(x)
			b.send(t, x.td)
			b.pass(t, b.cfg.Join.Wait)
			engine := one(t, b.sink.named("engine.request"))
			for key, want := range test.want {
				if f, ok := want.(float64); ok {
					require.InDelta(t, f, attr(engine, key), 1e-12, key)
				} else {
					require.Equal(t, want, attr(engine, key), key)
				}
			}
		})
	}
}
