// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package interop sends spans with the OpenTelemetry Python SDK, as a serving
// engine does, to the built Collector.
package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/test/harness"
)

const (
	// The contract's own example of an upstream context, not sampled.
	upstreamTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	upstreamSpan  = "00f067aa0ba902b7"
	hostName      = "npu-host-1"
	ms            = int64(time.Millisecond)
)

type job struct {
	Endpoint string    `json:"endpoint"`
	Host     string    `json:"host"`
	Requests []request `json:"requests"`
}

type request struct {
	ID          string            `json:"id"`
	Headers     map[string]string `json:"headers,omitempty"`
	Carrier     map[string]string `json:"carrier,omitempty"`
	Start       int64             `json:"start"`
	End         int64             `json:"end"`
	Status      int               `json:"status"`
	Unsupported string            `json:"unsupported,omitempty"`
	Sequences   []sequence        `json:"sequences,omitempty"`
}

type sequence struct {
	ID         int            `json:"id"`
	Start      int64          `json:"start"`
	End        int64          `json:"end"`
	Error      string         `json:"error,omitempty"`
	Attributes map[string]any `json:"attributes"`
	Phases     []phase        `json:"phases"`
}

type phase struct {
	Name  string `json:"name"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Error string `json:"error,omitempty"`
}

// sequenceAt lays out a normal sequence: 5 ms of queue, 20 ms of prefill, 60 ms
// of decode for four tokens.
func sequenceAt(id int, start int64) sequence {
	end := start + 85*ms
	return sequence{
		ID: id, Start: start, End: end,
		Attributes: map[string]any{
			"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4, "gen_ai.usage.cached_tokens": 0,
			"gen_ai.response.finish_reasons": []string{"length"}, "gen_ai.latency.e2e": 0.085, "gen_ai.latency.time_to_first_token": 0.025,
		},
		Phases: []phase{
			{Name: "prefill_waiting", Start: start, End: start + 5*ms},
			{Name: "prefill_forward", Start: start + 5*ms, End: start + 25*ms},
			{Name: "decode_forward", Start: start + 25*ms, End: end},
		},
	}
}

// hostLog has one host run per given time, 10 ms long with 8 ms on the NPU.
func hostLog(t0 int64, runs ...int64) string {
	const mono0 = int64(1_000_000_000_000)
	var b strings.Builder
	fmt.Fprintf(&b, "[mono_ns=%d][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=77 mono_ns=%d wall_ns=%d\n", mono0, mono0, t0)
	for i, at := range runs {
		ts := mono0 + at - t0
		for _, r := range []struct {
			depth   int
			name    string
			ts, dur int64
			attrs   string
		}{
			{1, "chip.run.bind", ts, ms, ""},
			{1, "chip.run.runner_run", ts + ms, 9 * ms, ""},
			{2, "chip.run.runner_run.device_wall", 0, 8 * ms, "clk=dev"},
			{0, "chip.run", ts, 10 * ms, ""},
		} {
			fmt.Fprintf(&b, "[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=77 tid=77 inv=%d hid=ab depth=%d name=%s ts=%d dur=%d %s\n",
				ts+10*ms, i+1, r.depth, r.name, r.ts, r.dur, r.attrs)
		}
	}
	return b.String()
}

func python(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "setup.sh").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// engineProcess is a client that has started and waits for its job, as an
// engine has long started when requests come.
type engineProcess struct {
	t          *testing.T
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        bytes.Buffer
	complaints bytes.Buffer
}

func start(t *testing.T, interpreter, role string) *engineProcess {
	t.Helper()
	p := &engineProcess{t: t, cmd: exec.CommandContext(t.Context(), interpreter, "client.py", role)}
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	ready, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	p.in, p.cmd.Stdout = in, &p.out
	require.NoError(t, p.cmd.Start())
	lines := bufio.NewReader(ready)
	first, err := lines.ReadString('\n')
	require.NoError(t, err, first)
	require.Equal(t, "ready\n", first)
	go func() { _, _ = io.Copy(&p.complaints, lines) }()
	return p
}

// run gives the process its job and returns what it prints.
func (p *engineProcess) run(j job) []byte {
	p.t.Helper()
	require.NoError(p.t, json.NewEncoder(p.in).Encode(j))
	require.NoError(p.t, p.in.Close())
	require.NoError(p.t, p.cmd.Wait(), p.complaints.String())
	require.Empty(p.t, p.complaints.String(), "the SDK complained")
	return p.out.Bytes()
}

// TestPythonSDK sends, from two processes, a normal request, one with two
// sequences, one whose decode failed, and one that the engine does not trace.
func TestPythonSDK(t *testing.T) {
	interpreter := python(t)
	c := harness.New(t, []string{"local.yaml"}, "receivers: {stracelog: {host_name: "+hostName+"}}\n")
	c.Start()

	t0 := time.Now().Add(-10 * time.Second).UnixNano()
	headers := map[string]string{"traceparent": "00-" + upstreamTrace + "-" + upstreamSpan + "-00", "tracestate": "nsdye=1"}
	failed := sequenceAt(4, t0+600*ms)
	failed.Error, failed.Phases[2].Error = "engine_error", "engine_error"
	j := job{
		Endpoint: "http://" + c.Atom + "/v1/traces", Host: hostName,
		Requests: []request{
			{ID: "normal", Headers: headers, Start: t0, End: t0 + 100*ms, Status: 200, Sequences: []sequence{sequenceAt(1, t0+5*ms)}},
			{ID: "siblings", Start: t0 + 300*ms, End: t0 + 400*ms, Status: 200, Sequences: []sequence{sequenceAt(2, t0+305*ms), sequenceAt(3, t0+310*ms)}},
			{ID: "failed", Start: t0 + 595*ms, End: t0 + 690*ms, Status: 500, Sequences: []sequence{failed}},
			{ID: "split", Start: t0 + 800*ms, End: t0 + 900*ms, Status: 200, Unsupported: "pd"},
		},
	}
	logs := filepath.Join(c.Dir, "run", "logs")
	require.NoError(t, os.MkdirAll(logs, 0o755))
	// In the first request: one run in prefill (10..30 ms), two whole ones in
	// decode (30..90 ms) and one that decode's end cuts in half.
	require.NoError(t, os.WriteFile(filepath.Join(logs, "host.77.log"),
		[]byte(hostLog(t0, t0+15*ms, t0+35*ms, t0+60*ms, t0+85*ms)), 0o600))

	api, engineSide := start(t, interpreter, "api"), start(t, interpreter, "engine")
	var carriers []map[string]string
	require.NoError(t, json.Unmarshal(api.run(j), &carriers))
	require.Len(t, carriers, len(j.Requests))
	for i := range j.Requests {
		j.Requests[i].Carrier = carriers[i]
	}
	engineSide.run(j)

	const all = 4 + 4*4 // requests, and for each sequence itself and three phases
	var spans []harness.Span
	require.Eventually(t, func() bool {
		spans = harness.Where(c.Spans(), func(s harness.Span) bool { return s.Resource["service.name"] == "atom" && !s.Copy() })
		return len(spans) >= all
	}, 30*time.Second, 100*time.Millisecond)
	c.Stop()
	assert.Len(t, spans, all)

	find := func(id, name, seq string) harness.Span {
		t.Helper()
		found := harness.Where(spans, func(s harness.Span) bool {
			return s.Str("gen_ai.request.id") == id && s.Name() == name && (seq == "" || s.Str("atom.sequence.id") == seq)
		})
		require.Lenf(t, found, 1, "%s of %s", name, id)
		return found[0]
	}
	number := func(s harness.Span, key string) float64 {
		t.Helper()
		v, ok := s.Float(key)
		require.Truef(t, ok, "%s on %s", key, s.Name())
		return v
	}

	// The caller's context survives, and with it the decision not to sample.
	normal := find("normal", "atom.request", "")
	assert.Equal(t, upstreamTrace, normal.TraceID().String())
	assert.Equal(t, upstreamSpan, normal.ParentSpanID().String())
	assert.Equal(t, "nsdye=1", normal.TraceState().AsRaw())
	assert.Equal(t, ptrace.SpanKindServer, normal.Kind())
	assert.Equal(t, "ok", normal.Str("phase.contract"))
	assert.InDelta(t, 0.015, number(normal, "phase.http_overhead"), 1e-9)

	engine := find("normal", "engine.request", "1")
	assert.Equal(t, normal.SpanID(), engine.ParentSpanID())
	assert.Equal(t, upstreamTrace, engine.TraceID().String())
	for key, want := range map[string]float64{
		"phase.queue": 0.005, "phase.prefill": 0.020, "phase.decode": 0.060, "phase.e2e": 0.085, "phase.ttft": 0.025, "phase.tpot": 0.020,
		"phase.host_busy": 0.010 + 0.025, "phase.device_busy": 0.008 + 0.016 + 0.004, "phase.engine_gap": 0.010 + 0.035,
	} {
		assert.InDeltaf(t, want, number(engine, key), 1e-9, key)
	}
	assert.Equal(t, "4", engine.Str("phase.host_runs"))
	decode := find("normal", "decode_forward", "1")
	assert.Equal(t, "3", decode.Str("phase.host_runs"))
	assert.Equal(t, "overlap", decode.Str("phase.join"))
	assert.Equal(t, 3, decode.Links().Len())
	copies := harness.Where(c.Spans(), func(s harness.Span) bool {
		return s.Copy() && s.Name() == "chip.run" && s.ParentSpanID() == decode.SpanID()
	})
	if assert.Len(t, copies, 1) {
		assert.Equal(t, upstreamTrace, copies[0].TraceID().String())
	}

	for _, seq := range []string{"2", "3"} {
		assert.Equal(t, "ok", find("siblings", "engine.request", seq).Str("phase.contract"))
	}
	failedDecode := find("failed", "decode_forward", "4")
	assert.Equal(t, ptrace.StatusCodeError, failedDecode.Status().Code())
	failedEngine := find("failed", "engine.request", "4")
	assert.Equal(t, "ok", failedEngine.Str("phase.contract"))
	assert.Equal(t, "ok", find("failed", "atom.request", "").Str("phase.contract"))
	_, ok := failedEngine.Float("phase.tpot")
	assert.False(t, ok, "a request that ended abnormally has no TPOT")
	assert.Equal(t, "unsupported_pd", find("split", "atom.request", "").Str("phase.contract"))
}
