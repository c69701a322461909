// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/phasecol/phasecol/cmd/phaserun/internal/summary"
)

// place knows where things are: config/local.yaml names the same paths,
// relative to the repository's root.
type place struct{ root string }

func newPlace(root string) place { return place{root: root} }

func (p place) at(parts ...string) string {
	return filepath.Join(append([]string{p.root}, parts...)...)
}

func (p place) collector() string { return p.at("bin", "phasecol") }
func (p place) stracegen() string { return p.at("bin", "stracegen") }

// clear removes what an earlier run left in ./run, and nothing else.
func (p place) clear() error {
	names := []string{"logs", "state", "timeline", "truth.json", "phasecol.log"}
	traces, err := filepath.Glob(p.at("run", "traces*.jsonl"))
	if err != nil {
		return fmt.Errorf("looking for earlier traces: %w", err)
	}
	for _, path := range traces {
		names = append(names, filepath.Base(path))
	}
	for _, name := range names {
		if err := os.RemoveAll(p.at("run", name)); err != nil {
			return fmt.Errorf("clearing what an earlier run left: %w", err)
		}
	}
	if err := os.MkdirAll(p.at("run", "logs"), 0o755); err != nil {
		return fmt.Errorf("making the folder for the output: %w", err)
	}
	return nil
}

// summary reads what the Collector has written so far.
func (p place) summary() (*summary.Summary, error) {
	return summary.ReadFiles(p.at("run", "traces*.jsonl"))
}

// whereToLook says where the outputs are and how to open them.
func (p place) whereToLook(metrics string) {
	fmt.Println()
	fmt.Printf("traces    %s  (one line of OTLP JSON per batch)\n", p.at("run", "traces.jsonl"))
	fmt.Printf("timeline  %s  (open in https://ui.perfetto.dev or chrome://tracing)\n", p.at("run", "timeline"))
	if metrics != "" {
		fmt.Printf("metrics   %s\n", metrics)
	}
	fmt.Printf("log       %s\n", p.at("run", "phasecol.log"))
}
