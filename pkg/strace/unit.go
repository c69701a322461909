// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "bytes"

// stored is a record as a unit keeps it: attributes live in the unit's arena,
// so that no line is pinned.
type stored struct {
	name      *Name
	ts, dur   int64
	tid       int64
	hid       uint64
	attrOff   uint32
	attrLen   uint32
	depth     int32
	hidDigits uint8
	device    bool
	verbatim  bool
}

func (r *stored) end() int64  { return r.ts + r.dur }
func (r *stored) point() bool { return r.dur == 0 }

// records is a list of stored records in print order with their attributes.
type records struct {
	list  []stored
	arena []byte
}

// storedSize is what one record is charged for beside its attributes.
const storedSize = 80

func (rs *records) add(r *Record) *stored {
	off := len(rs.arena)
	rs.arena = append(rs.arena, r.Attrs...)
	rs.list = append(rs.list, stored{
		name: r.Name, ts: r.TS, dur: r.Dur, tid: r.TID, hid: r.HID, hidDigits: r.HIDDigits,
		attrOff: uint32(off), attrLen: uint32(len(r.Attrs)), depth: r.Depth, device: r.Device, verbatim: r.Verbatim,
	})
	return &rs.list[len(rs.list)-1]
}

// copyOf adds a record of another list.
func (rs *records) copyOf(r *stored, attrs []byte) {
	c := *r
	c.attrOff = uint32(len(rs.arena))
	rs.arena = append(rs.arena, attrs...)
	rs.list = append(rs.list, c)
}

func (rs *records) attrs(r *stored) []byte { return rs.arena[r.attrOff : r.attrOff+r.attrLen] }

func (rs *records) bytes() int { return len(rs.list)*storedSize + len(rs.arena) }

func (rs *records) reset() { rs.list, rs.arena = rs.list[:0], rs.arena[:0] }

// duplicateWindow is how far back a repeated record is looked for.
const duplicateWindow = 64

// holds reports whether the list ends with the very same record among its
// last duplicateWindow.
func (rs *records) holds(r *Record) bool {
	from := max(0, len(rs.list)-duplicateWindow)
	for i := range rs.list[from:] {
		s := &rs.list[from+i]
		if s.ts == r.TS && s.name == r.Name && s.dur == r.Dur && s.tid == r.TID && s.depth == r.Depth &&
			s.device == r.Device && s.hid == r.HID && bytes.Equal(rs.attrs(s), r.Attrs) {
			return true
		}
	}
	return false
}

// invocation is a chip invocation, or a single ext record that waits for its
// run, on its way through the assembler.
type invocation struct {
	records
	proc *process
	inv  uint64
	// root is the index of the depth-0 record, -1 while open.
	root int
	// hostEnd is the latest end on the host clock.
	hostEnd int64
	// born is when the first record was printed, on the host clock, where that
	// is a device record; else 0.
	born int64
	// touched is the wall time (Unix ns) of the last record; since that of the
	// last change of state.
	touched, since int64
	// poll is the poll that brought the root.
	poll uint64
	// lost is set when the runtime reported drops while this was on its way.
	lost     bool
	identity Identity
	// external is set for an ext record waiting for its run.
	external bool
	// contested is set while a run that is still open may claim it as well.
	contested bool

	age links[invocation] // in Assembler.open
}

func (v *invocation) start() int64 {
	if v.root >= 0 {
		return v.list[v.root].ts
	}
	start := int64(-1)
	for i := range v.list {
		if r := &v.list[i]; !r.device && (start < 0 || r.ts < start) {
			start = r.ts
		}
	}
	if start < 0 {
		return v.born
	}
	return start
}

func (v *invocation) end() int64 {
	if v.root >= 0 {
		return v.list[v.root].end()
	}
	return max(v.hostEnd, v.born)
}

func (v *invocation) reset() {
	v.records.reset()
	*v = invocation{records: v.records, root: -1}
}

// run is an L3 run being collected.
type run struct {
	records
	ids  []Identity // parallel to list
	proc *process
	id   uint64
	// start and end bound its records on the host clock.
	start, end int64
	// expected is how many tasks its submits announced, built whether its
	// graph_build, which prints after them, was seen.
	expected  int
	built     bool
	completes int
	retired   bool
	lost      bool
	// touched is the wall time of the last record, Unix ns.
	touched int64
	// poll is the poll that brought the last record, polled whether its end was
	// seen.
	poll   uint64
	polled bool
	// shaped is set once the run is over and collects its invocations.
	shaped   *runShape
	children []child
	// invocations counts the children that are no ext records.
	invocations int
	// tasks finds the first record of a stage and task; it covers the first
	// indexed records. A run may have thousands.
	tasks   map[taskKey]int32
	indexed int

	age links[run] // in Assembler.openRuns
}

func (u *run) reset() {
	u.records.reset()
	clear(u.children)
	if len(u.tasks) > maxCandidates {
		u.tasks = nil // clearing costs its size each time
	}
	clear(u.tasks)
	*u = run{records: u.records, ids: u.ids[:0], children: u.children[:0], tasks: u.tasks}
}

// taskKey names one stage of one task, or with no task a stage of the run.
type taskKey struct {
	stage        role
	slot, worker int64
	dispatch     uint64
}

func keyOf(stage role, id *Identity) taskKey {
	switch stage {
	case roleDispatch, roleFrameSubmit, roleActivate, roleComplete:
		return taskKey{stage, id.TaskSlot, id.WorkerID, id.DispatchID} // dispatch_id counts per worker
	default:
		return taskKey{stage: stage}
	}
}

// find returns the index of the run's first record of that stage, and that
// task where the stage has one; -1 when there is none.
func (u *run) find(stage role, id *Identity) int {
	if u.tasks == nil {
		u.tasks = make(map[taskKey]int32, 16)
	}
	for ; u.indexed < len(u.list); u.indexed++ {
		key := keyOf(u.list[u.indexed].name.role, &u.ids[u.indexed])
		if _, taken := u.tasks[key]; !taken {
			u.tasks[key] = int32(u.indexed)
		}
	}
	if i, ok := u.tasks[keyOf(stage, id)]; ok {
		return int(i)
	}
	return -1
}

// child is an invocation stitched into a run, under a dispatch or, with
// dispatch -1, under the run itself.
type child struct {
	*invocation
	dispatch int
	how      Stitch
}

// complete reports whether every task that was announced is over. A further
// record, the retirement, may still follow: early generations print none.
func (u *run) complete() bool {
	return u.built && u.expected > 0 && u.completes >= u.expected
}

// announcedAllOver reports whether the run printed its last record and no task
// is missing.
func (u *run) announcedAllOver() bool { return u.retired && u.completes >= u.expected }

// idTS tells uses of one run number apart: its graph_build's begin, else its
// earliest one.
func (u *run) idTS() int64 {
	if i := u.find(roleGraphBuild, nil); i >= 0 {
		return u.list[i].ts
	}
	return u.start
}

// repeats reports whether record r with identity id cannot belong to this use
// of the run number: what occurs once is already here, earlier, or r submits
// to a graph that is built. Task slots may come round in one run, dispatches
// may not.
func (u *run) repeats(r *Record, id *Identity) bool {
	switch r.Name.role {
	case roleGraphBuild, roleDispatch, roleFrameSubmit, roleActivate, roleComplete, roleRetirement:
		i := u.find(r.Name.role, id)
		return i >= 0 && u.list[i].ts < r.TS
	case roleSubmit:
		i := u.find(roleGraphBuild, nil)
		return i >= 0 && u.list[i].end() <= r.TS
	default:
		return false
	}
}

// misses reports whether r is what one of the run's dispatches still lacks: it
// may come, and be stamped, after the retirement.
func (u *run) misses(r *Record, id *Identity) bool {
	return under(r.Name.role) && u.find(roleDispatch, id) >= 0 && u.find(r.Name.role, id) < 0
}
