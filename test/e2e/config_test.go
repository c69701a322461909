// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// TestConfigErrors asks the built binary to validate wrong settings: each
// message names the setting and says what to write.
func TestConfigErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		yaml string
		want []string
	}{
		"no include":     {`receivers: {stracelog: {include: []}}`, []string{"include", "at least one glob pattern"}},
		"start_at":       {`receivers: {stracelog: {start_at: middle}}`, []string{"start_at", "beginning, end", `"middle"`}},
		"clock source":   {`receivers: {stracelog: {clock: {sources: [anchor, sundial]}}}`, []string{"stracelog::clock: sources", "sundial", "anchor, record, host, mtime"}},
		"time zone":      {`receivers: {stracelog: {clock: {time_zone: Mars/Base}}}`, []string{"stracelog::clock: time_zone", "IANA"}},
		"zero duration":  {`receivers: {stracelog: {max_open: 0s}}`, []string{"max_open", "more than 0"}},
		"limit":          {`receivers: {stracelog: {limits: {bytes: 0}}}`, []string{"stracelog::limits: bytes", "at least 1"}},
		"unknown":        {`receivers: {stracelog: {includes: [x]}}`, []string{"includes"}},
		"storage absent": {`receivers: {stracelog: {storage: file_storage/other}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "wrong.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tc.yaml), 0o600))
			out, err := validate(t, filepath.Join(harness.Root(t), "config", "local.yaml"), path)
			if tc.want == nil {
				require.NoError(t, err, out) // only a start can tell
				return
			}
			require.Error(t, err)
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
		})
	}
}

func validate(t *testing.T, configs ...string) (string, error) {
	t.Helper()
	args := []string{"validate"}
	for _, c := range configs {
		args = append(args, "--config", c)
	}
	out, err := exec.CommandContext(t.Context(), harness.Binary(t), args...).CombinedOutput()
	return string(out), err
}

// TestLoopbackOnly starts the local pipeline and looks at what the process
// listens on.
func TestLoopbackOnly(t *testing.T) {
	c := harness.New(t, []string{"local.yaml", "metrics.yaml"}, metricsOverride(t))
	c.Start()
	listening := listeners(t, c.PID())
	assert.GreaterOrEqual(t, len(listening), 6)
	for _, address := range listening {
		host, _, err := net.SplitHostPort(address)
		require.NoError(t, err)
		assert.Truef(t, net.ParseIP(host).IsLoopback(), "listens on %s", address)
	}
}

// listeners reads the TCP listeners of a process from /proc.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	fds, err := filepath.Glob("/proc/" + itoa(pid) + "/fd/*")
	require.NoError(t, err)
	sockets := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				sockets[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var found []string
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/" + itoa(pid) + "/net/" + table)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			const listen = "0A"
			if len(f) > 9 && f[3] == listen && sockets[f[9]] {
				found = append(found, procAddress(t, f[1]))
			}
		}
	}
	return found
}
