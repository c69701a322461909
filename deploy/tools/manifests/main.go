// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command manifests writes what deploy/ repeats of other files: configurations
// for kustomize, which reads nothing outside its own folders, alert rules for
// the Prometheus operator, one merged configuration for the OpenTelemetry
// operator, which takes only one.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests REPOSITORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(root, path), content, 0o644); err != nil { //nolint:gosec // sources of the repository that was named
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

// generate makes all files, by path below root.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, tier := range []string{"agent", "gateway"} {
		if err := copyConfigs(root, "deploy/kubernetes/"+tier, files); err != nil {
			return nil, fmt.Errorf("copying configurations of the %s: %w", tier, err)
		}
	}
	rules, err := prometheusRule(root)
	if err != nil {
		return nil, fmt.Errorf("making the rules: %w", err)
	}
	files["deploy/kubernetes/components/monitoring/rules.yaml"] = rules
	collector, err := operatorCollector(root)
	if err != nil {
		return nil, fmt.Errorf("making the operator's resource: %w", err)
	}
	files["deploy/operator/agent.yaml"] = collector
	return files, nil
}

// copyConfigs copies what the kustomization in dir names.
func copyConfigs(root, dir string, files map[string][]byte) error {
	text, err := os.ReadFile(filepath.Join(root, dir, "kustomization.yaml")) //nolint:gosec // the repository that was named
	if err != nil {
		return err
	}
	var kustomization struct {
		ConfigMapGenerator []struct {
			Files []string `yaml:"files"`
		} `yaml:"configMapGenerator"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return err
	}
	for _, generator := range kustomization.ConfigMapGenerator {
		for _, name := range generator.Files {
			content, err := os.ReadFile(filepath.Join(root, name)) //nolint:gosec // the repository that was named
			if err != nil {
				return err
			}
			files[filepath.Join(dir, name)] = content
		}
	}
	return nil
}

const generated = "# Made by `make manifests` from %s: change that.\n"

func prometheusRule(root string) ([]byte, error) {
	const source = "deploy/prometheus/rules.yaml"
	text, err := os.ReadFile(filepath.Join(root, source)) //nolint:gosec // the repository that was named
	if err != nil {
		return nil, err
	}
	var rules struct {
		Groups yaml.Node `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		return nil, err
	}
	return write(source, map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata":   map[string]any{"name": "phasecol"},
		"spec":       map[string]any{"groups": &rules.Groups},
	})
}

// operatorCollector puts the merged configuration of an agent into the resource
// that is otherwise written by hand.
func operatorCollector(root string) ([]byte, error) {
	config := map[string]any{}
	for _, name := range []string{"agent", "kubernetes", "loadbalance"} {
		text, err := os.ReadFile(filepath.Join(root, "config", name+".yaml")) //nolint:gosec // the repository that was named
		if err != nil {
			return nil, err
		}
		var fragment map[string]any
		if err := yaml.Unmarshal(text, &fragment); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		merge(config, fragment)
	}
	prune(config)
	text, err := os.ReadFile(root + "/deploy/operator/agent.in.yaml") //nolint:gosec // the repository that was named
	if err != nil {
		return nil, err
	}
	var resource map[string]any
	if err := yaml.Unmarshal(text, &resource); err != nil {
		return nil, err
	}
	spec, ok := resource["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("agent.in.yaml has no spec")
	}
	spec["config"] = config
	return write("deploy/operator/agent.in.yaml and /config", resource)
}

// merge is the Collector's own: mappings are merged, all else is replaced.
func merge(to, from map[string]any) {
	for key, value := range from {
		a, isMap := to[key].(map[string]any)
		b, andThis := value.(map[string]any)
		if isMap && andThis {
			merge(a, b)
			continue
		}
		to[key] = value
	}
}

// prune removes exporters that no pipeline names.
func prune(config map[string]any) {
	used := map[string]bool{}
	pipelines := config["service"].(map[string]any)["pipelines"].(map[string]any)
	for _, pipeline := range pipelines {
		for _, id := range pipeline.(map[string]any)["exporters"].([]any) {
			used[id.(string)] = true
		}
	}
	exporters := config["exporters"].(map[string]any)
	for id := range exporters {
		if !used[id] {
			delete(exporters, id)
		}
	}
}

func write(source string, value any) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, generated, strings.TrimPrefix(source, "/"))
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}
