// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

func preset(names ...string) func(*Config) {
	return func(cfg *Config) {
		cfg.Engines = nil
		for _, name := range names {
			cfg.Engines = append(cfg.Engines, EngineConfig{Preset: name})
		}
	}
}

// readSample reads a real engine's spans; the folder lies beside the
// repository and is not part of it.
func readSample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "samples", "requests", name))
	if os.IsNotExist(err) {
		t.Skip("the folder with real engines' spans is not here")
	}
	require.NoError(t, err)
	return data
}

// One real llm_request: phases only as attributes, a first token later than
// queue and prefill explain, an end 1.07 ms after first token and decode.
func TestRealVLLMRequest(t *testing.T) {
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(readSample(t, "vllm-0.29.0.json"))
	require.NoError(t, err)
	span := phasetest.Spans(td)[0]
	span.SetTraceID(phasetest.TraceID(1))
	span.SetSpanID(phasetest.SpanID(1))
	checkVLLM(t, td)
}

// The same numbers written down, for where the sample is not.
func TestVLLMRequest(t *testing.T) {
	td := ptrace.NewTraces()
	span := phasetest.Resource(td, "", 9).AppendEmpty()
	span.SetTraceID(phasetest.TraceID(1))
	span.SetSpanID(phasetest.SpanID(1))
	span.SetName("llm_request")
	span.SetStartTimestamp(1790341371953418752)
	span.SetEndTimestamp(1790341372208341144)
	a := span.Attributes()
	a.PutDouble("gen_ai.latency.time_to_first_token", 0.11554598808288574)
	a.PutDouble("gen_ai.latency.e2e", 0.25359678268432617)
	a.PutDouble("gen_ai.latency.time_in_queue", 5.4589007049798965e-05)
	a.PutInt("gen_ai.usage.completion_tokens", 8)
	a.PutDouble("gen_ai.latency.time_in_model_prefill", 0.057814636995317414)
	a.PutDouble("gen_ai.latency.time_in_model_decode", 0.13830458300071768)
	checkVLLM(t, td)
}

func checkVLLM(t *testing.T, td ptrace.Traces) {
	t.Helper()
	b := newBench(t, preset("vllm"))
	const start = int64(1790341371953418752)
	// The prefill is start + 57.731351 .. 115.545988 ms, the decode from there to
	// 253.850571 ms. A run in each, and one in the time before the prefill.
	b.clock = b.clock.Add(1e18)
	b.send(t, host("h1", 7, chip(1, start+1*ms, 5*ms), chip(2, start+60*ms, 20*ms), chip(3, start+120*ms, 10*ms)))
	b.send(t, td)
	b.pass(t, b.cfg.Join.Wait)
	s := one(t, b.sink.named("llm_request"))
	for key, want := range map[string]float64{
		"phase.e2e": 0.254922392, "phase.ttft": 0.115545988, "phase.queue": 0.000054589,
		"phase.prefill": 0.057814637, "phase.decode": 0.138304583,
		// (254.922392 - 115.545988) / 7 ms
		"phase.tpot":       0.139376404 / 7,
		"phase.host_busy":  0.030,
		"phase.join.error": 0.001071821,
		// 57.814637 - 20 + 138.304583 - 10
		"phase.engine_gap": 0.166119220,
	} {
		require.InDelta(t, want, attr(s, key), 1e-9, key)
	}
	require.EqualValues(t, 2, attr(s, "phase.host_runs"))
	require.Equal(t, "overlap", attr(s, "phase.join"))
	require.Equal(t, "ok", attr(s, "phase.contract"))
	require.Nil(t, attr(s, "phase.ttft.estimated"))
	require.Equal(t, 2, s.Links().Len())
}

// sglang builds the real request's tree: the sample left the ids out, so the
// parents are those that the names say.
func sglang(t *testing.T, spans []sampleSpan) ptrace.Traces {
	t.Helper()
	td := ptrace.NewTraces()
	out := phasetest.Resource(td, "", 9)
	for i, s := range spans {
		span := out.AppendEmpty()
		span.SetTraceID(phasetest.TraceID(1))
		span.SetSpanID(phasetest.SpanID(uint64(i + 1)))
		span.SetName(s.Name)
		start, err := json.Number(s.Start).Int64()
		require.NoError(t, err)
		end, err := json.Number(s.End).Int64()
		require.NoError(t, err)
		span.SetStartTimestamp(ts(start))
		span.SetEndTimestamp(ts(end))
		for _, a := range s.Attributes {
			switch {
			case a.Value.Double != nil:
				span.Attributes().PutDouble(a.Key, *a.Value.Double)
			case a.Value.Int != "":
				n, err := json.Number(a.Value.Int).Int64()
				require.NoError(t, err)
				span.Attributes().PutInt(a.Key, n)
			default:
				span.Attributes().PutStr(a.Key, a.Value.Str)
			}
		}
	}
	id := map[string]uint64{}
	for i, s := range spans {
		id[s.Name] = uint64(i + 1)
	}
	for _, span := range phasetest.Spans(td) {
		switch name := span.Name(); {
		case strings.HasPrefix(name, "Req "):
		case name == "Tokenizer" || strings.HasPrefix(name, "Scheduler"):
			span.SetParentSpanID(phasetest.SpanID(id["Req req-sglang-001"]))
		case name == "tokenize" || name == "api_server_dispatch":
			span.SetParentSpanID(phasetest.SpanID(id["Tokenizer"]))
		default:
			span.SetParentSpanID(phasetest.SpanID(id["Scheduler [TP 0] [PP 0]"]))
		}
	}
	return td
}

type sampleSpan struct {
	Name       string `json:"name"`
	Start      string `json:"startTimeUnixNano"`
	End        string `json:"endTimeUnixNano"`
	Attributes []struct {
		Key   string `json:"key"`
		Value struct {
			Double *float64 `json:"doubleValue"`
			Int    string   `json:"intValue"`
			Str    string   `json:"stringValue"`
		} `json:"value"`
	} `json:"attributes"`
}

// The real request's attributes say a decode of 44 us where its span lasts 137
// ms: intervals come from the spans, the disagreement is reported.
func TestRealSGLangRequest(t *testing.T) {
	var sample struct {
		Spans []sampleSpan `json:"spans"`
	}
	require.NoError(t, json.Unmarshal(readSample(t, "sglang-0.5.20.json"), &sample))
	b := newBench(t, preset("sglang"))
	td := sglang(t, sample.Spans)
	n := td.SpanCount()
	b.send(t, td)
	b.pass(t, b.cfg.Join.Wait)
	require.Equal(t, n, b.sink.count())
	s := one(t, b.sink.named("Req req-sglang-001"))
	for key, want := range map[string]float64{
		"phase.e2e": 0.191748096, "phase.queue": 0.022004992, "phase.prefill": 0.025431296,
		"phase.decode": 0.136648949, "phase.ttft": 0.191704153,
		"phase.tpot": (0.191748096 - 0.191704153) / 7,
	} {
		require.InDelta(t, want, attr(s, key), 1e-9, key)
	}
	require.Equal(t, "latency", attr(s, "phase.contract"))
}

// One thread span for each rank repeats the phases: they last from the first
// start to the last end, and are no breach.
func TestSGLangRanks(t *testing.T) {
	b := newBench(t, preset("sglang"))
	td := ptrace.NewTraces()
	spans := phasetest.Resource(td, "h1", 9)
	add := func(id, parent uint64, name string, from, to int64) {
		s := spans.AppendEmpty()
		s.SetTraceID(phasetest.TraceID(1))
		s.SetSpanID(phasetest.SpanID(id))
		if parent != 0 {
			s.SetParentSpanID(phasetest.SpanID(parent))
		}
		s.SetName(name)
		s.SetStartTimestamp(ts(t0 + from*ms))
		s.SetEndTimestamp(ts(t0 + to*ms))
	}
	add(1, 0, "unified Req 1234abcd", 0, 100)
	for rank := range uint64(2) {
		id, d := 10+10*rank, int64(rank)
		add(id, 1, "Scheduler [TP "+string(rune('0'+rank))+"] [PP 0]", 5, 95)
		add(id+1, id, "prefill_waiting", 5, 10+d)
		add(id+2, id, "prefill_forward", 10+d, 30+d)
		add(id+3, id, "decode_forward", 30+d, 90+d)
	}
	b.send(t, td)
	b.pass(t, b.cfg.Join.Wait)
	s := one(t, b.sink.named("unified Req 1234abcd"))
	require.InDelta(t, 0.006, attr(s, "phase.queue"), 1e-12)
	require.InDelta(t, 0.021, attr(s, "phase.prefill"), 1e-12)
	require.InDelta(t, 0.061, attr(s, "phase.decode"), 1e-12)
	require.Equal(t, "ok", attr(s, "phase.contract"))
}

// The same key has other units in other engines: the row says which.
func TestUnitsArePartOfTheRow(t *testing.T) {
	b := newBench(t, func(cfg *Config) {
		cfg.Engines = []EngineConfig{{
			Preset: "vllm",
			Spans:  map[string][]string{"engine": {"generate_*_call"}},
			Keys: map[string][]KeyConfig{
				"prefill": {{Key: "gen_ai.latency.time_in_model_prefill", Unit: "ns"}},
				"decode":  {{Key: "absent", Unit: "s"}, {Key: "gen_ai.latency.time_in_model_decode", Unit: "us"}},
				"ttft":    {{Key: "gen_ai.response.time_to_first_token", Unit: "ms"}},
				"queue":   {{Key: "q", Unit: "s"}},
			},
		}}
	})
	td := ptrace.NewTraces()
	s := phasetest.Resource(td, "h1", 9).AppendEmpty()
	s.SetTraceID(phasetest.TraceID(1))
	s.SetSpanID(phasetest.SpanID(1))
	s.SetName("generate_stream_call")
	s.SetStartTimestamp(ts(t0))
	s.SetEndTimestamp(ts(t0 + 100*ms))
	s.Attributes().PutInt("gen_ai.latency.time_in_model_prefill", 20_000_000)
	s.Attributes().PutInt("gen_ai.latency.time_in_model_decode", 70_000)
	s.Attributes().PutDouble("gen_ai.response.time_to_first_token", 30)
	s.Attributes().PutInt("q", 0)
	b.send(t, td)
	b.pass(t, b.cfg.Join.Wait)
	got := one(t, b.sink.named("generate_stream_call"))
	require.InDelta(t, 0.020, attr(got, "phase.prefill"), 1e-12)
	require.InDelta(t, 0.070, attr(got, "phase.decode"), 1e-12)
	require.InDelta(t, 0.030, attr(got, "phase.ttft"), 1e-12)
	require.Equal(t, "ok", attr(got, "phase.contract"))
}

// Two engines that use the same span names are told apart by service.
func TestEnginesByService(t *testing.T) {
	b := newBench(t, func(cfg *Config) {
		cfg.Engines = []EngineConfig{{Preset: "sglang", Services: []string{"sglang"}}, {Preset: "atom", Services: []string{"atom"}}}
	})
	b.send(t, newTree(nil).td)
	b.pass(t, b.cfg.Join.Wait)
	require.Equal(t, "ok", attr(one(t, b.sink.named("atom.request")), "phase.contract"))

	b = newBench(t, func(cfg *Config) { cfg.Engines = []EngineConfig{{Preset: "atom", Services: []string{"other"}}} })
	x := newTree(nil)
	n := x.td.SpanCount()
	b.send(t, x.td)
	require.Equal(t, n, b.sink.count(), "spans of no engine's service are left alone")
	require.Nil(t, attr(one(t, b.sink.named("engine.request")), "phase.e2e"))
}
