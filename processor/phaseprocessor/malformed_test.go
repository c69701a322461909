// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

// through sends traces and lets everything leave; nothing may be missing.
func through(t testing.TB, b *bench, td ptrace.Traces) {
	t.Helper()
	n := td.SpanCount()
	b.send(t, td)
	b.pass(t, 3*time.Second)
	copies := 0
	for _, s := range phasetest.Spans(b.sink.all()...) {
		if _, ok := s.Attributes().Get("phase.copy_of.span_id"); ok {
			copies++
		}
	}
	require.Equal(t, n, b.sink.count()-copies, "nothing is dropped")
}

// everyValue is every type of attribute value there is, and odd numbers.
func everyValue() []pcommon.Value {
	values := []pcommon.Value{
		pcommon.NewValueEmpty(), pcommon.NewValueStr(""), pcommon.NewValueStr("x"), pcommon.NewValueStr("9"),
		pcommon.NewValueBool(true), pcommon.NewValueInt(-1), pcommon.NewValueInt(math.MaxInt64),
		pcommon.NewValueInt(math.MinInt64), pcommon.NewValueDouble(math.NaN()), pcommon.NewValueDouble(math.Inf(1)),
		pcommon.NewValueDouble(-1), pcommon.NewValueDouble(1e300), pcommon.NewValueMap(), pcommon.NewValueBytes(),
	}
	slice := pcommon.NewValueSlice()
	slice.Slice().AppendEmpty().SetStr("abort")
	return append(values, slice)
}

// Every attribute that is read, with every type of value.
func TestUnknownAttributeTypes(t *testing.T) {
	make3 := func() ptrace.Traces {
		td := step(true)
		host("h1", 9, chip(7, t0+80*ms, 10*ms)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		ext(9, 1, 501, 79, 91, map[string]any{"strace.attr.request_id": "cmpl-1"}).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		newTree(nil).td.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		return td
	}
	keys := map[string]bool{}
	td := make3()
	for _, rs := range td.ResourceSpans().All() {
		for k := range rs.Resource().Attributes().All() {
			keys[k] = true
		}
	}
	for _, s := range phasetest.Spans(td) {
		for k := range s.Attributes().All() {
			keys[k] = true
		}
	}
	for _, k := range []string{
		"phase.host_wall", "phase.step", "phase.e2e", "phase.contract", "phase.join", "phase.copy", "phase.seen", "strace.callable",
		"strace.incomplete", "strace.device.fits", "strace.attr.dev_id", "error.type", "http.response.status_code", "atom.trace.unsupported",
	} {
		keys[k] = true
	}
	require.Greater(t, len(keys), 30)
	for key := range keys {
		for _, v := range everyValue() {
			td := make3()
			for _, rs := range td.ResourceSpans().All() {
				v.CopyTo(rs.Resource().Attributes().PutEmpty(key))
			}
			for _, s := range phasetest.Spans(td) {
				v.CopyTo(s.Attributes().PutEmpty(key))
			}
			b := newBench(t, nil)
			through(t, b, td)
			for _, s := range phasetest.Spans(b.sink.all()...) {
				for k, got := range s.Attributes().All() {
					if k != key && len(k) > 6 && k[:6] == "phase." && got.Type() == pcommon.ValueTypeDouble {
						require.False(t, math.IsNaN(got.Double()) || math.IsInf(got.Double(), 0) || got.Double() < 0, "%s = %v with %s = %v", k, got.Double(), key, v.AsString())
					}
				}
			}
		}
	}
}

// Times that make no interval, or none that an int64 holds.
func TestOddTimes(t *testing.T) {
	for _, odd := range []struct{ start, end uint64 }{
		{0, 0},
		{5, 4},
		{math.MaxUint64, math.MaxUint64},
		{0, math.MaxUint64},
		{1 << 63, 1<<63 + 5},
		{0, math.MaxInt64},
		{uint64(t0), uint64(t0)},
	} {
		td := step(true)
		host("h1", 9, chip(7, t0+80*ms, 10*ms)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		newTree(nil).td.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		n := td.SpanCount()
		for i := range n {
			td := step(true)
			host("h1", 9, chip(7, t0+80*ms, 10*ms)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
			newTree(nil).td.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
			s := phasetest.Spans(td)[i]
			s.SetStartTimestamp(pcommon.Timestamp(odd.start))
			s.SetEndTimestamp(pcommon.Timestamp(odd.end))
			through(t, newBench(t, nil), td)
		}
	}
}

// Ids that are missing or shared, and parents in a ring.
func TestOddIDs(t *testing.T) {
	for name, change := range map[string]func(ptrace.Span){
		"no span id":  func(s ptrace.Span) { s.SetSpanID(pcommon.SpanID{}) },
		"no trace id": func(s ptrace.Span) { s.SetTraceID(pcommon.TraceID{}) },
		"no ids": func(s ptrace.Span) {
			s.SetSpanID(pcommon.SpanID{})
			s.SetTraceID(pcommon.TraceID{})
			s.SetParentSpanID(pcommon.SpanID{})
		},
		"one span id for all": func(s ptrace.Span) { s.SetSpanID(phasetest.SpanID(1)) },
		"one trace":           func(s ptrace.Span) { s.SetTraceID(phasetest.TraceID(1)) },
		"its own parent":      func(s ptrace.Span) { s.SetParentSpanID(s.SpanID()) },
		"a ring": func(s ptrace.Span) {
			if s.SpanID() == phasetest.SpanID(1) {
				s.SetParentSpanID(phasetest.SpanID(2))
			}
		},
		"a ring of roots": func(s ptrace.Span) {
			if s.Name() == "chip.run" {
				id := s.SpanID()
				id[7]++
				s.SetParentSpanID(id)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			td := step(true)
			newTree(nil).td.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
			for _, s := range phasetest.Spans(td) {
				change(s)
			}
			through(t, newBench(t, nil), td)
		})
	}
}

// Ten thousand spans in one trace, of each kind, whole and each span twice.
func TestHugeTraces(t *testing.T) {
	const n = 10_000
	t.Run("host", func(t *testing.T) {
		for _, times := range []int{1, 2} {
			b := newBench(t, nil)
			c := phasetest.Chip{Trace: 1, Span: 100, Inv: 1, HID: "abcdef", Start: t0, Dur: n}
			c.Parts = []phasetest.Part{{Stage: "run.bind", Depth: 1, Dur: n}}
			for i := range int64(n) {
				c.Parts = append(c.Parts, phasetest.Part{Stage: "run.bind.args", Depth: 2, From: i, Dur: 1})
			}
			td := host("h1", 1, c)
			for range times - 1 {
				host("h1", 1, c).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
			}
			through(t, b, td)
			for _, root := range b.sink.named("chip.run") {
				require.InDelta(t, n/1e9, attr(root, "phase.bind.args"), 0)
			}
		}
	})
	t.Run("roots", func(t *testing.T) {
		b := newBench(t, nil)
		td := ptrace.NewTraces()
		spans := phasetest.Resource(td, "h1", 1)
		for i := range uint64(n) {
			phasetest.Chip{Trace: 1, Span: 1 + i, Inv: int64(i), HID: "abcdef", Start: t0, Dur: int64(i)}.Append(spans)
		}
		td.ResourceSpans().At(0).CopyTo(td.ResourceSpans().AppendEmpty())
		through(t, b, td)
	})
	t.Run("sequences", func(t *testing.T) {
		b := newBench(t, nil)
		td := newTree(func(r *phasetest.Request) { r.Sequences = n / 4 }).td
		through(t, b, td)
		require.Equal(t, "ok", attr(one(t, b.sink.named("atom.request")), "phase.contract"))
	})
	t.Run("phases of one sequence", func(t *testing.T) {
		b := newBench(t, nil)
		td := newTree(nil).td
		spans := td.ResourceSpans().At(1).ScopeSpans().At(0).Spans()
		for i := range uint64(n) {
			spans.At(2).CopyTo(spans.AppendEmpty())
			spans.At(spans.Len() - 1).SetSpanID(phasetest.SpanID(10_000 + i))
		}
		through(t, b, td)
		require.Equal(t, "overlap", attr(one(t, b.sink.named("atom.request")), "phase.contract"))
	})
}

func TestEmptyCalls(t *testing.T) {
	b := newBench(t, nil)
	b.send(t, ptrace.NewTraces())
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	b.send(t, td)
	require.Len(t, b.sink.all(), 2, "what has no spans is not ours to judge")
}

// FuzzConsumeTraces takes any bytes that parse as traces, and parts of our own
// that the fuzzer cuts: nothing panics, hangs or is lost.
func FuzzConsumeTraces(f *testing.F) {
	var m ptrace.ProtoMarshaler
	for _, td := range []ptrace.Traces{
		host("h1", 1, chip(1, t0, 10*ms), chip(2, t0+12*ms, 10*ms)), step(true), newTree(nil).td,
		ext(1, 1, 501, 1, 3, map[string]any{"strace.attr.request_id": "cmpl-1"}),
	} {
		data, err := m.MarshalTraces(td)
		require.NoError(f, err)
		f.Add(data, uint8(0))
		f.Add(data, uint8(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
		if err != nil {
			return
		}
		b := newBench(t, func(cfg *Config) {
			cfg.Engines = []EngineConfig{{Preset: "atom"}, {Preset: "vllm"}, {Preset: "sglang"}}
			cfg.Join.MaxRuns, cfg.Join.MaxRequestSpans, cfg.Join.MaxPieceSpans = 50, 100, 50
		})
		x, y := twoRanks()
		b.send(t, x)
		b.send(t, y)
		sent := b.sink.count() + td.SpanCount()
		for _, piece := range split1(td, int(cut)) {
			b.send(t, piece)
		}
		b.pass(t, 3*time.Second)
		require.NoError(t, b.Shutdown(t.Context()))
		require.GreaterOrEqual(t, b.sink.count(), sent)
	})
}

// split1 cuts a call in two, wherever its resources and scopes lie.
func split1(td ptrace.Traces, cut int) []ptrace.Traces {
	first, second := ptrace.NewTraces(), ptrace.NewTraces()
	td.CopyTo(first)
	td.CopyTo(second)
	keep := func(td ptrace.Traces, want func(int) bool) {
		n := 0
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				ss.Spans().RemoveIf(func(ptrace.Span) bool { n++; return !want(n) })
			}
		}
	}
	keep(first, func(n int) bool { return n <= cut })
	keep(second, func(n int) bool { return n > cut })
	return []ptrace.Traces{first, second}
}
