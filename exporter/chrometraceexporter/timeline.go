// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Classes of process_sort_index: requests on top, chips at the bottom.
const (
	orderRequests = 0
	orderNode     = 1_000_000
	orderOther    = 2_000_000
	orderChip     = 3_000_000
	orderLast     = 4_000_000
)

// timeline turns spans into events of the live file. Not safe for concurrent
// use.
type timeline struct {
	cfg   *LanesConfig
	file  *traceFile
	zero  zero
	reg   *registry
	flows *flowMemory
	batch batch

	// traces are the asynchronous tracks of recent traces.
	traces    map[pcommon.TraceID]*track
	traceRing ring[pcommon.TraceID]
	// generation rises with every asynchronous track made, so that no two have
	// one id, be they of one trace.
	generation uint64

	asyncNames map[string]struct{}
	lastFlow   uint64
	cleaned    uint64 // the file number when what is gone was last forgotten
	tally      tally

	// advance is called between two trees: it writes and rotates as needed.
	advance func()
	// renew rotates because a tree is too far from what is in the file.
	renew func()
	now   func() time.Time
}

// tally counts what one batch led to.
type tally struct {
	spans, overflowed, events, cut, points, flows int64
	dropped, unresolved                           map[string]int64
}

func newTimeline(cfg *LanesConfig, file *traceFile, now func() time.Time, advance, renew func()) *timeline {
	t := &timeline{
		cfg:        cfg,
		file:       file,
		reg:        newRegistry(cfg),
		flows:      newFlowMemory(cfg.FlowMemory),
		batch:      batch{index: make(map[spanKey]int32)},
		traces:     make(map[pcommon.TraceID]*track),
		traceRing:  ring[pcommon.TraceID]{limit: cfg.MaxTraces},
		asyncNames: make(map[string]struct{}, len(cfg.AsyncSpans)),
		tally:      tally{dropped: make(map[string]int64), unresolved: make(map[string]int64)},
		advance:    advance,
		renew:      renew,
		now:        now,
	}
	for _, name := range cfg.AsyncSpans {
		t.asyncNames[name] = struct{}{}
	}
	return t
}

// draw appends the events of td to the file's buffer.
func (t *timeline) draw(td ptrace.Traces) {
	t.forget()
	for _, rs := range td.ResourceSpans().All() {
		proc := t.reg.process(rs.Resource())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				t.take(proc, ss.Scope(), span)
			}
		}
	}
	t.batch.link()
	t.assign()
	t.batch.nest()
	for _, top := range t.batch.tops {
		t.advance()
		t.place(top)
	}
	t.batch.reset()
}

func (t *timeline) take(proc *process, scope pcommon.InstrumentationScope, span ptrace.Span) {
	in, reason := spanInterval(span)
	if reason != "" {
		t.tally.dropped[reason]++
		return
	}
	f := readFacts(span.Attributes())
	if f.copied && t.cfg.Copies == CopiesExclude {
		t.tally.dropped[dropCopy]++
		return
	}
	t.batch.add(node{span: span, scope: scope, proc: proc, interval: in, facts: f})
}

// assign gives every span its track.
func (t *timeline) assign() {
	for i := range t.batch.nodes {
		n := &t.batch.nodes[i]
		if t.onThread(n) {
			n.track = t.thread(n)
		} else {
			n.track = t.traceTrack(n)
		}
		n.track.used, n.proc.used = t.file.number, t.file.number
	}
}

// onThread reports whether a span is drawn on a thread's lane: marker records
// always, others when they name a thread and are not requests.
func (t *timeline) onThread(n *node) bool {
	if n.proc.shared || n.copied {
		return false
	}
	if n.strace {
		return true
	}
	if n.threadID == 0 {
		return false
	}
	if k := n.span.Kind(); k == ptrace.SpanKindServer || k == ptrace.SpanKindConsumer {
		return false
	}
	_, async := t.asyncNames[n.span.Name()]
	return !async
}

func (*timeline) thread(n *node) *track {
	key := threadKey{kind: kindThread, tid: n.threadID}
	if n.device {
		// One device belongs to the whole process, whoever launched on it.
		key = threadKey{kind: kindDevice}
	}
	tr, ok := n.proc.threads[key]
	if !ok {
		tr = &track{proc: n.proc, key: key}
		n.proc.threads[key] = tr
	}
	if tr.role == "" {
		tr.role = roleOf(n)
	}
	if n.proc.order == 0 {
		n.proc.order = orderOf(n)
	}
	return tr
}

// roleOf says what the thread of a marker record does, in the producer's words.
func roleOf(n *node) string {
	switch {
	case n.role != "":
		return n.role
	case n.stage == semconv.StageSchedulerLoop:
		return "scheduler"
	case n.stage == semconv.StageLevelRun && n.threadID == 0:
		return "runs"
	case n.family == semconv.FamilyNode:
		return n.level
	default:
		return n.family
	}
}

func orderOf(n *node) int {
	switch n.family {
	case semconv.FamilyChip, semconv.FamilyCore:
		return orderChip
	case semconv.FamilyNode:
		return orderNode
	default:
		return orderOther
	}
}

// traceTrack returns the asynchronous track of a span's trace. It belongs to
// the process of the outermost span that came with the first batch.
func (t *timeline) traceTrack(n *node) *track {
	rank := uint64(math.MaxUint64)
	if n.parent == none && !n.copied {
		rank = n.start
	}
	id := n.span.TraceID()
	tr, ok := t.traces[id]
	if !ok {
		if old, full := t.traceRing.push(id); full {
			delete(t.traces, old)
		}
		tr = &track{proc: n.proc, key: threadKey{kind: kindAsync}, id: t.asyncID(id), rootStart: rank}
		t.traces[id] = tr
		return tr
	}
	if len(tr.lanes) == 0 && rank < tr.rootStart {
		tr.proc, tr.rootStart = n.proc, rank
	}
	return tr
}

func (t *timeline) asyncID(trace pcommon.TraceID) uint64 {
	t.generation++
	return traceNumber(trace, t.generation)
}

// place finds a lane for the tree under top and draws it there.
func (t *timeline) place(top int32) {
	n := &t.batch.nodes[top]
	if !t.settle(n.track.proc, n.start) {
		t.tally.dropped[dropFar] += int64(n.size)
		return
	}
	l := t.findLane(n.track, n.interval, n.slot, int(n.size), t.inner(top))
	t.touch(n.track)
	t.tally.spans += int64(n.size)
	if l == nil {
		t.tally.overflowed += int64(n.size)
		l = &lane{address: asyncAddress(n.track.proc.pid, t.asyncID(n.span.TraceID()))}
		t.drawAsync(top, l)
		return
	}
	if n.track.key.kind == kindAsync {
		t.drawAsync(top, l)
		return
	}
	t.drawThread(top, l)
}

// inner yields the times of the spans below top.
func (t *timeline) inner(top int32) func(yield func(interval) bool) {
	return func(yield func(interval) bool) {
		for i := t.batch.next(top, func(int32) {}); i != none; i = t.batch.next(i, func(int32) {}) {
			if !yield(t.batch.nodes[i].interval) {
				return
			}
		}
	}
}

// findLane takes the room for a tree: in the slot its producer named, else in
// the first that is free, else in a new one. It returns nil where all are
// taken and no more may be opened.
func (t *timeline) findLane(tr *track, root interval, slot int64, size int, inner func(yield func(interval) bool)) *lane {
	if slot > 0 && slot < int64(t.cfg.MaxSlots) && tr.key.kind == kindThread {
		if l := t.tryLane(tr, int(slot), root, size, inner); l != nil {
			return l
		}
	}
	for i := range t.cfg.MaxSlots {
		if l := t.tryLane(tr, i, root, size, inner); l != nil {
			return l
		}
		if i >= len(tr.lanes) {
			// A lane could not be opened, so no other can.
			return nil
		}
	}
	return nil
}

func (t *timeline) tryLane(tr *track, slot int, root interval, size int, inner func(yield func(interval) bool)) *lane {
	if slot < len(tr.lanes) && tr.lanes[slot] != nil {
		l := tr.lanes[slot]
		l.enter(t.file.number)
		if l.place(root, size, inner) {
			return l
		}
		return nil
	}
	l := t.openLane(tr, slot)
	if l == nil {
		return nil
	}
	for len(tr.lanes) <= slot {
		tr.lanes = append(tr.lanes, nil)
	}
	tr.lanes[slot] = l
	l.place(root, size, inner)
	return l
}

func (t *timeline) openLane(tr *track, slot int) *lane {
	l := &lane{file: t.file.number}
	if tr.key.kind == kindAsync {
		l.strictEdges = true
		// Far apart, so that no two traces' lanes meet by counting up.
		l.id = tr.id ^ uint64(slot)*0x9e3779b97f4a7c15
		l.address = asyncAddress(tr.proc.pid, l.id)
		return l
	}
	if t.reg.lanes() >= t.cfg.MaxThreads {
		return nil
	}
	var ok bool
	if l.tid, ok = t.reg.takeTID(tr, slot); !ok {
		return nil
	}
	l.address = threadAddress(tr.proc.pid, l.tid)
	return l
}

// touch marks a track as used in this file and names its process there.
func (t *timeline) touch(tr *track) {
	p := tr.proc
	tr.used, p.used = t.file.number, t.file.number
	if p.named == t.file.number {
		return
	}
	p.named = t.file.number
	t.writeProcess(p)
}

func (t *timeline) drawThread(top int32, l *lane) {
	n := &t.batch.nodes[top]
	if !l.named {
		l.named = true
		t.writeThread(n.track, l, slices.Index(n.track.lanes, l))
	}
	for i := top; i != none; i = t.batch.next(i, func(int32) {}) {
		n := &t.batch.nodes[i]
		t.writeSlice(n, l)
		t.writePoints(n, l, false)
		t.connect(n, l)
	}
}

func (t *timeline) drawAsync(top int32, l *lane) {
	leave := func(i int32) { t.writeAsyncEnd(&t.batch.nodes[i], l) }
	for i := top; i != none; i = t.batch.next(i, leave) {
		n := &t.batch.nodes[i]
		t.writeAsyncBegin(n, l)
		t.writePoints(n, l, true)
		t.connectAsync(n)
	}
}

// fileDone says that the live file was put away: no arrow leaves its file.
func (t *timeline) fileDone() {
	t.tally.count(unresolvedRotated, t.flows.forget())
}

// forget lets go of what belonged to earlier files. It runs between batches,
// for a batch holds on to its processes and tracks.
func (t *timeline) forget() {
	number := t.file.number
	if t.cleaned == number {
		return
	}
	t.cleaned = number
	clear(t.traces)
	t.traceRing.reset()
	// A process without a span in two whole files is gone.
	if number > 1 {
		t.reg.forget(number - 1)
	}
}
