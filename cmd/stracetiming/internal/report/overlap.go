// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Overlap checks that a pipelined runtime prepares the next run while the
// device works on this one, and that runs keep their order. Of two runs of one
// process that follow each other, the second's bind must share time with the
// first's runner_run, and its runner_run must not start before the first's
// claim_release; with hidden, its bind must also end by the end of the first's
// runner_run. Runs whose root bears no identity are not of that kind.
type Overlap struct {
	hidden bool
	lanes  map[laneKey]*overlapLane
	order  []*overlapLane
	epochs epochs
	pairs  int64
	// Failures counts broken rules; failed holds the first of them.
	Failures int64
	failed   []string
}

type laneKey struct {
	processKey
	epoch int32
}

// overlapLane holds the last runs of one process's epoch, sorted by the start
// of their runner_run.
type overlapLane struct {
	pending []nativeRun
	last    nativeRun
	any     bool
	seen    []identity
}

type nativeRun struct {
	pid          int32
	id           identity
	bind, device interval
	release      int64
}

type interval struct{ start, end int64 }

func (i interval) String() string { return fmt.Sprintf("[%d,%d]", i.start, i.end) }

type identity struct{ run, dispatch, epoch, generation, slot uint64 }

// sequence orders the runs of one process: the dispatch's number, or on the
// lane that has none, the process's own count.
func (id identity) sequence() uint64 {
	if id.dispatch != 0 {
		return id.dispatch
	}
	return id.epoch
}

const (
	// maxFailures bounds the failures that are told in words.
	maxFailures = 20
	// maxPending is how far runs may end out of order.
	maxPending = behind
)

// NewOverlap returns a check, of hiding too where hidden is set.
func NewOverlap(hidden bool) *Overlap {
	return &Overlap{hidden: hidden, lanes: map[laneKey]*overlapLane{}}
}

// Trace implements feed.Consumer.
func (o *Overlap) Trace(t *strace.Trace) error {
	unit.Each(t, o.add)
	return nil
}

func (o *Overlap) add(u *unit.Unit) {
	if u.Kind != unit.Invocation || u.Root == nil || u.Root.Name.Stage != semconv.StageRun {
		return
	}
	p := u.Process()
	epoch := o.epochs.of(p, u.Root.Inv)
	id, missing, found := parseIdentity(u.Root.Attrs)
	if !found {
		return
	}
	if len(missing) > 0 {
		o.fail("pid=%d inv=%d: the root lacks %s", p.PID, u.Root.Inv, strings.Join(missing, ", "))
		return
	}
	if id.sequence() == 0 {
		return
	}
	run := nativeRun{pid: p.PID, id: id}
	if lacks := run.take(u); len(lacks) > 0 {
		o.fail("pid=%d sequence=%d: no %s", p.PID, id.sequence(), strings.Join(lacks, ", "))
		return
	}
	o.lane(laneKey{processKey{p.Scope.Key, p.PID}, epoch}).push(o, run)
}

// identityKeys are the root's keys, which come all or none.
var identityKeys = [...]string{"run_id", "dispatch_id", "run_epoch", "slot_id", "generation"}

func parseIdentity(attrs []byte) (id identity, missing []string, found bool) {
	for i, dst := range [...]*uint64{&id.run, &id.dispatch, &id.epoch, &id.slot, &id.generation} {
		text, ok := strace.Attr(attrs, identityKeys[i])
		v, isInt := strace.ParseInt(text)
		switch {
		case !ok:
			missing = append(missing, identityKeys[i])
			continue
		case !isInt:
			missing = append(missing, "a whole number as "+identityKeys[i])
		}
		*dst, found = uint64(v), true
	}
	return id, missing, found
}

// take reads the stages the check needs and names those it lacks.
func (r *nativeRun) take(u *unit.Unit) (lacks []string) {
	stages := [...]string{semconv.StageBind, semconv.StageRunnerRun, semconv.StageClaimRelease}
	var at [len(stages)]interval
	var found [len(stages)]bool
	note := func(stage string, start, end int64) {
		if i := slices.Index(stages[:], stage); i >= 0 && (!found[i] || start < at[i].start) {
			at[i], found[i] = interval{start - u.Offset, end - u.Offset}, true
		}
	}
	for i := range u.Spans {
		note(u.Spans[i].Name.Stage, u.Spans[i].Start, u.Spans[i].End)
	}
	u.Events(func(_ *strace.Span, e *strace.Event) { note(e.Name.Stage, e.Time, e.Time) })
	for i, ok := range found {
		if !ok {
			lacks = append(lacks, strings.TrimPrefix(stages[i], semconv.StageRun+"."))
		}
	}
	r.bind, r.device, r.release = at[0], at[1], at[2].start
	return lacks
}

func (o *Overlap) lane(key laneKey) *overlapLane {
	l, ok := o.lanes[key]
	if !ok {
		l = &overlapLane{}
		if len(o.lanes) < maxProcesses {
			o.lanes[key] = l
			o.order = append(o.order, l)
		}
	}
	return l
}

func (l *overlapLane) push(o *Overlap, run nativeRun) {
	if slices.Contains(l.seen, run.id) {
		o.fail("pid=%d sequence=%d: two runs bear the same identity", run.pid, run.id.sequence())
		return
	}
	if len(l.seen) == maxPending {
		l.seen = slices.Delete(l.seen, 0, 1)
	}
	l.seen = append(l.seen, run.id)
	at, _ := slices.BinarySearchFunc(l.pending, run.device.start, func(r nativeRun, start int64) int { return cmp.Compare(r.device.start, start) })
	l.pending = slices.Insert(l.pending, at, run)
	if len(l.pending) > maxPending {
		l.pop(o)
	}
}

// pop checks the first run against the one before it.
func (l *overlapLane) pop(o *Overlap) {
	run := l.pending[0]
	l.pending = slices.Delete(l.pending, 0, 1)
	if l.any {
		o.check(&l.last, &run)
	}
	l.last, l.any = run, true
}

func (o *Overlap) check(first, next *nativeRun) {
	o.pairs++
	seq := next.id.sequence()
	switch {
	case seq <= first.id.sequence():
		o.fail("pid=%d: launched out of order: sequence=%d after %d", next.pid, seq, first.id.sequence())
	case next.bind.start >= first.device.end || next.bind.end <= first.device.start:
		o.fail("pid=%d sequence=%d: its preparation %v did not overlap the device work before it %v", next.pid, seq, next.bind, first.device)
	case o.hidden && next.bind.end > first.device.end:
		o.fail("pid=%d sequence=%d: its preparation was not hidden: it ends at %d, the device work before it at %d", next.pid, seq, next.bind.end, first.device.end)
	case next.device.start < first.release:
		o.fail("pid=%d sequence=%d: its device work starts at %d, before the claim release of the run before it at %d", next.pid, seq, next.device.start, first.release)
	}
}

func (o *Overlap) fail(format string, args ...any) {
	o.Failures++
	if len(o.failed) < maxFailures {
		o.failed = append(o.failed, fmt.Sprintf(format, args...))
	}
}

// Finish checks what is left and returns whether all is well.
func (o *Overlap) Finish() bool {
	for _, l := range o.order {
		for len(l.pending) > 0 {
			l.pop(o)
		}
	}
	if o.pairs == 0 && o.Failures == 0 {
		o.fail("no two complete pipelined runs of one process to compare")
	}
	return o.Failures == 0
}

// Write writes the verdict to w, or what failed to errs, as text; or all of it
// to w for scripts.
func (o *Overlap) Write(w, errs io.Writer, opt Options) error {
	switch opt.Format {
	case JSON:
		return writeJSON(w, map[string]any{
			"mode": "native-overlap", "ok": o.Failures == 0, "pairs": o.pairs, "failures": o.Failures, "failed": nonNil(o.failed), "warnings": nonNil(opt.Warnings),
		})
	case CSV:
		return writeCSV(w, []string{"ok", "pairs", "failures", "first_failure"}, [][]string{{
			strconv.FormatBool(o.Failures == 0), itoa(o.pairs), itoa(o.Failures), strings.Join(o.failed[:min(1, len(o.failed))], ""),
		}})
	}
	if o.Failures == 0 {
		p := newPrinter(w, opt)
		p.printf("%s\n", p.style(green, fmt.Sprintf("Native overlap verified for %d adjacent dispatch pair(s).", o.pairs)))
		return p.flush()
	}
	p := newPrinter(errs, opt)
	for _, text := range o.failed {
		p.printf("%s %s\n", p.style(red, "native overlap assertion failed:"), text)
	}
	if more := o.Failures - int64(len(o.failed)); more > 0 {
		p.printf("native overlap assertion failed: %d more\n", more)
	}
	return p.flush()
}
