// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files again; look at what changes")

// TestGolden holds all that is printed for small logs written by hand, whose
// times are round numbers: the values in testdata/golden were checked by hand.
func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"tpot":               {"testdata/l3.log"},
		"tpot-percentiles":   {"--percentiles", "50,99.9", "testdata/l3.log"},
		"tpot-csv":           {"--format", "csv", "testdata/restart.log"},
		"tpot-json":          {"--format", "json", "--top", "1", "testdata/restart.log"},
		"tpot-restart":       {"testdata/restart.log"},
		"tpot-color":         {"--color", "always", "testdata/restart.log"},
		"tree":               {"--tree", "testdata/l3.log"},
		"tree-csv":           {"--tree", "--format", "csv", "testdata/l3.log"},
		"rounds":             {"--rounds-table", "testdata/l3.log"},
		"rounds-top":         {"--rounds-table", "--top", "1", "testdata/l3.log"},
		"rounds-restart":     {"--rounds-table", "--timezone", "UTC", "testdata/restart.log"},
		"rounds-csv":         {"--rounds-table", "--format", "csv", "testdata/l3.log"},
		"by-rank":            {"--by-rank", "testdata/l3.log"},
		"by-rank-json":       {"--by-rank", "--format", "json", "--top", "1", "testdata/l3.log"},
		"by-rank-csv":        {"--by-rank", "--format", "csv", "testdata/l3.log"},
		"overlap":            {"--assert-native-overlap", "--require-hidden-prepare", "testdata/pipeline.log"},
		"overlap-json":       {"--assert-native-overlap", "--format", "json", "testdata/pipeline.log"},
		"overlap-late":       {"--assert-native-overlap", "testdata/late.log"},
		"overlap-not-hidden": {"--assert-native-overlap", "--require-hidden-prepare", "testdata/late.log"},
		"overlap-serial":     {"--assert-native-overlap", "testdata/serial.log"},
		"overlap-csv":        {"--assert-native-overlap", "--format", "csv", "testdata/serial.log"},
		"overlap-none":       {"--assert-native-overlap", "testdata/l3.log"},
		"dump":               {"--dump", "testdata/restart.log"},
		"dump-l3":            {"--dump", "testdata/phases.log"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, args...)
			golden(t, name+".txt", fmt.Sprintf("%s\nexit code: %d\n--- stderr\n%s", stdout, code, stderr))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestGoldenTimelines(t *testing.T) {
	for name, args := range map[string][]string{
		"trace-l3.json":       {"--trace-out", "OUT", "testdata/l3.log"},
		"swimlane-l3.json":    {"--swimlane", "OUT", "testdata/l3.log"},
		"swimlane-pipe.json":  {"--swimlane", "OUT", "testdata/pipeline.log"},
		"swimlane-phase.json": {"--swimlane", "OUT", "--host-phase-records", "testdata/records.jsonl", "testdata/phases.log"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), name)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "OUT", out)
			}
			code, _, _ := run(t, args...)
			require.Equal(t, exitOK, code)
			doc := readTrace(t, out)
			validate(t, &doc)
			checkWall(t, &doc)
			text, err := os.ReadFile(out)
			require.NoError(t, err)
			golden(t, name, string(text))
		})
	}
}
