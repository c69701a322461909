// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkStart has the built Collector validate what each workload gives it: the
// files of its ConfigMap, its arguments, its environment.
func checkStart(t *testing.T, objects []runtime.Object) {
	t.Helper()
	maps := map[string]*core.ConfigMap{}
	for _, object := range objects {
		if m, ok := object.(*core.ConfigMap); ok {
			maps[m.Name] = m
		}
	}
	for _, w := range workloads(objects) {
		dir := t.TempDir()
		for _, v := range w.pod.Spec.Volumes {
			if v.ConfigMap == nil {
				continue
			}
			for name, text := range maps[v.ConfigMap.Name].Data {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
		}
		container := w.pod.Spec.Containers[0]
		args := []string{"validate"}
		for _, arg := range container.Args {
			args = append(args, strings.Replace(arg, "/etc/phasecol", dir, 1))
		}
		cmd := exec.CommandContext(t.Context(), collector(t), args...)
		cmd.Env = environment(&container, maps)
		out, err := cmd.CombinedOutput()
		require.NoErrorf(t, err, "%s: %s", w.name, out)
	}
}

// environment is what a kubelet would set; what it looks up is made up.
func environment(c *core.Container, maps map[string]*core.ConfigMap) []string {
	var set []string
	for _, from := range c.EnvFrom {
		for name, value := range maps[from.ConfigMapRef.Name].Data {
			set = append(set, name+"="+value)
		}
	}
	for _, e := range c.Env {
		value := strings.ReplaceAll(e.Value, "$(MY_POD_IP)", "10.0.0.7")
		if e.ValueFrom != nil {
			value = map[string]string{"status.podIP": "10.0.0.7", "spec.nodeName": "node-1", "metadata.name": "pod-1"}[e.ValueFrom.FieldRef.FieldPath]
		}
		set = append(set, e.Name+"="+value)
	}
	return set
}

func collector(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PHASECOL_BIN")
	if path == "" {
		path = filepath.Join(root, "bin", "phasecol")
	}
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	require.FileExists(t, path, "build it first: make build")
	return path
}
