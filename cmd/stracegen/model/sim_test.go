// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

func TestSameSeedSameEverything(t *testing.T) {
	for g := logfmt.MinGeneration; g <= logfmt.MaxGeneration; g++ {
		cfg := mixed(11, func(c *Config) { c.Generation = g })
		a, b := record(t, cfg), record(t, cfg)
		require.Equal(t, string(a.text), string(b.text))
		require.Equal(t, a.truth, b.truth)
		cfg.Seed++
		require.NotEqual(t, string(a.text), string(record(t, cfg).text))
	}
}

// Requests are what they are, whatever serves them.
func TestRequestsDoNotDependOnTheEngine(t *testing.T) {
	type asked struct {
		id, outcome   string
		start         int64
		prompt, limit int
	}
	list := func(rec *recording) []asked {
		var out []asked
		for _, r := range rec.reqs {
			a := asked{id: r.ID, outcome: r.Outcome, start: r.Start - rec.sim.arrivals.first}
			if len(r.Sequences) > 0 {
				a.prompt, a.limit = r.Sequences[0].Prompt, r.Sequences[0].output
			}
			out = append(out, a)
		}
		slices.SortFunc(out, func(a, b asked) int { return cmp.Compare(a.start, b.start) })
		return out
	}
	want := list(record(t, mixed(3)))
	require.Len(t, want, 120)
	for _, change := range []func(*Config){
		func(c *Config) { c.Ranks = 8 },
		func(c *Config) { c.Generation = 2 },
		func(c *Config) { c.Runtime, c.Level = "hbg", LevelNone },
		func(c *Config) { c.Pipeline = 2 },
		func(c *Config) { c.Batch = 3 },
	} {
		require.Equal(t, want, list(record(t, mixed(3, change))))
	}
}

// The first dispatch is printed before its submit, as in the real runtime.
func TestFirstDispatchOvertakesItsSubmit(t *testing.T) {
	text := string(record(t, mixed(2)).text)
	assert.Less(t, strings.Index(text, "name=node.dispatch "), strings.Index(text, "name=node.submit "))
}

func TestRootIdentity(t *testing.T) {
	for _, tc := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Generation = 3 }, ""},
		{func(c *Config) { c.Runtime = RuntimeSim }, ""},
		{func(*Config) {}, "run_id dispatch_id slot_id generation run_epoch"},
	} {
		rec := record(t, mixed(4, tc.change))
		n := 0
		for _, r := range rec.records {
			if r.Name == logfmt.RootName(rec.sim.cfg.Generation) {
				require.Equal(t, tc.want, attrKeys(&r))
				n++
			}
		}
		require.Len(t, rec.invs, n)
	}
	rec := record(t, mixed(4, func(c *Config) { c.Level, c.Ranks = LevelNone, 1 }))
	assert.Contains(t, string(rec.text), " run_id=0 dispatch_id=0 slot_id=0 generation=1 run_epoch=1\n")
	assert.NotContains(t, string(rec.text), "chip_process", "the engine runs the chip itself")
	for _, p := range rec.procs[1:] {
		assert.Equal(t, rec.procs[1].PID, p.PID)
	}
}

func TestReopenStartsCountersAgain(t *testing.T) {
	rec := record(t, mixed(4, func(c *Config) { c.ReopenEvery = 10; c.Ranks = 1 }))
	epochs := len(rec.runs)/10 + 1
	assert.Equal(t, epochs, rec.runs[len(rec.runs)-1].Epoch)
	assert.Equal(t, 1+len(rec.runs)/10, strings.Count(string(rec.text), "name=chip.prewarm.build "))
	for i, inv := range rec.invs {
		assert.Equal(t, uint64(i%10+1), inv.Inv)
		assert.Equal(t, uint64(i%10+1), inv.RunID)
		assert.Equal(t, uint64(i%10+1), inv.DispatchID)
	}
}

func TestAnchorsAndSkew(t *testing.T) {
	cfg := mixed(4, func(c *Config) { c.SkewOffset, c.SkewPPM = 2*time.Millisecond, 50 })
	rec := record(t, cfg)
	clock := rec.sim.Clock()
	// 50 ppm of a second are 50 µs.
	assert.Equal(t, cfg.StartWall+1_000_050_000, clock.Wall(cfg.StartMono+1_000_000_000))
	assert.Equal(t, cfg.StartWall+1_000_050_000-2_000_000, clock.AnchorWall(cfg.StartMono+1_000_000_000))
	assert.Equal(t, cfg.StartMono, clock.Mono())
	anchors := map[int32]logfmt.Record{}
	for _, r := range rec.records {
		switch r.Kind {
		case logfmt.KindAnchor:
			anchors[r.PID] = r
			assert.Equal(t, clock.Wall(r.TS)-2_000_000, r.AnchorWall)
		case logfmt.KindSpan:
			require.Contains(t, anchors, r.PID, "an anchor comes first")
		default:
		}
	}
	require.Len(t, anchors, 3)
	for _, inv := range rec.truth.Invocations {
		a := anchors[inv.PID]
		assert.Equal(t, a.AnchorWall+inv.StartMonoNS-a.TS, inv.AnchorStartNS)
		diff := float64(inv.StartNS-inv.AnchorStartNS) - 2e6
		assert.InDelta(t, float64(inv.StartMonoNS-a.TS)*50e-6, diff, 1)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Generation = 5 }, func(c *Config) { c.Generation = 9 }, func(c *Config) { c.NoAnchors = true },
	} {
		rec := record(t, mixed(4, change))
		assert.Zero(t, rec.truth.Totals.Anchors)
		assert.NotContains(t, string(rec.text), "CLOCK_ANCHOR")
		assert.False(t, rec.truth.Processes[1].Clock.Anchored)
		assert.Zero(t, rec.truth.Invocations[0].AnchorStartNS)
	}
}

func TestDropsAreDeclared(t *testing.T) {
	cfg := mixed(4, func(c *Config) { c.Generation, c.DropRate = 9, 0.05 })
	all := record(t, mixed(4, func(c *Config) { c.Generation = 9 }))
	rec := record(t, cfg)
	spans := func(rec *recording) (n int64) {
		for _, r := range rec.records {
			if r.Kind == logfmt.KindSpan {
				n++
			}
		}
		return n
	}
	var declared int64
	totals := map[int32]uint64{}
	for _, r := range rec.records {
		if r.Kind == logfmt.KindDrops {
			require.Positive(t, r.DropsNew)
			totals[r.PID] += r.DropsNew
			require.Equal(t, totals[r.PID], r.DropsTotal)
			declared += int64(r.DropsNew)
		}
	}
	lost := rec.truth.Totals.LostRecords
	assert.Equal(t, lost, declared)
	assert.Equal(t, spans(all), spans(rec)+lost, "printed or declared lost")
	assert.InDelta(t, 0.05, float64(lost)/float64(spans(all)), 0.01)
	var perInvocation int64
	for _, inv := range rec.truth.Invocations {
		perInvocation += int64(inv.Lost)
	}
	for _, run := range rec.truth.Runs {
		perInvocation += int64(run.Lost)
	}
	assert.LessOrEqual(t, perInvocation, lost)
	assert.Greater(t, perInvocation, lost*9/10, "the rest are prewarm and scheduler_loop records")
}

func TestDeviceTicks(t *testing.T) {
	rec := record(t, mixed(4, func(c *Config) { c.Generation = 9 }))
	last := map[int32]uint64{}
	for _, inv := range rec.truth.Invocations {
		b := inv.DeviceBlock
		require.NotNil(t, b)
		require.Equal(t, uint64(50_000_000), b.CounterHz)
		require.Equal(t, b.WallNS, int64(b.EndCycle-b.StartCycle)*20)
		require.Greater(t, b.StartCycle, last[inv.PID])
		last[inv.PID] = b.EndCycle
	}
	assert.Contains(t, string(rec.text), " clk=dev dev_id=0 dev_start_cycle=")
	assert.Contains(t, string(rec.text), " name=chip.run.runner_run.device_boundaries ")
	assert.Contains(t, string(rec.text), " name=node.scheduler_loop ")
}

func TestNoDeviceSpans(t *testing.T) {
	rec := record(t, mixed(4, func(c *Config) { c.DeviceSpans = false }))
	assert.NotContains(t, string(rec.text), "clk=dev")
	assert.Nil(t, rec.truth.Invocations[0].DeviceBlock)
}

func TestExtNamesRequests(t *testing.T) {
	rec := record(t, mixed(4, func(c *Config) { c.Ext = true }))
	byID := map[string]*Request{}
	for _, r := range rec.reqs {
		byID[r.ID] = r
	}
	steps := map[string]int{}
	for _, r := range rec.records {
		if !strings.HasPrefix(r.Name, "ext.atom.") {
			continue
		}
		require.Zero(t, r.Inv+r.HID+uint64(r.Depth))
		require.Equal(t, rec.procs[1].PID, r.PID)
		id, ok := attr(&r, "request_id")
		require.True(t, ok)
		req := byID[id.Str]
		require.NotNil(t, req)
		tp, ok := attr(&r, "traceparent")
		require.True(t, ok)
		require.Regexp(t, fmt.Sprintf("^00-%x-[0-9a-f]{16}-01$", req.TraceID), tp.Str)
		require.True(t, slices.ContainsFunc(req.Sequences, func(q *Sequence) bool { return strings.Contains(tp.Str, fmt.Sprintf("-%x-", q.SpanID)) }))
		steps[r.Name]++
	}
	want := map[string]int{}
	for _, q := range rec.seqs {
		want["ext.atom.prefill"] += len(q.PrefillRuns)
		want["ext.atom.decode"] += len(q.DecodeRuns)
	}
	assert.Equal(t, want, steps)
	assert.NotContains(t, string(rec.text), "~\n", "nothing was cut")
}

func TestTimeScale(t *testing.T) {
	slow, fast := record(t, mixed(4)), record(t, mixed(4, func(c *Config) { c.TimeScale = 0.01 }))
	mean := func(rec *recording) (sum int64) {
		for _, inv := range rec.invs {
			sum += inv.Wall
		}
		return sum / int64(len(rec.invs))
	}
	// Steps also become smaller, since fewer requests wait for each.
	assert.Less(t, mean(fast), mean(slow)/80)
	assert.GreaterOrEqual(t, mean(fast), int64(30_000))
}

func TestLength(t *testing.T) {
	cfg := mixed(4)
	rec := record(t, cfg)
	n, err := Length(cfg)
	require.NoError(t, err)
	assert.Equal(t, rec.at[len(rec.at)-1]-cfg.StartMono, n)
	cfg.Requests = 0
	_, err = Length(cfg)
	require.Error(t, err)
	cfg.Ranks = 0
	cfg.Requests = 1
	_, err = Length(cfg)
	require.ErrorContains(t, err, "ranks 0")
}

func TestDurationEndsArrivals(t *testing.T) {
	rec := record(t, mixed(4, func(c *Config) { c.Requests, c.Duration = 0, 2*time.Second }))
	assert.InDelta(t, 120, len(rec.reqs), 40) // 60 a second
	for _, r := range rec.reqs {
		assert.LessOrEqual(t, r.Start-rec.sim.arrivals.first, int64(2*time.Second))
	}
}

func TestStoppingEarly(t *testing.T) {
	cfg := mixed(4)
	cfg.Requests = 0 // no end
	sim, err := New(cfg)
	require.NoError(t, err)
	n := 0
	for range sim.Events() {
		n++
		if n == 10_000 {
			break
		}
	}
	assert.Equal(t, 10_000, n)
}

func BenchmarkSimulateAndFormat(b *testing.B) {
	cfg := NewDefaultConfig()
	cfg.Requests, cfg.Ranks, cfg.Rate, cfg.Batch = 0, 8, 500, 64
	sim, err := New(cfg)
	require.NoError(b, err)
	f, err := logfmt.New(cfg.Generation, logfmt.Options{})
	require.NoError(b, err)
	var buf []byte
	left := 0
	b.ReportAllocs()
	start := time.Now()
	for e := range sim.Events() {
		if e.Record == nil {
			continue
		}
		if left == 0 && !b.Loop() {
			break
		}
		buf = f.Append(buf[:0], e.Record)
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "records/s")
}

func TestBindPhases(t *testing.T) {
	rec := record(t, mixed(4, func(c *Config) { c.Runtime, c.BindPhases, c.Ranks = "hbg", true, 1 }))
	phase := regexp.MustCompile(`^\[mono_ns=\d+\]\[T0x[0-9a-f]+\]\[TIMING\] host_phase_trace_end: \[host_phase_trace\.cpp:\d+\] bind phase=(\w+) start_ns=(\d+) dur_ns=(\d+) (.*)$`)
	bind := regexp.MustCompile(` name=chip\.run\.bind ts=(\d+) dur=(\d+) $`)
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		return n
	}
	var names []string
	first, last := int64(0), int64(0)
	binds := 0
	for line := range strings.Lines(string(rec.text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := phase.FindStringSubmatch(line); m != nil {
			if len(names) == 0 {
				first = number(m[2])
			}
			names = append(names, m[1])
			last = number(m[2]) + number(m[3])
		} else if m := bind.FindStringSubmatch(line); m != nil {
			binds++
			require.Equal(t, []string{"args", "arena_build", "runtime_init", "host_orch", "graph_upload", "arena_h2d"}, names)
			require.GreaterOrEqual(t, first, number(m[1]))
			require.LessOrEqual(t, last, number(m[1])+number(m[2]))
			names = nil
		}
	}
	assert.Len(t, rec.invs, binds)
}
