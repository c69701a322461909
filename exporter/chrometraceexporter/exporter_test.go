// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// running is an exporter under test, driven by hand: its flush loop sleeps.
type running struct {
	*traceExporter
	dir       string
	telemetry *componenttest.Telemetry
	clock     time.Time
}

// startExporter starts one in a folder of its own; change may alter settings.
func startExporter(t *testing.T, change ...func(*Config)) *running {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = filepath.Join(t.TempDir(), "timeline")
	cfg.FlushInterval = time.Hour
	for _, f := range change {
		f(cfg)
	}
	require.NoError(t, cfg.Validate())
	telemetry := componenttest.NewTelemetry()
	exp, err := newTraceExporter(cfg, telemetry.NewTelemetrySettings())
	require.NoError(t, err)
	r := &running{traceExporter: exp, dir: cfg.Directory, telemetry: telemetry, clock: time.Unix(1_764_459_000, 0)}
	exp.now = func() time.Time { return r.clock }
	require.NoError(t, exp.start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() {
		assert.NoError(t, exp.shutdown(context.WithoutCancel(t.Context())))
		assert.NoError(t, telemetry.Shutdown(context.WithoutCancel(t.Context())))
	})
	return r
}

func (r *running) live() string { return filepath.Join(r.dir, "trace.json") }

func (r *running) send(t *testing.T, batches ...ptrace.Traces) {
	t.Helper()
	for _, td := range batches {
		require.NoError(t, r.push(t.Context(), td))
	}
}

// events flushes and reads the live file.
func (r *running) events(t *testing.T) []traceEvent {
	t.Helper()
	r.tick()
	return readTrace(t, r.live())
}

// counter is the sum of a counter's points, of one reason if given.
func (r *running) counter(t *testing.T, name string, reason ...string) int64 {
	t.Helper()
	return sumOf(t, r.telemetry, "otelcol_exporter_chrometrace_"+name, reason...)
}
