// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// traceEvent is one event of a document; times in microseconds.
type traceEvent struct {
	Name string
	Ph   string
	Cat  string
	TS   json.Number
	Dur  json.Number
	PID  int64
	TID  int64
	ID   json.Number
	S    string
	BP   string
	Args map[string]any
}

type traceDocument struct {
	TraceEvents     []traceEvent
	DisplayTimeUnit string
	ClockAnchors    []struct {
		PID    int64
		MonoNS string `json:"mono_ns"`
		WallNS string `json:"wall_ns"`
	}
	Unaligned []map[string]any `json:"unalignedDeviceSpans"`
}

// ns turns exact decimal microseconds into nanoseconds.
func ns(t *testing.T, micros json.Number) int64 {
	t.Helper()
	whole, frac, ok := strings.Cut(string(micros), ".")
	v, err := strconv.ParseInt(whole+frac, 10, 64)
	if !ok || len(frac) != 3 || err != nil {
		require.Failf(t, "a time that is not exact", "%s: %v", micros, err)
	}
	return v
}

func readTrace(t *testing.T, path string) traceDocument {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		in, err = gzip.NewReader(f)
		require.NoError(t, err)
	}
	var doc traceDocument
	dec := json.NewDecoder(in)
	require.NoError(t, dec.Decode(&doc))
	return doc
}

type track struct{ pid, tid int64 }

type slice struct {
	start, end int64
	name       string
}

// validate checks what every trace event document must hold.
func validate(t *testing.T, doc *traceDocument) {
	t.Helper()
	drawnOn := map[track][]slice{}
	named := map[track]bool{}
	processes := map[int64]bool{}
	used := map[track]bool{}
	for i := range doc.TraceEvents {
		e := &doc.TraceEvents[i]
		at := track{e.PID, e.TID}
		switch e.Ph {
		case "X":
			start, dur := ns(t, e.TS), ns(t, e.Dur)
			if dur < 0 {
				require.Failf(t, "a negative duration", "%+v", e)
			}
			drawnOn[at] = append(drawnOn[at], slice{start, start + dur, e.Name})
			used[at] = true
		case "i":
			ns(t, e.TS)
			assert.Equal(t, "t", e.S)
			used[at] = true
		case "M":
			require.Contains(t, []string{"process_name", "thread_name"}, e.Name)
			require.NotEmpty(t, e.Args["name"])
			if e.Name == "process_name" {
				assert.False(t, processes[e.PID], "a process has one name")
				processes[e.PID] = true
			} else {
				assert.False(t, named[at], "a thread has one name")
				named[at] = true
			}
		case "s", "f":
		default:
			t.Errorf("an event of phase %q", e.Ph)
		}
	}
	for at := range used {
		assert.True(t, processes[at.pid], at)
		assert.True(t, named[at], at)
	}
	for at, list := range drawnOn {
		checkNesting(t, at, list)
	}
	checkFlows(t, doc, drawnOn)
}

func checkNesting(t *testing.T, at track, list []slice) {
	t.Helper()
	slices.SortFunc(list, func(a, b slice) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	var open []slice
	for _, s := range list {
		for len(open) > 0 && open[len(open)-1].end <= s.start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			top := open[len(open)-1]
			if s.end > top.end {
				require.Failf(t, "crossing slices", "track %v: %v crosses %v", at, s, top)
			}
		}
		open = append(open, s)
	}
}

func checkFlows(t *testing.T, doc *traceDocument, on map[track][]slice) {
	t.Helper()
	ends := map[json.Number][2]*traceEvent{}
	for i := range doc.TraceEvents {
		e := &doc.TraceEvents[i]
		at := slices.Index([]string{"s", "f"}, e.Ph)
		if at < 0 {
			continue
		}
		pair := ends[e.ID]
		require.Nil(t, pair[at], "flow %v", e.ID)
		pair[at] = e
		ends[e.ID] = pair
		moment := ns(t, e.TS)
		assert.True(t, slices.ContainsFunc(on[track{e.PID, e.TID}], func(s slice) bool { return s.start <= moment && moment <= s.end }),
			"flow %v has no slice at its end %s", e.ID, e.Ph)
	}
	for id, pair := range ends {
		require.NotNil(t, pair[0], id)
		require.NotNil(t, pair[1], id)
		assert.LessOrEqual(t, ns(t, pair[0].TS), ns(t, pair[1].TS), id)
		assert.Equal(t, pair[0].Args["dispatch_key"], pair[1].Args["dispatch_key"])
	}
}

// checkWall checks that wall times are those of the anchor, exactly.
func checkWall(t *testing.T, doc *traceDocument) {
	t.Helper()
	if len(doc.ClockAnchors) != 1 {
		return // several processes may have several
	}
	mono, err := strconv.ParseInt(doc.ClockAnchors[0].MonoNS, 10, 64)
	require.NoError(t, err)
	wall, err := strconv.ParseInt(doc.ClockAnchors[0].WallNS, 10, 64)
	require.NoError(t, err)
	for i := range doc.TraceEvents {
		e := &doc.TraceEvents[i]
		if e.Ph == "M" {
			continue
		}
		got, ok := e.Args["wall_ts_ns"].(string)
		text, _ := e.Args["wall_time"].(string)
		if !ok || got != strconv.FormatInt(ns(t, e.TS)-mono+wall, 10) || !strings.HasSuffix(text, got[len(got)-9:]+"Z") {
			require.Failf(t, "a wrong wall time", "%+v", e)
		}
	}
}

func TestTimelinesOnSamples(t *testing.T) {
	for _, path := range samples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir := t.TempDir()
			traceOut, swimlane := filepath.Join(dir, "trace.json"), filepath.Join(dir, "lanes.json.gz")
			code, _, _ := run(t, "--trace-out", traceOut, "--swimlane", swimlane, path)
			require.Equal(t, exitOK, code)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, left, 2, "no temporary file is left")

			raw := records(t, path)
			doc := readTrace(t, traceOut)
			validate(t, &doc)
			checkWall(t, &doc)
			checkTraceOut(t, &doc, raw)

			doc = readTrace(t, swimlane)
			validate(t, &doc)
			checkWall(t, &doc)
			checkSwimlane(t, &doc, raw)
		})
	}
}

// checkTraceOut finds every chip record again, host ones at their own time.
func checkTraceOut(t *testing.T, doc *traceDocument, raw []rawRecord) {
	t.Helper()
	want := map[string]int{}
	for _, r := range raw {
		if belongs, _ := chip(r.name); belongs || strings.Contains(r.name, "prewarm") {
			want[key(r)]++
		}
	}
	assert.Equal(t, want, drawn(t, doc, nil))
}

// key tells a record of the log; points and device records by less.
func key(r rawRecord) string {
	switch {
	case r.dur == 0:
		return r.name + " point"
	case strings.Contains(r.attrs, "clk=dev"):
		return r.name + " dev " + strconv.FormatInt(r.ts, 10) + " " + strconv.FormatInt(r.dur, 10)
	default:
		return r.name + " " + strconv.FormatInt(r.ts, 10) + " " + strconv.FormatInt(r.dur, 10)
	}
}

// drawn lists what a document shows, by the same keys.
func drawn(t *testing.T, doc *traceDocument, skip func(*traceEvent) bool) map[string]int {
	t.Helper()
	got := map[string]int{}
	for i := range doc.TraceEvents {
		e := &doc.TraceEvents[i]
		if skip != nil && skip(e) {
			continue
		}
		switch {
		case e.Ph == "i", e.Ph == "X" && ns(t, e.Dur) == 0:
			got[e.Name+" point"]++
		case e.Ph != "X":
		case e.Args["device_ts_ns"] != nil:
			dev := strconv.FormatInt(int64(e.Args["device_ts_ns"].(float64)), 10)
			got[e.Name+" dev "+dev+" "+strconv.FormatInt(ns(t, e.Dur), 10)]++
		default:
			got[e.Name+" "+strconv.FormatInt(ns(t, e.TS), 10)+" "+strconv.FormatInt(ns(t, e.Dur), 10)]++
		}
	}
	return got
}

func checkSwimlane(t *testing.T, doc *traceDocument, raw []rawRecord) {
	t.Helper()
	want := map[string]int{}
	device := 0
	for _, r := range raw {
		if strings.Contains(r.name, "%") || strings.Contains(r.name, "~") || r.name == "" || r.ts >= math.MaxInt32*int64(math.MaxInt32) {
			continue // names that change when decoded
		}
		want[key(r)]++
		if strings.Contains(r.attrs, "clk=dev") && !strings.Contains(r.name, "device_boundaries") {
			device++
		}
	}
	got := drawn(t, doc, func(e *traceEvent) bool {
		// Bind phases and the spans that stand for L3 runs are no records.
		return e.Args["src"] != nil || strings.HasSuffix(e.Name, ".run") && e.Args["os_tid"] == 0.0
	})
	for k, n := range want {
		if got[k] != n {
			assert.Equal(t, n, got[k], k)
		}
	}
	assert.Len(t, doc.Unaligned, device)
}
