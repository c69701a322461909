// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/require"
)

// goldenDir is shared with the connector. The path is relative, since the
// directory enters the identifiers.
const goldenDir = "../../internal/stracepdata/testdata/golden"

// TestGolden reads a small log of every generation. What is expected was
// checked against the grammar and the rules of docs/conventions.md.
func TestGolden(t *testing.T) {
	cases, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	require.Len(t, cases, 10)
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) {
			r := newRig(t)
			dir := filepath.Join(goldenDir, c.Name())
			r.cfg.Include = []string{dir + "/**/*.log"}
			r.cfg.Clock.Sources = []string{"anchor", "record"}
			r.cfg.Clock.TimeZone = "Asia/Shanghai"
			r.start()
			r.awaitRead(markers(t, dir))
			r.stop() // without storage, this flushes
			got := r.next.one()
			// To write them anew: golden.WriteTraces(t, filepath.Join(dir, "expected.yaml"), got)
			want, err := golden.ReadTraces(filepath.Join(dir, "expected.yaml"))
			require.NoError(t, err)
			require.NoError(t, ptracetest.CompareTraces(want, got,
				ptracetest.IgnoreResourceSpansOrder(), ptracetest.IgnoreSpansOrder(), ptracetest.IgnoreScopeSpanInstrumentationScopeVersion()))
		})
	}
}

// markers counts the [STRACE] v= in the logs below dir, which the scanner
// counts each, whatever becomes of it.
func markers(t *testing.T, dir string) int64 {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // nobody else writes to the test data
		n += strings.Count(string(text), "[STRACE] v=")
		return err
	}))
	return int64(n)
}
