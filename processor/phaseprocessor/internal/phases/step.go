// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Step is one run over all ranks: a <level>.run span.
type Step struct {
	Span ptrace.Span
	Past bool
	ID   pcommon.SpanID
	// Proc indexes Batch.Procs: the process that scheduled the run.
	Proc int32
	Host Interval
	Done bool
	Bad  bool

	node   int32
	copies []ptrace.Span
	// invs is the range of Batch.Invs that its trace has.
	invs     [2]int
	ranks    int
	skew     int64
	critical int32
}

// rank is one process below a step while the step is worked out.
type rank struct {
	proc uint64
	end  int64
	inv  int32
}

func (b *Batch) startStep(i int32) {
	n := &b.nodes[i]
	b.Steps = append(b.Steps, Step{
		Span: n.span, Past: n.past, ID: n.id, Proc: n.proc, Host: Interval{n.start, n.end},
		Done: b.infoOf(n).done, Bad: n.bad, node: i, critical: none,
	})
}

// finishStep finds the ranks of a step: the processes with an invocation below
// it, each as late as its last one ends.
func (b *Batch) finishStep(s *Step) {
	ranks := b.ranks[:0]
	for k := s.invs[0]; k < s.invs[1]; k++ {
		v := &b.Invs[k]
		if v.Run != s.node || v.Bad {
			continue
		}
		ranks = lastOf(ranks, rank{proc: b.Procs[v.Proc].Key, end: v.Host.End, inv: int32(k)})
	}
	b.ranks = ranks
	if len(ranks) == 0 {
		return
	}
	first, last := ranks[0], ranks[0]
	for _, r := range ranks[1:] {
		if r.end < first.end {
			first = r
		}
		if r.end > last.end {
			last = r
		}
	}
	s.ranks, s.skew, s.critical = len(ranks), last.end-first.end, last.inv
}

func lastOf(ranks []rank, r rank) []rank {
	for i := range ranks {
		if ranks[i].proc == r.proc {
			if r.end > ranks[i].end {
				ranks[i] = r
			}
			return ranks
		}
	}
	return append(ranks, r)
}

// WriteSteps puts the step attributes on the runs.
func (b *Batch) WriteSteps() {
	for i := range b.Steps {
		s := &b.Steps[i]
		if s.Past || s.Done || s.Bad {
			continue
		}
		b.writeStep(s, s.Span.Attributes())
		for _, span := range s.copies {
			b.writeStep(s, span.Attributes())
		}
	}
}

func (b *Batch) writeStep(s *Step, attrs pcommon.Map) {
	attrs.EnsureCapacity(attrs.Len() + 24)
	attrs.PutDouble(semconv.PhaseStep, toSeconds(s.Host.Len()))
	if s.critical == none {
		return
	}
	v := &b.Invs[s.critical]
	attrs.PutInt(semconv.PhaseRanks, int64(s.ranks))
	attrs.PutStr(semconv.PhaseCriticalRank, b.Procs[v.Proc].Rank())
	attrs.PutDouble(semconv.PhaseRankSkew, toSeconds(s.skew))
	v.put(attrs)
}
