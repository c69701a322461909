// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"slices"
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// threadID is an OS thread id, or one of these.
type threadID int64

const (
	deviceThread threadID = -1
	runsThread   threadID = -2
)

// firstSynthetic is the first number for lanes and processes that are no real
// ones: behind the largest thread id that Linux gives out.
const firstSynthetic = 1<<22 + 1

// What is told apart: processes, threads of one process, names in a label.
// Beyond a bound, the last one stands for the rest.
const (
	maxProcs   = 1 << 16
	maxThreads = 4096
	maxNames   = 8
)

// procTable gives processes and lanes their numbers.
type procTable struct {
	byKey     map[procKey]*proc
	order     []*proc
	taken     map[int64]bool
	synthetic int64
}

type procKey struct {
	scope string
	pid   int32
}

// proc is one process.
type proc struct {
	id        int64 // its number in the file: the pid where it is free
	pid       int32
	node      bool
	chip      bool
	producers []string
	unnamed   bool // external spans without a producer
	threads   map[threadID]*thread
	order     []*thread
}

// thread is one OS thread, with its lanes.
type thread struct {
	id        threadID
	roles     roleBits
	workers   []string
	producers []string
	device    int32
	hasDevice bool

	base  *lane
	slots map[int64]*lane
	// overflow are lanes for what does not nest on the others.
	overflow []*lane
	// split is set once two runs of a pipeline were seen to overlap: from then
	// on each slot has a lane.
	split bool
	// held is a run of a pipeline that waits for the next one, which tells
	// whether they overlap.
	held      block
	heldTops  []interval
	heldSlot  int64
	isHolding bool
}

type roleBits uint8

const (
	roleFacade roleBits = 1 << iota
	roleScheduler
	roleWorker
	roleChip
	roleRecordWorker
	roleExternal
	roleUnknown
)

func newProcTable() procTable {
	return procTable{byKey: map[procKey]*proc{}, taken: map[int64]bool{}, synthetic: firstSynthetic}
}

func (t *procTable) next() int64 {
	t.synthetic++
	return t.synthetic - 1
}

// of finds the process. Two of one number, from different scopes, must not
// share it in the file.
func (t *procTable) of(p *strace.Process) *proc {
	key := procKey{p.Scope.Key, p.PID}
	pr, ok := t.byKey[key]
	if !ok {
		if len(t.order) == maxProcs {
			return t.order[maxProcs-1]
		}
		pr = &proc{id: int64(p.PID), pid: p.PID, threads: map[threadID]*thread{}}
		if t.taken[pr.id] {
			pr.id = t.next()
		}
		t.taken[pr.id] = true
		t.byKey[key] = pr
		t.order = append(t.order, pr)
	}
	return pr
}

func (p *proc) thread(id threadID) *thread {
	th, ok := p.threads[id]
	if !ok {
		if len(p.order) == maxThreads {
			return p.order[maxThreads-1]
		}
		th = &thread{id: id}
		p.threads[id] = th
		p.order = append(p.order, th)
	}
	return th
}

// note remembers what says whose process it is.
func (p *proc) note(s *strace.Span) {
	switch s.Name.Family {
	case semconv.FamilyNode:
		p.node = true
	case semconv.FamilyExternal:
		if s.Name.Producer == "" {
			p.unnamed = true
		} else {
			addName(&p.producers, s.Name.Producer)
		}
	default:
		p.chip = true
	}
}

func addName(list *[]string, name string) {
	if len(*list) < maxNames && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

func (p *proc) label() string {
	pid := " (pid=" + strconv.Itoa(int(p.pid)) + ")"
	switch {
	case p.node:
		return "simpler node" + pid
	case p.chip:
		return "simpler chip child" + pid
	case len(p.producers) > 0:
		slices.Sort(p.producers)
		return "external producer " + strings.Join(p.producers, "/") + pid
	default:
		return "external producer unattributed" + pid
	}
}

// note remembers what says what the thread does. A producer's attributes are
// its own: role= there says nothing of ours.
func (th *thread) note(s *strace.Span) {
	if th.id < 0 {
		return
	}
	switch s.Name.Family {
	case semconv.FamilyExternal:
		th.roles |= roleExternal
		if s.Name.Producer != "" {
			addName(&th.producers, s.Name.Producer)
		}
	case semconv.FamilyNode:
		th.noteNode(s)
	case semconv.FamilyChip:
		th.roles |= roleChip
	default:
		th.roles |= roleUnknown
	}
}

func (th *thread) noteNode(s *strace.Span) {
	role, _ := strace.Attr(s.Attrs, "role")
	switch {
	case string(role) == "facade", s.Name.Stage == semconv.StageLevelGraphBuild, s.Name.Stage == semconv.StageLevelSubmit:
		th.roles |= roleFacade
	case string(role) == "scheduler", s.Name.Stage == semconv.StageSchedulerLoop:
		th.roles |= roleScheduler
	default:
		th.roles |= roleWorker
		if string(role) == "worker" {
			id, _ := strace.Attr(s.Attrs, "worker_id")
			if !slices.Contains(th.workers, string(id)) && len(th.workers) < 2 {
				th.workers = append(th.workers, string(id))
			}
		}
	}
}

func (th *thread) notePhase(p *phase) {
	if p.source != "bind_phase" {
		th.roles |= roleRecordWorker
	}
}

// name is the lane's label; the scheduler's thread also prints what it does
// for workers, so the first role that applies wins.
func (th *thread) name() string {
	switch {
	case th.id == deviceThread && th.hasDevice:
		return "device " + strconv.Itoa(int(th.device)) + " (clk=dev, placed)"
	case th.id == deviceThread:
		return "device (clk=dev, placed)"
	case th.id == runsThread:
		return "L3 runs"
	case th.roles&roleFacade != 0:
		return "orchestrator / facade"
	case th.roles&roleScheduler != 0:
		return "scheduler"
	case th.roles&roleWorker != 0 && len(th.workers) == 1 && th.workers[0] != "":
		return "worker " + th.workers[0]
	case th.roles&roleWorker != 0:
		return "worker"
	case th.roles&roleChip != 0:
		return "chip child"
	case th.roles&roleRecordWorker != 0:
		return "graph record worker"
	case th.roles == roleExternal && len(th.producers) > 0:
		slices.Sort(th.producers)
		return "ext " + strings.Join(th.producers, "/")
	default:
		return "tid " + strconv.FormatInt(int64(th.id), 10)
	}
}

// place draws a block: on its thread's lane, on that of its pipeline slot, or
// where neither has room, on a further one. It may be held back until the
// next one comes; its lane is not known then.
func (t *procTable) place(f *file, th *thread, b *block, tops []interval, slot int64, layer int) (l *lane, held bool, err error) {
	if slot < 0 || layer > 0 {
		l = t.free(th, tops, layer > 0)
		l.add(tops)
		return l, false, b.writeTo(f, l.tid)
	}
	if !th.split && th.isHolding && !apart(th.heldTops, tops) {
		th.split = true
	}
	if err := t.release(f, th); err != nil {
		return nil, false, err
	}
	if !th.split {
		th.held.copy(b)
		th.heldTops, th.heldSlot, th.isHolding = append(th.heldTops[:0], tops...), slot, true
		return nil, true, nil
	}
	l = t.slotLane(th, tops, slot)
	l.add(tops)
	return l, false, b.writeTo(f, l.tid)
}

// release writes the block that was held back.
func (t *procTable) release(f *file, th *thread) error {
	if !th.isHolding {
		return nil
	}
	th.isHolding = false
	var l *lane
	if th.split {
		l = t.slotLane(th, th.heldTops, th.heldSlot)
	} else {
		l = t.free(th, th.heldTops, false)
	}
	l.add(th.heldTops)
	return th.held.writeTo(f, l.tid)
}

func apart(a, b []interval) bool {
	for i := range a {
		for k := range b {
			if a[i].end > b[k].start && b[k].end > a[i].start {
				return false
			}
		}
	}
	return true
}

func (t *procTable) slotLane(th *thread, tops []interval, slot int64) *lane {
	l := th.slots[slot]
	if l == nil && len(th.slots) < maxLayers {
		if th.slots == nil {
			th.slots = map[int64]*lane{}
		}
		l = &lane{tid: t.next()}
		th.slots[slot] = l
	}
	if l != nil && l.fits(tops) {
		return l
	}
	return t.free(th, tops, true)
}

// free finds the first lane of the thread with room.
func (t *procTable) free(th *thread, tops []interval, skipBase bool) *lane {
	if th.base == nil {
		th.base = &lane{tid: int64(th.id)}
		if th.id < 0 {
			th.base.tid = t.next()
		}
	}
	if !skipBase && th.base.fits(tops) {
		return th.base
	}
	for _, l := range th.overflow {
		if l.fits(tops) {
			return l
		}
	}
	l := &lane{tid: t.next()}
	// The last one takes what fits nowhere: a log that needs more is junk.
	if len(th.overflow) == maxRemembered {
		return th.overflow[maxRemembered-1]
	}
	th.overflow = append(th.overflow, l)
	return l
}

// finish writes what was held back, and the names.
func (t *procTable) finish(f *file) error {
	for _, pr := range t.order {
		for _, th := range pr.order {
			if err := t.release(f, th); err != nil {
				return err
			}
		}
		if err := f.metadata("process_name", pr.id, 0, pr.label()); err != nil {
			return err
		}
		for _, th := range pr.order {
			if err := th.names(f, pr.id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (th *thread) names(f *file, pid int64) error {
	name := th.name()
	if th.base != nil {
		if err := f.metadata("thread_name", pid, th.base.tid, name); err != nil {
			return err
		}
	}
	slots := make([]int64, 0, len(th.slots))
	for slot := range th.slots {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	for _, slot := range slots {
		text := "pipeline slot " + strconv.FormatInt(slot, 10) + " (tid " + strconv.FormatInt(int64(th.id), 10) + ")"
		if err := f.metadata("thread_name", pid, th.slots[slot].tid, text); err != nil {
			return err
		}
	}
	for _, l := range th.overflow {
		if err := f.metadata("thread_name", pid, l.tid, name+", overlapping"); err != nil {
			return err
		}
	}
	return nil
}
