// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"slices"

	"github.com/phasecol/phasecol/pkg/strace"
)

// epochs tells how often a process began to count its invocations anew: a
// worker that is opened again starts at 1 in the same process.
type epochs struct {
	byProcess map[processKey]*epoch
	last      *epoch
}

type processKey struct {
	scope string
	pid   int32
}

type epoch struct {
	key    processKey
	number int32
	max    uint64
	recent []uint64
}

const (
	// maxProcesses bounds the processes told apart; the rest share one.
	maxProcesses = 1 << 16
	// behind is how far invocations of one process can end out of order: as
	// far as its pipeline is deep, with room.
	behind = 16
)

// of returns the epoch that invocation inv of p belongs to. Invocations are to
// come in about the order of their ends.
func (e *epochs) of(p *strace.Process, inv uint64) int32 {
	key := processKey{p.Scope.Key, p.PID}
	ep := e.last
	if ep == nil || ep.key != key {
		if ep = e.byProcess[key]; ep == nil {
			if len(e.byProcess) >= maxProcesses {
				return 0
			}
			if e.byProcess == nil {
				e.byProcess = map[processKey]*epoch{}
			}
			ep = &epoch{key: key}
			e.byProcess[key] = ep
		}
		e.last = ep
	}
	if inv+behind <= ep.max || slices.Contains(ep.recent, inv) {
		ep.number++
		ep.max, ep.recent = 0, ep.recent[:0]
	}
	ep.max = max(ep.max, inv)
	if len(ep.recent) == behind {
		copy(ep.recent, ep.recent[1:])
		ep.recent = ep.recent[:behind-1]
	}
	ep.recent = append(ep.recent, inv)
	return ep.number
}
