// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"github.com/phasecol/phasecol/cmd/stracegen/model"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is an OTLP/HTTP receiver that answers a status for the first
// requests and then takes everything.
type collector struct {
	refuse int
	status int

	mu       sync.Mutex
	calls    int
	requests []ptrace.Traces
	bad      []error
	types    map[string]int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.refuse < 0 || c.calls <= c.refuse {
		w.WriteHeader(c.status)
		return
	}
	body, err := readBody(r)
	req := ptraceotlp.NewExportRequest()
	if err == nil {
		err = req.UnmarshalProto(body)
	}
	if err != nil {
		c.bad = append(c.bad, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if c.types == nil {
		c.types = map[string]int{}
	}
	c.types[r.URL.Path+" "+r.Header.Get("Content-Type")]++
	c.requests = append(c.requests, req.Traces())
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// serve starts a collector; its client's idle connections go with it.
func serve(t *testing.T, c *collector) string {
	t.Helper()
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	return srv.URL
}

func config(change ...func(*model.Config)) model.Config {
	c := model.NewDefaultConfig()
	c.Seed, c.Requests, c.Rate, c.StartWall = 21, 150, 80, 1_767_225_600_000_000_000
	c.ErrorRate, c.CancelRate, c.RejectRate, c.PDRate, c.OneTokenRate = 0.1, 0.1, 0.05, 0.05, 0.1
	c.Siblings, c.SiblingRate, c.UpstreamRate = 3, 0.2, 0.5
	c.Output = model.MustDist("1-12")
	for _, f := range change {
		f(&c)
	}
	return c
}

// emit runs a simulation into an Emitter and returns the truth and the
// Emitter's last word.
func emit(t *testing.T, cfg model.Config, opts Options) (*truth.File, *Emitter, error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	sim, err := model.New(cfg)
	require.NoError(t, err)
	api, engine := sim.PIDs()
	opts.ServiceName, opts.ServiceVersion, opts.Model = "atom", "1.2.3", cfg.Model
	e, err := NewEmitter(ctx, sim.Clock(), api, engine, opts)
	require.NoError(t, err)
	b := model.NewTruthBuilder(sim)
	for ev := range sim.Events() {
		b.Add(ev)
		if ev.Sequence != nil {
			require.NoError(t, e.Sequence(ctx, ev.Sequence))
		}
		if ev.Request != nil {
			require.NoError(t, e.Request(ctx, ev.Request))
		}
	}
	err = e.Shutdown(ctx)
	return b.File(), e, err
}

type received struct {
	span     ptrace.Span
	resource map[string]any
	scope    string
}

func (r received) attrs() map[string]any { return r.span.Attributes().AsRaw() }

func index(t *testing.T, all []ptrace.Traces) map[string]received {
	t.Helper()
	out := map[string]received{}
	for _, td := range all {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					id := s.TraceID().String() + s.SpanID().String()
					_, twice := out[id]
					require.False(t, twice, "identifiers are unique")
					out[id] = received{s, rs.Resource().Attributes().AsRaw(), ss.Scope().Name() + " " + ss.Scope().Version()}
				}
			}
		}
	}
	return out
}

func TestSpansKeepTheContract(t *testing.T) {
	c := &collector{}
	var file bytes.Buffer
	f, e, err := emit(t, config(), Options{
		Endpoint: serve(t, c), Timeout: 10 * time.Second, HostName: "node-7", Offline: NewFileWriter(&file),
	})
	require.NoError(t, err)
	require.Empty(t, c.bad)
	require.Len(t, c.types, 1)
	for k := range c.types {
		assert.Equal(t, "/v1/traces application/x-protobuf", k)
	}
	spans := index(t, c.requests)
	require.Len(t, spans, int(f.Totals.Spans))
	require.Equal(t, f.Totals.Spans, e.Spans())
	checkContract(t, f, spans)

	// The file has the same spans, flags apart from none.
	var fromFile []ptrace.Traces
	u := ptrace.JSONUnmarshaler{}
	for line := range strings.Lines(file.String()) {
		td, err := u.UnmarshalTraces([]byte(line))
		require.NoError(t, err)
		require.LessOrEqual(t, td.SpanCount(), 512)
		fromFile = append(fromFile, td)
	}
	same := index(t, fromFile)
	require.Len(t, same, len(spans))
	for id, want := range spans {
		got := same[id]
		m := ptrace.JSONMarshaler{}
		require.Equal(t, one(t, &m, want.span), one(t, &m, got.span))
		require.Equal(t, want.scope, got.scope)
		require.Equal(t, want.resource, got.resource)
	}
}

func one(t *testing.T, m *ptrace.JSONMarshaler, s ptrace.Span) string {
	t.Helper()
	td := ptrace.NewTraces()
	s.CopyTo(td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
	out, err := m.MarshalTraces(td)
	require.NoError(t, err)
	return string(out)
}

// checkContract finds every span the truth names and nothing else.
func checkContract(t *testing.T, f *truth.File, spans map[string]received) {
	t.Helper()
	pids := map[string]int64{}
	for _, p := range f.Processes {
		pids[p.Role] = int64(p.PID)
	}
	left := len(spans)
	for _, r := range f.Requests {
		http := spans[r.TraceID+r.SpanID]
		left--
		checkHTTP(t, r, http, pids["api"])
		if r.Unsupported != "" {
			require.Empty(t, r.Sequences)
		}
		for _, q := range r.Sequences {
			eng := spans[r.TraceID+q.SpanID]
			left--
			checkEngine(t, r, q, eng, pids["engine"])
			for _, ph := range q.Phases {
				left--
				checkPhase(t, r, q, ph, spans[r.TraceID+ph.SpanID], pids["engine"])
			}
		}
	}
	require.Zero(t, left)
}

func checkCommon(t *testing.T, s received, pid int64, name string, start, end int64, parent string) {
	t.Helper()
	require.Equal(t, name, s.span.Name())
	require.Equal(t, start, int64(s.span.StartTimestamp()))
	require.Equal(t, end, int64(s.span.EndTimestamp()))
	require.Equal(t, parent, s.span.ParentSpanID().String())
	require.Equal(t, "atom.trace 1.2.3", s.scope)
	require.Equal(t, "atom", s.resource["service.name"])
	require.Equal(t, "1.2.3", s.resource["service.version"])
	require.Equal(t, "node-7", s.resource["host.name"])
	require.Equal(t, pid, s.resource["process.pid"])
	require.Equal(t, uint32(1), s.span.Flags()&0xff, "recorded whatever the parent says")
	for k := range s.attrs() {
		require.NotContains(t, k, "message")
	}
}

func checkHTTP(t *testing.T, r truth.Request, s received, pid int64) {
	t.Helper()
	checkCommon(t, s, pid, "atom.request", r.StartNS, r.EndNS, r.ParentSpanID)
	require.Equal(t, ptrace.SpanKindServer, s.span.Kind())
	require.Equal(t, r.TraceState, s.span.TraceState().AsRaw())
	require.Equal(t, r.ParentSpanID != "", s.span.Flags()&0x200 != 0)
	a := s.attrs()
	require.Equal(t, r.ID, a["gen_ai.request.id"])
	require.Equal(t, int64(r.HTTPStatus), a["http.response.status_code"])
	want := ptrace.StatusCodeUnset
	if r.Outcome == "error" || r.Outcome == "cancel" {
		want = ptrace.StatusCodeError
		require.NotEmpty(t, a["error.type"])
	} else {
		require.NotContains(t, a, "error.type")
	}
	require.Equal(t, want, s.span.Status().Code())
	require.Empty(t, s.span.Status().Message())
	if r.Unsupported != "" {
		require.Equal(t, "pd", a["atom.trace.unsupported"])
	} else {
		require.NotContains(t, a, "atom.trace.unsupported")
	}
}

func checkEngine(t *testing.T, r truth.Request, q truth.Sequence, s received, pid int64) {
	t.Helper()
	checkCommon(t, s, pid, "engine.request", q.StartNS, q.EndNS, r.SpanID)
	require.Equal(t, ptrace.SpanKindInternal, s.span.Kind())
	want := map[string]any{
		"gen_ai.request.id": r.ID, "atom.sequence.id": q.SequenceID, "gen_ai.response.model": "demo-14b",
		"gen_ai.response.finish_reasons": []any{q.FinishReason},
		"gen_ai.usage.prompt_tokens":     int64(q.PromptTokens), "gen_ai.usage.completion_tokens": int64(q.CompletionTokens),
		"gen_ai.usage.cached_tokens": int64(q.CachedTokens),
		"gen_ai.latency.e2e":         float64(q.EndNS-q.StartNS) / 1e9,
	}
	if q.TTFTSeconds > 0 {
		want["gen_ai.latency.time_to_first_token"] = q.TTFTSeconds
	}
	keys := map[string]string{"prefill_waiting": "time_in_queue", "prefill_forward": "time_in_model_prefill", "decode_forward": "time_in_model_decode"}
	for _, ph := range q.Phases {
		want["gen_ai.latency."+keys[ph.Name]] = float64(ph.EndNS-ph.StartNS) / 1e9
	}
	status := ptrace.StatusCodeUnset
	if q.ErrorType != "" {
		want["error.type"], status = q.ErrorType, ptrace.StatusCodeError
	}
	require.Equal(t, want, s.attrs())
	require.Equal(t, status, s.span.Status().Code())
}

func checkPhase(t *testing.T, r truth.Request, q truth.Sequence, ph truth.Phase, s received, pid int64) {
	t.Helper()
	checkCommon(t, s, pid, ph.Name, ph.StartNS, ph.EndNS, q.SpanID)
	require.Equal(t, ptrace.SpanKindInternal, s.span.Kind())
	want := map[string]any{"gen_ai.request.id": r.ID, "atom.sequence.id": q.SequenceID, "gen_ai.response.model": "demo-14b"}
	status := ptrace.StatusCodeUnset
	if ph.Error {
		want["error.type"], status = q.ErrorType, ptrace.StatusCodeError
	}
	require.Equal(t, want, s.attrs())
	require.Equal(t, status, s.span.Status().Code())
}

func TestFileIsDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	_, _, err := emit(t, config(), Options{Offline: NewFileWriter(&a)})
	require.NoError(t, err)
	_, _, err = emit(t, config(), Options{Offline: NewFileWriter(&b)})
	require.NoError(t, err)
	require.Positive(t, a.Len())
	require.Equal(t, a.String(), b.String())
}

func TestPodInResource(t *testing.T) {
	var a bytes.Buffer
	_, _, err := emit(t, config(), Options{Offline: NewFileWriter(&a), Pod: &truth.Pod{Namespace: "ns", Name: "p", UID: "u-1", Container: "c"}})
	require.NoError(t, err)
	first, _, _ := strings.Cut(a.String(), "\n")
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces([]byte(first))
	require.NoError(t, err)
	res := td.ResourceSpans().At(0).Resource().Attributes().AsRaw()
	assert.Equal(t, "u-1", res["k8s.pod.uid"])
	assert.Equal(t, "ns", res["k8s.namespace.name"])
	assert.NotContains(t, res, "host.name")
}

// More spans than the queue holds, at once: none is dropped.
func TestManySpansAtOnce(t *testing.T) {
	c := &collector{}
	f, _, err := emit(t, config(func(c *model.Config) {
		c.Requests, c.Rate, c.Ranks, c.Output, c.TimeScale = 6000, 5000, 1, model.MustDist("2"), 0.01
	}), Options{Endpoint: serve(t, c), Timeout: 30 * time.Second})
	require.NoError(t, err)
	require.Greater(t, f.Totals.Spans, int64(20_000))
	require.Len(t, index(t, c.requests), int(f.Totals.Spans))
	for _, td := range c.requests {
		require.LessOrEqual(t, td.SpanCount(), 512)
	}
}

func TestRetryAfterRefusal(t *testing.T) {
	c := &collector{refuse: 3, status: http.StatusServiceUnavailable}
	f, _, err := emit(t, config(), Options{Endpoint: serve(t, c), Timeout: 20 * time.Second})
	require.NoError(t, err)
	require.Len(t, index(t, c.requests), int(f.Totals.Spans))
	assert.Greater(t, c.calls, len(c.requests))
}

func TestLostSpansAreAnError(t *testing.T) {
	for name, c := range map[string]*collector{
		"refused for good": {refuse: -1, status: http.StatusBadRequest},
		"refused too long": {refuse: -1, status: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, c)
			f, _, err := emit(t, config(func(c *model.Config) { c.Requests = 20 }), Options{Endpoint: url, Timeout: 200 * time.Millisecond})
			require.ErrorContains(t, err, fmt.Sprintf("%d of %d spans did not reach %s", f.Totals.Spans, f.Totals.Spans, url))
		})
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:4318":            "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/":           "http://127.0.0.1:4318/v1/traces",
		"https://host:1/otel/v1/traces":    "https://host:1/otel/v1/traces",
		"http://127.0.0.1:43180/v1/traces": "http://127.0.0.1:43180/v1/traces",
	} {
		got, err := tracesURL(in)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, bad := range []string{"127.0.0.1:4318", "localhost:4318", "grpc://x:1", "http://", "http://[::1"} {
		_, err := tracesURL(bad)
		require.ErrorContains(t, err, "OTLP endpoint", bad)
	}
	_, err := NewEmitter(t.Context(), model.Clock{}, 1, 2, Options{Endpoint: "nonsense"})
	require.ErrorContains(t, err, "http://127.0.0.1:4318")
}

func TestSpanWithoutWantedIDs(t *testing.T) {
	tr, sp := idGenerator{}.NewIDs(t.Context())
	assert.NotEqual(t, strings.Repeat("0", 32), hex.EncodeToString(tr[:]))
	assert.NotEqual(t, strings.Repeat("0", 16), hex.EncodeToString(sp[:]))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestFileErrors(t *testing.T) {
	w := NewFileWriter(failing{})
	_, _, err := emit(t, config(), Options{Offline: w})
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.ErrorIs(t, w.Err(), io.ErrShortWrite)
}
