// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A small serving process in JSON: a run over two ranks, an external span, a
// request in two calls. What leaves is compared whole.
func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "golden")
	b := newBench(t, nil)
	for _, name := range []string{"hosts.json", "engine.json", "api.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
		require.NoError(t, err)
		b.send(t, td)
	}
	b.pass(t, b.cfg.Join.Wait)
	var got bytes.Buffer
	for _, td := range b.sink.all() {
		data, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		require.NoError(t, err)
		require.NoError(t, json.Indent(&got, data, "", " "))
		got.WriteByte('\n')
	}
	file := filepath.Join(dir, "output.json")
	if *update {
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}
