// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Not a test of its own: what TestKill runs and kills.
func TestKilledProcess(t *testing.T) {
	dir := os.Getenv("CHROMETRACE_KILL_DIR")
	if dir == "" {
		return
	}
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = dir
	cfg.FlushInterval = 0
	cfg.Rotation.MaxMegabytes = 2
	exp, err := newTraceExporter(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.NoError(t, exp.start(t.Context(), componenttest.NewNopHost()))
	for i := uint64(0); ; i++ {
		for _, td := range []ptrace.Traces{runTrace(i+1, i*2500), requestTrace(1<<40+i, i*2500)} {
			require.NoError(t, exp.push(t.Context(), td))
		}
		if i == 20 {
			_, err := os.Stdout.WriteString("writing\n")
			require.NoError(t, err)
		}
	}
}

// A process killed at any instant leaves files that open.
func TestKill(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	unclosed := 0
	for range 12 {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), "CHROMETRACE_KILL_DIR="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "writing\n", line)
		// Anywhere in its work; no result depends on how far it got.
		<-time.After(time.Duration(rand.IntN(30_000)) * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())

		paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		total := 0
		for _, path := range paths {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if !json.Valid(data) {
				unclosed++
			}
			events, err := decodeOpen(data)
			require.NoError(t, err)
			total += len(events)
		}
		require.Greater(t, total, 20*30, "what was written before the signal")
	}
	t.Logf("%d of 12 kills hit the middle of a write", unclosed)
}
