// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package phases turns the host runtime's spans into phases: one invocation is
// one chip root with everything below it, one step is one <level>.run with the
// invocations of its ranks. It works on what one call delivers, plus what
// Pieces remembers of a trace that came in several.
package phases

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// linearLimit is the trace size up to which looking for a parent by walking
// beats filling a map. A chip invocation has a dozen spans.
const linearLimit = 24

// Batch collects the host spans of one call. It is reused: Reset keeps the
// memory. Not safe for concurrent use.
type Batch struct {
	// Procs are the processes of the call; Invocation.Proc indexes it.
	Procs []Proc
	// Invs, Steps and Exts are filled by Build.
	Invs  []Invocation
	Steps []Step
	Exts  []Ext

	nodes    []node
	infos    []info
	clusters map[pcommon.TraceID]int32
	sizes    []int32
	of       []int32
	order    []int32
	byID     map[uint64]int32
	invOf    []int32
	pieces   *Pieces
	// resources are those of Procs, as they are in the call.
	resources []pcommon.Resource
	ranks     []rank
	path      []int32
}

// Ext is a span of an external producer that names a request.
type Ext struct {
	// Trace and Parent are set when the span is a child of a remote context.
	Trace  pcommon.TraceID
	Parent pcommon.SpanID
	// RequestIDs are the request ids it carries; unused ones are empty.
	RequestIDs [2]string
	Proc       int32
	// Start and End are Unix nanoseconds.
	Start, End int64
}

// NewBatch makes a Batch that shares pieces, which may be nil, with others.
func NewBatch(pieces *Pieces) *Batch {
	return &Batch{
		clusters: make(map[pcommon.TraceID]int32),
		byID:     make(map[uint64]int32),
		pieces:   pieces,
	}
}

// Reset forgets the spans, keeps the memory.
func (b *Batch) Reset() {
	clear(b.nodes)
	clear(b.infos)
	for i := range b.Invs {
		b.Invs[i].release()
	}
	clear(b.Steps)
	clear(b.Exts)
	clear(b.Procs)
	clear(b.resources)
	b.resources = b.resources[:0]
	clear(b.clusters)
	clear(b.byID)
	b.Procs, b.Invs, b.Steps, b.Exts = b.Procs[:0], b.Invs[:0], b.Steps[:0], b.Exts[:0]
	b.nodes, b.infos, b.sizes, b.of = b.nodes[:0], b.infos[:0], b.sizes[:0], b.of[:0]
}

// Bodies copies the spans of the invocations chosen, by their place in Invs,
// each set below a copy of its resource. They come in the order of chosen.
func (b *Batch) Bodies(chosen []int) []ptrace.ResourceSpans {
	out := make([]ptrace.ResourceSpans, len(chosen))
	roots := make(map[int32]ptrace.SpanSlice, len(chosen))
	for i, k := range chosen {
		v := &b.Invs[k]
		out[i] = ptrace.NewResourceSpans()
		b.resources[v.Proc].CopyTo(out[i].Resource())
		spans := out[i].ScopeSpans().AppendEmpty().Spans()
		spans.EnsureCapacity(v.Size())
		roots[v.node] = spans
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.past || n.dupOf != none || !n.chip {
			continue
		}
		if spans, ok := roots[n.root]; ok {
			n.span.CopyTo(spans.AppendEmpty())
		}
	}
	return out
}

// StepOf is the <level>.run above an invocation and the process that scheduled
// it; empty when there is none.
func (b *Batch) StepOf(v *Invocation) (id pcommon.SpanID, proc uint64) {
	if v.Run == none {
		return id, 0
	}
	n := &b.nodes[v.Run]
	return n.id, b.Procs[n.proc].Key
}

// Len is the number of host spans added since Reset.
func (b *Batch) Len() int { return len(b.nodes) }

// AddProc starts the spans of one resource; the index goes to Add.
func (b *Batch) AddProc(p Proc, res pcommon.Resource) int32 {
	b.Procs = append(b.Procs, p)
	b.resources = append(b.resources, res)
	return int32(len(b.Procs) - 1)
}

// Add takes a span if it is the host runtime's, and says whether it is.
func (b *Batch) Add(proc int32, span ptrace.Span) bool {
	n, in, ok := makeNode(span)
	if !ok {
		return false
	}
	n.proc = proc
	b.append(n, in)
	return true
}

func (b *Batch) append(n node, in info) {
	if n.stage == stageRun || n.stage == stageLevelRun || n.stage == stageDeviceWall || n.external {
		n.info = int32(len(b.infos))
		b.infos = append(b.infos, in)
	}
	b.nodes = append(b.nodes, n)
}

// Build finds the invocations, steps and external spans among what was added.
// now is the arrival time in Unix nanoseconds, for what has to be remembered.
func (b *Batch) Build(now int64) {
	if len(b.nodes) == 0 {
		return
	}
	b.cluster()
	from := int32(0)
	for _, size := range b.sizes {
		members := b.order[from : from+size]
		from += size
		b.buildTrace(members, now)
	}
	for i := range b.Steps {
		b.finishStep(&b.Steps[i])
	}
}

// cluster sorts the nodes by trace, keeping their order within each.
func (b *Batch) cluster() {
	var last pcommon.TraceID
	current := none
	for i := range b.nodes {
		n := &b.nodes[i]
		if current == none || n.trace != last {
			last = n.trace
			c, ok := b.clusters[last]
			if !ok {
				c = int32(len(b.sizes))
				b.clusters[last] = c
				b.sizes = append(b.sizes, 0)
			}
			current = c
		}
		b.sizes[current]++
		b.of = append(b.of, current)
	}
	b.order = slices.Grow(b.order[:0], len(b.nodes))[:len(b.nodes)]
	starts := b.invOf[:0]
	sum := int32(0)
	for _, size := range b.sizes {
		starts = append(starts, sum)
		sum += size
	}
	b.invOf = starts
	for i, c := range b.of {
		b.order[starts[c]] = int32(i)
		starts[c]++
	}
}

// buildTrace works on one trace of the call.
func (b *Batch) buildTrace(members []int32, now int64) {
	trace := b.nodes[members[0]].trace
	if b.pieces != nil && b.pieces.Has(trace) {
		members = b.recall(trace, members)
	}
	orphans := b.link(members)
	b.resolve(members)
	partial := b.collect(members, orphans)
	if b.pieces == nil {
		return
	}
	if orphans > 0 || partial {
		b.pieces.remember(b, trace, members, now)
	} else {
		b.pieces.forget(trace)
	}
}

// recall puts the remembered nodes of a trace before the new ones.
func (b *Batch) recall(trace pcommon.TraceID, members []int32) []int32 {
	var all []int32
	for _, p := range b.pieces.recall(trace) {
		if last := len(b.Procs) - 1; last < 0 || b.Procs[last].Key != p.proc.Key {
			b.AddProc(p.proc, pcommon.Resource{})
		}
		p.node.proc = int32(len(b.Procs) - 1)
		all = append(all, int32(len(b.nodes)))
		b.append(p.node, p.info)
	}
	return append(all, members...)
}

// collect makes the invocations, steps and external spans of one trace.
// It says whether an invocation misses a piece.
func (b *Batch) collect(members []int32, orphans int) (partial bool) {
	firstInv, firstStep := len(b.Invs), len(b.Steps)
	for _, i := range members {
		n := &b.nodes[i]
		switch {
		case n.dupOf != none:
		case n.chip && n.stage == stageRun:
			b.startInvocation(i)
		case n.level && n.stage == stageLevelRun:
			b.startStep(i)
		case n.external && !n.past:
			b.startExt(n)
		}
	}
	invs := b.Invs[firstInv:]
	if len(invs) == 0 && firstStep == len(b.Steps) {
		return false
	}
	b.indexRoots(firstInv)
	for _, i := range members {
		n := &b.nodes[i]
		switch {
		case n.dupOf != none:
			b.repeat(n, firstStep)
		case n.chip && n.root >= 0 && n.root != i:
			b.Invs[b.invOf[n.root]].add(n, b.infoOf(n))
			b.markLate(n)
		}
	}
	if orphans > 0 {
		b.markPartial(members, invs)
	}
	for k := range invs {
		invs[k].Run = b.nodes[invs[k].node].run
		invs[k].finish()
		partial = partial || invs[k].Partial
	}
	for k := range b.Steps[firstStep:] {
		b.Steps[firstStep+k].invs = [2]int{firstInv, len(b.Invs)}
	}
	return partial
}

// markLate says on the top of a late piece that its root has left without it.
func (b *Batch) markLate(n *node) {
	if n.past || !b.nodes[n.root].past || n.up == none || !b.nodes[n.up].past {
		return
	}
	n.span.Attributes().PutBool(semconv.PhasePartial, true)
}

// indexRoots makes invOf an index from root node to invocation.
func (b *Batch) indexRoots(firstInv int) {
	b.invOf = slices.Grow(b.invOf[:0], len(b.nodes))[:len(b.nodes)]
	for k := firstInv; k < len(b.Invs); k++ {
		b.invOf[b.Invs[k].node] = int32(k)
	}
}

// repeat gives the second copy of a root what the first one gets.
func (b *Batch) repeat(n *node, firstStep int) {
	first := &b.nodes[n.dupOf]
	switch {
	case n.past || n.stage != first.stage:
	case first.chip && first.stage == stageRun:
		v := &b.Invs[b.invOf[n.dupOf]]
		v.copies = append(v.copies, n.span)
	case first.level && first.stage == stageLevelRun:
		for k := range b.Steps[firstStep:] {
			if s := &b.Steps[firstStep+k]; s.node == n.dupOf {
				s.copies = append(s.copies, n.span)
			}
		}
	}
}

// markPartial marks the invocations that miss the parent of one of their spans.
func (b *Batch) markPartial(members []int32, invs []Invocation) {
	for _, i := range members {
		n := &b.nodes[i]
		if n.dupOf != none || !n.chip || n.root >= 0 || n.stage == stageRun || n.parent.IsEmpty() {
			continue
		}
		for k := range invs {
			if b.Procs[invs[k].Proc].Key == b.Procs[n.proc].Key && invs[k].Inv == n.inv {
				invs[k].Partial = true
			}
		}
	}
}

func (b *Batch) infoOf(n *node) *info {
	if n.info == none {
		return nil
	}
	return &b.infos[n.info]
}

func (b *Batch) startExt(n *node) {
	in := b.infoOf(n)
	e := Ext{RequestIDs: in.requestIDs, Proc: n.proc, Start: n.start, End: n.end}
	if n.up == none && !n.parent.IsEmpty() {
		e.Trace, e.Parent = n.trace, n.parent
	}
	if n.bad || (e.Parent.IsEmpty() && e.RequestIDs == [2]string{}) {
		return
	}
	b.Exts = append(b.Exts, e)
}
