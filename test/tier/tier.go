// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package tier prepares agents and gateways on their shipped configurations.
package tier // import "github.com/phasecol/phasecol/test/tier"

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// Agent prepares an agent that reads the folder logs below its own and sends to
// gateway, without TLS. Fragments are further files of config/.
func Agent(t testing.TB, gateway string, fragments []string, overrides ...string) *harness.Collector {
	t.Helper()
	c := harness.New(t, append([]string{"agent.yaml"}, fragments...), overrides...)
	c.Setenv("PHASECOL_LOGS", fmt.Sprintf("[%q, %q]", filepath.Join(Logs(c), "**", "*.log"), filepath.Join(Logs(c), "**", "*.log.*")))
	c.Setenv("PHASECOL_NODE", "node-1")
	if gateway != "" {
		c.Setenv("PHASECOL_GATEWAY", gateway)
	}
	c.Setenv("PHASECOL_GATEWAY_INSECURE", "true")
	return c
}

// Logs is the folder that an Agent reads.
func Logs(c *harness.Collector) string { return filepath.Join(c.Dir, "logs") }

// Gateway prepares a gateway that sends to backend, without TLS.
func Gateway(t testing.TB, backend string, fragments []string, overrides ...string) *harness.Collector {
	t.Helper()
	c := harness.New(t, append([]string{"gateway.yaml"}, fragments...), overrides...)
	c.Setenv("PHASECOL_BACKEND", backend)
	c.Setenv("PHASECOL_BACKEND_INSECURE", "true")
	return c
}

// Simulate runs the simulated serving process to its end: logs to dir, requests
// to the agent.
func Simulate(t testing.TB, dir, otlp string, args ...string) {
	t.Helper()
	out, err := SimulateCommand(t.Context(), t, dir, otlp, args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// SimulateCommand is Simulate's command, not started. An empty otlp sends no
// requests.
func SimulateCommand(ctx context.Context, t testing.TB, dir, otlp string, args ...string) *exec.Cmd {
	t.Helper()
	full := []string{"--quiet", "--out", dir, "--host-name", "node-1"}
	if otlp != "" {
		full = append(full, "--otlp", "http://"+otlp, "--otlp-timeout", "10s")
	}
	return exec.CommandContext(ctx, harness.Stracegen(t), append(full, args...)...)
}
