// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/index"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// bucketNS is the time within which only the slowest runs keep their spans.
const bucketNS = 20_000_000

// maxBody bounds the spans of one run that are kept.
const maxBody = 256

// Body is the spans of one run, the root among them.
type Body struct {
	Spans ptrace.ResourceSpans
	Trace pcommon.TraceID
	ID    pcommon.SpanID
	dur   int64
	slot  slotKey
	size  int
}

type slotKey struct {
	machine uint64
	bucket  int64
}

// Bodies keeps the spans of runs that may turn out the slowest of a request's
// phase: of every few milliseconds of a host the slowest. Keeping all would
// cost more than all the rest. Its owner serialises access.
type Bodies struct {
	// per is how many are kept for each bucket, max how many spans in all.
	per, max int
	slots    map[slotKey][]*Body
	byRun    map[pcommon.SpanID]*Body
	order    []*Body
	size     int
	evicted  int
}

// NewBodies keeps per runs a bucket, max spans in all; none when either is 0.
func NewBodies(per, maxSpans int) *Bodies {
	return &Bodies{per: per, max: maxSpans, slots: make(map[slotKey][]*Body), byRun: make(map[pcommon.SpanID]*Body)}
}

// TakeEvicted returns and clears how many bodies had to go for want of room.
func (b *Bodies) TakeEvicted() int {
	n := b.evicted
	b.evicted = 0
	return n
}

func slotOf(v *phases.Invocation, p *phases.Proc) slotKey {
	return slotKey{p.Machine, v.Host.Start / bucketNS}
}

// Choose picks, among the invocations of a call that fresh marks, those whose
// spans are worth keeping: at most as many a bucket as a bucket has room for.
func (b *Bodies) Choose(batch *phases.Batch, fresh []int) []int {
	if b.per == 0 || b.max == 0 {
		return nil
	}
	chosen := make(map[slotKey][]int)
	for _, i := range fresh {
		v := &batch.Invs[i]
		slot := slotOf(v, &batch.Procs[v.Proc])
		if v.Size() > min(maxBody, b.max) || !b.beats(slot, v) {
			continue
		}
		best := append(chosen[slot], i)
		for k := len(best) - 1; k > 0 && batch.Invs[best[k]].Host.Len() > batch.Invs[best[k-1]].Host.Len(); k-- {
			best[k], best[k-1] = best[k-1], best[k]
		}
		chosen[slot] = best[:min(len(best), b.per)]
	}
	out := fresh[:0]
	for _, best := range chosen {
		out = append(out, best...)
	}
	slices.Sort(out)
	return out
}

// beats says whether a run would find room in its bucket.
func (b *Bodies) beats(slot slotKey, v *phases.Invocation) bool {
	held := b.slots[slot]
	return len(held) < b.per || held[len(held)-1].dur < v.Host.Len()
}

// Put keeps a copy of the run's spans, which now belongs to b.
func (b *Bodies) Put(v *phases.Invocation, p *phases.Proc, spans ptrace.ResourceSpans, size int) {
	if _, ok := b.byRun[v.ID]; ok {
		return
	}
	body := &Body{Spans: spans, Trace: v.Trace, ID: v.ID, dur: v.Host.Len(), slot: slotOf(v, p), size: size}
	held := append(b.slots[body.slot], body)
	for i := len(held) - 1; i > 0 && held[i].dur > held[i-1].dur; i-- {
		held[i], held[i-1] = held[i-1], held[i]
	}
	b.slots[body.slot] = held
	b.byRun[v.ID] = body
	b.order = append(b.order, body)
	b.size += size
	if len(held) > b.per {
		b.forget(held[len(held)-1])
	}
	if len(b.order) > 2*len(b.byRun)+64 {
		b.order = slices.DeleteFunc(b.order, func(o *Body) bool { return o.size == 0 })
	}
	for b.size > b.max && len(b.order) > 0 {
		oldest := b.order[0]
		b.order = b.order[1:]
		if oldest.size > 0 {
			b.forget(oldest)
			b.evicted++
		}
	}
}

// forget drops a body; its place in order stays until it comes up.
func (b *Bodies) forget(body *Body) {
	delete(b.byRun, body.ID)
	b.size -= body.size
	body.size = 0
	body.Spans = ptrace.ResourceSpans{}
	held := b.slots[body.slot]
	for i := range held {
		if held[i] == body {
			held = append(held[:i:i], held[i+1:]...)
			break
		}
	}
	if len(held) == 0 {
		delete(b.slots, body.slot)
	} else {
		b.slots[body.slot] = held
	}
}

// Of are the bodies of the first n of runs, in their order, that have one.
func (b *Bodies) Of(runs []index.Ref, n int) []*Body {
	var out []*Body
	for i := range runs {
		if len(out) == n {
			break
		}
		if body, ok := b.byRun[runs[i].ID]; ok {
			out = append(out, body)
		}
	}
	return out
}
