// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/series"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

const (
	// maxSteps bounds the steps kept to be listed.
	maxSteps = 1 << 18
	// maxOpenSteps bounds the steps that a further rank may still join.
	maxOpenSteps = 64
)

// ByRank compares the ranks of a job: which one ends each step last. A step is
// one L3 run with the invocations stitched into it; a log without L3 records
// has steps of invocations of one callable that overlap in time, one of each
// process.
type ByRank struct {
	pool  *series.Pool
	ranks map[rankKey]*rank
	order []*rank
	runs  stepList // of L3 runs
	pairs stepList // of overlap in time
	// late finds the step of an invocation that comes after its run.
	late map[strace.TraceID]*step
	// fromTime is set by finish where no L3 run had invocations.
	fromTime bool
}

type rankKey struct {
	processKey
	device int32 // -1 while unknown
}

type rank struct {
	key          rankKey
	host, device series.Series
	lag          series.Series
	critical     int64
}

// name is the device's number where the log tells it, else the process id.
func (r *rank) name() string {
	if r.key.device >= 0 {
		return "dev " + strconv.Itoa(int(r.key.device))
	}
	return "pid " + strconv.Itoa(int(r.key.pid))
}

type step struct {
	number     uint64 // run_id, or the invocation's number
	hid        uint64
	start, end int64 // monotonic
	dur        int64
	parts      []part
}

// part is what one rank did in a step.
type part struct {
	rank       *rank
	start, end int64
}

type stepList struct {
	open   []*step
	done   []doneStep
	beyond uint64
}

// doneStep is a step with its verdict.
type doneStep struct {
	number     uint64
	start, dur int64
	ranks      int
	critical   *rank
	skew       int64
}

// NewByRank returns an empty collector.
func NewByRank() *ByRank {
	return &ByRank{pool: series.NewPool(), ranks: map[rankKey]*rank{}, late: map[strace.TraceID]*step{}}
}

// Trace implements feed.Consumer.
func (b *ByRank) Trace(t *strace.Trace) error {
	var st *step
	unit.Each(t, func(u *unit.Unit) {
		switch u.Kind {
		case unit.Run:
			if u.Root != nil {
				st = b.newStep(t.ID, u)
			}
		case unit.Invocation:
			b.invocation(t, u, st)
		case unit.Prewarm, unit.Other:
		}
	})
	return nil
}

func (b *ByRank) newStep(id strace.TraceID, u *unit.Unit) *step {
	start := u.Mono(u.Root)
	st := &step{number: u.Root.Inv, start: start, end: start + u.Root.End - u.Root.Start, dur: u.Root.End - u.Root.Start}
	b.runs.push(b, st)
	if len(b.late) > maxOpenSteps {
		clear(b.late)
	}
	b.late[id] = st
	return st
}

func (b *ByRank) invocation(t *strace.Trace, u *unit.Unit, st *step) {
	if u.Root == nil || u.Root.Name.Stage != semconv.StageRun {
		return
	}
	r := b.rank(u.Process())
	start := u.Mono(u.Root)
	p := part{rank: r, start: start, end: start + u.Root.End - u.Root.Start}
	r.host.Add(p.end - p.start)
	if wall := u.Stage(semconv.StageDeviceWall); wall != nil {
		r.device.Add(wall.End - wall.Start)
	}
	if st == nil && t.Kind == strace.TraceLate {
		st = b.late[t.ID]
	}
	if st != nil {
		st.join(p)
		return
	}
	b.pairs.match(b, u.Root, p)
}

func (b *ByRank) rank(p *strace.Process) *rank {
	key := rankKey{processKey: processKey{p.Scope.Key, p.PID}, device: -1}
	r, ok := b.ranks[key]
	if !ok {
		r = &rank{key: key, host: series.New(b.pool), device: series.New(b.pool), lag: series.New(b.pool)}
		if len(b.order) < maxProcesses {
			b.ranks[key] = r
			b.order = append(b.order, r)
		}
	}
	if p.HasDevice {
		r.key.device = p.Device // told by a line that may come after its first invocation
	}
	return r
}

// join adds a part; a rank that works twice in a step counts by its last end.
func (s *step) join(p part) {
	for i := range s.parts {
		if s.parts[i].rank == p.rank {
			s.parts[i].start, s.parts[i].end = min(s.parts[i].start, p.start), max(s.parts[i].end, p.end)
			return
		}
	}
	s.parts = append(s.parts, p)
}

// match adds p to the first open step of its callable that lacks its rank and
// overlaps it in time, or opens one.
func (l *stepList) match(b *ByRank, root *strace.Span, p part) {
	for _, s := range l.open {
		if s.hid == root.HID && s.start < p.end && p.start < s.end && !s.has(p.rank) {
			s.join(p)
			s.start, s.end = min(s.start, p.start), max(s.end, p.end)
			s.dur = s.end - s.start
			return
		}
	}
	l.push(b, &step{number: root.Inv, hid: root.HID, start: p.start, end: p.end, dur: p.end - p.start, parts: []part{p}})
}

func (s *step) has(r *rank) bool {
	return slices.ContainsFunc(s.parts, func(p part) bool { return p.rank == r })
}

func (l *stepList) push(b *ByRank, s *step) {
	if len(l.open) == maxOpenSteps {
		l.close(b, l.open[0])
		l.open = slices.Delete(l.open, 0, 1)
	}
	l.open = append(l.open, s)
}

// close fixes a step's verdict.
func (l *stepList) close(b *ByRank, s *step) {
	if len(s.parts) == 0 || (l == &b.pairs && len(s.parts) == 1) {
		return // nobody to compare with
	}
	last, first := 0, s.parts[0].end
	for i, p := range s.parts {
		if p.end > s.parts[last].end {
			last = i
		}
		first = min(first, p.end)
	}
	if len(l.done) == maxSteps {
		l.beyond++
		return
	}
	l.done = append(l.done, doneStep{
		number: s.number, start: s.start, dur: s.dur, ranks: len(s.parts),
		critical: s.parts[last].rank, skew: s.parts[last].end - first,
	})
	if l == &b.runs || len(b.runs.done) == 0 {
		for _, p := range s.parts {
			p.rank.lag.Add(p.end - first)
		}
	}
}

// finish closes what is open and counts who was critical.
func (b *ByRank) finish() []doneStep {
	for _, l := range []*stepList{&b.runs, &b.pairs} {
		for _, s := range l.open {
			l.close(b, s)
		}
		l.open = nil
	}
	l := &b.runs
	if len(l.done) == 0 {
		l, b.fromTime = &b.pairs, true
	}
	for _, r := range b.order {
		r.critical = 0
	}
	for i := range l.done {
		l.done[i].critical.critical++
	}
	slices.SortFunc(b.order, func(x, y *rank) int {
		return cmp.Or(cmp.Compare(x.key.scope, y.key.scope), cmp.Compare(x.key.device, y.key.device), cmp.Compare(x.key.pid, y.key.pid))
	})
	slices.SortStableFunc(l.done, func(x, y doneStep) int { return cmp.Compare(x.start, y.start) })
	return l.done
}

func listedSteps(steps []doneStep, n int) []doneStep {
	if n == 0 || n >= len(steps) {
		return steps
	}
	slowest := slices.Clone(steps)
	slices.SortStableFunc(slowest, func(x, y doneStep) int { return cmp.Compare(y.dur, x.dur) })
	return slowest[:n]
}

// Write writes the ranks and the steps.
func (b *ByRank) Write(w io.Writer, opt Options) error {
	steps := b.finish()
	switch opt.Format {
	case JSON:
		return writeJSON(w, b.result(steps, opt))
	case CSV:
		return b.csv(w, steps, opt)
	}
	p := newPrinter(w, opt)
	if len(b.order) == 0 {
		p.printf("%s\n", noMarkers)
		return p.flush()
	}
	p.printf("%s\n", p.style(bold, "  Rank            Pid    Runs  Host med (us)  Host p99 (us)  Device med (us)  Lag med (us)  Critical"))
	for _, r := range b.order {
		share := 0.0
		if len(steps) > 0 {
			share = float64(r.critical) / float64(len(steps)) * 100
		}
		p.printf("  %-10s %8d %7d  %13s  %13s  %15s  %12s  %d (%s%%)\n", r.name(), r.key.pid, r.host.N(),
			us(r.host.Median()), us(r.host.Quantile(0.99)), us(r.device.Median()), us(r.lag.Median()),
			r.critical, strconv.FormatFloat(share, 'f', 1, 64))
	}
	of := "L3 runs"
	if b.fromTime {
		of = "invocations that overlap in time: the log has no L3 runs with ranks"
	}
	p.printf("\n  %d step(s), from %s\n", len(steps), of)
	if len(steps) > 0 {
		p.printf("%s\n", p.style(bold, "  Step         Start (us)  Duration (us)  Ranks  Skew (us)  Critical"))
		for _, s := range listedSteps(steps, opt.Top) {
			p.printf("  %-8d %14s  %13s  %5d  %9s  %s\n", s.number, us(float64(s.start-steps[0].start)), us(float64(s.dur)), s.ranks, us(float64(s.skew)), s.critical.name())
		}
	}
	return p.flush()
}

func (b *ByRank) result(steps []doneStep, opt Options) map[string]any {
	ranks, list := []map[string]any{}, []map[string]any{}
	for _, r := range b.order {
		m := map[string]any{
			"rank": r.name(), "pid": r.key.pid, "runs": r.host.N(), "critical": r.critical,
			"host_mean_ns": r.host.Mean(), "host_median_ns": r.host.Median(), "host_p99_ns": r.host.Quantile(0.99),
			"lag_median_ns": r.lag.Median(),
		}
		if r.device.N() > 0 {
			m["device_median_ns"] = r.device.Median()
		}
		ranks = append(ranks, m)
	}
	for _, s := range listedSteps(steps, opt.Top) {
		list = append(list, map[string]any{
			"step": s.number, "ts": s.start, "dur_ns": s.dur, "ranks": s.ranks, "skew_ns": s.skew, "critical": s.critical.name(), "critical_pid": s.critical.key.pid,
		})
	}
	from := "l3_runs"
	if b.fromTime {
		from = "time"
	}
	return map[string]any{"mode": "by-rank", "from": from, "ranks": ranks, "steps": list, "warnings": nonNil(opt.Warnings)}
}

func (*ByRank) csv(w io.Writer, steps []doneStep, opt Options) error {
	var rows [][]string
	for _, s := range listedSteps(steps, opt.Top) {
		rows = append(rows, []string{
			strconv.FormatUint(s.number, 10), itoa(s.start), itoa(s.dur), strconv.Itoa(s.ranks), itoa(s.skew),
			s.critical.name(), strconv.Itoa(int(s.critical.key.pid)),
		})
	}
	return writeCSV(w, []string{"step", "ts_ns", "dur_ns", "ranks", "skew_ns", "critical", "critical_pid"}, rows)
}

// Warnings tell what the table cannot.
func (b *ByRank) Warnings() []string {
	if n := b.runs.beyond + b.pairs.beyond; n > 0 {
		return []string{itoa(int64(n)) + " steps are left out to bound memory"}
	}
	return nil
}
