// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// process is a Collector on a host.
type process struct {
	t    *testing.T
	host *host
	Dir  string
	args []string
	env  []string
	cmd  *exec.Cmd
	runs int
}

// collector prepares a Collector with shipped configurations.
func (h *host) collector(t *testing.T, configs, env []string, override string) *process {
	t.Helper()
	p := &process{t: t, host: h, Dir: t.TempDir(), env: append(env, "PHASECOL_LISTEN="+h.Address)}
	for _, name := range configs {
		p.args = append(p.args, "--config", filepath.Join(harness.Root(t), "config", name))
	}
	if override != "" {
		path := filepath.Join(p.Dir, "override.yaml")
		require.NoError(t, os.WriteFile(path, []byte(override), 0o600))
		p.args = append(p.args, "--config", path)
	}
	return p
}

// command runs a program on the host.
func (h *host) command(name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.name, name}, args...)...) //nolint:noctx // the test's own
}

func (p *process) logPath() string { return filepath.Join(p.Dir, "phasecol.log") }

// ready counts how often it has been ready.
func (p *process) ready() int {
	text, err := os.ReadFile(p.logPath())
	require.NoError(p.t, err)
	return bytes.Count(text, []byte("Everything is ready"))
}

// Start runs it and waits until it is ready. The test's end kills it.
func (p *process) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer log.Close()
	p.cmd = p.host.command(harness.Binary(p.t), p.args...)
	p.cmd.Dir = p.Dir
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(p.t, p.cmd.Start())
	p.t.Cleanup(p.Kill)
	p.runs++
	require.Eventually(p.t, func() bool { return p.ready() == p.runs }, 60*time.Second, 50*time.Millisecond, "log: %s", p.logPath())
}

// Kill ends it by SIGKILL, if it runs.
func (p *process) Kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// Restart ends it by SIGTERM and starts it again.
func (p *process) Restart() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(p.t, p.cmd.Wait(), "log: %s", p.logPath())
	p.cmd = nil
	p.Start()
}
