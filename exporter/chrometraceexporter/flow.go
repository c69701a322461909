// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// spanKey names a span.
type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// endpoint is a slice on a thread lane that an arrow may start or end at.
type endpoint struct {
	span       spanKey
	file       uint64
	pid        uint32
	address    []byte // the lane's, shared
	start, end uint64
}

// flow is an arrow of which one end is known.
type flow struct {
	name  string
	known endpoint
	// fromKnown: the arrow starts at known and waits for its target.
	fromKnown bool
	// crossProcess: drawn only between two processes.
	crossProcess bool
}

// flowMemory remembers recent ends of arrows, and arrows that wait for their
// other end, each up to a bound; the oldest leave first.
type flowMemory struct {
	recent  map[spanKey]endpoint
	order   ring[spanKey]
	waiting map[spanKey][]flow
	queue   ring[spanKey] // one entry per waiting flow
}

func newFlowMemory(size int) *flowMemory {
	return &flowMemory{
		recent:  make(map[spanKey]endpoint),
		order:   ring[spanKey]{limit: size},
		waiting: make(map[spanKey][]flow),
		queue:   ring[spanKey]{limit: size},
	}
}

// remember keeps an end, and returns the arrows that waited for it.
func (m *flowMemory) remember(key spanKey, end endpoint) []flow {
	if _, ok := m.recent[key]; !ok {
		if old, full := m.order.push(key); full {
			delete(m.recent, old)
		}
	}
	m.recent[key] = end
	if len(m.waiting) == 0 {
		return nil
	}
	waited := m.waiting[key]
	delete(m.waiting, key)
	return waited
}

// wait keeps an arrow until key arrives. It returns how many arrows had to
// give up their place.
func (m *flowMemory) wait(key spanKey, f flow) (evicted int) {
	if old, full := m.queue.push(key); full {
		// Every entry stands for one arrow, unless those of its key were drawn.
		if flows := m.waiting[old]; len(flows) > 1 {
			m.waiting[old] = flows[1:]
			evicted = 1
		} else if len(flows) == 1 {
			delete(m.waiting, old)
			evicted = 1
		}
	}
	m.waiting[key] = append(m.waiting[key], f)
	return evicted
}

// forget empties the memory: an arrow cannot leave its file. It returns how
// many arrows were still waiting.
func (m *flowMemory) forget() (waiting int) {
	for _, flows := range m.waiting {
		waiting += len(flows)
	}
	clear(m.recent)
	clear(m.waiting)
	m.order.reset()
	m.queue.reset()
	return waiting
}

// ring is a bounded first-in, first-out queue.
type ring[T any] struct {
	limit int
	items []T
	next  int
}

// push adds item; when the ring is full it returns the oldest, which left.
func (r *ring[T]) push(item T) (oldest T, full bool) {
	if len(r.items) < r.limit {
		r.items = append(r.items, item)
		return oldest, false
	}
	oldest = r.items[r.next]
	r.items[r.next] = item
	r.next = (r.next + 1) % r.limit
	return oldest, true
}

func (r *ring[T]) reset() {
	r.items, r.next = r.items[:0], 0
}
