// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// at is one short span on a thread, start and end in Unix nanoseconds.
func at(start, end uint64) ptrace.Traces {
	td := ptrace.NewTraces()
	span := addSpan(addResource(td, chip0Resource), want{name: "chip.run", trace: 1, id: start, attrs: hostAttrs(7, semconv.FamilyChip, "run")})
	span.SetStartTimestamp(pcommon.Timestamp(start))
	span.SetEndTimestamp(pcommon.Timestamp(end))
	return td
}

// The base is a whole day, 25 to 26 before the first span, and said first.
func TestBase(t *testing.T) {
	r := startExporter(t)
	// 2025-11-29T23:33:01.123456789Z, whose day began at 1764374400.
	r.send(t, at(base, base+1))
	events := r.events(t)
	assert.Equal(t, "trace_base", events[0].Name)
	assert.Equal(t, "M", events[0].Ph)
	assert.Equal(t, strconv.Itoa((1764374400-25*86400)*1e9), events[0].arg("trace_base_unix_ns"))
	last := events[len(events)-1]
	assert.Equal(t, "2244781123456.789", last.TS.String(), "25 days and 84,781.123456789 s")
	assert.Equal(t, strconv.FormatUint(base, 10), last.arg("start_ns"))
	assert.Equal(t, int64(base), last.at())
}

// A reader that holds numbers as float64 gets every nanosecond back, wherever
// a span may lie in a file.
func TestTimesSurviveFloat64(t *testing.T) {
	zero := zeroOf(1, base)
	for _, ns := range []uint64{zero.at, base - 24*day, base, base + 1, base + 23*day + 999, zero.at + extent - 1} {
		require.True(t, zero.covers(ns))
		for i := range uint64(2000) {
			text := string(appendMicros(nil, ns-zero.at-min(i, ns-zero.at)))
			micros, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			require.Equal(t, text, string(appendMicros(nil, uint64(micros*1000+0.5))))
		}
	}
	assert.False(t, zero.covers(zero.at-1))
	assert.False(t, zero.covers(zero.at+extent))
	assert.Zero(t, zeroOf(1, 5).at, "no base before 1970")
}

// Spans come in any order, also from before the first.
func TestEarlierSpans(t *testing.T) {
	r := startExporter(t)
	sent := []ptrace.Traces{at(base, base+10), at(base-24*day, base-24*day+3), at(base+20*day, base+20*day+7)}
	r.send(t, sent...)
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, sent...)
}

// Every file counts from its own base.
func TestRotatedFilesHaveTheirBase(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Rotation.MaxAge = time.Minute })
	r.send(t, at(base, base+10))
	r.clock = r.clock.Add(time.Hour)
	r.tick()
	r.send(t, at(base+3*day, base+3*day+5))
	files := allFiles(t, r.dir)
	require.Len(t, files, 2)
	first, second := readTrace(t, files[0]), r.events(t)
	assert.Equal(t, int64(3*day), second[0].base-first[0].base)
	requireSpans(t, [][]traceEvent{first, second}, at(base, base+10), at(base+3*day, base+3*day+5))
}

// Of spans too far apart for one file, those nearer to the present win, and
// no sequence of them makes more than one file each time.
func TestFarSpans(t *testing.T) {
	now := uint64(1_764_459_000) * uint64(time.Second) // the exporter's clock
	old, older, live := now-100*day, now-200*day, now-uint64(time.Second)
	r := startExporter(t)
	for range 3 {
		r.send(t, at(older, older+1), at(old, old+1), at(live, live+1))
	}
	r.tick()
	var starts [][]string
	for _, path := range allFiles(t, r.dir) {
		events := readTrace(t, path)
		requireNoProblems(t, events)
		var of []string
		for _, e := range events {
			if e.Ph == "X" {
				of = append(of, e.arg("start_ns"))
			}
		}
		starts = append(starts, of)
	}
	text := func(ns uint64) string { return strconv.FormatUint(ns, 10) }
	assert.Equal(t, [][]string{{text(older)}, {text(old)}, {text(live), text(live), text(live)}}, starts)
	assert.EqualValues(t, 2, r.counter(t, "files_rotated", "range"))
	assert.EqualValues(t, 4, r.counter(t, "spans_dropped", dropFar))
	assert.EqualValues(t, 5, r.counter(t, "spans_written"))
}

// A point of another time than its span's file is left out.
func TestFarPoint(t *testing.T) {
	r := startExporter(t)
	td := at(base, base+10)
	span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	span.Events().AppendEmpty().SetTimestamp(pcommon.Timestamp(base - 40*day))
	r.send(t, td)
	requireNoProblems(t, r.events(t))
	assert.EqualValues(t, 1, r.counter(t, "points_dropped"))
}

// Perfetto lists a process's threads by number: real ones, their further
// slots, the device, arrows, each kind's slots in order; the same in every file
// and whatever came first.
func TestNumbersGrow(t *testing.T) {
	thread := func(p *process, k kind, tid int64) *track { return &track{proc: p, key: threadKey{kind: k, tid: tid}} }
	numbers := func(order ...int) []uint32 {
		cfg := createDefaultConfig().(*Config).Lanes
		r := newRegistry(&cfg)
		p := &process{key: "one"}
		four, five, device, links := thread(p, kindThread, 4), thread(p, kindThread, 5), thread(p, kindDevice, 0), thread(p, kindLinks, 0)
		lanes := []struct {
			tr   *track
			slot int
		}{{four, 0}, {five, 0}, {four, 1}, {four, 2}, {five, 1}, {device, 0}, {device, 1}, {device, 2}, {links, 0}, {links, 1}}
		out := make([]uint32, len(lanes))
		for _, i := range order {
			tid, ok := r.takeTID(lanes[i].tr, lanes[i].slot)
			require.True(t, ok)
			out[i] = tid
		}
		return out
	}
	first := numbers(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	assert.IsIncreasing(t, first)
	assert.Equal(t, first, numbers(9, 7, 4, 2, 0, 8, 6, 3, 1, 5))
	assert.Less(t, first[9], uint32(syntheticPID))
}

// However many share a number, each lane has its own, until there are none.
func TestNumbersNeverMeet(t *testing.T) {
	cfg := createDefaultConfig().(*Config).Lanes
	r := newRegistry(&cfg)
	seen := map[uint32]bool{}
	for i := range maxBlocks {
		p := &process{key: strconv.Itoa(i)}
		tid, ok := r.takeTID(&track{proc: p, key: threadKey{kind: kindThread}}, 0)
		require.True(t, ok)
		require.False(t, seen[tid])
		seen[tid] = true
	}
	_, ok := r.takeTID(&track{proc: &process{key: "x"}, key: threadKey{kind: kindDevice}}, 0)
	assert.False(t, ok)
}
