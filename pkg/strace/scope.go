// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "slices"

// Scope is one pid name space's worth of logs: a container, or a directory.
// Processes of one scope may belong together; pids are unique within it at
// any one time.
type Scope struct {
	// Key is what the caller opened it with; it enters every identifier.
	Key string

	asm       *Assembler
	processes map[int32]*process
	// ordered are the processes in order of appearance: what is emitted must
	// not depend on a map's order.
	ordered []*process
	// devices are the distinct devices announced, ascending: the k-th is
	// worker k.
	devices []int32
	// workers is how many worker numbers the node records of the scope used.
	workers int
	// parents are the processes that print node records.
	parents []*process
	// parentless is set once an invocation has waited for a run in vain and no
	// process of the scope has printed node records.
	parentless bool
	// waiting are complete invocations that may belong to a run, by start.
	waiting []*invocation
	// contests counts those that an open run may claim, too.
	contests int
	// over are runs that ended and collect their invocations, in order.
	over []*run
	// left are runs that have been emitted, by their ends, for what comes
	// after them.
	left []*runShape
	used int64 // wall time of the last record, Unix ns
}

// process is one pid of a scope.
type process struct {
	scope *Scope
	pid   int32
	dev   int32 // -1 while unknown
	clock processClock
	file  FileClock
	open  map[uint64]*invocation
	// closing are invocations whose root was seen, in order; closed has the
	// latest of them by its number.
	closing queue[invocation]
	closed  map[uint64]*invocation
	runs    map[uint64]*run
	// progress is the latest host end printed: log time.
	progress int64
	// dropped is when the runtime last reported losses, on its host clock:
	// what began before may have lost records.
	dropped int64
	used    int64
}

func (s *Scope) process(pid int32, now int64) *process {
	p, ok := s.processes[pid]
	if !ok {
		p = s.asm.newProcess(s, pid)
	}
	p.used = now
	return p
}

// maxDevices bounds the devices of one scope; a host has some sixteen.
const maxDevices = 1024

func (s *Scope) setDevice(p *process, dev int32) {
	p.dev = dev
	if i, found := slices.BinarySearch(s.devices, dev); !found && len(s.devices) < maxDevices {
		s.devices = slices.Insert(s.devices, i, dev)
	}
}

// worker returns the number the L3 parent knows p by: the place of its device
// among those of the scope. With fewer devices announced than worker numbers
// were used the place cannot be trusted: a line may still be missing.
func (s *Scope) worker(p *process) (int64, bool) {
	if p.dev < 0 || len(s.devices) < s.workers {
		return 0, false
	}
	i, found := slices.BinarySearch(s.devices, p.dev)
	return int64(i), found
}

// noteWorker counts the worker numbers in use.
func (s *Scope) noteWorker(id *Identity) {
	if id.Has&HasWorkerID != 0 && id.WorkerID >= 0 && id.WorkerID < maxDevices {
		s.workers = max(s.workers, int(id.WorkerID)+1)
	}
}

// isParent notes that p prints node records.
func (s *Scope) isParent(p *process) {
	if !slices.Contains(s.parents, p) {
		s.parentless = false
		s.parents = append(s.parents, p)
	}
}

// passed reports whether every L3 parent of the scope has printed beyond ts.
func (s *Scope) passed(ts int64) bool {
	for _, p := range s.parents {
		if p.progress < ts {
			return false
		}
	}
	return len(s.parents) > 0
}

// mayBeClaimed reports whether a run that began by ts has not ended yet.
func (s *Scope) mayBeClaimed(ts int64) bool {
	for _, p := range s.parents {
		for _, u := range p.runs {
			if u.start <= ts && u.shaped == nil {
				return true
			}
		}
	}
	return false
}
