// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package harness runs the built Collector for end-to-end tests: a process of
// its own, on ports and in a folder of its own, with the shipped
// configurations.
package harness // import "github.com/phasecol/phasecol/test/harness"

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ports are the loopback addresses (host:port) of one Collector. They replace
// those of config/local.yaml.
type Ports struct {
	GRPC, HTTP, Atom, Health, Own, Metrics string
}

// Collector is one process of the built Collector.
type Collector struct {
	Ports
	// Dir is its working folder: ./run of the configurations is below it.
	Dir     string
	t       testing.TB
	args    []string
	env     []string
	cmd     *exec.Cmd
	done    chan error
	LogPath string
}

// Root is the repository's root.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "builder-config.yaml")); err == nil {
			return dir
		}
	}
	require.FailNow(t, "no builder-config.yaml above the test")
	return ""
}

// Samples is the folder of real logs beside the repository. Tests that need
// it are skipped where it is absent, but never in CI.
func Samples(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Root(t), "..", "shared", "samples")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" {
			require.NoError(t, err, "CI must have the real logs")
		}
		t.Skip("no real logs beside the repository")
	}
	return dir
}

// Binary is the built Collector: PHASECOL_BIN, else bin/phasecol.
func Binary(t testing.TB) string { return binary(t, "PHASECOL_BIN", "phasecol") }

// Stracegen is the built simulator: STRACEGEN_BIN, else bin/stracegen.
func Stracegen(t testing.TB) string { return binary(t, "STRACEGEN_BIN", "stracegen") }

func binary(t testing.TB, variable, name string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(Root(t), "bin", name)
	}
	_, err := os.Stat(path)
	require.NoErrorf(t, err, "build it first: make build")
	return path
}

// FreePorts returns addresses that are free now.
func FreePorts(t testing.TB) Ports {
	t.Helper()
	var p Ports
	for _, dst := range []*string{&p.GRPC, &p.HTTP, &p.Atom, &p.Health, &p.Own, &p.Metrics} {
		*dst = FreeAddress(t)
	}
	return p
}

// The ports below the kernel's ephemeral range (32768 up): a port from within
// it can be given to somebody's outgoing connection before the Collector binds
// it. Each test process starts elsewhere in the range.
const (
	firstPort = 20000
	ports     = 12000
)

var nextPort atomic.Int64 //nolint:gochecknoglobals // tests of one process must not share a port

// FreeAddress returns a loopback address that is free now and that this
// process has not handed out before.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range ports {
		offset := int64(os.Getpid())*131 + nextPort.Add(1)
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(firstPort+offset%ports, 10))
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		require.NoError(t, l.Close())
		return address
	}
	require.FailNow(t, "no free port")
	return ""
}

// Override is the configuration that moves config/local.yaml to p.
func (p Ports) Override(t testing.TB) string {
	t.Helper()
	_, own, err := net.SplitHostPort(p.Own)
	require.NoError(t, err)
	return fmt.Sprintf(`
extensions:
  health_check: {endpoint: %q}
receivers:
  otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}
  otlp/atom: {protocols: {http: {endpoint: %q}}}
service:
  telemetry:
    metrics:
      readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]
`, p.Health, p.GRPC, p.HTTP, p.Atom, own)
}

// New prepares a Collector with the shipped configurations named, relative to
// config/, and further YAML texts merged over them. It is not started.
func New(t testing.TB, configs []string, overrides ...string) *Collector {
	t.Helper()
	c := &Collector{Ports: FreePorts(t), Dir: t.TempDir(), t: t}
	c.LogPath = filepath.Join(c.Dir, "phasecol.log")
	for _, name := range configs {
		c.args = append(c.args, "--config", filepath.Join(Root(t), "config", name))
	}
	if len(configs) > 0 {
		overrides = append([]string{c.Override(t)}, overrides...)
	}
	for i, text := range overrides {
		path := filepath.Join(c.Dir, fmt.Sprintf("override-%d.yaml", i))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		c.args = append(c.args, "--config", path)
	}
	return c
}

// Setenv adds a variable to the Collector's environment.
func (c *Collector) Setenv(name, value string) { c.env = append(c.env, name+"="+value) }

// Start runs it and waits until it is ready. The test's end stops it.
func (c *Collector) Start() {
	c.t.Helper()
	log, err := os.OpenFile(c.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	c.cmd = exec.Command(Binary(c.t), c.args...) //nolint:noctx // the binary under test; it ends by signal
	c.cmd.Dir = c.Dir
	c.cmd.Env = append(os.Environ(), c.env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(c.t, c.cmd.Start())
	c.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) {
		done <- cmd.Wait()
		_ = log.Close()
	}(c.cmd, c.done)
	c.t.Cleanup(func() {
		if c.cmd != nil {
			c.Kill()
		}
	})
	ready := func() bool {
		resp, err := http.Get("http://" + c.Health) //nolint:noctx // loopback
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	for deadline := time.Now().Add(60 * time.Second); !ready(); {
		select {
		case err := <-c.done:
			c.cmd = nil
			require.FailNow(c.t, "the collector ended", "%v; log: %s", err, c.tail())
		case <-time.After(20 * time.Millisecond):
		}
		require.Truef(c.t, time.Now().Before(deadline), "not ready; log: %s", c.tail())
	}
}

func (c *Collector) tail() string {
	text, _ := os.ReadFile(c.LogPath)
	return string(text[max(0, len(text)-3000):])
}

// Stop ends it by SIGTERM and returns how long that took.
func (c *Collector) Stop() time.Duration {
	c.t.Helper()
	started := time.Now()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-c.done:
		require.NoError(c.t, err, "log: %s", c.tail())
	case <-time.After(30 * time.Second):
		c.Kill()
		require.FailNow(c.t, "it did not stop", "log: %s", c.tail())
	}
	c.cmd = nil
	return time.Since(started)
}

// Kill ends it by SIGKILL.
func (c *Collector) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.done //nolint:errcheck // it says that it was killed
	c.cmd = nil
}

// Log returns what it has logged so far.
func (c *Collector) Log() string {
	text, err := os.ReadFile(c.LogPath)
	require.NoError(c.t, err)
	return string(text)
}

// OwnMetrics returns the samples of its own metrics, by "name{labels}".
func (c *Collector) OwnMetrics() map[string]float64 { return Scrape(c.t, c.Own) }

// Scrape reads a Prometheus endpoint.
func Scrape(t testing.TB, address string) map[string]float64 {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics") //nolint:noctx // loopback
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	samples := map[string]float64{}
	lines := bufio.NewScanner(io.Reader(resp.Body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		require.NoError(t, err, line)
		samples[line[:i]] = value
	}
	require.NoError(t, lines.Err())
	return samples
}

// Sum adds the samples of one metric over all its labels.
func Sum(samples map[string]float64, name string) float64 {
	var sum float64
	for sample, value := range samples {
		if sample == name || strings.HasPrefix(sample, name+"{") {
			sum += value
		}
	}
	return sum
}

// PID is the process id while it runs.
func (c *Collector) PID() int { return c.cmd.Process.Pid }
