// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

var hash = regexp.MustCompile(`(phasecol-(?:agent|gateway)-(?:config|env))-[0-9a-z]{10}`)

// workload is what runs pods.
type workload struct {
	name string
	pod  core.PodTemplateSpec
}

func workloads(objects []runtime.Object) []workload {
	var found []workload
	for _, object := range objects {
		switch o := object.(type) {
		case *apps.DaemonSet:
			found = append(found, workload{o.Name, o.Spec.Template})
		case *apps.Deployment:
			found = append(found, workload{o.Name, o.Spec.Template})
		}
	}
	return found
}

// checkPolicy asks of all objects what a cluster's own policies would.
func checkPolicy(t *testing.T, objects []runtime.Object) {
	t.Helper()
	found := workloads(objects)
	require.NotEmpty(t, found)
	for _, w := range found {
		checkPod(t, w.name, w.pod.Spec)
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *apps.DaemonSet:
			require.NotNil(t, o.Spec.UpdateStrategy.RollingUpdate)
			assert.Equal(t, "0", o.Spec.UpdateStrategy.RollingUpdate.MaxSurge.String(), "two agents on one state folder")
		case *rbac.ClusterRole:
			for _, rule := range o.Rules {
				assert.Equal(t, []string{""}, rule.APIGroups)
				assert.Equal(t, []string{"pods"}, rule.Resources)
				assert.Equal(t, []string{"get", "list", "watch"}, rule.Verbs)
			}
		}
	}
}

// checkPod asks for least rights, limits and probes.
func checkPod(t *testing.T, name string, pod core.PodSpec) {
	t.Helper()
	assert.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC, name)
	require.NotNil(t, pod.SecurityContext, name)
	require.NotNil(t, pod.SecurityContext.SeccompProfile, name)
	assert.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			checkHostPath(t, pod, v)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		s := c.SecurityContext
		require.NotNil(t, s, c.Name)
		assert.True(t, s.Privileged == nil || !*s.Privileged, c.Name)
		assert.False(t, *s.AllowPrivilegeEscalation, c.Name)
		assert.True(t, *s.ReadOnlyRootFilesystem, c.Name)
		assert.Equal(t, []core.Capability{"ALL"}, s.Capabilities.Drop, c.Name)
		for _, added := range s.Capabilities.Add {
			assert.Contains(t, []core.Capability{"CHOWN", "DAC_READ_SEARCH"}, added)
		}
		for _, resource := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
			assert.Contains(t, c.Resources.Requests, resource, c.Name)
			assert.Contains(t, c.Resources.Limits, resource, c.Name)
		}
	}
	for _, c := range pod.Containers {
		root := pod.SecurityContext.RunAsUser != nil && *pod.SecurityContext.RunAsUser == 0
		assert.Equal(t, root, slices.Contains(c.SecurityContext.Capabilities.Add, "DAC_READ_SEARCH"), "root for that alone")
		assert.NotNil(t, c.LivenessProbe, c.Name)
		assert.NotNil(t, c.ReadinessProbe, c.Name)
		checkMemory(t, c)
	}
}

// checkHostPath: the node's logs cannot be written.
func checkHostPath(t *testing.T, pod core.PodSpec, v core.Volume) {
	t.Helper()
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name {
				assert.Equal(t, v.Name != "state", m.ReadOnly, "%s in %s", v.Name, c.Name)
			}
		}
	}
}

// checkMemory: the runtime collects before the kernel kills.
func checkMemory(t *testing.T, c core.Container) {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	require.GreaterOrEqual(t, i, 0, c.Name)
	want := strings.TrimSuffix(c.Env[i].Value, "MiB")
	mib := c.Resources.Limits.Memory().Value() >> 20
	assert.Regexp(t, `^\d+$`, want)
	assert.InDelta(t, float64(mib)*0.8, number(t, want), float64(mib)*0.03)
}

func number(t *testing.T, digits string) (n float64) {
	t.Helper()
	for _, d := range digits {
		n = n*10 + float64(d-'0')
	}
	return n
}

// checkReferences asks that names and labels lead somewhere.
func checkReferences(t *testing.T, objects []runtime.Object) {
	t.Helper()
	maps := map[string]*core.ConfigMap{}
	accounts := map[string]bool{}
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		require.NoError(t, err)
		switch o := object.(type) {
		case *core.ConfigMap:
			maps[o.Name] = o
		case *core.ServiceAccount:
			accounts[o.Name] = true
		}
		if kind := object.GetObjectKind().GroupVersionKind().Kind; !strings.HasPrefix(kind, "Cluster") && kind != "Namespace" && kind != "PriorityClass" {
			assert.Equal(t, "phasecol", accessor.GetNamespace(), "%s %s", kind, accessor.GetName())
		}
	}
	for _, w := range workloads(objects) {
		assert.True(t, accounts[w.pod.Spec.ServiceAccountName], w.name)
		checkConfigs(t, w, maps)
	}
	for _, object := range objects {
		for what, selector := range selectors(object) {
			matched := slices.ContainsFunc(workloads(objects), func(w workload) bool { return selector.Matches(labels.Set(w.pod.Labels)) })
			assert.Truef(t, matched, "%s selects nothing", what)
		}
	}
}

// checkConfigs: every --config is a file that is mounted.
func checkConfigs(t *testing.T, w workload, maps map[string]*core.ConfigMap) {
	t.Helper()
	var data map[string]string
	for _, v := range w.pod.Spec.Volumes {
		if v.ConfigMap != nil {
			require.Contains(t, maps, v.ConfigMap.Name)
			data = maps[v.ConfigMap.Name].Data
		}
	}
	container := w.pod.Spec.Containers[0]
	for _, arg := range container.Args {
		path, ok := strings.CutPrefix(arg, "--config=/etc/phasecol/")
		require.True(t, ok, arg)
		assert.Contains(t, data, filepath.Base(path))
	}
	for _, from := range container.EnvFrom {
		assert.Contains(t, maps, from.ConfigMapRef.Name)
	}
}

func selectors(object runtime.Object) map[string]labels.Selector {
	of := func(s *metav1.LabelSelector) labels.Selector {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return labels.Nothing()
		}
		return selector
	}
	switch o := object.(type) {
	case *core.Service:
		return map[string]labels.Selector{"Service " + o.Name: labels.SelectorFromSet(o.Spec.Selector)}
	case *networking.NetworkPolicy:
		return map[string]labels.Selector{"NetworkPolicy " + o.Name: of(&o.Spec.PodSelector)}
	case *policy.PodDisruptionBudget:
		return map[string]labels.Selector{"PodDisruptionBudget " + o.Name: of(o.Spec.Selector)}
	case *apps.DaemonSet:
		return map[string]labels.Selector{"DaemonSet " + o.Name: of(o.Spec.Selector)}
	case *apps.Deployment:
		return map[string]labels.Selector{"Deployment " + o.Name: of(o.Spec.Selector)}
	}
	return nil
}

// openTelemetryCollector has the fields of the operator's v1beta1 resource that
// agent.yaml uses. The operator's own type would bring its whole controller.
type openTelemetryCollector struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		core.PodSpec            `json:""`
		Mode                    string                       `json:"mode"`
		Image                   string                       `json:"image"`
		UpgradeStrategy         string                       `json:"upgradeStrategy"`
		ServiceAccount          string                       `json:"serviceAccount"`
		DaemonSetUpdateStrategy apps.DaemonSetUpdateStrategy `json:"daemonSetUpdateStrategy"`
		PodSecurityContext      *core.PodSecurityContext     `json:"podSecurityContext"`
		SecurityContext         *core.SecurityContext        `json:"securityContext"`
		Resources               core.ResourceRequirements    `json:"resources"`
		Env                     []core.EnvVar                `json:"env"`
		VolumeMounts            []core.VolumeMount           `json:"volumeMounts"`
		Ports                   []struct {
			core.ServicePort `json:""`
			HostPort         int32 `json:"hostPort"`
		} `json:"ports"`
		Config map[string]any `json:"config"`
	} `json:"spec"`
}

// pod is the pod that the operator makes, as far as the resource says. The
// operator adds the probes.
func (c *openTelemetryCollector) pod() core.PodSpec {
	s := &c.Spec
	return core.PodSpec{
		HostNetwork: s.HostNetwork, SecurityContext: s.PodSecurityContext, Volumes: s.Volumes, InitContainers: s.InitContainers,
		Containers: []core.Container{{
			Name: "collector", SecurityContext: s.SecurityContext, Resources: s.Resources, VolumeMounts: s.VolumeMounts, Env: s.Env,
			LivenessProbe: &core.Probe{}, ReadinessProbe: &core.Probe{},
		}},
	}
}
