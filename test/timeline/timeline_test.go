// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline opens the built Collector's timeline in a real viewer.
package timeline

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

const requests = 8

// TestPerfetto plays a simulated serving process into the Collector and opens
// the timeline in Perfetto: its importer must take every slice and arrow,
// without a complaint, and draw no arrow back in time.
func TestPerfetto(t *testing.T) {
	ui := setUp(t)
	c := harness.New(t, []string{"local.yaml"}, "receivers: {stracelog: {host_name: npu-host-1}}\n")
	c.Start()
	out, err := exec.CommandContext(t.Context(), harness.Stracegen(t), "--seed", "11", "--start", "2026-01-01T00:00:00Z", "--requests", strconv.Itoa(requests),
		"--host-name", "npu-host-1", "--time-scale", "1", "--out", filepath.Join(c.Dir, "run", "logs"), "--otlp", "http://"+c.Atom).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Eventually(t, func() bool {
		joined := harness.Where(c.Spans(), func(s harness.Span) bool { return s.Name() == "engine.request" && s.Str("phase.join") != "" })
		return len(joined) == requests
	}, 60*time.Second, 200*time.Millisecond)
	c.Stop()

	trace := filepath.Join(c.Dir, "run", "timeline", "trace.json")
	slices, arrows := count(t, trace)
	require.Greater(t, slices, 3000)
	require.Greater(t, arrows, 300)
	report := shoot(t, ui, trace)
	assert.Contains(t, report, fmt.Sprintf("slices: %d  complaints: none\n", slices))
	assert.Contains(t, report, fmt.Sprintf("arrows: %d  against time: 0\n", arrows))

	lanes, invocations := filepath.Join(c.Dir, "lanes.json"), filepath.Join(c.Dir, "invocations.json")
	out, err = exec.CommandContext(t.Context(), filepath.Join(harness.Root(t), "bin", "stracetiming"),
		"--swimlane", lanes, "--trace-out", invocations, filepath.Join(c.Dir, "run", "logs")).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, path := range []string{lanes, invocations} {
		slices, arrows := count(t, path)
		require.Greater(t, slices, 2000)
		report := shoot(t, ui, path)
		assert.Contains(t, report, fmt.Sprintf("slices: %d  complaints: none\narrows: %d ", slices, arrows))
	}
}

func setUp(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./setup.sh")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// shoot is what the viewer says of a trace.
func shoot(t *testing.T, ui, trace string) string {
	t.Helper()
	script := filepath.Join(harness.Root(t), "docs", "tools", "shoot.py")
	out, err := exec.CommandContext(t.Context(), "python3", script, ui, trace).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// count is how many slices and arrows a file has.
func count(t *testing.T, path string) (slices, arrows int) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	type event struct{ Ph string }
	var document struct{ TraceEvents []event }
	if data[0] == '[' {
		require.NoError(t, json.Unmarshal(data, &document.TraceEvents))
	} else {
		require.NoError(t, json.Unmarshal(data, &document))
	}
	for _, e := range document.TraceEvents {
		switch e.Ph {
		case "X", "b", "i":
			slices++
		case "s":
			arrows++
		}
	}
	return slices, arrows
}
