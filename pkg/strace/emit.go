// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "slices"

// builder turns finished units into a Trace. Its buffers are reused.
type builder struct {
	ids    idHasher
	tree   treeBuilder
	trace  Trace
	spanOf []int // record index → index in trace.Spans, -1 for points
}

// invocation appends v's spans and events to the trace under parent.
func (b *builder) invocation(v *invocation, parent SpanID, stitch Stitch, at placement) {
	t := &b.trace
	process := t.process(v.proc)
	block := placeDevice(&v.records, v.start())
	parents := b.tree.find(&v.records, v.root)
	first := len(t.Spans)
	b.spanOf = b.spanOf[:0]
	for i := range v.list {
		r := &v.list[i]
		if r.point() && i != v.root && b.parentSpan(&v.records, parents, i, v.root) >= 0 {
			b.spanOf = append(b.spanOf, -1)
			continue
		}
		b.spanOf = append(b.spanOf, len(t.Spans))
		b.span(&v.records, r, process, v.inv, v.start(), at, &block, first)
	}
	for i := range v.list {
		b.link(v, i, parents, parent, stitch)
	}
	b.events(v, parents, at, &block)
}

// parentSpan is the record index of i's parent after guesses, or noParent.
func (b *builder) parentSpan(rs *records, parents []int, i, root int) int {
	p := parents[i]
	if p == byGuess {
		p = root
	}
	if p >= 0 && rs.list[p].point() && p != root {
		return noParent
	}
	return p
}

// link sets the parent of record i's span, or its marks when it is topmost.
func (b *builder) link(v *invocation, i int, parents []int, parent SpanID, stitch Stitch) {
	at := b.spanOf[i]
	if at < 0 {
		return
	}
	s := &b.trace.Spans[at]
	if p := b.parentSpan(&v.records, parents, i, v.root); p >= 0 {
		s.Parent = b.trace.Spans[b.spanOf[p]].ID
		s.Guessed = parents[i] == byGuess
		return
	}
	s.Parent = parent
	s.Incomplete = v.root < 0 || v.lost
	if i == v.root && s.Name.role == roleRoot {
		s.IsRoot, s.Stitch = true, stitch
	}
}

// span appends the span of one record of the unit that began at unitTS. first
// is where the unit's spans begin, among which repeats are told apart.
func (b *builder) span(rs *records, r *stored, process int, inv uint64, unitTS int64, at placement, block *deviceBlock, first int) {
	t := &b.trace
	host, errNS := r.ts, at.err
	var slack int64
	fits := true
	if r.device {
		host = block.start + r.ts
		slack, fits = block.slack, block.fits
		if errNS != UnknownError {
			errNS += slack // it may lie anywhere in that room
		}
	}
	start := host + at.offset
	t.Spans = append(t.Spans, Span{
		ID: b.ids.span(t.ID, spanKey{
			name: r.name.Text, device: r.device, pid: t.Processes[process].PID, inv: inv, unitTS: unitTS,
			ts: r.ts, tid: r.tid, repeat: b.repeat(first, r, process),
		}),
		Name: r.name, Text: r.name.Text, Process: process,
		Start: start, End: start + r.dur, TID: r.tid, Inv: inv, HID: r.hid, HIDDigits: r.hidDigits,
		Depth: r.depth, TS: r.ts, Attrs: rs.attrs(r), Verbatim: r.verbatim, Device: r.device,
		Source: at.source, ErrorNS: errNS, SlackNS: slack, Fits: fits,
	})
}

// repeat counts the spans since first that agree with r in all that the span
// id hashes.
func (b *builder) repeat(first int, r *stored, process int) int {
	n := 0
	from := max(first, len(b.trace.Spans)-maxCandidates)
	for i := from; i < len(b.trace.Spans); i++ {
		s := &b.trace.Spans[i]
		if s.TS == r.ts && s.Name == r.name && s.Device == r.device && s.TID == r.tid && s.Process == process {
			n++
		}
	}
	return n
}

// events attaches v's points to their parents' spans, in print order.
func (b *builder) events(v *invocation, parents []int, at placement, block *deviceBlock) {
	t := &b.trace
	from := len(t.Events)
	for i := range v.list {
		if b.spanOf[i] >= 0 {
			continue
		}
		r := &v.list[i]
		host := r.ts
		if r.device {
			host = block.start + r.ts
		}
		p := b.spanOf[b.parentSpan(&v.records, parents, i, v.root)]
		t.Events = append(t.Events, Event{
			Name: r.name, Time: host + at.offset, Attrs: v.attrs(r), Verbatim: r.verbatim, parent: p,
		})
	}
	t.groupEvents(from)
}

// groupEvents makes each span's events contiguous, from index from on.
func (t *Trace) groupEvents(from int) {
	events := t.Events[from:]
	if len(events) == 0 {
		return
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.parent - b.parent })
	for i := range events {
		s := &t.Spans[events[i].parent]
		if s.NumEvents == 0 {
			s.FirstEvent = from + i
		}
		s.NumEvents++
	}
}
