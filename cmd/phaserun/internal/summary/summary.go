// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package summary reads the OTLP JSON that the file exporter writes and boils
// it down to the table that make run and make replay print.
package summary // import "github.com/phasecol/phasecol/cmd/phaserun/internal/summary"

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Summary counts what came out and collects phase durations.
type Summary struct {
	// Requests counts HTTP requests, Sequences engine sequences, Joined the
	// sequences with host runs, HostRuns chip invocations, Steps L3 runs.
	Requests, Sequences, Joined, HostRuns, Steps, Spans int
	// Incomplete counts invocations without root.
	Incomplete int
	Contract   map[string]int
	Clocks     map[string]int
	durations  map[string][]float64
}

// phases are shown in this order.
var phases = []struct{ attribute, title string }{
	{semconv.PhaseTTFT, "time to first token"},
	{semconv.PhaseTPOT, "time per output token"},
	{semconv.PhaseQueue, "queue"},
	{semconv.PhasePrefill, "prefill"},
	{semconv.PhaseDecode, "decode"},
	{semconv.PhaseHostBusy, "host busy in request"},
	{semconv.PhaseDeviceBusy, "NPU busy in request"},
	{semconv.PhaseEngineGap, "engine gap in request"},
	{semconv.PhaseHostWall, "host_wall"},
	{semconv.PhaseDeviceWall, "device_wall"},
	{semconv.PhaseEffective, "effective"},
	{semconv.PhaseHostOverhead, "host_overhead"},
	{semconv.PhaseStep, "step over all ranks"},
	{semconv.PhaseRankSkew, "rank skew"},
}

// ReadFiles reads every traces file that matches the pattern.
func ReadFiles(pattern string) (*Summary, error) {
	s := &Summary{Contract: map[string]int{}, Clocks: map[string]int{}, durations: map[string][]float64{}}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", pattern, err)
	}
	for _, path := range paths {
		if err := s.read(path); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Summary) read(path string) error {
	f, err := os.Open(path) // #nosec G304 -- the collector's own output
	if err != nil {
		return fmt.Errorf("opening the traces: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<20)
	var unmarshaler ptrace.JSONUnmarshaler
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without end is still being written
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		traces, err := unmarshaler.UnmarshalTraces(line)
		if err != nil {
			return fmt.Errorf("decoding a line of %s: %w", path, err)
		}
		s.add(traces)
	}
}

func (s *Summary) add(traces ptrace.Traces) {
	for _, rs := range traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				s.span(span)
			}
		}
	}
}

func (s *Summary) span(span ptrace.Span) {
	attrs := span.Attributes()
	if isTrue(attrs, semconv.PhaseCopy) {
		return // a host run shown inside a request's trace
	}
	s.Spans++
	if source := text(attrs, semconv.ClockSource); source != "" {
		s.Clocks[source]++
	}
	if isTrue(attrs, semconv.Incomplete) {
		s.Incomplete++
	}
	switch {
	case span.Name() == "atom.request":
		s.Requests++
	case span.Name() == "engine.request":
		s.Sequences++
		if join := text(attrs, semconv.PhaseJoin); join != "" && join != semconv.JoinNone {
			s.Joined++
		}
		if contract := text(attrs, semconv.PhaseContract); contract != "" {
			s.Contract[contract]++
		}
		s.collect(attrs)
	case text(attrs, semconv.Family) == semconv.FamilyChip && text(attrs, semconv.Stage) == semconv.StageRun:
		s.HostRuns++
		s.collect(attrs)
	case text(attrs, semconv.Stage) == semconv.StageLevelRun:
		s.Steps++
		s.collectOnly(attrs, semconv.PhaseStep, semconv.PhaseRankSkew)
	}
}

// collect keeps the phases that belong to the span itself; a step repeats
// those of its critical rank, which collectOnly leaves out.
func (s *Summary) collect(attrs pcommon.Map) {
	for _, p := range phases {
		s.collectOnly(attrs, p.attribute)
	}
}

func (s *Summary) collectOnly(attrs pcommon.Map, names ...string) {
	for _, name := range names {
		if v, ok := attrs.Get(name); ok && v.Type() == pcommon.ValueTypeDouble {
			s.durations[name] = append(s.durations[name], v.Double())
		}
	}
}

func text(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

func isTrue(attrs pcommon.Map, key string) bool {
	v, ok := attrs.Get(key)
	return ok && v.Type() == pcommon.ValueTypeBool && v.Bool()
}

// Median is the middle value of an attribute's durations, the mean of the two
// middle ones for an even count, and how many there are.
func (s *Summary) Median(attribute string) (seconds float64, n int) {
	values := slices.Sorted(slices.Values(s.durations[attribute]))
	n = len(values)
	switch {
	case n == 0:
		return 0, 0
	case n%2 == 1:
		return values[n/2], n
	default:
		return (values[n/2-1] + values[n/2]) / 2, n
	}
}

// Print writes the table.
func (s *Summary) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	if s.Requests+s.Sequences > 0 {
		row("requests\t%d\t(%d sequences, %d joined with host runs)", s.Requests, s.Sequences, s.Joined)
	}
	row("host runs\t%d\t(%d steps over ranks, %d spans without their root)", s.HostRuns, s.Steps, s.Incomplete)
	row("spans\t%d\tclock: %s", s.Spans, list(s.Clocks))
	if len(s.Contract) > 0 {
		row("contract\t\t%s", list(s.Contract))
	}
	row("\t\t")
	row("median of\t\tn")
	for _, p := range phases {
		if median, n := s.Median(p.attribute); n > 0 {
			row("%s\t%s\t%d", p.title, readable(median), n)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}

func readable(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Microsecond).String()
	default:
		return d.Round(10 * time.Nanosecond).String()
	}
}

func list(counts map[string]int) string {
	keys := make([]string, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, counts[k])
	}
	return strings.Join(keys, ", ")
}
