// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Pieces remembers the numbers of traces that came without all their parents,
// so that a root arriving later still gets the whole sum. It holds no spans:
// those left with the call that brought them. Safe for concurrent use.
type Pieces struct {
	// count repeats len(traces), so that the usual call takes no lock.
	count atomic.Int64

	// mu guards the rest.
	mu      sync.Mutex
	max     int
	nodes   int
	traces  map[pcommon.TraceID]*piece
	oldest  []pcommon.TraceID
	evicted int64
}

type piece struct {
	since int64
	nodes []remembered
}

type remembered struct {
	node node
	info info
	proc Proc
}

// NewPieces bounds the memory to maxSpans span summaries.
func NewPieces(maxSpans int) *Pieces {
	return &Pieces{max: maxSpans, traces: make(map[pcommon.TraceID]*piece)}
}

// Has says whether anything of the trace is remembered.
func (p *Pieces) Has(trace pcommon.TraceID) bool {
	if p.count.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.traces[trace]
	return ok
}

func (p *Pieces) recall(trace pcommon.TraceID) []remembered {
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, ok := p.traces[trace]; ok {
		return append([]remembered(nil), got.nodes...)
	}
	return nil
}

// remember replaces what is known of a trace.
func (p *Pieces) remember(b *Batch, trace pcommon.TraceID, members []int32, now int64) {
	if len(members) > p.max {
		p.forget(trace)
		return
	}
	nodes := make([]remembered, 0, len(members))
	for _, i := range members {
		n := b.nodes[i]
		if n.dupOf != none || !n.chip && !n.level || n.incomplete {
			continue
		}
		r := remembered{node: n, proc: b.Procs[n.proc]}
		if in := b.infoOf(&n); in != nil {
			r.info = *in
		}
		r.node.span, r.node.past = ptrace.Span{}, true
		r.node.info, r.node.up, r.node.root, r.node.run = none, none, none, none
		r.node.climb = climbUnknown
		nodes = append(nodes, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	got, ok := p.traces[trace]
	if !ok {
		got = &piece{since: now}
		p.traces[trace] = got
		p.oldest = append(p.oldest, trace)
	}
	p.nodes += len(nodes) - len(got.nodes)
	got.nodes = nodes
	for p.nodes > p.max && len(p.oldest) > 0 {
		p.dropOldest()
		p.evicted++
	}
	p.count.Store(int64(len(p.traces)))
}

func (p *Pieces) forget(trace pcommon.TraceID) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, ok := p.traces[trace]; ok {
		p.nodes -= len(got.nodes)
		delete(p.traces, trace)
		p.count.Store(int64(len(p.traces)))
	}
}

// dropOldest forgets the trace that has waited longest. Forgotten traces stay
// in oldest until they come up here or in Expire.
func (p *Pieces) dropOldest() {
	trace := p.oldest[0]
	p.oldest = p.oldest[1:]
	if got, ok := p.traces[trace]; ok {
		p.nodes -= len(got.nodes)
		delete(p.traces, trace)
	}
}

// Expire forgets what was first seen before then, in Unix nanoseconds, and
// returns how many traces had to go for want of room since the last call.
func (p *Pieces) Expire(before int64) (evicted int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.oldest) > 0 {
		got, ok := p.traces[p.oldest[0]]
		if ok && got.since >= before {
			break
		}
		p.dropOldest()
	}
	if len(p.oldest) == 0 {
		p.oldest = nil
	}
	p.count.Store(int64(len(p.traces)))
	evicted, p.evicted = p.evicted, 0
	return evicted
}
