// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

const wall = int64(1767323045) * 1e9

var errRefused = errors.New("refused")

func span(inv, depth int, name string, ts, dur int64) string {
	return fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=7 tid=7 inv=%d hid=ab depth=%d name=%s ts=%d dur=%d ", ts+dur+10, inv, depth, name, ts, dur)
}

// invocation is two spans, whose records are stamped as they are printed.
func invocation(b *batch, inv int) {
	ts := int64(inv) * 1_000_000
	b.add(wall+ts+110, span(inv, 1, "chip.run.bind", ts, 100))
	b.add(wall+ts+510, span(inv, 0, "chip.run", ts-10, 510))
}

// TestRecordTimesPlaceSpans, and the resource is kept.
func TestRecordTimesPlaceSpans(t *testing.T) {
	r := newRig(t, nil)
	b := newBatch(map[string]any{"host.name": "n9", "k8s.pod.uid": "u1", "team": "x", "service.name": "mine", "log.file.name": "0.log"})
	invocation(b, 1)
	r.send(b)
	got := r.await(2)
	require.Equal(t, 1, got.ResourceSpans().Len())
	assert.Equal(t, map[string]any{
		"host.name": "n9", "k8s.pod.uid": "u1", "team": "x", "service.name": "mine", "process.pid": int64(7),
	}, got.ResourceSpans().At(0).Resource().Attributes().AsRaw())
	for _, s := range spansOf(got) {
		source, _ := s.Attributes().Get("strace.clock.source")
		assert.Equal(t, "record", source.Str())
		if s.Name() == "chip.run" {
			assert.Equal(t, wall+1_000_000-10, int64(s.StartTimestamp()))
			assert.Equal(t, int64(510), int64(s.EndTimestamp()-s.StartTimestamp()))
		}
	}
}

// TestObservedTimeWillDo where the record's own is not known.
func TestObservedTimeWillDo(t *testing.T) {
	r := newRig(t, nil)
	b := newBatch(nil)
	rec := b.add(0, span(1, 0, "chip.run", 1000, 500))
	rec.SetObservedTimestamp(pcommon.Timestamp(wall + 1510))
	r.send(b)
	got := r.await(1)
	assert.Equal(t, wall+1000, int64(spansOf(got)[0].StartTimestamp()))
	name, _ := got.ResourceSpans().At(0).Resource().Attributes().Get("service.name")
	assert.Equal(t, "simpler", name.Str())
}

// TestBodies: text, bytes, several lines, and the message of a map.
func TestBodies(t *testing.T) {
	set := map[string]func(plog.LogRecord, string){
		"bytes":   func(r plog.LogRecord, s string) { r.Body().SetEmptyBytes().FromRaw([]byte(s)) },
		"journal": func(r plog.LogRecord, s string) { r.Body().SetEmptyMap().PutStr("MESSAGE", s) },
		"map":     func(r plog.LogRecord, s string) { r.Body().SetEmptyMap().PutStr("message", s) },
		"lines":   func(r plog.LogRecord, s string) { r.Body().SetStr("first\n" + s + "\nlast") },
		"crlf":    func(r plog.LogRecord, s string) { r.Body().SetStr(s + "\r\n") },
		"foreign": func(r plog.LogRecord, s string) { r.Body().SetStr("Jan 1 host app[1]: " + s) },
	}
	for name, setBody := range set {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			b := newBatch(nil)
			setBody(b.add(wall, ""), span(1, 0, "chip.run", 1000, 500))
			r.send(b)
			assert.Equal(t, "chip.run", spansOf(r.await(1))[0].Name())
		})
	}
	r := newRig(t, nil)
	b := newBatch(nil)
	b.add(wall, "").Body().SetInt(5)
	b.add(wall, "").Body().SetEmptyMap().PutEmptyMap("MESSAGE").PutStr("MESSAGE", "x")
	b.add(wall, "no marker")
	r.send(b)
	assert.Equal(t, int64(2), r.metric("skipped_log_records"))
}

// TestScopes: what has equal pids but another container, restart, host or
// directory is never merged.
func TestScopes(t *testing.T) {
	for _, tt := range []struct {
		name             string
		resource, record map[string]any
		want             string
	}{
		{"pod", map[string]any{"k8s.pod.uid": "u", "k8s.container.name": "c", "k8s.container.restart_count": "2", "container.id": "x"}, nil, "k8s:u/c/2"},
		{"container", map[string]any{"container.id": "x", "host.name": "h"}, nil, "container:x"},
		{"file on the resource", map[string]any{"host.name": "h", "log.file.path": "/a/b/c.log"}, nil, "host:h:/a/b"},
		{"file on the record", map[string]any{"host.name": "h"}, map[string]any{"log.file.path": `C:\logs\c.log`}, "host:h:C:/logs"},
		{"host", map[string]any{"host.name": "h"}, nil, "host:h:"},
		{"nothing", nil, nil, "host::"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resource, record := pcommon.NewMap(), pcommon.NewMap()
			require.NoError(t, resource.FromRaw(tt.resource))
			require.NoError(t, record.FromRaw(tt.record))
			assert.Equal(t, tt.want, scopeKey(resource, record))
		})
	}
	r := newRig(t, nil)
	b := newBatch(map[string]any{"host.name": "h"})
	for _, path := range []string{"/a/x.log", "/b/x.log", "/a/y.log"} {
		b.add(wall, span(1, 1, "chip.run.bind", 1000, 100)).Attributes().PutStr(filePathKey, path)
	}
	r.send(b)
	r.stop()
	traces := map[pcommon.TraceID]int{}
	for _, s := range spansOf(r.next.all()) {
		traces[s.TraceID()]++
	}
	assert.Len(t, traces, 2, "a record that comes twice in one directory is one")
}

// TestResourcesAreBounded: the scope that was used longest ago goes.
func TestResourcesAreBounded(t *testing.T) {
	rs := newResources(2)
	attrs := pcommon.NewMap()
	attrs.PutStr("a", "1")
	for _, key := range []string{"x", "y", "x", "z"} {
		rs.note(key, attrs)
	}
	assert.Len(t, rs.byScope, 2)
	assert.Contains(t, rs.byScope, "x", "it was used after y")
	attrs.PutStr("b", "2")
	rs.note("x", attrs)
	got := pcommon.NewMap()
	rs.write("x", got)
	assert.Equal(t, map[string]any{"a": "1", "b": "2"}, got.AsRaw(), "what is added later counts")
	rs.write("gone", got)
}

// TestOpenWaitsAndLeaves: an invocation without root leaves by time alone.
func TestOpenWaitsAndLeaves(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxOpen = 50 * time.Millisecond })
	b := newBatch(nil)
	b.add(wall, span(1, 1, "chip.run.bind", 1000, 100))
	r.send(b)
	s := spansOf(r.await(1))[0]
	flag, _ := s.Attributes().Get("strace.incomplete")
	assert.True(t, flag.Bool())
}

// TestStopSendsAll as it is.
func TestStopSendsAll(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Linger, c.MaxOpen = time.Hour, 2*time.Hour })
	b := newBatch(nil)
	invocation(b, 1)
	b.add(wall, span(2, 1, "chip.run.bind", 2_000_000, 100))
	r.send(b)
	assert.Zero(t, r.next.count())
	r.stop()
	assert.Equal(t, 3, r.next.count())
}

// TestBackPressure: while traces are refused, no more logs are taken, and
// nothing is lost or twice.
func TestBackPressure(t *testing.T) {
	r := newRig(t, nil)
	r.next.setAnswer(func(context.Context) error { return errRefused })
	b := newBatch(nil)
	invocation(b, 1)
	r.send(b)
	require.Eventually(t, func() bool { return r.metric("delivery_refusals") > 2 }, waitFor, tick)

	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error)
	more := newBatch(nil)
	invocation(more, 2)
	go func() { answered <- r.ConsumeLogs(ctx, more.logs) }()
	cancel()
	// The timer's delivery holds the lock until the connector accepts or ends.
	r.next.setAnswer(nil)
	err := <-answered
	require.True(t, err == nil || errors.Is(err, errWaiting))
	if err != nil {
		assert.False(t, consumererror.IsPermanent(err), "it may come again")
		r.send(more)
	}
	r.await(4)
	assert.Equal(t, 4, r.next.count())
	assert.Zero(t, r.metric("spans_dropped"))
}

// TestRefusesWhileWaiting: a call that cannot deliver what waits files nothing.
func TestRefusesWhileWaiting(t *testing.T) {
	r := newRig(t, nil)
	r.cancel() // no timer, and no wait for the next component
	r.wait.Wait()
	r.next.setAnswer(func(context.Context) error { return errRefused })
	b := newBatch(nil)
	for inv := 1; inv <= 1000; inv++ { // most leave, since the process went on
		invocation(b, inv)
	}
	r.send(b)
	later := newBatch(nil)
	invocation(later, 1001)
	require.ErrorIs(t, r.ConsumeLogs(t.Context(), later.logs), errWaiting)
	assert.Equal(t, int64(1), r.metric("refused_batches"))
	assert.Equal(t, int64(2000), r.metric("records"), "nothing of it was filed")
	r.next.setAnswer(nil)
	r.stop()
	assert.Equal(t, 2000, r.next.count())
}

// TestStopCountsTheLost when nothing is accepted to the end.
func TestStopCountsTheLost(t *testing.T) {
	r := newRig(t, nil)
	r.next.setAnswer(func(context.Context) error { return consumererror.NewPermanent(errRefused) })
	b := newBatch(nil)
	invocation(b, 1)
	r.send(b)
	require.Eventually(t, func() bool { return r.metric("spans_dropped") == 2 }, waitFor, tick)

	r.next.setAnswer(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	c := newBatch(nil)
	c.add(wall, span(3, 1, "chip.run.bind", 3000, 100))
	r.send(c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the Collector gives up at once
	require.NoError(t, r.stracelogConnector.Shutdown(ctx))
	r.stop = func() {}
	assert.Equal(t, int64(3), r.metric("spans_dropped"))
}

// TestMetrics counts by hand.
func TestMetrics(t *testing.T) {
	r := newRig(t, nil)
	b := newBatch(map[string]any{"host.name": "h"})
	invocation(b, 1)
	b.add(wall, "[HOSTLOG_DROPS] v=1 pid=7 new=3 total=3 queue_full=2 claim_exhausted=0 output_failed=1 not_admitted=0")
	b.add(wall, "[STRACE] v=2 pid=1")
	b.add(wall+9, span(2, 1, "chip.run.bind", 2_000_000, 100))
	r.send(b)
	r.await(2)
	assert.Equal(t, int64(4), r.metric("records"))
	assert.Equal(t, int64(3), r.metric("host_drops"))
	assert.Equal(t, int64(1), r.metric("traces"))
	require.Eventually(t, func() bool { return r.metric("pending") == 1 }, waitFor, tick)
	assert.Positive(t, r.metric("held_bytes"))
	assert.Equal(t, 1, r.logs.FilterMessageSnippet("the runtime lost records").Len())
	_, err := r.tel.GetMetric("otelcol_connector_stracelog_delivery_duration")
	require.NoError(t, err)
}

// TestNoClock: nothing but a time could place it.
func TestNoClock(t *testing.T) {
	r := newRig(t, nil)
	b := newBatch(nil)
	b.add(0, span(1, 0, "chip.run", 1000, 100))
	r.send(b)
	require.Eventually(t, func() bool { return r.metric("spans_dropped") == 1 }, waitFor, tick)
}

func TestConfig(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, cfg.Validate())
	assert.Equal(t, []string{"anchor", "record"}, cfg.Clock.Sources)
	cfg.Clock.Sources = []string{"anchor", "host"}
	cfg.Linger = 0
	err := cfg.Validate()
	require.ErrorContains(t, err, "clock::sources: host and mtime need the log file")
	require.ErrorContains(t, err, "linger: must be more than 0")

	broken := createDefaultConfig().(*Config)
	broken.Clock.TimeZone = "Moon/Base"
	_, err = newStracelogConnector(newRig(t, nil).settings(), broken, &sink{})
	require.ErrorContains(t, err, "time_zone")
}

// TestLongBody is scanned like any other.
func TestLongBody(t *testing.T) {
	r := newRig(t, nil)
	b := newBatch(nil)
	b.add(wall, strings.Repeat("x\x00", 2<<20)+span(1, 0, "chip.run", 1000, 100))
	r.send(b)
	r.await(1)
}
