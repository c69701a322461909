// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Reasons why an arrow is not drawn.
const (
	// unresolvedEvicted: too many arrows waited for their other end.
	unresolvedEvicted = "evicted"
	// unresolvedRotated: the other end did not come while the file was live.
	unresolvedRotated = "rotated"
	// unresolvedOrder: the target ended before the source began.
	unresolvedOrder = "order"
	// unresolvedNoLane: no lane was free for the arrow's beginning.
	unresolvedNoLane = "no_lane"
	// unresolvedLimit: the span has more links than are followed.
	unresolvedLimit = "limit"
)

// maxLinks is how many links of one span are followed.
const maxLinks = 256

const (
	flowDispatch = "dispatch"
	flowHostRun  = "host run"
)

// connect draws the arrows that a slice on a thread lane begins or ends, as
// far as their other end is known, and remembers it for those to come.
func (t *timeline) connect(n *node, l *lane) {
	here := endpoint{span: keyOf(n), file: t.file.number, pid: n.track.proc.pid, address: l.address, start: n.start, end: n.end}
	if !n.device {
		switch n.stage {
		case semconv.StageLevelDispatch, semconv.StageLevelRun:
			t.arrive(n, here)
		case semconv.StageRun:
			t.arrive(n, here)
			t.dispatched(n, here)
		}
	}
	if n.span.Links().Len() > 0 {
		t.follow(n, func() (endpoint, bool) { return here, true })
	}
}

// connectAsync does the same for a span on an asynchronous track. Arrows start
// at slices of threads only, so they get one with the span's name and times.
func (t *timeline) connectAsync(n *node) {
	if n.span.Links().Len() == 0 || n.copied {
		return
	}
	var anchor endpoint
	var tried, ok bool
	t.follow(n, func() (endpoint, bool) {
		if !tried {
			tried = true
			anchor, ok = t.anchor(n)
		}
		return anchor, ok
	})
}

// arrive remembers a possible end of arrows and draws those that waited.
func (t *timeline) arrive(n *node, here endpoint) {
	if n.span.SpanID().IsEmpty() {
		return
	}
	for _, f := range t.flows.remember(here.span, here) {
		t.arrow(f, here)
	}
}

// dispatched draws the arrow to a chip run from the dispatch that caused it.
func (t *timeline) dispatched(n *node, here endpoint) {
	parent := n.span.ParentSpanID()
	if parent.IsEmpty() {
		return
	}
	if n.parent != none {
		if t.batch.nodes[n.parent].stage != semconv.StageLevelDispatch {
			return
		}
	} else if n.stitch != semconv.StitchIdentity && n.stitch != semconv.StitchTime {
		// Its parent is the run, or another producer's span.
		return
	}
	t.join(spanKey{n.span.TraceID(), parent}, flow{name: flowDispatch, known: here, crossProcess: true})
}

// follow draws the arrows of a span's links to host runs.
func (t *timeline) follow(n *node, from func() (endpoint, bool)) {
	followed := 0
	for _, link := range n.span.Links().All() {
		if !toHostRun(link) {
			continue
		}
		followed++
		if followed > maxLinks {
			t.tally.unresolved[unresolvedLimit]++
			continue
		}
		here, ok := from()
		if !ok {
			t.tally.unresolved[unresolvedNoLane]++
			continue
		}
		t.join(spanKey{link.TraceID(), link.SpanID()}, flow{name: flowHostRun, known: here, fromKnown: true})
	}
}

func toHostRun(link ptrace.SpanLink) bool {
	v, ok := link.Attributes().Get(semconv.PhaseLink)
	return ok && v.Str() == semconv.PhaseLinkHostRun && !link.SpanID().IsEmpty()
}

// join draws an arrow when its other end is known, else lets it wait.
func (t *timeline) join(other spanKey, f flow) {
	if end, ok := t.flows.recent[other]; ok {
		t.arrow(f, end)
		return
	}
	t.tally.count(unresolvedEvicted, t.flows.wait(other, f))
}

func (c *tally) count(reason string, n int) {
	if n > 0 {
		c.unresolved[reason] += int64(n)
	}
}

// anchor draws the slice from which an asynchronous span's arrows start.
func (t *timeline) anchor(n *node) (endpoint, bool) {
	p := n.track.proc
	if p.shared {
		return endpoint{}, false
	}
	key := threadKey{kind: kindLinks}
	tr, ok := p.threads[key]
	if !ok {
		tr = &track{proc: p, key: key}
		p.threads[key] = tr
	}
	tr.used = t.file.number
	slot := -1
	var l *lane
	for i := 0; l == nil && i < t.cfg.MaxSlots && i <= len(tr.lanes); i++ {
		slot, l = i, t.tryLane(tr, i, n.interval, 1, func(func(interval) bool) {})
	}
	if l == nil {
		return endpoint{}, false
	}
	if !l.named {
		l.named = true
		t.writeThread(tr, l, slot)
	}
	t.writeAnchor(n, l)
	return endpoint{span: keyOf(n), file: t.file.number, pid: p.pid, address: l.address, start: n.start, end: n.end}, true
}

// arrow writes both ends of a flow. A viewer ties each to the slice that is
// open on its lane at its time.
func (t *timeline) arrow(f flow, other endpoint) {
	from, to := other, f.known
	if f.fromKnown {
		from, to = f.known, other
	}
	if f.crossProcess && from.pid == to.pid {
		return
	}
	if from.file != t.file.number || to.file != t.file.number {
		t.tally.unresolved[unresolvedRotated]++
		return
	}
	leave := from.start
	tick := f.name == flowHostRun && from.end > from.start
	if tick && to.start > from.start {
		// Straight down from the request to the run, inside the phase.
		leave = min(to.start, from.end) - 1
	}
	reach := to.start
	if reach < leave {
		// Clocks of two processes can disagree by their error.
		if reach = leave; reach > to.end {
			t.tally.unresolved[unresolvedOrder]++
			return
		}
	}
	t.lastFlow++
	t.tally.flows++
	if tick {
		t.writeTick(f.name, leave, &from, to.span)
	}
	t.writeFlow('s', f.name, t.lastFlow, leave, from.address)
	t.writeFlow('f', f.name, t.lastFlow, reach, to.address)
}

func (t *timeline) writeFlow(phase byte, name string, id, at uint64, address []byte) {
	b, mark := t.file.begin()
	b = append(b, `{"ph":"`...)
	b = append(b, phase)
	b = append(b, `","ts":`...)
	b = t.appendTime(b, at)
	b = append(b, address...)
	b = append(b, `,"id":`...)
	b = strconv.AppendUint(b, id, 10)
	if phase == 'f' {
		b = append(b, `,"bp":"e"`...)
	}
	b = append(b, `,"cat":"flow","name":"`...)
	b = append(b, name...)
	b = append(b, `"}`...)
	t.finish(b, mark)
}
