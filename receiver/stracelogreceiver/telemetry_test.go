// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadatatest"
)

// points makes one data point per value of the attribute key; those that are
// not named are 0.
func points(key string, all []string, values map[string]int64) []metricdata.DataPoint[int64] {
	var dps []metricdata.DataPoint[int64]
	for _, name := range all {
		dps = append(dps, metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String(key, name)), Value: values[name]})
	}
	return dps
}

func point(v int64) []metricdata.DataPoint[int64] { return []metricdata.DataPoint[int64]{{Value: v}} }

var ignoreTime = metricdatatest.IgnoreTimestamp()

// TestMetrics reads a run with two workers and counts by hand.
func TestMetrics(t *testing.T) {
	r := newRig(t)
	r.store()
	for _, name := range []string{"host.101.log", "host.102.log", "host.103.log"} {
		text, err := os.ReadFile(filepath.Join(goldenDir, "g8", name))
		require.NoError(t, err)
		r.write(r.path(name), string(text))
	}
	l := newLog(300)
	l.children(1, 2)
	l.children(1, 1) // a repeat
	r.write(r.path("host.300.log"), l.take()+
		"[STRACE] v=2 pid=1 tid=1\n[STRACE] v=1 pid=300 tid=300 inv=1 hid=ab depth=1 name=chip.run.joined_launch ts=1000006 dur=0 rc=0\n"+
		"[HOSTLOG_DROPS] v=1 pid=300 new=3 total=3 queue_full=2 claim_exhausted=0 output_failed=1 not_admitted=0\n")
	r.start()
	r.await(47)
	r.awaitMetric("bytes_behind", 0)

	outcomes := []string{"span", "point", "torn", "unknown_version", "malformed", "duplicate"}
	metadatatest.AssertEqualReceiverStracelogRecords(t, r.tel, points("outcome", outcomes,
		map[string]int64{"span": 48, "point": 1, "unknown_version": 1, "duplicate": 1}), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogTraces(t, r.tel, points("kind", []string{"invocation", "run", "late", "single", "incomplete"},
		map[string]int64{"run": 1, "single": 2}), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogStitched(t, r.tel, points("stitch", []string{"none", "identity", "time", "run"},
		map[string]int64{"identity": 2}), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogPlacedSpans(t, r.tel, points("clock_source", []string{"none", "anchor", "record", "host", "mtime"},
		map[string]int64{"anchor": 47}), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogPending(t, r.tel, points("unit", []string{"open", "complete", "run"},
		map[string]int64{"open": 1}), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogEvictions(t, r.tel, points("bound", []string{"invocations", "runs", "bytes", "processes", "scopes"}, nil), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogHostDrops(t, r.tel, points("reason", []string{"queue_full", "output_failed"},
		map[string]int64{"queue_full": 2, "output_failed": 1}), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogGuessedParents(t, r.tel, point(0), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogDeviceMisfits(t, r.tel, point(0), ignoreTime)
	metadatatest.AssertEqualReceiverStracelogClockJumps(t, r.tel, point(0), ignoreTime)
	assert.Positive(t, r.metric("held_bytes"))
	assert.Positive(t, r.metric("snapshot_size"))
	for _, name := range []string{"delivery_duration", "snapshot_duration", "clock_error"} {
		_, err := r.tel.GetMetric("otelcol_receiver_stracelog_" + name)
		require.NoError(t, err, name)
	}
	received, err := r.tel.GetMetric("otelcol_receiver_accepted_spans")
	require.NoError(t, err)
	assert.Equal(t, int64(47), received.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
	warned := r.logs.FilterMessageSnippet("the runtime lost records").All()
	require.Len(t, warned, 1)
	assert.Equal(t, int32(300), warned[0].ContextMap()["pid"])
}

// TestNoClock: spans that nothing can place are dropped and counted, or placed
// at the time of reading and marked.
func TestNoClock(t *testing.T) {
	text := "[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=1 name=chip.run.bind ts=1000 dur=10 \n" +
		"[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=0 name=chip.run ts=990 dur=100 \n"
	r := newRig(t)
	r.cfg.Clock.Sources = []string{"anchor"}
	r.write(r.path("host.log"), text)
	r.start()
	r.awaitMetric("spans_dropped", 2)
	assert.Equal(t, int64(2), r.metric("spans_dropped", "no_clock"))
	assert.Empty(t, r.next.spans())

	r = newRig(t)
	r.cfg.Clock.Sources = []string{"anchor"}
	r.cfg.Clock.OnNone = "read_time"
	before := time.Now()
	r.write(r.path("host.log"), text)
	r.start()
	spans := r.await(2)
	assert.Zero(t, r.metric("spans_dropped"))
	for _, s := range spans {
		assert.Equal(t, "none", s.attrs["strace.clock.source"])
		assert.NotContains(t, s.attrs, "strace.clock.error")
		assert.GreaterOrEqual(t, s.start, before.UnixNano()-1000)
		assert.LessOrEqual(t, s.start, time.Now().UnixNano())
	}
}

// TestFileTimeIsAClock: the last record ended when the file was last written.
func TestFileTimeIsAClock(t *testing.T) {
	r := newRig(t)
	path := r.path("host.log")
	r.write(path, "[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=1 name=chip.run.bind ts=1000 dur=10 \n"+
		"[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=0 name=chip.run ts=990 dur=100 \n")
	at := time.Unix(1_700_000_000, 500)
	require.NoError(t, os.Chtimes(path, at, at))
	r.start()
	for _, s := range r.await(2) {
		assert.Equal(t, "mtime", s.attrs["strace.clock.source"])
		if s.name == "chip.run" {
			assert.Equal(t, at.UnixNano()-100, s.start)
		}
	}
}

// TestMemoryIsBounded: what exceeds limits.bytes leaves early, marked and
// counted, and nothing is dropped.
func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t)
	r.cfg.Limits.Bytes = 100_000
	r.start()
	l := newLog(7)
	path := r.path("host.log")
	const open = 2000
	for inv := 1; inv <= open; inv++ {
		l.children(inv, 3)
		if inv%100 == 0 {
			r.write(path, l.take())
			r.awaitRead(int64(inv * 3))
			require.LessOrEqual(t, r.metric("held_bytes"), int64(100_000))
		}
	}
	r.stop()
	spans := r.next.spans()
	assert.Len(t, spans, open*3)
	assert.Equal(t, open*3, incomplete(spans))
}

// TestHostClock: a log that is being written on this machine is placed by its
// clocks; the same log with the times of another is not.
func TestHostClock(t *testing.T) {
	host := fileclock.Host()
	if !host.Valid || fileclock.OwnTimeNamespace() {
		t.Skip("the runtime's clock is Linux's")
	}
	line := func(ts, dur int64) string {
		return fmt.Sprintf("[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=0 name=chip.run ts=%d dur=%d \n", ts, dur)
	}
	r := newRig(t)
	path := r.path("host.log")
	r.write(path, "started\n")
	look, err := fileclock.Of(path, container.Auto, false)
	require.NoError(t, err)
	if look.Clock.Birth == 0 {
		t.Skip("this file system keeps no birth times")
	}
	began := fileclock.Host().Mono
	r.write(path, line(began, 1000))
	r.start()
	s := r.await(1)[0]
	assert.Equal(t, "host", s.attrs["strace.clock.source"])
	assert.InDelta(t, 10e-6, s.attrs["strace.clock.error"], 1e-9)
	assert.InDelta(t, time.Now().UnixNano(), s.start, float64(waitFor))
	assert.InDelta(t, began+host.Offset, s.start, float64(50*time.Millisecond))

	for name, ts := range map[string]int64{
		"before the file was made": began - int64(time.Hour),
		"in the future":            began + int64(time.Hour),
	} {
		other := newRig(t)
		other.write(other.path("host.log"), line(max(1, ts), 1000))
		other.start()
		assert.Equal(t, "mtime", other.await(1)[0].attrs["strace.clock.source"], name)
	}
	// Copied with its times, it was last written before it was made here.
	r = newRig(t)
	path = r.path("host.log")
	r.write(path, line(began, 1000))
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	r.start()
	assert.Equal(t, "mtime", r.await(1)[0].attrs["strace.clock.source"])
}
