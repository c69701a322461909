// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector

import (
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// goldenDir holds the cases that the receiver is tested with as well.
const goldenDir = "../../internal/stracepdata/testdata/golden"

// TestGolden sends every generation's log line by line, as a log collector
// would, and expects the receiver's spans but for their identifiers, which
// hash another scope.
func TestGolden(t *testing.T) {
	cases, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	require.Len(t, cases, 10)
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) {
			r := newRig(t, func(cfg *Config) {
				cfg.Clock.TimeZone = "Asia/Shanghai"
				cfg.StitchWait, cfg.Linger = time.Minute, 10*time.Second // the stop sends all on
			})
			dir := filepath.Join(goldenDir, c.Name())
			require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
				if err != nil || filepath.Ext(path) != ".log" {
					return err
				}
				r.send(collected(t, path))
				return nil
			}))
			r.stop()
			want, err := golden.ReadTraces(filepath.Join(dir, "expected.yaml"))
			require.NoError(t, err)
			got := r.next.all()
			canonical(want)
			canonical(got)
			require.NoError(t, ptracetest.CompareTraces(want, got,
				ptracetest.IgnoreResourceSpansOrder(), ptracetest.IgnoreSpansOrder(),
				ptracetest.IgnoreScopeSpanInstrumentationScopeName(), ptracetest.IgnoreScopeSpanInstrumentationScopeVersion()))
		})
	}
}

// collected makes log records of a file, as file_log with the container
// operator does: CRI lines are taken apart and joined, the identity is on the
// resource.
func collected(t *testing.T, path string) *batch {
	t.Helper()
	textBytes, err := os.ReadFile(path)
	require.NoError(t, err)
	attrs := map[string]any{"host.name": "n1"}
	if strings.Contains(path, "/pods/") {
		attrs = map[string]any{
			"host.name": "n1", "k8s.namespace.name": "serving", "k8s.pod.name": "atom-0",
			"k8s.pod.uid": "6f1c2f0e-3a52-4f0e-9a6d-0c8f5b1d2e3a", "k8s.container.name": "engine", "k8s.container.restart_count": 0,
		}
	}
	b := newBatch(attrs)
	joined := ""
	for line := range strings.Lines(string(textBytes)) {
		line = strings.TrimSuffix(line, "\n")
		at := int64(0)
		if f := strings.SplitN(line, " ", 4); len(f) == 4 && (f[2] == "F" || f[2] == "P") && strings.HasPrefix(f[1], "std") {
			stamp, err := time.Parse(time.RFC3339Nano, f[0])
			require.NoError(t, err)
			at = stamp.UnixNano()
			joined += f[3]
			if f[2] == "P" {
				continue
			}
			line, joined = joined, ""
		}
		b.add(at, line).Attributes().PutStr(filePathKey, path)
	}
	return b
}

// canonical replaces the identifiers by ones that follow from what the spans
// are, and keeps who is whose parent.
func canonical(t ptrace.Traces) {
	spans := spansOf(t)
	slices.SortFunc(spans, func(a, b ptrace.Span) int {
		return cmp.Or(
			cmp.Compare(a.StartTimestamp(), b.StartTimestamp()), cmp.Compare(b.EndTimestamp(), a.EndTimestamp()), cmp.Compare(a.Name(), b.Name()),
			cmp.Compare(number(a, "strace.inv"), number(b, "strace.inv")), cmp.Compare(number(a, "thread.id"), number(b, "thread.id")),
		)
	})
	spanIDs, traceIDs := map[pcommon.SpanID]pcommon.SpanID{}, map[pcommon.TraceID]pcommon.TraceID{}
	for i, s := range spans {
		var id pcommon.SpanID
		binary.BigEndian.PutUint64(id[:], uint64(i+1))
		spanIDs[s.SpanID()] = id
		if _, ok := traceIDs[s.TraceID()]; !ok {
			var trace pcommon.TraceID
			binary.BigEndian.PutUint64(trace[8:], uint64(i+1))
			traceIDs[s.TraceID()] = trace
		}
	}
	for _, s := range spans {
		s.SetTraceID(traceIDs[s.TraceID()])
		s.SetSpanID(spanIDs[s.SpanID()])
		if parent, ok := spanIDs[s.ParentSpanID()]; ok {
			s.SetParentSpanID(parent)
		}
	}
}

func number(s ptrace.Span, key string) int64 {
	v, _ := s.Attributes().Get(key)
	return v.Int()
}
