// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package hold keeps request spans until their request is whole or has waited
// long enough. It is bounded: what is on its way out counts until it has been
// accepted, and what is on its way in counts from before it is taken.
package hold

import (
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/request"
)

// maxWaits is how many times the wait a request is held in all, however many
// pieces of its trace keep coming.
const maxWaits = 5

// Entry is the request spans of one trace. Spans refers to Data, which it owns.
type Entry struct {
	ID    pcommon.TraceID
	Data  ptrace.Traces
	Spans []request.Span
	// First and Last are when its first and last piece arrived.
	First, Last time.Time

	// Late is set when spans of this trace were let go before.
	Late bool
	// built is made of Spans when first asked for, whole when first looked at:
	// every entry is looked at on every sweep.
	built   *request.Trace
	checked bool
	whole   bool
	place   *list.Element
}

// Trace relates the spans; it is made once.
func (e *Entry) Trace() *request.Trace {
	if e.built == nil {
		e.built = request.Build(e.ID, e.Spans)
		e.built.Late = e.Late
	}
	return e.built
}

// Whole says whether nothing more of the request is to be waited for; see
// request.Trace.Complete for the tolerance in nanoseconds.
func (e *Entry) Whole(tolerance int64) bool {
	if !e.checked {
		e.whole = e.Trace().Complete(tolerance, true)
		e.checked = true
	}
	return e.whole
}

// Store holds entries. It is safe for concurrent use.
type Store struct {
	maxRequests, maxSpans int
	wait                  time.Duration

	// mu guards the rest. The list has the entry whose last piece is oldest in
	// front.
	mu       sync.Mutex
	byTrace  map[pcommon.TraceID]*Entry
	waiting  *list.List
	requests int
	spans    int
	// changed is set by Add and cleared by Changed.
	changed  bool
	released *simplelru.LRU[pcommon.TraceID, []pcommon.SpanID]
}

// New makes a Store. It fails when maxRequests is not positive.
func New(maxRequests, maxSpans int, wait time.Duration) (*Store, error) {
	released, err := simplelru.NewLRU[pcommon.TraceID, []pcommon.SpanID](maxRequests, nil)
	if err != nil {
		return nil, fmt.Errorf("remembering released requests: %w", err)
	}
	return &Store{
		maxRequests: maxRequests, maxSpans: maxSpans, wait: wait,
		byTrace: make(map[pcommon.TraceID]*Entry), waiting: list.New(), released: released,
	}, nil
}

// Size is what counts against the bounds.
func (s *Store) Size() (requests, spans int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.spans
}

// Reserve makes room. When there is none, ok is false and evicted are the
// entries that have waited longest, for the caller to pass on and then report
// with Done before trying again; none when all there is is on its way already.
func (s *Store) Reserve(requests, spans int) (evicted []*Entry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests+requests <= s.maxRequests && s.spans+spans <= s.maxSpans {
		s.requests += requests
		s.spans += spans
		return nil, true
	}
	if requests > s.maxRequests || spans > s.maxSpans {
		return nil, false
	}
	freeRequests, freeSpans := s.maxRequests-s.requests, s.maxSpans-s.spans
	for freeRequests < requests || freeSpans < spans {
		front := s.waiting.Front()
		if front == nil {
			break
		}
		e := front.Value.(*Entry)
		s.take(e)
		evicted = append(evicted, e)
		freeRequests++
		freeSpans += len(e.Spans)
	}
	return evicted, false
}

// Changed says whether anything was added since it was last asked.
func (s *Store) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.changed
	s.changed = false
	return changed
}

// Cancel gives a reservation back.
func (s *Store) Cancel(requests, spans int) { s.Done(requests, spans) }

// Done reports entries that have left for good.
func (s *Store) Done(requests, spans int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests -= requests
	s.spans -= spans
}

// Add takes entries for which there is a reservation.
func (s *Store) Add(entries []*Entry, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = s.changed || len(entries) > 0
	for _, e := range entries {
		s.markRepeats(e)
		e.First, e.Last = now, now
		held, ok := s.byTrace[e.ID]
		if !ok {
			s.byTrace[e.ID] = e
			e.place = s.waiting.PushBack(e)
			continue
		}
		e.Data.ResourceSpans().MoveAndAppendTo(held.Data.ResourceSpans())
		held.Spans = append(held.Spans, e.Spans...)
		held.Last = now
		held.built, held.checked = nil, false
		s.waiting.MoveToBack(held.place)
		s.requests--
	}
}

// markRepeats marks the spans that left in an earlier release.
func (s *Store) markRepeats(e *Entry) {
	gone, ok := s.released.Get(e.ID)
	if !ok {
		return
	}
	e.Late = true
	for i := range e.Spans {
		if slices.Contains(gone, e.Spans[i].SpanID()) {
			e.Spans[i].Repeat = true
		}
	}
}

// Due takes the entries that have waited long enough, at most limit spans of
// them beyond the first.
func (s *Store) Due(now time.Time, limit int) []*Entry {
	return s.collect(limit, func(e *Entry) bool {
		return now.Sub(e.Last) >= s.wait || now.Sub(e.First) >= maxWaits*s.wait
	})
}

// Ready takes the entries that ready says need not wait, likewise.
func (s *Store) Ready(limit int, ready func(*Entry) bool) []*Entry {
	return s.collect(limit, ready)
}

// All takes what there is, likewise.
func (s *Store) All(limit int) []*Entry {
	return s.collect(limit, func(*Entry) bool { return true })
}

func (s *Store) collect(limit int, wanted func(*Entry) bool) []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Entry
	spans := 0
	for at := s.waiting.Front(); at != nil && spans < limit; {
		e := at.Value.(*Entry)
		at = at.Next()
		if wanted(e) {
			s.take(e)
			out = append(out, e)
			spans += len(e.Spans)
		}
	}
	return out
}

// take removes an entry from those waiting and remembers that it left.
func (s *Store) take(e *Entry) {
	s.waiting.Remove(e.place)
	delete(s.byTrace, e.ID)
	ids := make([]pcommon.SpanID, 0, len(e.Spans))
	for i := range e.Spans {
		ids = append(ids, e.Spans[i].SpanID())
	}
	const most = 64
	if gone, ok := s.released.Get(e.ID); ok {
		ids = append(ids, gone...)
	}
	s.released.Add(e.ID, ids[:min(most, len(ids)):min(most, len(ids))])
}
