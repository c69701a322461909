// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// traceEvent is what a reader of the trace event format sees.
type traceEvent struct {
	Ph   string                     `json:"ph"`
	Name string                     `json:"name"`
	Cat  string                     `json:"cat"`
	TS   json.Number                `json:"ts"`
	Dur  json.Number                `json:"dur"`
	PID  int64                      `json:"pid"`
	TID  int64                      `json:"tid"`
	ID   json.RawMessage            `json:"id"`
	ID2  struct{ Local string }     `json:"id2"`
	BP   string                     `json:"bp"`
	S    string                     `json:"s"`
	Args map[string]json.RawMessage `json:"args"`

	base int64 // Unix nanoseconds from which the file counts
}

// nanos turns decimal microseconds into nanoseconds without rounding.
func nanos(number json.Number) (int64, error) {
	whole, fraction, _ := strings.Cut(number.String(), ".")
	if len(fraction) > 3 {
		return 0, fmt.Errorf("%q has parts of a nanosecond", number)
	}
	ns, err := strconv.ParseInt(whole+(fraction + "000")[:3], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number: %w", number, err)
	}
	return ns, nil
}

func (e *traceEvent) at() int64 {
	ns, err := nanos(e.TS)
	if err != nil {
		panic(err)
	}
	return e.base + ns
}

func (e *traceEvent) end() int64 {
	ns, err := nanos(e.Dur)
	if err != nil {
		panic(err)
	}
	return e.at() + ns
}

func (e *traceEvent) arg(name string) string {
	raw, ok := e.Args[name]
	if !ok {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return string(raw)
	}
	return s
}

// decodeStrict reads a file as plain JSON.
func decodeStrict(data []byte) ([]traceEvent, error) {
	var events []traceEvent
	if err := json.Unmarshal(data, &events); err != nil {
		return nil, err
	}
	var base int64
	for i := range events {
		e := &events[i]
		if e.Ph == "M" && e.Name == "trace_base" {
			var err error
			if base, err = strconv.ParseInt(e.arg("trace_base_unix_ns"), 10, 64); err != nil || i != 0 {
				return nil, fmt.Errorf("event %d is no base: %w", i, err)
			}
		}
		e.base = base
		if e.ID2.Local != "" {
			// One such id in two processes is two.
			e.ID = fmt.Appendf(nil, "%d/%s", e.PID, e.ID2.Local)
		}
	}
	return events, nil
}

// decodeOpen reads a file as the format allows it to be while it is written
// and after a crash: the closing bracket may be missing.
func decodeOpen(data []byte) ([]traceEvent, error) {
	trimmed := bytes.TrimRight(data, " \n")
	if !bytes.HasSuffix(trimmed, []byte("]")) {
		trimmed = append(slices.Clone(trimmed), ']')
	}
	return decodeStrict(trimmed)
}

func readTrace(t *testing.T, path string) []traceEvent {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	events, err := decodeStrict(data)
	require.NoError(t, err)
	return events
}

// allFiles are the trace files of a folder, oldest first, the live one last.
func allFiles(t *testing.T, dir string) []string {
	t.Helper()
	backups, err := filepath.Glob(filepath.Join(dir, "trace-*.json"))
	require.NoError(t, err)
	slices.Sort(backups)
	return append(backups, filepath.Join(dir, "trace.json"))
}

// problems checks one file against the rules viewers have, by means of its own.
func problems(events []traceEvent) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	found = append(found, namingProblems(events)...)
	order := make([]int, len(events))
	for i := range order {
		order[i] = i
	}
	var timed []int
	for _, i := range order {
		if events[i].Ph == "M" {
			continue
		}
		if _, err := nanos(events[i].TS); err != nil {
			report("event %d: %v", i, err)
			continue
		}
		if e := &events[i]; e.at() < e.base || float64(e.at()-e.base) >= 1<<42*1000 {
			report("%q at %s: no time a viewer holds", e.Name, e.TS)
		}
		timed = append(timed, i)
	}
	if len(timed) < len(events) && slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, "event ") }) {
		return found
	}
	// Viewers sort by time and keep the order of writing where times are equal.
	slices.SortStableFunc(timed, func(a, b int) int { return cmpInt(events[a].at(), events[b].at()) })
	open := map[[2]int64][]int{}
	async := map[string][]int{}
	for _, i := range timed {
		e := &events[i]
		lane := [2]int64{e.PID, e.TID}
		switch e.Ph {
		case "X":
			stack := open[lane]
			for len(stack) > 0 && events[stack[len(stack)-1]].end() <= e.at() {
				stack = stack[:len(stack)-1]
			}
			if n := len(stack); n > 0 && e.end() > events[stack[n-1]].end() {
				report("lane %v: %q [%d, %d] sticks out of %q [%d, %d]", lane, e.Name, e.at(), e.end(),
					events[stack[n-1]].Name, events[stack[n-1]].at(), events[stack[n-1]].end())
			}
			open[lane] = append(stack, i)
		case "b":
			async[string(e.ID)] = append(async[string(e.ID)], i)
		case "e":
			stack := async[string(e.ID)]
			if len(stack) == 0 || events[stack[len(stack)-1]].Name != e.Name {
				report("async %s: end of %q at %d does not match", e.ID, e.Name, e.at())
				continue
			}
			async[string(e.ID)] = stack[:len(stack)-1]
		case "n":
			if len(async[string(e.ID)]) == 0 && e.arg("span_id") == "" {
				report("async %s: instant %q of no span", e.ID, e.Name)
			}
		case "i":
			if e.S != "t" {
				report("instant %q has scope %q", e.Name, e.S)
			}
		case "s", "f":
		default:
			report("unknown phase %q", e.Ph)
		}
	}
	for id, stack := range async {
		if len(stack) > 0 {
			report("async %s: %d never end", id, len(stack))
		}
	}
	return append(found, flowProblems(events)...)
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// namingProblems: every process and thread drawn on is named in this file, and
// no thread number is shared between processes.
func namingProblems(events []traceEvent) []string {
	var found []string
	processes, threads, owners := map[int64]bool{}, map[[2]int64]bool{}, map[int64]int64{}
	for i := range events {
		e := &events[i]
		if e.PID <= 0 || e.TID <= 0 || e.PID > 1<<31 || e.TID > 1<<31 {
			found = append(found, fmt.Sprintf("pid %d tid %d of %q is no id a viewer takes", e.PID, e.TID, e.Name))
		}
		switch {
		case e.Ph == "M" && e.Name == "process_name":
			processes[e.PID] = true
		case e.Ph == "M" && e.Name == "thread_name":
			threads[[2]int64{e.PID, e.TID}] = true
		case e.Ph == "X" || e.Ph == "i" || e.Ph == "s" || e.Ph == "f":
			if !threads[[2]int64{e.PID, e.TID}] {
				found = append(found, fmt.Sprintf("thread %d/%d has no name before %q", e.PID, e.TID, e.Name))
			}
			if owner, ok := owners[e.TID]; ok && owner != e.PID {
				found = append(found, fmt.Sprintf("thread %d is of %d and of %d", e.TID, owner, e.PID))
			}
			owners[e.TID] = e.PID
		}
		if e.Ph != "M" && !processes[e.PID] {
			found = append(found, fmt.Sprintf("process %d has no name before %q", e.PID, e.Name))
		}
	}
	return found
}

// flowProblems: every arrow has one start and one later end, each on a slice.
func flowProblems(events []traceEvent) []string {
	var found []string
	starts, ends := map[string]*traceEvent{}, map[string]*traceEvent{}
	slicesOf := map[[2]int64][]interval{}
	for i := range events {
		if e := &events[i]; e.Ph == "X" {
			lane := [2]int64{e.PID, e.TID}
			slicesOf[lane] = append(slicesOf[lane], interval{uint64(e.at()), uint64(e.end())})
		}
	}
	for i := range events {
		e := &events[i]
		side := starts
		switch e.Ph {
		case "s":
		case "f":
			side = ends
			if e.BP != "e" {
				found = append(found, fmt.Sprintf("flow %s does not end at the enclosing slice", e.ID))
			}
		default:
			continue
		}
		if side[string(e.ID)] != nil {
			found = append(found, fmt.Sprintf("flow %s has two %s", e.ID, e.Ph))
		}
		side[string(e.ID)] = e
		at := uint64(e.at())
		if !slices.ContainsFunc(slicesOf[[2]int64{e.PID, e.TID}], func(x interval) bool { return x.start <= at && at <= x.end }) {
			found = append(found, fmt.Sprintf("flow %s: no slice for %s at %d on %d/%d", e.ID, e.Ph, e.at(), e.PID, e.TID))
		}
	}
	for id, s := range starts {
		f := ends[id]
		switch {
		case f == nil:
			found = append(found, "flow "+id+" has no end")
		case f.at() < s.at() || f.Name != s.Name || f.Cat != s.Cat:
			found = append(found, "flow "+id+" has ends that do not match")
		}
	}
	for id := range ends {
		if starts[id] == nil {
			found = append(found, "flow "+id+" has no start")
		}
	}
	return found
}

// spanKeyText names a span in maps of expected and drawn ones.
func spanKeyText(trace, span, start string) string { return trace + "/" + span + "@" + start }

// requireSpans checks that the files hold exactly the spans of want, each once,
// with its times to the nanosecond.
func requireSpans(t *testing.T, files [][]traceEvent, want ...ptrace.Traces) {
	t.Helper()
	expected := map[string]ptrace.Span{}
	for _, td := range want {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					key := spanKeyText(span.TraceID().String(), span.SpanID().String(), strconv.FormatUint(uint64(span.StartTimestamp()), 10))
					expected[key] = span
				}
			}
		}
	}
	drawn := 0
	for _, events := range files {
		for i := range events {
			e := &events[i]
			if (e.Ph != "X" || e.Cat == "link") && e.Ph != "b" {
				continue
			}
			drawn++
			span, ok := expected[spanKeyText(e.arg("trace_id"), e.arg("span_id"), e.arg("start_ns"))]
			require.True(t, ok, "drawn, but not sent: %+v", e)
			require.Equal(t, span.Name(), e.Name)
			require.EqualValues(t, span.StartTimestamp(), e.at())
			require.Equal(t, strconv.FormatUint(uint64(span.EndTimestamp()-span.StartTimestamp()), 10), e.arg("dur_ns"))
			if e.Ph == "X" {
				require.EqualValues(t, span.EndTimestamp(), e.end())
			}
		}
	}
	require.Len(t, expected, drawn)
}

// lanesByName are the slices of each lane, under "process | thread" names.
func lanesByName(events []traceEvent) map[string][]string {
	processes, threads := map[int64]string{}, map[int64]string{}
	for i := range events {
		switch e := &events[i]; {
		case e.Ph == "M" && e.Name == "process_name":
			processes[e.PID] = e.arg("name")
		case e.Ph == "M" && e.Name == "thread_name":
			threads[e.TID] = e.arg("name")
		}
	}
	lanes := map[string][]string{}
	for i := range events {
		e := &events[i]
		if e.Ph == "X" {
			lane := processes[e.PID] + " | " + threads[e.TID]
			lanes[lane] = append(lanes[lane], e.Name)
		}
	}
	return lanes
}

func requireNoProblems(t *testing.T, events []traceEvent) {
	t.Helper()
	found := problems(events)
	if len(found) > 10 {
		found = append(found[:10], "and more")
	}
	require.Empty(t, found, strings.Join(found, "\n"))
}

// The checker must see what is wrong, or passing it says nothing.
func TestCheckerFindsProblems(t *testing.T) {
	const named = `{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"p"}},
		{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"t"}},`
	for name, test := range map[string]struct{ events, want string }{
		"overlap":    {`{"ph":"X","ts":1,"dur":5,"pid":1,"tid":2,"name":"a"},{"ph":"X","ts":3.001,"dur":5,"pid":1,"tid":2,"name":"b"}`, "sticks out"},
		"same start": {`{"ph":"X","ts":1,"dur":5,"pid":1,"tid":2,"name":"a"},{"ph":"X","ts":1,"dur":9,"pid":1,"tid":2,"name":"b"}`, "sticks out"},
		"no end":     {`{"ph":"b","ts":1,"id":"0x1","pid":1,"tid":1,"name":"a"}`, "never end"},
		"crossed": {`{"ph":"b","ts":1,"id":"0x1","pid":1,"tid":1,"name":"a"},{"ph":"b","ts":2,"id":"0x1","pid":1,"tid":1,"name":"b"},
			{"ph":"e","ts":3,"id":"0x1","pid":1,"tid":1,"name":"a"},{"ph":"e","ts":4,"id":"0x1","pid":1,"tid":1,"name":"b"}`, "does not match"},
		"flow alone":  {`{"ph":"X","ts":1,"dur":5,"pid":1,"tid":2,"name":"a"},{"ph":"s","ts":2,"id":7,"pid":1,"tid":2,"name":"f"}`, "no end"},
		"flow in air": {`{"ph":"X","ts":1,"dur":5,"pid":1,"tid":2,"name":"a"},{"ph":"s","ts":7,"id":7,"pid":1,"tid":2,"name":"f"}`, "no slice"},
		"nameless":    {`{"ph":"X","ts":1,"dur":5,"pid":1,"tid":3,"name":"a"}`, "has no name"},
		"negative":    {`{"ph":"X","ts":-1,"dur":5,"pid":1,"tid":2,"name":"a"}`, "no time a viewer holds"},
		"imprecise":   {`{"ph":"X","ts":4398046511104,"dur":5,"pid":1,"tid":2,"name":"a"}`, "no time a viewer holds"},
		"sub-nano":    {`{"ph":"X","ts":1.0001,"dur":5,"pid":1,"tid":2,"name":"a"}`, "parts of a nanosecond"},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := decodeStrict([]byte("[" + named + test.events + "]"))
			require.NoError(t, err)
			assert.Contains(t, strings.Join(problems(events), "\n"), test.want)
		})
	}
}
