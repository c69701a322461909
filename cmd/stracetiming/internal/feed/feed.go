// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package feed drives the assembler over logs after the fact: the clock that
// lets units time out is the log's own.
package feed // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/feed"

import (
	"context"
	"fmt"
	"time"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/input"
	"github.com/phasecol/phasecol/pkg/strace"
)

// Consumer takes what the logs hold. A trace and all it refers to is valid
// during the call only.
type Consumer interface {
	Trace(*strace.Trace) error
}

// PhaseConsumer is a Consumer that also wants bind phases, in print order
// before the bind they belong to.
type PhaseConsumer interface {
	Consumer
	BindPhase(scope string, p *input.Phase)
}

// Settings say how to read.
type Settings struct {
	// TimeZone is the zone of the wall times that old generations print, nil
	// when it is not known.
	TimeZone *time.Location
	// Stitch keeps chip invocations until the L3 run they belong to is over.
	// Without it they pass at once.
	Stitch bool
}

const (
	// linger is how long, in log time, neighbours that an asynchronous writer
	// swapped may follow a root: they are microseconds apart.
	linger = 10 * time.Millisecond
	// stitchWait is how long an invocation waits for its run.
	stitchWait = 2 * time.Second
	// tickEvery is the log time between two looks for what is due.
	tickEvery = int64(5 * time.Millisecond)
)

// Run reads everything r has and hands the traces to consumers. The error is
// a consumer's or the context's; what went wrong with single files, r.Err
// tells.
func Run(ctx context.Context, groups []input.Group, r *input.Reader, set Settings, consumers ...Consumer) (*Summary, error) {
	f := &feeder{groups: groups, consumers: consumers, sum: newSummary()}
	for _, c := range consumers {
		if p, ok := c.(PhaseConsumer); ok {
			f.phases = append(f.phases, p)
			r.BindPhases = true
		}
	}
	cfg := strace.DefaultConfig()
	cfg.Linger = linger
	cfg.StitchWait = linger
	if set.Stitch {
		cfg.StitchWait = stitchWait
	}
	cfg.ClockSources = []strace.ClockSource{strace.ClockAnchor, strace.ClockRecord}
	cfg.OnNone = strace.NoneMonotonic
	cfg.TimeZone = set.TimeZone
	cfg.Emit = f.emit
	// Two tables, since the reader interns in another goroutine. The
	// assembler's own serves the names it makes itself.
	asm, err := strace.NewAssembler(cfg, strace.NewNames())
	if err != nil {
		return nil, fmt.Errorf("setting up the assembler: %w", err)
	}
	f.asm = asm
	if err := r.Batches(ctx, f.batch); err != nil {
		return f.sum, err
	}
	asm.Flush(f.now)
	f.sum.stats = asm.Stats()
	return f.sum, f.err
}

type feeder struct {
	groups    []input.Group
	consumers []Consumer
	phases    []PhaseConsumer
	asm       *strace.Assembler
	sum       *Summary
	err       error

	group int32
	// now is log time made to never go back: each group counts on from where
	// the one before ended, whatever its own clock says.
	now, base, first int64
	started          bool
	ticked           int64
}

func (f *feeder) emit(t *strace.Trace) {
	if f.err != nil {
		return
	}
	f.sum.trace(t)
	for _, c := range f.consumers {
		if err := c.Trace(t); err != nil {
			f.err = err
			return
		}
	}
}

func (f *feeder) batch(b *input.Batch) error {
	var scope *strace.Scope
	for i := range b.Items {
		item := &b.Items[i]
		if item.Group != f.group {
			f.group, f.started, scope = item.Group, false, nil
			f.base = f.now + int64(stitchWait)
		}
		if scope == nil {
			scope = f.asm.Scope(f.groups[f.group].Scope, f.now)
		}
		switch item.Kind {
		case strace.KindRecord:
			r := &b.Records[item.Index]
			f.advance(input.RecordTime(r))
			f.sum.record(scope.Key, r)
			f.asm.Add(scope, r, f.now)
		case strace.KindAnchor:
			f.sum.anchor(scope.Key, b.Anchors[item.Index])
			f.asm.NoteAnchor(scope, b.Anchors[item.Index], f.now)
		case strace.KindDrops:
			f.sum.drops(scope.Key, b.Drops[item.Index])
			f.asm.NoteDrops(scope, b.Drops[item.Index], f.now)
		case strace.KindReady:
			f.asm.NoteReady(scope, b.Ready[item.Index], f.now)
		case strace.KindBad:
			f.sum.Bad[b.Outcomes[item.Index]]++
		case input.KindBindPhase:
			for _, c := range f.phases {
				c.BindPhase(scope.Key, &b.Phases[item.Index])
			}
		}
	}
	if f.now-f.ticked >= tickEvery {
		f.ticked = f.now
		f.asm.Tick(f.now)
	}
	return f.err
}

// advance moves the clock to log time t; 0 is no time.
func (f *feeder) advance(t int64) {
	if t == 0 {
		return
	}
	if !f.started {
		f.started, f.first = true, t
		f.base = max(f.base, f.now)
	}
	f.now = max(f.now, f.base+t-f.first)
}
