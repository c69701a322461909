// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadatatest"
)

const (
	waitFor = 20 * time.Second
	tick    = 5 * time.Millisecond
)

// flatSpan is one span with what tests ask for.
type flatSpan struct {
	name, id, parent, trace string
	start, duration         int64
	attrs                   map[string]any
	resource                map[string]any
	events                  []string
}

// sink is a next component: answer decides, and what it accepts is kept.
type sink struct {
	mu     sync.Mutex
	answer func(context.Context, ptrace.Traces) error
	got    []ptrace.Traces
	n      int
}

func (*sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *sink) ConsumeTraces(ctx context.Context, t ptrace.Traces) error {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, t); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, t)
	s.n += t.SpanCount()
	return nil
}

// count is the number of spans accepted.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *sink) setAnswer(answer func(context.Context, ptrace.Traces) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *sink) spans() []flatSpan {
	s.mu.Lock()
	defer s.mu.Unlock()
	var flat []flatSpan
	for _, t := range s.got {
		for _, rs := range t.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, sp := range ss.Spans().All() {
					f := flatSpan{
						name: sp.Name(), id: sp.SpanID().String(), parent: sp.ParentSpanID().String(), trace: sp.TraceID().String(),
						start: int64(sp.StartTimestamp()), duration: int64(sp.EndTimestamp() - sp.StartTimestamp()),
						attrs: sp.Attributes().AsRaw(), resource: rs.Resource().Attributes().AsRaw(),
					}
					for _, e := range sp.Events().All() {
						f.events = append(f.events, e.Name())
					}
					flat = append(flat, f)
				}
			}
		}
	}
	return flat
}

// one returns all as one, in the order of arrival.
func (s *sink) one() ptrace.Traces {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := ptrace.NewTraces()
	for _, t := range s.got {
		for _, rs := range t.ResourceSpans().All() {
			rs.CopyTo(all.ResourceSpans().AppendEmpty())
		}
	}
	return all
}

// rig runs a receiver on a directory.
type rig struct {
	t    *testing.T
	dir  string
	cfg  *Config
	next *sink
	logs *observer.ObservedLogs
	tel  *componenttest.Telemetry
	host component.Host
	stop func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	dir := t.TempDir()
	cfg.Include = []string{filepath.Join(dir, "**", "*.log*")}
	cfg.StartAt = "beginning"
	cfg.PollInterval = 10 * time.Millisecond
	cfg.HostName = "n1"
	cfg.Linger = 20 * time.Millisecond
	cfg.StitchWait = 100 * time.Millisecond
	cfg.RetryOnFailure.InitialInterval = time.Millisecond
	cfg.RetryOnFailure.MaxInterval = 5 * time.Millisecond
	return &rig{t: t, dir: dir, cfg: cfg, next: &sink{}, host: componenttest.NewNopHost()}
}

// settings make telemetry that a test can read.
func (r *rig) settings() receiver.Settings {
	r.tel = componenttest.NewTelemetry()
	set := metadatatest.NewSettings(r.tel)
	core, logs := observer.New(zap.InfoLevel)
	set.Logger = zap.New(core)
	r.logs = logs
	return set
}

// start starts a receiver; r.stop stops it and fails the test on errors.
func (r *rig) start() {
	r.t.Helper()
	require.NoError(r.t, r.cfg.Validate())
	recv, err := NewFactory().CreateTraces(r.t.Context(), r.settings(), r.cfg, r.next)
	require.NoError(r.t, err)
	require.NoError(r.t, recv.Start(r.t.Context(), r.host))
	tel := r.tel
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			require.NoError(r.t, recv.Shutdown(context.Background()))
			require.NoError(r.t, tel.Shutdown(context.Background()))
		})
	}
	r.t.Cleanup(r.stop)
}

// store gives the receiver a file_storage, which outlives it.
func (r *rig) store() {
	r.t.Helper()
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	cfg.Directory = r.t.TempDir()
	id := component.NewID(factory.Type())
	set := extensiontest.NewNopSettings(factory.Type())
	ext, err := factory.Create(r.t.Context(), set, cfg)
	require.NoError(r.t, err)
	require.NoError(r.t, ext.Start(r.t.Context(), componenttest.NewNopHost()))
	r.t.Cleanup(func() {
		require.NoError(r.t, ext.Shutdown(context.Background()))
	})
	r.cfg.Storage = &id
	r.host = &hostWith{extensions: map[component.ID]component.Component{id: ext}}
}

type hostWith struct {
	extensions map[component.ID]component.Component
}

func (h *hostWith) GetExtensions() map[component.ID]component.Component { return h.extensions }

// path is a file's place; its directories are made.
func (r *rig) path(elem ...string) string {
	r.t.Helper()
	path := filepath.Join(append([]string{r.dir}, elem...)...)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

// write appends text to a file in one write.
func (r *rig) write(path, text string) {
	r.t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(r.t, err)
	_, err = f.WriteString(text)
	require.NoError(r.t, err)
	require.NoError(r.t, f.Close())
}

// await waits until n spans have arrived, and returns them.
func (r *rig) await(n int) []flatSpan {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.next.count() >= n }, waitFor, tick, "want %d spans", n)
	return r.next.spans()
}

// awaitMetric waits until the sum of a metric's points is n.
func (r *rig) awaitMetric(name string, n int64) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.metric(name) == n }, waitFor, tick, "%s", name)
}

// awaitRead waits until n records were read.
func (r *rig) awaitRead(n int64) {
	r.t.Helper()
	r.awaitMetric("records", n)
}

func (r *rig) metric(name string, attrs ...string) int64 {
	r.t.Helper()
	return sumOf(r.t, r.tel, "otelcol_receiver_stracelog_"+name, attrs...)
}

// log makes lines of a simple worker process whose clock is anchored so that
// monotonic time ts is wall time anchorWall+ts.
type log struct {
	pid int
	b   bytes.Buffer
}

const anchorWall = int64(1767323045) * 1e9

func newLog(pid int) *log {
	l := &log{pid: pid}
	fmt.Fprintf(&l.b, "[mono_ns=1][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=%d mono_ns=1 wall_ns=%d\n", pid, anchorWall+1)
	return l
}

func (l *log) span(inv, depth int, name string, ts, dur int64, attrs string) {
	fmt.Fprintf(&l.b, "[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab depth=%d name=%s ts=%d dur=%d %s\n",
		ts+dur+100, l.pid, l.pid, inv, depth, name, ts, dur, attrs)
}

// stages are depth-1 spans; each occurs once in an invocation.
var stages = [...]string{"bind", "publish_image", "stage_inputs", "prepare_execution", "runner_run", "validate", "claim_release"}

// invocation prints one of n+1 spans, the root last.
func (l *log) invocation(inv, n int) {
	l.children(inv, n)
	l.root(inv)
}

func (l *log) children(inv, n int) {
	for i := range n {
		l.span(inv, 1, "chip.run."+stages[i], int64(inv)*1e6+int64(i)*10, 10, "i="+strconv.Itoa(i))
	}
}

func (l *log) root(inv int) { l.span(inv, 0, "chip.run", int64(inv)*1e6-5, 900_000, "") }

// take returns what was printed since the last time.
func (l *log) take() string {
	s := l.b.String()
	l.b.Reset()
	return s
}

// incomplete counts spans that are marked so.
func incomplete(spans []flatSpan) int {
	n := 0
	for _, s := range spans {
		if _, marked := s.attrs["strace.incomplete"]; marked {
			n++
		}
	}
	return n
}

// ids counts distinct span ids, traces distinct trace ids.
func ids(spans []flatSpan) (spanIDs, traceIDs int) {
	s, t := map[string]bool{}, map[string]bool{}
	for _, sp := range spans {
		s[sp.id], t[sp.trace] = true, true
	}
	return len(s), len(t)
}

func messages(logs *observer.ObservedLogs) string {
	var all []string
	for _, e := range logs.All() {
		all = append(all, e.Message)
	}
	return strings.Join(all, "\n")
}
