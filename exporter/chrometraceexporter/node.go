// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"cmp"
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Attributes that choose a lane or name it.
const (
	attrThreadID   = "thread.id"
	attrThreadName = "thread.name"
	attrRole       = semconv.AttrPrefix + "role"
	attrSlotID     = semconv.AttrPrefix + "slot_id"
)

// none is the index of no node.
const none = -1

// node is a span of the batch being drawn.
type node struct {
	span  ptrace.Span
	scope pcommon.InstrumentationScope
	proc  *process
	track *track
	interval
	facts
	parent int32 // in the batch, or none
	deep   int32 // parents above it in the batch; breaks ties of equal times

	// The tree of spans that share a lane.
	seen               bool
	top                int32 // of its tree
	firstChild, last   int32
	nextSibling, above int32
	filled             uint64 // end of the last child placed inside
	size               int32  // of the tree; kept at its top
}

func keyOf(n *node) spanKey { return spanKey{n.span.TraceID(), n.span.SpanID()} }

// facts are what a span's attributes say about its place.
type facts struct {
	stage    string
	family   string
	level    string
	role     string
	stitch   string
	threadID int64
	slot     int64 // none when there is no slot id
	strace   bool
	device   bool
	copied   bool
}

func readFacts(attrs pcommon.Map) facts {
	f := facts{slot: none}
	for key, v := range attrs.All() {
		// Every name looked for starts with one of these letters.
		if key == "" || (key[0] != 's' && key[0] != 't' && key[0] != 'p') {
			continue
		}
		switch key {
		case attrThreadID:
			f.threadID = valueInt(v)
		case attrRole:
			f.role = v.Str()
		case attrThreadName:
			if f.role == "" {
				f.role = v.Str()
			}
		case attrSlotID:
			f.slot = valueInt(v)
		case semconv.Stage:
			f.stage, f.strace = v.Str(), true
		case semconv.Family:
			f.family, f.strace = v.Str(), true
		case semconv.Level:
			f.level = v.Str()
		case semconv.Clock:
			f.device, f.strace = v.Str() == semconv.ClockDevice, true
		case semconv.Stitch:
			f.stitch = v.Str()
		case semconv.PhaseCopy:
			f.copied = v.Bool()
		}
	}
	return f
}

// Reasons why a span is not drawn.
const (
	dropNoStart  = "no_start"
	dropNegative = "negative_duration"
	dropRange    = "out_of_range"
	dropCopy     = "copy"
	// dropFar: too far from the file's other spans, and further from the
	// present than they are.
	dropFar = "far"
)

// spanInterval reads a span's times, or says why they cannot be drawn.
func spanInterval(span ptrace.Span) (interval, string) {
	in := interval{start: uint64(span.StartTimestamp()), end: uint64(span.EndTimestamp())}
	switch {
	case in.start == 0:
		// It would stretch the picture back to 1970.
		return in, dropNoStart
	case in.end < in.start:
		return in, dropNegative
	case in.end > math.MaxInt64:
		return in, dropRange
	}
	return in, ""
}

// batch is the spans of one request, reused from one to the next.
type batch struct {
	nodes []node
	index map[spanKey]int32
	order []int32
	tops  []int32
}

func (b *batch) reset() {
	clear(b.nodes) // lets go of the request's data
	b.nodes = b.nodes[:0]
	clear(b.index)
	b.order = b.order[:0]
	b.tops = b.tops[:0]
}

func (b *batch) add(n node) {
	n.parent, n.firstChild, n.last, n.nextSibling, n.above = none, none, none, none, none
	i := int32(len(b.nodes))
	n.top = i
	n.size = 1
	b.nodes = append(b.nodes, n)
	if id := n.span.SpanID(); !id.IsEmpty() {
		b.index[spanKey{n.span.TraceID(), id}] = i
	}
}

// link finds the parents that are in the batch.
func (b *batch) link() {
	for i := range b.nodes {
		n := &b.nodes[i]
		id := n.span.ParentSpanID()
		if id.IsEmpty() {
			continue
		}
		if p, ok := b.index[spanKey{n.span.TraceID(), id}]; ok && int(p) != i {
			n.parent = p
		}
	}
	for i := range b.nodes {
		b.measure(int32(i))
	}
}

// measure sets how deep node i lies. Parents that form a ring, which only a
// broken producer sends, count as deep as the batch is large.
func (b *batch) measure(i int32) {
	var depth int32
	limit := int32(len(b.nodes))
	at := i
	for ; b.nodes[at].parent != none && b.nodes[at].deep == 0 && depth < limit; depth++ {
		at = b.nodes[at].parent
	}
	depth += b.nodes[at].deep
	for at = i; b.nodes[at].parent != none && b.nodes[at].deep == 0 && depth > 0; depth-- {
		b.nodes[at].deep = depth
		at = b.nodes[at].parent
	}
}

// nest builds the trees that are placed as one: a span goes inside its parent
// when both are on one track and it fits there without touching a sibling's
// inside; else it is the top of a tree of its own. Tops end up sorted by start.
func (b *batch) nest() {
	for i := range b.nodes {
		b.order = append(b.order, int32(i))
	}
	slices.SortFunc(b.order, func(x, y int32) int {
		l, r := &b.nodes[x], &b.nodes[y]
		if l.start != r.start {
			return cmp.Compare(l.start, r.start)
		}
		if l.end != r.end {
			return cmp.Compare(r.end, l.end)
		}
		if l.deep != r.deep {
			return cmp.Compare(l.deep, r.deep)
		}
		return cmp.Compare(x, y)
	})
	for _, i := range b.order {
		n := &b.nodes[i]
		n.seen = true
		n.filled = n.start
		if !b.attach(i) {
			b.tops = append(b.tops, i)
		}
	}
}

func (b *batch) attach(i int32) bool {
	n := &b.nodes[i]
	if n.parent == none {
		return false
	}
	p := &b.nodes[n.parent]
	// A parent that comes later in the order does not contain the span, or is
	// part of a ring.
	if !p.seen || p.track != n.track || n.end > p.end || n.start < p.filled {
		return false
	}
	p.filled = n.end
	n.above = n.parent
	n.top = p.top
	b.nodes[n.top].size++
	if p.firstChild == none {
		p.firstChild = i
	} else {
		b.nodes[p.last].nextSibling = i
	}
	p.last = i
	return true
}

// next walks a tree, parents before children, siblings by time. It calls up
// for every node that is left upwards. It returns none at the end.
func (b *batch) next(i int32, up func(i int32)) int32 {
	if child := b.nodes[i].firstChild; child != none {
		return child
	}
	for ; i != none; i = b.nodes[i].above {
		up(i)
		if sibling := b.nodes[i].nextSibling; sibling != none {
			return sibling
		}
	}
	return none
}
