// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package feed // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/feed"

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/pkg/strace"
)

// maxProcesses bounds what is remembered per process; beyond, warnings leave
// some out.
const maxProcesses = 1 << 16

// maxAnchors bounds the anchors remembered per process.
const maxAnchors = 16

// Process is what the logs say of one process.
type Process struct {
	Scope   string
	PID     int32
	Records uint64
	Anchors []strace.Anchor
	// AnchorLines counts anchors, repeats included.
	AnchorLines int
	Drops       strace.Drops
	unplaced    bool
}

// Summary counts what was read and keeps what warnings are made of.
type Summary struct {
	// Records counts whole records, Bad markers that are none.
	Records uint64
	Bad     [strace.NumOutcomes]uint64

	stats     strace.Stats
	processes map[processKey]*Process
	last      *Process
}

type processKey struct {
	scope string
	pid   int32
}

func newSummary() *Summary { return &Summary{processes: map[processKey]*Process{}} }

func (s *Summary) process(scope string, pid int32) *Process {
	if p := s.last; p != nil && p.PID == pid && p.Scope == scope {
		return p
	}
	key := processKey{scope, pid}
	p, ok := s.processes[key]
	if !ok {
		p = &Process{Scope: scope, PID: pid}
		if len(s.processes) < maxProcesses {
			s.processes[key] = p
		}
	}
	s.last = p
	return p
}

func (s *Summary) record(scope string, r *strace.Record) {
	s.Records++
	s.process(scope, r.PID).Records++
}

func (s *Summary) anchor(scope string, a strace.Anchor) {
	p := s.process(scope, a.PID)
	p.AnchorLines++
	if !slices.Contains(p.Anchors, a) && len(p.Anchors) < maxAnchors {
		p.Anchors = append(p.Anchors, a)
	}
}

func (s *Summary) drops(scope string, d strace.Drops) {
	p := s.process(scope, d.PID)
	if d.Total >= p.Drops.Total {
		p.Drops = d
	}
}

// trace notes processes without any source of wall time.
func (s *Summary) trace(t *strace.Trace) {
	for i := range t.Spans {
		if t.Spans[i].Source == strace.ClockNone {
			p := &t.Processes[t.Spans[i].Process]
			s.process(p.Scope.Key, p.PID).unplaced = true
			return
		}
	}
}

// Processes lists the processes by scope and pid.
func (s *Summary) Processes() []*Process {
	list := make([]*Process, 0, len(s.processes))
	for _, p := range s.processes {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Process) int { return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.PID, b.PID)) })
	return list
}

// Incomplete counts markers that are no whole record.
func (s *Summary) Incomplete() uint64 {
	var n uint64
	for _, c := range s.Bad {
		n += c
	}
	return n
}

// maxPIDs bounds the process ids that one warning lists.
const maxPIDs = 20

// Warnings tell, a line each, what makes the numbers less than they seem.
func (s *Summary) Warnings() []string {
	var w []string
	if n := s.Incomplete(); n > 0 {
		w = append(w, fmt.Sprintf("%d of %d [STRACE] records are left out: %d cut short, %d malformed, %d of an unknown version",
			n, n+s.Records, s.Bad[strace.OutcomeTorn], s.Bad[strace.OutcomeMalformed], s.Bad[strace.OutcomeUnknownVersion]))
	}
	if n := s.stats.Records[strace.OutcomeDuplicate]; n > 0 {
		w = append(w, fmt.Sprintf("%d records appear twice and count once", n))
	}
	var unanchored []string
	for _, p := range s.Processes() {
		if p.AnchorLines > 1 {
			w = append(w, fmt.Sprintf("pid %d printed %d [CLOCK_ANCHOR] records: each span is placed by the latest one before it", p.PID, p.AnchorLines))
		}
		if d := p.Drops; d.Total > 0 {
			w = append(w, fmt.Sprintf("pid %d lost %d records before they reached the log (queue_full=%d claim_exhausted=%d output_failed=%d not_admitted=%d): the numbers miss them",
				p.PID, d.Total, d.QueueFull, d.ClaimExhausted, d.OutputFailed, d.NotAdmitted))
		}
		if p.unplaced {
			unanchored = append(unanchored, strconv.Itoa(int(p.PID)))
		}
	}
	if n := len(unanchored); n > 0 {
		more := ""
		if n > maxPIDs {
			unanchored, more = unanchored[:maxPIDs], fmt.Sprintf(" and %d more", n-maxPIDs)
		}
		w = append(w, fmt.Sprintf("no [CLOCK_ANCHOR] for pid %s%s: their times stay on the monotonic clock (logs with wall time prefixes can be placed with --timezone)",
			strings.Join(unanchored, ", "), more))
	}
	if n := s.stats.EvictedInvocations + s.stats.EvictedRuns + s.stats.EvictedBytes + s.stats.EvictedProcesses + s.stats.EvictedScopes; n > 0 {
		w = append(w, fmt.Sprintf("%d invocations or runs were taken apart early to bound memory", n))
	}
	return w
}
