// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package harness // import "github.com/phasecol/phasecol/test/harness"

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Span is a span with its resource.
type Span struct {
	ptrace.Span
	Resource map[string]any
}

// Str returns an attribute as text, empty when absent.
func (s Span) Str(key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// Float returns a double attribute; ok is false when it is absent.
func (s Span) Float(key string) (value float64, ok bool) {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return 0, false
	}
	return v.Double(), true
}

// Copy reports whether it is a copy of a host span in a request's trace.
func (s Span) Copy() bool {
	v, ok := s.Attributes().Get(semconv.PhaseCopy)
	return ok && v.Bool()
}

// Duration is the span's length in nanoseconds.
func (s Span) Duration() int64 { return int64(s.EndTimestamp()) - int64(s.StartTimestamp()) }

// Spans reads what the file exporter has written so far: whole lines only.
func (c *Collector) Spans() []Span {
	c.t.Helper()
	return ReadSpans(c.t, filepath.Join(c.Dir, "run", "traces*.jsonl"))
}

// ReadSpans reads OTLP JSON lines from the files that match pattern.
func ReadSpans(t testing.TB, pattern string) []Span {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	var spans []Span
	var unmarshaler ptrace.JSONUnmarshaler
	for _, path := range paths {
		text, err := os.ReadFile(path) // #nosec G304 -- the test's own output
		if errors.Is(err, fs.ErrNotExist) {
			continue // rotated since
		}
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			if line[len(line)-1] != '\n' {
				break
			}
			traces, err := unmarshaler.UnmarshalTraces(line)
			require.NoError(t, err)
			spans = append(spans, flatten(traces)...)
		}
	}
	return spans
}

func flatten(traces ptrace.Traces) []Span {
	var spans []Span
	for _, rs := range traces.ResourceSpans().All() {
		resource := rs.Resource().Attributes().AsRaw()
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				spans = append(spans, Span{Span: span, Resource: resource})
			}
		}
	}
	return spans
}

// Where returns the spans that keep is true for.
func Where(spans []Span, keep func(Span) bool) []Span {
	var kept []Span
	for _, s := range spans {
		if keep(s) {
			kept = append(kept, s)
		}
	}
	return kept
}
