// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command gen writes the Grafana dashboards. The JSON it writes is checked in,
// and a test fails where the two differ.
package main // import "github.com/phasecol/phasecol/deploy/grafana/gen"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ../dashboards

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// boards are all dashboards, by the name of their file.
func boards() map[string]board {
	return map[string]board{
		"serving-latency.json":  serving(),
		"host-and-npu.json":     hostAndNPU(),
		"collector-health.json": collector(),
	}
}

func write(dir string) error {
	for name, b := range boards() {
		text, err := render(b)
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // for everyone to read
			return fmt.Errorf("writing a dashboard: %w", err)
		}
	}
	return nil
}

// render is the JSON of a dashboard.
func render(b board) ([]byte, error) {
	built, err := b.build()
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(built); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return buf.Bytes(), nil
}
