// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package image runs the container image as a kubelet does.
package image

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/records"
	"github.com/phasecol/phasecol/test/sink"
)

// engine is podman with a store of its own.
type engine struct {
	t     *testing.T
	args  []string
	image string
}

// newEngine makes the image as `make image` does, for this machine, and pulls it.
func newEngine(t *testing.T) *engine {
	t.Helper()
	require.Zero(t, os.Getuid(), "a kubelet is root, and so must this be")
	_, err := exec.LookPath("podman")
	require.NoError(t, err, "install podman and runc")
	dir := t.TempDir()
	tools := filepath.Join(harness.Root(t), "deploy", "tools")
	programs := filepath.Join(dir, "linux")
	output(t, tools, "go", "build", "-trimpath", "-o", filepath.Join(programs, "prepare"), "./prepare")
	binary, err := os.ReadFile(harness.Binary(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(programs, "phasecol"), binary, 0o700))
	output(t, tools, "go", "run", "./image", "-version", "0.0.0-test", "-configs", filepath.Join(harness.Root(t), "config"),
		"-folder", strings.TrimSpace(output(t, tools, "go", "env", "GOARCH"))+"="+programs, "-out", filepath.Join(dir, "image"))

	e := &engine{t: t, args: []string{
		"--storage-driver", "vfs", "--root", filepath.Join(dir, "store"), "--runroot", filepath.Join(dir, "run"),
		"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "none",
	}}
	// Named from here: a name of an image has no upper case.
	pulled := strings.Fields(output(t, dir, "podman", append(e.args, "pull", "--quiet", "oci:image")...))
	e.image = pulled[len(pulled)-1]
	return e
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s %v: %s", name, args, &stderr)
	return string(out)
}

func (e *engine) podman(args ...string) string {
	e.t.Helper()
	return output(e.t, "", "podman", append(append([]string(nil), e.args...), args...)...)
}

// run starts a container with what deploy/kubernetes gives an agent, and more.
func (e *engine) run(args ...string) string {
	e.t.Helper()
	base := []string{
		"run", "--network=host", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096",
		"--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges",
	}
	return e.podman(append(base, args...)...)
}

// node is what an agent finds on its node.
type node struct {
	pods, state string
}

// newNode has folders and logs of root's, as a kubelet and a container runtime
// make them: folders for all to enter, logs for root and its group to read.
func newNode(t *testing.T, e *engine) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{pods: filepath.Join(dir, "pods"), state: filepath.Join(dir, "state")}
	output(t, "", harness.Stracegen(t), "--quiet", "--format", "cri", "--out", dir, "--requests", "5", "--rotate-bytes", "200000", "--noise", "1")
	require.NoError(t, filepath.WalkDir(n.pods, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o755) //nolint:gosec // as a kubelet does
		}
		return os.Chmod(path, 0o640) //nolint:gosec // as containerd does
	}))
	require.NoError(t, os.Mkdir(n.state, 0o755))
	// Twice, as the second pod of a node has it.
	for range 2 {
		e.run("--rm", "--user", "0", "--cap-add", "CHOWN", "-v", n.state+":/var/lib/phasecol", "--entrypoint", "/prepare", e.image, "/var/lib/phasecol", "10001")
	}
	return n
}

// agent starts the agent and returns its container and health address.
func (e *engine) agent(n *node, gateway string, args ...string) string {
	e.t.Helper()
	ports := harness.FreePorts(e.t)
	override := filepath.Join(e.t.TempDir(), "override.yaml")
	require.NoError(e.t, os.WriteFile(override, []byte(ports.Override(e.t)), 0o644))
	all := append([]string{
		"-d", "-v", n.pods + ":/var/log/pods:ro", "-v", n.state + ":/var/lib/phasecol", "-v", override + ":/override.yaml:ro",
		"-e", "PHASECOL_NODE=node-1", "-e", `PHASECOL_LOGS=["/var/log/pods/*/*/*.log", "/var/log/pods/*/*/*.log.*"]`,
		"-e", "PHASECOL_GATEWAY=" + gateway, "-e", "PHASECOL_GATEWAY_INSECURE=true",
	}, args...)
	id := strings.TrimSpace(e.run(append(all, e.image, "--config", "/etc/phasecol/agent.yaml", "--config", "/override.yaml")...))
	e.t.Cleanup(func() { _ = exec.Command("podman", append(append([]string(nil), e.args...), "rm", "-f", id)...).Run() }) //nolint:noctx // the test's own
	return id
}

// TestImage runs it as a user that is nobody, without any capability, on a root
// that cannot be written.
func TestImage(t *testing.T) {
	e := newEngine(t)
	n := newNode(t, e)
	store := sink.Start(t)

	t.Run("reads root's logs by its group", func(t *testing.T) {
		id := e.agent(n, store.Address, "--group-add", "0")
		want := records.InLogs(t, "node-1", n.pods)
		require.NotEmpty(t, want)
		var missing, extra []string
		require.Eventually(t, func() bool {
			missing, extra = want.Missing(records.OfSpans(store.Spans()))
			return len(missing) == 0
		}, 60*time.Second, 100*time.Millisecond, "log: %s", logs{e, id})
		assert.Empty(t, extra)
		for _, span := range store.Spans() {
			assert.Equal(t, "atom-0", span.Resource["k8s.pod.name"])
		}

		status := procStatus(t, strings.TrimSpace(e.podman("inspect", "--format", "{{.State.Pid}}", id)))
		assert.Equal(t, strings.Repeat("10001 ", 4), status["Uid"]+" ")
		assert.Equal(t, strings.Repeat("0", 16), status["CapEff"])
		assert.Equal(t, strings.Repeat("0", 16), status["CapBnd"])
		assert.Equal(t, "1", status["NoNewPrivs"])
		e.podman("stop", "--time", "20", id)
		assert.Equal(t, "0\n", e.podman("inspect", "--format", "{{.State.ExitCode}}", id))
	})

	t.Run("does not without", func(t *testing.T) {
		other := newNode(t, e)
		id := e.agent(other, store.Address)
		require.Eventually(t, func() bool {
			return strings.Contains(logs{e, id}.String(), "permission denied")
		}, 30*time.Second, 200*time.Millisecond)
	})
}

// logs is what a container has printed, read when it is asked for.
type logs struct {
	engine *engine
	id     string
}

func (l logs) String() string {
	out, _ := exec.Command("podman", append(append([]string(nil), l.engine.args...), "logs", l.id)...).CombinedOutput() //nolint:noctx // after the test too
	return string(out)
}

func procStatus(t *testing.T, pid string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid))
	require.NoError(t, err)
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.Join(strings.Fields(value), " ")
	}
	return status
}
