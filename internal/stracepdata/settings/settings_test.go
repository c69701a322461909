// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/pkg/strace"
)

func TestDefaults(t *testing.T) {
	clock, limits, waits := NewDefaultClock(), NewDefaultLimits(), NewDefaultWaits()
	require.NoError(t, clock.Validate())
	require.NoError(t, limits.Validate())
	require.NoError(t, waits.Validate())
	assert.Equal(t, Clock{Sources: []string{"anchor", "record", "host", "mtime"}, OnNone: "refuse"}, clock)
	assert.Equal(t, Limits{Invocations: 100_000, Runs: 10_000, Bytes: 64 << 20, Processes: 4096, Scopes: 1024}, limits)
	assert.Equal(t, Waits{Linger: 250 * time.Millisecond, MaxOpen: time.Minute, StitchWait: time.Second}, waits)
}

func TestClockValidate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		clock Clock
		want  string
	}{
		{"no sources", Clock{OnNone: "refuse"}, "sources: at least one of anchor, record, host, mtime is required"},
		{"unknown source", Clock{Sources: []string{"gps"}, OnNone: "refuse"}, `sources: must be of anchor, record, host, mtime, each once; got "gps"`},
		{"twice", Clock{Sources: []string{"host", "host"}, OnNone: "refuse"}, `sources: must be of anchor, record, host, mtime, each once; got "host"`},
		{"none is no source", Clock{Sources: []string{"none"}, OnNone: "refuse"}, `sources: must be of anchor, record, host, mtime, each once; got "none"`},
		{"zone", Clock{Sources: []string{"host"}, TimeZone: "Moon/Base", OnNone: "refuse"}, "time_zone: must be an IANA name such as Asia/Shanghai or UTC"},
		{"policy", Clock{Sources: []string{"host"}, OnNone: "guess"}, `on_none: must be one of refuse, read_time, is "guess"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, tt.clock.Validate(), tt.want)
		})
	}
}

func TestLimitsValidate(t *testing.T) {
	err := (&Limits{Invocations: 1, Runs: 1, Bytes: -1, Processes: 1}).Validate()
	require.ErrorContains(t, err, "bytes: must be at least 1, is -1")
	require.ErrorContains(t, err, "scopes: must be at least 1, is 0")
	require.NotContains(t, err.Error(), "runs")
}

func TestWaitsValidate(t *testing.T) {
	err := Waits{Linger: 2 * time.Second, MaxOpen: time.Second}.Validate()
	require.ErrorContains(t, err, "linger: must not exceed max_open (1s), is 2s")
	require.ErrorContains(t, err, "stitch_wait: must be more than 0, is 0s")
}

func TestAssembler(t *testing.T) {
	clock := Clock{Sources: []string{"host", "anchor"}, TimeZone: "Asia/Shanghai", OnNone: "read_time"}
	limits := Limits{Invocations: 1, Runs: 2, Bytes: 3, Processes: 4, Scopes: 5}
	cfg, err := Assembler("n1", &clock, &limits, Waits{Linger: 6, MaxOpen: 7, StitchWait: 8})
	require.NoError(t, err)
	assert.Equal(t, "Asia/Shanghai", cfg.TimeZone.String())
	cfg.TimeZone = nil
	assert.Equal(t, strace.Config{
		Host: "n1", Linger: 6, MaxOpen: 7, StitchWait: 8,
		ClockSources: []strace.ClockSource{strace.ClockHost, strace.ClockAnchor}, OnNone: strace.NoneReadTime,
		MaxInvocations: 1, MaxRuns: 2, MaxBytes: 3, MaxProcesses: 4, MaxScopes: 5,
	}, cfg)

	clock.TimeZone = "Moon/Base"
	_, err = Assembler("n1", &clock, &limits, Waits{})
	require.ErrorContains(t, err, "clock: time_zone")
	clock.Sources = nil
	_, err = Assembler("n1", &clock, &limits, Waits{})
	require.ErrorContains(t, err, "clock: sources")
}
