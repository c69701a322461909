// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
	"github.com/phasecol/phasecol/test/harness"
)

// play starts the Collector on the shipped local configuration, lets the
// simulated serving process write and send beside it, and returns what came
// out with what really happened.
func play(t *testing.T, args ...string) ([]harness.Span, *truth.File) {
	t.Helper()
	c := harness.New(t, []string{"local.yaml"})
	c.Start()
	truthPath := filepath.Join(c.Dir, "truth.json")
	args = append([]string{
		"--quiet", "--realtime", "--time-scale", "0.1",
		"--out", filepath.Join(c.Dir, "run", "logs"), "--otlp", "http://" + c.HTTP, "--otlp-timeout", "10s", "--truth", truthPath,
	}, args...)
	out, err := exec.CommandContext(t.Context(), harness.Stracegen(t), args...).CombinedOutput()
	require.NoError(t, err, string(out))
	want, err := truth.Read(truthPath)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		spans := c.Spans()
		return len(named(spans, "atom.request")) >= len(want.Requests) && len(roots(spans)) >= len(want.Invocations)
	}, 60*time.Second, 250*time.Millisecond, "log: %s", c.LogPath)
	c.Stop()
	return c.Spans(), want
}

func named(spans []harness.Span, name string) []harness.Span {
	return harness.Where(spans, func(s harness.Span) bool { return s.Name() == name && !s.Copy() })
}

func roots(spans []harness.Span) []harness.Span {
	return harness.Where(spans, func(s harness.Span) bool { return s.Str("strace.stage") == "run" && !s.Copy() })
}

// TestGroundTruth compares every host run and every joined request with what
// the simulation says happened.
func TestGroundTruth(t *testing.T) {
	for _, generation := range []int{6, 8, 9} {
		t.Run(fmt.Sprintf("generation %d", generation), func(t *testing.T) {
			// The newest generation has no anchors: the log is placed by this
			// machine's own clocks, which the simulation uses too.
			spans, want := play(t, "--generation", strconv.Itoa(generation), "--ranks", "2", "--requests", "40", "--rate", "20",
				"--error-rate", "0.1", "--cancel-rate", "0.1", "--one-token-rate", "0.1", "--n", "2", "--seed", strconv.Itoa(generation))
			compareHostRuns(t, spans, want, generation)
			compareRequests(t, spans, want, generation)
		})
	}
}

// TestGroundTruthShapes plays what is hard to put together again: container
// logs, rotation at speed, several tasks in flight, reopened workers, no L3
// records at all.
func TestGroundTruthShapes(t *testing.T) {
	for name, args := range map[string][]string{
		"cri, rotated":      {"--format", "cri", "--rotate-bytes", "300000"},
		"raw, rotated":      {"--rotate-bytes", "300000"},
		"docker":            {"--format", "docker"},
		"two in flight":     {"--pipeline", "2", "--ranks", "3"},
		"reopened":          {"--reopen-every", "20"},
		"one file":          {"--single-file", "--noise", "5"},
		"no runs printed":   {"--level", "none"},
		"generation 1, UTC": {"--generation", "1", "--single-file", "--level", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			spans, want := play(t, append(args, "--requests", "25", "--rate", "20", "--seed", "3")...)
			compareShape(t, spans, want)
		})
	}
}

// compareShape asks for every host run exactly once with its own length, and
// for the truth on every request it served.
func compareShape(t *testing.T, spans []harness.Span, want *truth.File) {
	t.Helper()
	incomplete := harness.Where(spans, func(s harness.Span) bool { return s.Str("strace.incomplete") == "true" })
	assert.Empty(t, incomplete)
	got := map[int64]int{}
	for _, s := range roots(spans) {
		got[s.Duration()]++
	}
	expected := map[int64]int{}
	for i := range want.Invocations {
		expected[want.Invocations[i].DurationNS]++
	}
	assert.Equal(t, expected, got)
	printed := 0
	for i := range want.Runs {
		if want.Runs[i].Records > 0 {
			printed++
		}
	}
	assert.Len(t, harness.Where(spans, func(s harness.Span) bool { return s.Str("strace.stage") == "level.run" && !s.Copy() }), printed)
	if want.Generation >= 6 {
		compareRequests(t, spans, want, want.Generation)
	}
}

// toleranceNS is 0 where an anchor gives the exact time; the host's own clocks
// are read to some microseconds.
func toleranceNS(generation int) int64 {
	if generation == 9 {
		return 50_000
	}
	return 0
}

func compareHostRuns(t *testing.T, spans []harness.Span, want *truth.File, generation int) {
	t.Helper()
	type key struct{ pid, inv int64 }
	got := map[key]harness.Span{}
	for _, s := range roots(spans) {
		inv, err := strconv.ParseInt(s.Str("strace.inv"), 10, 64)
		require.NoError(t, err)
		k := key{s.Resource["process.pid"].(int64), inv}
		_, twice := got[k]
		assert.Falsef(t, twice, "host run %v came twice", k)
		got[k] = s
	}
	assert.Len(t, got, len(want.Invocations))
	for i := range want.Invocations {
		w := &want.Invocations[i]
		s, ok := got[key{int64(w.PID), int64(w.Inv)}]
		if !assert.Truef(t, ok, "pid %d inv %d", w.PID, w.Inv) {
			continue
		}
		assert.InDelta(t, w.StartNS, int64(s.StartTimestamp()), float64(toleranceNS(generation)))
		assert.Equal(t, w.DurationNS, s.Duration())
		assert.NotEqual(t, "none", s.Str("strace.stitch"), "every run has an L3 parent here")
		wall, ok := s.Float("phase.host_wall")
		assert.True(t, ok)
		assert.InDelta(t, float64(w.DurationNS)/1e9, wall, 1e-12)
		if w.DeviceBlock != nil {
			device, ok := s.Float("phase.device_wall")
			assert.True(t, ok)
			assert.InDelta(t, float64(w.DeviceBlock.WallNS)/1e9, device, 1e-12)
			assert.Equal(t, strconv.Itoa(int(w.Device)), s.Resource["hw.id"])
		}
	}
	steps := harness.Where(spans, func(s harness.Span) bool { return s.Str("strace.stage") == "level.run" && !s.Copy() })
	assert.Len(t, steps, len(want.Runs))
}

func compareRequests(t *testing.T, spans []harness.Span, want *truth.File, generation int) {
	t.Helper()
	byID := map[string]harness.Span{}
	for _, s := range spans {
		if !s.Copy() {
			byID[s.TraceID().String()+s.SpanID().String()] = s
		}
	}
	joined := 0
	for i := range want.Requests {
		w := &want.Requests[i]
		request, ok := byID[w.TraceID+w.SpanID]
		if !assert.Truef(t, ok, "request %s", w.ID) {
			continue
		}
		assert.Contains(t, []string{"ok", "unsupported_pd"}, request.Str("phase.contract"), w.ID)
		for j := range w.Sequences {
			joined += compareSequence(t, byID, w.TraceID, &w.Sequences[j], generation)
		}
	}
	assert.Positive(t, joined)
}

// compareSequence returns how many of its phases have host runs.
func compareSequence(t *testing.T, byID map[string]harness.Span, trace string, w *truth.Sequence, generation int) (joined int) {
	t.Helper()
	engine, ok := byID[trace+w.SpanID]
	if !assert.True(t, ok) {
		return 0
	}
	e2e, ok := engine.Float("phase.e2e")
	assert.True(t, ok)
	assert.InDelta(t, w.E2ESeconds, e2e, 1e-9)
	if w.TPOTSeconds > 0 {
		tpot, ok := engine.Float("phase.tpot")
		assert.True(t, ok)
		assert.InDelta(t, w.TPOTSeconds, tpot, 1e-6)
	}
	for k := range w.Phases {
		p := &w.Phases[k]
		span, ok := byID[trace+p.SpanID]
		if !assert.Truef(t, ok, "%s", p.Name) {
			continue
		}
		assert.Equal(t, p.StartNS, int64(span.StartTimestamp()))
		assert.Equal(t, p.EndNS, int64(span.EndTimestamp()))
		if p.HostRuns == 0 {
			continue
		}
		joined++
		if generation == 9 {
			continue // runs at the phase's edge may fall to either side
		}
		assert.Equal(t, strconv.Itoa(p.HostRuns), span.Str("phase.host_runs"), p.Name)
		assert.Equal(t, strconv.Itoa(p.Steps), span.Str("phase.steps"), p.Name)
		for name, ns := range map[string]int64{
			"phase.host_busy": p.HostBusyNS, "phase.device_busy": p.DeviceBusyNS, "phase.engine_gap": p.EngineGapNS,
		} {
			got, ok := span.Float(name)
			assert.Truef(t, ok, "%s of %s", name, p.Name)
			assert.InDeltaf(t, float64(ns)/1e9, got, 1e-9, "%s of %s", name, p.Name)
		}
	}
	return joined
}
