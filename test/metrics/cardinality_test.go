// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/phasecol/phasecol/test/harness"
)

const (
	ranks     = 8
	callables = 4
	models    = 3
)

// hostStages are the spans of one run in the newest log format, by depth.
var hostStages = []struct {
	stage string
	depth int64
}{
	{"run.bind", 1},
	{"run.bind.args", 2},
	{"run.bind.prebuilt", 2},
	{"run.publish_image", 1},
	{"run.stage_inputs", 1},
	{"run.prepare_execution", 1},
	{"run.runner_run", 1},
	{"run.validate", 1},
	{"run.claim_release", 1},
	{"run.runner_run.device_wall", 2},
	{"run.runner_run.device_wall.preamble", 3},
	{"run.runner_run.device_wall.so_load", 3},
	{"run.runner_run.device_wall.graph_build", 3},
	{"run.runner_run.device_wall.config_validate", 3},
	{"run.runner_run.device_wall.arena_wire", 3},
	{"run.runner_run.device_wall.sm_reset", 3},
	{"run.runner_run.device_wall.post_orch", 3},
	{"run.runner_run.device_wall.orch", 3},
	{"run.runner_run.device_wall.sched", 3},
}

// levelStages are the spans of a run over all ranks.
var levelStages = []string{"graph_build", "submit", "dispatch", "frame_submit", "activate", "complete", "post_fence_retirement"}

// wire makes traces as the log receiver and an engine send them.
type wire struct {
	traces ptrace.Traces
	id     uint64
}

func (w *wire) resource(attrs map[string]any) ptrace.SpanSlice {
	rs := w.traces.ResourceSpans().AppendEmpty()
	_ = rs.Resource().Attributes().FromRaw(attrs)
	return rs.ScopeSpans().AppendEmpty().Spans()
}

func (w *wire) span(in ptrace.SpanSlice, trace uint64, parent pcommon.SpanID, name string, start, end time.Time) ptrace.Span {
	w.id++
	s := in.AppendEmpty()
	s.SetName(name)
	s.SetTraceID(pcommon.TraceID{1, 2, 3, 4, 5, 6, 7, 8, byte(trace >> 24), byte(trace >> 16), byte(trace >> 8), byte(trace)})
	s.SetSpanID(pcommon.SpanID{1, 2, 3, 4, byte(w.id >> 24), byte(w.id >> 16), byte(w.id >> 8), byte(w.id)})
	s.SetParentSpanID(parent)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(end))
	return s
}

// invocation is one run of a callable on a rank, twenty milliseconds at.
func (w *wire) invocation(trace uint64, rank, callable int, at time.Time) {
	spans := w.resource(map[string]any{"service.name": "simpler", "host.name": "node", "process.pid": int64(1000 + rank), "hw.id": strconv.Itoa(rank), "hw.type": "npu"})
	root := w.host(spans, trace, pcommon.SpanID{}, "chip.run", "run", "host", 0, callable, at, at.Add(20*time.Millisecond))
	runner, device := root.SpanID(), root.SpanID()
	for i, st := range hostStages {
		clock, parent := "host", root.SpanID()
		switch {
		case strings.HasPrefix(st.stage, "run.runner_run.device_wall"):
			clock, parent = "device", runner
			if st.depth == 3 {
				parent = device
			}
		case st.depth == 2:
			parent = root.SpanID()
		}
		from := at.Add(time.Duration(i) * time.Millisecond)
		s := w.host(spans, trace, parent, "chip."+st.stage, st.stage, clock, st.depth, callable, from, from.Add(time.Millisecond))
		switch st.stage {
		case "run.runner_run":
			s.SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(20 * time.Millisecond)))
			runner = s.SpanID()
		case "run.runner_run.device_wall":
			device = s.SpanID()
		}
	}
}

func (w *wire) host(in ptrace.SpanSlice, trace uint64, parent pcommon.SpanID, name, stage, clock string, depth int64, callable int, start, end time.Time) ptrace.Span {
	s := w.span(in, trace, parent, name, start, end)
	_ = s.Attributes().FromRaw(map[string]any{
		"strace.stage": stage, "strace.family": "chip", "strace.depth": depth, "strace.inv": int64(trace),
		"strace.hid": fmt.Sprintf("%016x", 0xabcdef01+callable), "strace.clock": clock, "strace.clock.source": "anchor", "strace.clock.error": 1e-6,
	})
	return s
}

// step is a run of a callable on all ranks.
func (w *wire) step(trace uint64, callable int, at time.Time) {
	spans := w.resource(map[string]any{"service.name": "simpler", "host.name": "node", "process.pid": int64(999)})
	level := func(parent pcommon.SpanID, name string) ptrace.Span {
		s := w.span(spans, trace, parent, "node."+name, at, at.Add(30*time.Millisecond))
		_ = s.Attributes().FromRaw(map[string]any{"strace.stage": "level." + name, "strace.family": "node", "strace.level": "node", "strace.clock": "host", "strace.clock.source": "anchor", "strace.clock.error": 1e-6})
		return s
	}
	run := level(pcommon.SpanID{}, "run")
	for _, name := range levelStages {
		level(run.SpanID(), name)
	}
	w.under(trace, run.SpanID(), callable, at)
}

// under hangs an invocation of each rank below a run.
func (w *wire) under(trace uint64, run pcommon.SpanID, callable int, at time.Time) {
	for rank := range ranks {
		first := w.traces.ResourceSpans().Len()
		w.invocation(trace, rank, callable, at)
		w.traces.ResourceSpans().At(first).ScopeSpans().At(0).Spans().At(0).SetParentSpanID(run)
	}
}

// request is one that a model served during the steps.
func (w *wire) request(trace uint64, model int, at time.Time, failed bool) {
	name := fmt.Sprintf("model-%d", model)
	end := at.Add(200 * time.Millisecond)
	http := w.resource(map[string]any{"service.name": "atom", "host.name": "node", "process.pid": int64(1)})
	root := w.span(http, trace, pcommon.SpanID{}, "atom.request", at, end)
	root.SetKind(ptrace.SpanKindServer)
	status := int64(200)
	if failed {
		status = 500
		root.Status().SetCode(ptrace.StatusCodeError)
		root.Attributes().PutStr("error.type", "EngineError")
	}
	root.Attributes().PutInt("http.response.status_code", status)
	engine := w.resource(map[string]any{"service.name": "atom", "host.name": "node", "process.pid": int64(2)})
	q := w.span(engine, trace, root.SpanID(), "engine.request", at, end)
	attrs := map[string]any{
		"gen_ai.response.model": name, "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 11, "gen_ai.request.id": name,
		"gen_ai.latency.time_to_first_token": 0.1, "gen_ai.response.finish_reasons": []any{"stop"},
	}
	if failed {
		attrs["error.type"] = "EngineError"
		q.Status().SetCode(ptrace.StatusCodeError)
	}
	_ = q.Attributes().FromRaw(attrs)
	for i, phase := range []string{"prefill_waiting", "prefill_forward", "decode_forward"} {
		from := at.Add(time.Duration(i) * 50 * time.Millisecond)
		to := from.Add(50 * time.Millisecond)
		if i == 2 {
			to = end
		}
		p := w.span(engine, trace, q.SpanID(), phase, from, to)
		if failed && i == 2 {
			p.Status().SetCode(ptrace.StatusCodeError)
			p.Attributes().PutStr("error.type", "EngineError")
		}
	}
}

func (w *wire) send(t *testing.T, address string) {
	t.Helper()
	body, err := ptraceotlp.NewExportRequestFromTraces(w.traces).MarshalProto()
	require.NoError(t, err)
	resp, err := http.Post("http://"+address+"/v1/traces", "application/x-protobuf", bytes.NewReader(body)) //nolint:noctx // loopback
	require.NoError(t, err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
}

// The number of series of one node with eight ranks, three models and four
// callables is what docs/metrics.md says. Doing it all again adds none.
func TestSeriesCount(t *testing.T) {
	c := harness.New(t, []string{"local.yaml", "metrics.yaml"}, `
processors:
  phase: {callable: {names: {"00000000abcdef01": decode, "00000000abcdef02": prefill, "00000000abcdef03": draft, "00000000abcdef04": embed}}}
`)
	metrics := harness.FreeAddress(t)
	c.Setenv("PHASECOL_METRICS", metrics)
	c.Setenv("PHASECOL_METRICS_FLUSH", "200ms")
	c.Start()

	trace := uint64(0)
	play := func(at time.Time) {
		w := &wire{traces: ptrace.NewTraces(), id: trace << 16}
		for callable := range callables {
			for range 2 {
				trace++
				w.step(trace, callable, at.Add(time.Duration(callable)*40*time.Millisecond))
			}
		}
		for model := range models {
			for _, failed := range []bool{false, true} {
				trace++
				w.request(trace, model, at, failed)
			}
		}
		w.send(t, c.HTTP)
	}
	settled := func(rounds int) func() bool {
		return func() bool {
			got := harness.Scrape(t, metrics)
			n := 0.0
			for name, v := range got {
				if strings.HasPrefix(name, "traces_span_metrics_calls_total{") {
					n += v
				}
			}
			return harness.Sum(got, "phase_sequences_total") == float64(rounds*models*2) &&
				n == float64(rounds*(callables*2*(ranks*(1+len(hostStages))+1+len(levelStages))+models*2*5))
		}
	}
	now := time.Now().Add(-time.Minute)
	play(now)
	require.Eventually(t, settled(1), 30*time.Second, 100*time.Millisecond, "not all of it was counted")
	series := count(harness.Scrape(t, metrics))
	play(now.Add(time.Second))
	require.Eventually(t, settled(2), 30*time.Second, 100*time.Millisecond, "not all of it was counted")
	assert.Equal(t, series, count(harness.Scrape(t, metrics)), "the same again makes no new series")
	t.Logf("series: %v", series)

	docs := readFile(t, filepath.Join(harness.Root(t), "docs", "metrics.md"))
	m := regexp.MustCompile(`on one host make ([0-9,]+) series,\nwhich a test counts: ([0-9,]+) of span metrics`).FindStringSubmatch(docs)
	require.NotNil(t, m, "docs/metrics.md no longer says how many series there are")
	assert.Equal(t, m[1], thousands(series["all"]))
	assert.Equal(t, m[2], thousands(series["traces"]))
}

func count(samples map[string]float64) map[string]int {
	out := map[string]int{}
	for name := range samples {
		out["all"]++
		if strings.HasPrefix(name, "traces_") {
			out["traces"]++
		}
	}
	return out
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
