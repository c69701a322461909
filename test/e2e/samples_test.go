// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// What follows reads the logs by regular expressions, shares no code with the
// Collector, and knows only the facts of the marker language.
var (
	recordPattern = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=(\d+) inv=(\d+) hid=([0-9a-f]+) depth=(\d+) name=([^ \[\n]*) ts=(\d+) dur=(\d+)(?: ([^\[\n]*)|\r?\n)`)
	anchorPattern = regexp.MustCompile(`\[CLOCK_ANCHOR\] v=1 pid=(\d+) mono_ns=(\d+) wall_ns=(\d+)`)
)

// logRecord is one record of a sample.
type logRecord struct {
	pid, tid, inv, hid, name string
	ts, dur                  int64
	device, point            bool
}

// fileTime is the modification time the test gives every sample: the clock of
// those that name no wall time.
var fileTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type sample struct {
	name    string
	records []logRecord
	// offsets are wall minus monotonic by pid; a sample without anchors has
	// one offset, from the file's time and its last record.
	offsets  map[string]int64
	anchored bool
}

func readSample(t *testing.T, path string) *sample {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		text, err = io.ReadAll(z)
		require.NoError(t, err)
	}
	s := &sample{name: filepath.Base(path), offsets: map[string]int64{}}
	var last int64
	for _, m := range recordPattern.FindAllStringSubmatch(string(text), -1) {
		ts, dur := new(big.Int), new(big.Int)
		ts.SetString(m[7], 10)
		dur.SetString(m[8], 10)
		if ts.Add(ts, dur).BitLen() > 62 {
			continue // overflows: no span
		}
		r := logRecord{pid: m[1], tid: m[2], inv: m[3], hid: m[4], name: m[6]}
		r.ts, _ = strconv.ParseInt(m[7], 10, 64)
		r.dur, _ = strconv.ParseInt(m[8], 10, 64)
		r.point = r.dur == 0
		boundaries := strings.HasSuffix(r.name, ".device_boundaries")
		r.device = slices.Contains(strings.Fields(m[9]), "clk=dev") && !boundaries
		if !r.device {
			last = max(last, r.ts+r.dur)
		}
		s.records = append(s.records, r)
	}
	for _, m := range anchorPattern.FindAllStringSubmatch(string(text), -1) {
		mono, _ := strconv.ParseInt(m[2], 10, 64)
		wall, _ := strconv.ParseInt(m[3], 10, 64)
		if _, ok := s.offsets[m[1]]; !ok {
			s.offsets[m[1]] = wall - mono
		}
		s.anchored = true
	}
	for _, r := range s.records {
		if _, ok := s.offsets[r.pid]; !ok {
			s.offsets[r.pid] = fileTime.UnixNano() - last
		}
	}
	return s
}

func decoded(t *testing.T, s *sample, name string) string {
	t.Helper()
	if strings.Contains(s.name, "gen1") || strings.Contains(s.name, "gen2") || strings.Contains(s.name, "gen3") || strings.Contains(s.name, "gen4") {
		return name
	}
	text, err := url.PathUnescape(name)
	require.NoError(t, err)
	return text
}

// TestSamples puts every log of the real runtime and the real logger through
// the built Collector and compares what comes out with the log's own text.
func TestSamples(t *testing.T) {
	dir := harness.Samples(t)
	paths, err := filepath.Glob(filepath.Join(dir, "*.log*"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)

	c := harness.New(t, []string{"local.yaml"}, `
receivers:
  stracelog:
    include_file_path: true
    storage:
    clock: {sources: [anchor, mtime]}
`)
	var samples []*sample
	want := 0
	for _, path := range paths {
		s := readSample(t, path)
		samples = append(samples, s)
		for _, r := range s.records {
			if !r.point {
				want++
			}
		}
		// A folder of its own makes it a scope of its own.
		folder := filepath.Join(c.Dir, "run", "logs", s.name)
		require.NoError(t, os.MkdirAll(folder, 0o755))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		copied := filepath.Join(folder, s.name)
		if strings.HasSuffix(path, ".gz") {
			copied = filepath.Join(folder, strings.TrimSuffix(s.name, ".gz")+".1.log")
			require.NoError(t, os.WriteFile(copied, text, 0o600))
		} else {
			require.NoError(t, os.WriteFile(copied, text, 0o600))
		}
		require.NoError(t, os.Chtimes(copied, fileTime, fileTime))
	}
	c.Start()
	require.Eventually(t, func() bool {
		m := c.OwnMetrics()
		return harness.Sum(m, "otelcol_receiver_stracelog_records") >= float64(want) && harness.Sum(m, "otelcol_fileconsumer_reading_files") == 0
	}, 60*time.Second, 100*time.Millisecond)
	c.Stop()

	spans := c.Spans()
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			own := harness.Where(spans, func(span harness.Span) bool {
				path, _ := span.Resource["log.file.path"].(string)
				return strings.Contains(path, "/"+s.name+"/") && !span.Copy()
			})
			compareSpans(t, s, own)
			compareParents(t, own)
		})
	}
}

// compareSpans holds the spans against the records: names, numbers, times.
func compareSpans(t *testing.T, s *sample, spans []harness.Span) {
	t.Helper()
	type key struct {
		pid, tid, inv, hid, name string
		// start is the wall time of host spans, and the offset as written of
		// device spans.
		start, dur int64
		device     bool
	}
	expected, got := map[key]int{}, map[key]int{}
	points := 0
	for _, r := range s.records {
		if r.point {
			points++
			continue
		}
		k := key{r.pid, r.tid, r.inv, r.hid, decoded(t, s, r.name), r.ts, r.dur, r.device}
		if !r.device {
			k.start += s.offsets[r.pid]
		}
		expected[k]++
	}
	events := 0
	for _, span := range spans {
		events += span.Events().Len()
		if span.Str("strace.synthetic") == "true" {
			continue
		}
		pid, _ := span.Resource["process.pid"].(int64)
		k := key{
			strconv.FormatInt(pid, 10), span.Str("thread.id"), span.Str("strace.inv"), span.Str("strace.hid"), span.Name(),
			int64(span.StartTimestamp()), span.Duration(), span.Str("strace.clock") == "device",
		}
		if k.device {
			k.start, _ = strconv.ParseInt(span.Str("strace.device.ts_ns"), 10, 64)
		}
		source := "mtime"
		if s.anchored {
			source = "anchor"
		}
		assert.Equal(t, source, span.Str("strace.clock.source"))
		got[k]++
	}
	assert.Equal(t, expected, got)
	assert.Equal(t, points, events, "points become events")
}

// parentTable is what the runtime's documentation says of its own tree, for
// names without their invocation's root.
var parentTable = map[string]string{
	"bind.compatibility": "",
	"bind.overlap":       "",
}

var rootPattern = regexp.MustCompile(`^(run_prepared|simpler_run|chip\.run)(?:\.(.*))?$`)

// compareParents checks every chip span's parent by name, number and process.
func compareParents(t *testing.T, spans []harness.Span) {
	t.Helper()
	byID := map[string]harness.Span{}
	for _, span := range spans {
		id := span.TraceID().String() + span.SpanID().String()
		_, twice := byID[id]
		assert.False(t, twice, "two spans with one id: %s", span.Name())
		byID[id] = span
	}
	for _, span := range spans {
		m := rootPattern.FindStringSubmatch(span.Name())
		if m == nil || span.Str("strace.incomplete") == "true" {
			continue
		}
		parent, ok := byID[span.TraceID().String()+span.ParentSpanID().String()]
		if m[2] == "" {
			if ok {
				assert.Regexp(t, `^(node|l3|host|network\d)\.(dispatch|run)$`, parent.Name())
			}
			continue
		}
		if !assert.True(t, ok, "%s has no parent", span.Name()) {
			continue
		}
		rest, special := parentTable[m[2]]
		if !special {
			rest = m[2][:max(0, strings.LastIndexByte(m[2], '.'))]
		}
		assert.Equal(t, strings.TrimSuffix(m[1]+"."+rest, "."), parent.Name(), "parent of %s", span.Name())
		assert.Equal(t, span.Resource["process.pid"], parent.Resource["process.pid"])
		assert.Equal(t, span.Str("strace.inv"), parent.Str("strace.inv"))
		if span.Str("strace.clock") == "host" {
			assert.LessOrEqual(t, parent.StartTimestamp(), span.StartTimestamp(), span.Name())
		}
	}
}
