// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "math"

// runShape is what stitching needs of a run: its dispatches and their times.
// It outlives the run for what comes late.
type runShape struct {
	pid   int32
	runID uint64
	// idTS entered the run's identifiers.
	idTS       int64
	trace      TraceID
	root       SpanID
	graphBuild SpanID
	// last is the span of the last record, by which a repeated line is known.
	last SpanID
	// start and end bound the run; end is math.MaxInt64 where it was cut
	// short, since nothing tells when it ended.
	start, end int64
	retired    bool
	dispatches []dispatchShape
	at         placement
	emitted    int64 // wall time, Unix ns
}

// dispatchShape is one dispatch from its start to its complete's end.
type dispatchShape struct {
	identity   Identity
	span       SpanID
	start, end int64
	// completed is set when its complete was seen.
	completed bool
}

func (s *runShape) cutShort() bool { return s.end == math.MaxInt64 }

// shape extracts u's dispatches into s, in print order. Their ids are set when
// the spans are built. A dispatch without duration is a point, so nothing can
// hang under it.
func (u *run) shape(s *runShape) {
	*s = runShape{pid: u.proc.pid, runID: u.id, start: u.start, end: u.end, retired: u.retired, dispatches: s.dispatches[:0]}
	if !u.retired && !u.complete() {
		s.end = math.MaxInt64
	}
	for i := range u.list {
		if u.list[i].name.role != roleDispatch || u.list[i].point() {
			continue
		}
		id := &u.ids[i]
		s.dispatches = append(s.dispatches, dispatchShape{
			identity: *id, start: u.list[i].ts, end: u.completeEnd(id, s.end), completed: u.find(roleComplete, id) >= 0,
		})
	}
}

// completeEnd finds the end of the task that id names, or returns end where
// its complete is missing.
func (u *run) completeEnd(id *Identity, end int64) int64 {
	if i := u.find(roleComplete, id); i >= 0 {
		return u.list[i].end()
	}
	return end
}

// sameTask matches records of one dispatch: dispatch_id counts per worker.
func sameTask(a, b *Identity) bool {
	return a.TaskSlot == b.TaskSlot && a.WorkerID == b.WorkerID && a.DispatchID == b.DispatchID
}

// match finds the dispatch of s that caused v. index is -1 for StitchRun.
func (s *runShape) match(v *invocation) (index int, how Stitch) {
	within := s.start <= v.start() && v.end() <= s.end
	if v.external {
		if v.identity.RunID == s.runID && s.start <= v.start() && v.start() <= s.end {
			return -1, StitchRun
		}
		return -1, StitchNone
	}
	worker, known := v.proc.scope.worker(v.proc)
	if v.identity.Has&HasRunID != 0 && v.identity.RunID != 0 {
		if v.identity.RunID != s.runID || !within {
			return -1, StitchNone
		}
		if i := s.byIdentity(v, worker, known); i >= 0 {
			return i, StitchIdentity
		}
		return -1, StitchRun
	}
	if !known {
		return -1, StitchNone
	}
	switch i, n := s.byTime(v, worker); n {
	case 0:
		return -1, StitchNone
	case 1:
		return i, StitchTime
	default:
		return -1, StitchRun // of its dispatches, several: only the run is certain
	}
}

// byIdentity finds the only dispatch with v's numbers. dispatch_id counts per
// worker, so several may have them: then the worker singles it out if time
// confirms it, else time alone.
func (s *runShape) byIdentity(v *invocation, worker int64, known bool) int {
	same, found := 0, -1
	inside, contained := 0, -1
	for i := range s.dispatches {
		d := &s.dispatches[i]
		if !agrees(&v.identity, &d.identity) {
			continue
		}
		same++
		if known && (d.identity.Has&HasWorkerID == 0 || d.identity.WorkerID != worker) {
			continue
		}
		found = i
		if d.start <= v.start() && v.end() <= d.end {
			inside++
			contained = i
		}
	}
	switch {
	case same == 1 && known:
		return found
	case inside == 1:
		return contained
	default:
		return -1
	}
}

// agrees compares the keys that both sides printed.
func agrees(root, dispatch *Identity) bool {
	both := root.Has & dispatch.Has
	return root.DispatchID == dispatch.DispatchID &&
		(both&HasSlotID == 0 || root.SlotID == dispatch.SlotID) &&
		(both&HasGeneration == 0 || root.Generation == dispatch.Generation)
}

// byTime finds the dispatch of the worker whose span of time holds v, and how
// many there are.
func (s *runShape) byTime(v *invocation, worker int64) (index, n int) {
	for i := range s.dispatches {
		d := &s.dispatches[i]
		if d.identity.Has&HasWorkerID != 0 && d.identity.WorkerID == worker && d.start <= v.start() && v.end() <= d.end {
			index = i
			n++
		}
	}
	return index, n
}
