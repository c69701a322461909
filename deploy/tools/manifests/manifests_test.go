// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

var update = flag.Bool("update", false, "write the golden files")

// variants are kustomizations, by golden file: the overlays as they are, and
// with what production adds.
var variants = map[string]string{
	"agent-only":           overlay("agent-only"),
	"agent-gateway":        overlay("agent-gateway"),
	"kafka":                overlay("kafka"),
	"agent-gateway-secure": overlay("agent-gateway", "tls", "token", "monitoring"),
	"agent-only-root":      overlay("agent-only", "dac-read-search", "monitoring"),
}

func overlay(name string, components ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "resources: [../../overlays/%s]\ncomponents:\n", name)
	for _, c := range components {
		fmt.Fprintf(&text, "  - ../../components/%s\n", c)
	}
	return text.String()
}

// build runs kustomize with what kubectl allows: nothing outside its folders.
func build(t *testing.T, kustomization string) []byte {
	t.Helper()
	disk := filesys.MakeFsOnDisk()
	memory := filesys.MakeFsInMemory()
	base := root + "/deploy/kubernetes"
	require.NoError(t, filepath.Walk(base, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := disk.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		return memory.WriteFile("/k/"+below, content)
	}))
	require.NoError(t, memory.WriteFile("/k/test/variant/kustomization.yaml", []byte(kustomization)))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/k/test/variant")
	require.NoError(t, err)
	text, err := resources.AsYaml()
	require.NoError(t, err)
	return text
}

// decode reads every resource with its own Go type and refuses what the type
// does not know.
func decode(t *testing.T, text []byte) []runtime.Object {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, autoscaling.AddToScheme, networking.AddToScheme,
		policy.AddToScheme, rbac.AddToScheme, scheduling.AddToScheme, monitoring.AddToScheme,
	} {
		require.NoError(t, add(types))
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, _, err := decoder.Decode(document, nil, nil)
		require.NoErrorf(t, err, "%s", document)
		objects = append(objects, object)
	}
	return objects
}

// TestGenerated asks that what is repeated in deploy/ is what it repeats.
func TestGenerated(t *testing.T) {
	files, err := generate(root)
	require.NoError(t, err)
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		assert.Equalf(t, string(want), string(got), "%s: run make manifests", path)
	}
	for _, tier := range []string{"agent", "gateway"} {
		found, err := filepath.Glob(root + "/deploy/kubernetes/" + tier + "/config/*.yaml")
		require.NoError(t, err)
		for _, path := range found {
			below, err := filepath.Rel(root, path)
			require.NoError(t, err)
			assert.Contains(t, files, below, "no kustomization names it")
		}
	}
}

func TestVariants(t *testing.T) {
	for name, kustomization := range variants {
		t.Run(name, func(t *testing.T) {
			text := build(t, kustomization)
			objects := decode(t, text)
			golden(t, name, text)
			checkPolicy(t, objects)
			checkReferences(t, objects)
			checkStart(t, objects)
			dac := strings.Contains(kustomization, "dac-read-search")
			assert.Equal(t, dac, bytes.Contains(text, []byte("DAC_READ_SEARCH")))
		})
	}
}

func TestOperator(t *testing.T) {
	text, err := os.ReadFile(root + "/deploy/operator/agent.yaml")
	require.NoError(t, err)
	var collector openTelemetryCollector
	require.NoError(t, yaml.UnmarshalStrict(text, &collector))
	checkPod(t, "operator", collector.pod())
	assert.Equal(t, "0", collector.Spec.DaemonSetUpdateStrategy.RollingUpdate.MaxSurge.String())
}

// golden compares with testdata, configurations shortened: they have tests of
// their own.
func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	var short bytes.Buffer
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal(document, &object))
		if data, ok := object["data"].(map[string]any); ok && object["kind"] == "ConfigMap" {
			for key, value := range data {
				if strings.HasSuffix(key, ".yaml") {
					data[key] = fmt.Sprintf("(%s)", strings.SplitN(value.(string), "\n", 2)[0])
				}
			}
		}
		if object["kind"] == "PrometheusRule" {
			object["spec"] = "(deploy/prometheus/rules.yaml)"
		}
		out, err := yaml.Marshal(object)
		require.NoError(t, err)
		if i > 0 {
			short.WriteString("---\n")
		}
		short.Write(out)
	}
	// The names of ConfigMaps carry a hash of their content.
	shortened := hash.ReplaceAllString(short.String(), "$1-HASH")
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(shortened), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), shortened, "look at the difference, then: go test ./manifests -update")
}
