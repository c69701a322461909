// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// helmValues are the values of the official chart that become a pod.
type helmValues struct {
	Command struct {
		Name      string   `json:"name"`
		ExtraArgs []string `json:"extraArgs"`
	} `json:"command"`
	ExtraEnvs          []core.EnvVar             `json:"extraEnvs"`
	PodSecurityContext *core.PodSecurityContext  `json:"podSecurityContext"`
	SecurityContext    *core.SecurityContext     `json:"securityContext"`
	Resources          core.ResourceRequirements `json:"resources"`
	InitContainers     []core.Container          `json:"initContainers"`
	ExtraVolumes       []core.Volume             `json:"extraVolumes"`
	ExtraVolumeMounts  []core.VolumeMount        `json:"extraVolumeMounts"`
}

// TestHelm asks of the values what TestVariants asks of the manifests. The
// chart sets GOMEMLIMIT and the probes.
func TestHelm(t *testing.T) {
	for _, tier := range []string{"agent", "gateway"} {
		t.Run(tier, func(t *testing.T) {
			text, err := os.ReadFile(root + "/deploy/helm/values-" + tier + ".yaml")
			require.NoError(t, err)
			var values helmValues
			require.NoError(t, yaml.Unmarshal(text, &values))
			container := core.Container{
				Name: "collector", SecurityContext: values.SecurityContext, Resources: values.Resources, VolumeMounts: values.ExtraVolumeMounts,
				LivenessProbe: &core.Probe{}, ReadinessProbe: &core.Probe{},
				Env: append(values.ExtraEnvs, core.EnvVar{Name: "GOMEMLIMIT", Value: map[string]string{"agent": "819MiB", "gateway": "1638MiB"}[tier]}),
			}
			checkPod(t, tier, core.PodSpec{
				SecurityContext: values.PodSecurityContext, InitContainers: values.InitContainers, Volumes: values.ExtraVolumes, Containers: []core.Container{container},
			})
			validate(t, values.Command.ExtraArgs, environment(&container, nil))
		})
	}
}

// TestCompose asks whether what the files name is there, and whether the
// collector takes what it is given.
func TestCompose(t *testing.T) {
	dir := root + "/deploy/compose"
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	require.NoError(t, err)
	var compose struct {
		Services map[string]struct {
			Command     []string          `json:"command"`
			Environment map[string]string `json:"environment"`
			Ports       []string          `json:"ports"`
			Volumes     []string          `json:"volumes"`
		} `json:"services"`
	}
	require.NoError(t, yaml.Unmarshal(text, &compose))
	for name, service := range compose.Services {
		for _, port := range service.Ports {
			assert.Truef(t, strings.HasPrefix(port, "127.0.0.1:"), "%s publishes %s", name, port)
		}
		for _, volume := range service.Volumes {
			if from, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(from, ".") {
				_, err := os.Stat(filepath.Join(dir, from))
				assert.NoError(t, err, name)
			}
		}
	}
	collector := compose.Services["phasecol"]
	var env []string
	for name, value := range collector.Environment {
		env = append(env, name+"="+value)
	}
	var args []string
	for _, arg := range collector.Command {
		args = append(args, strings.Replace(arg, "/etc/phasecol", filepath.Join(root, "config"), 1))
	}
	validate(t, args, env)
}

// validate has the built Collector check the image's own configurations.
func validate(t *testing.T, args, env []string) {
	t.Helper()
	full := []string{"validate"}
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--config=/etc/phasecol/"); ok {
			arg = "--config=" + path.Join(root, "config", name)
		}
		full = append(full, arg)
	}
	cmd := exec.CommandContext(t.Context(), collector(t), full...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
}
