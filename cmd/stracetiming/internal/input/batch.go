// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package input // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/input"

import (
	"context"

	"github.com/phasecol/phasecol/pkg/strace"
)

// Item is one thing found, in the order of the log. Index selects it in the
// batch's list for its kind.
type Item struct {
	Kind  strace.Kind
	Index int32
	Group int32
}

// Phase is a bind phase that keeps its own text.
type Phase struct {
	Name, Attrs string
	Start, Dur  int64
}

// Batch is a run of items that owns all it refers to.
type Batch struct {
	Items    []Item
	Records  []strace.Record
	Anchors  []strace.Anchor
	Drops    []strace.Drops
	Ready    []strace.Ready
	Outcomes []strace.Outcome
	Phases   []Phase

	arena []byte
}

const (
	batchItems = 512
	// inFlight is how many batches go round between reading and using.
	inFlight = 4
)

func (b *Batch) reset() {
	*b = Batch{
		Items: b.Items[:0], Records: b.Records[:0], Anchors: b.Anchors[:0], Drops: b.Drops[:0],
		Ready: b.Ready[:0], Outcomes: b.Outcomes[:0], Phases: b.Phases[:0], arena: b.arena[:0],
	}
}

// add copies the item that s holds.
func (b *Batch) add(s *Source, kind strace.Kind, group int) {
	item := Item{Kind: kind, Group: int32(group)}
	switch kind {
	case strace.KindRecord:
		item.Index = int32(len(b.Records))
		b.Records = append(b.Records, s.Scanner.Record)
		r := &b.Records[item.Index]
		r.Attrs, r.Wall = b.keep(r.Attrs), b.keep(r.Wall)
	case strace.KindAnchor:
		item.Index = int32(len(b.Anchors))
		b.Anchors = append(b.Anchors, s.Scanner.Anchor)
	case strace.KindDrops:
		item.Index = int32(len(b.Drops))
		b.Drops = append(b.Drops, s.Scanner.Drops)
	case strace.KindReady:
		item.Index = int32(len(b.Ready))
		b.Ready = append(b.Ready, s.Scanner.Ready)
	case strace.KindBad:
		item.Index = int32(len(b.Outcomes))
		b.Outcomes = append(b.Outcomes, s.Scanner.Outcome)
	case KindBindPhase:
		item.Index = int32(len(b.Phases))
		p := &s.Phase
		b.Phases = append(b.Phases, Phase{Name: string(p.Name), Attrs: string(p.Attrs), Start: p.Start, Dur: p.Dur})
	default:
		return
	}
	b.Items = append(b.Items, item)
}

// keep copies text into the arena. Should the arena move, what was kept before
// stays valid in the old one.
func (b *Batch) keep(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	from := len(b.arena)
	b.arena = append(b.arena, text...)
	return b.arena[from:len(b.arena):len(b.arena)]
}

// Batches reads in a goroutine of its own, so that reading and using share two
// cores, and calls use for every batch. A batch is valid during the call only.
// It returns the first error of use, or the context's.
func (r *Reader) Batches(ctx context.Context, use func(*Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	full := make(chan *Batch, inFlight)
	empty := make(chan *Batch, inFlight)
	for range inFlight {
		empty <- &Batch{}
	}
	go func() {
		defer close(full)
		r.fillBatches(ctx, full, empty)
	}()
	// The goroutine must be over before the caller may touch r again.
	defer func() {
		cancel()
		for range full {
			continue
		}
	}()
	for b := range full {
		if err := use(b); err != nil {
			return err
		}
		empty <- b
	}
	return context.Cause(ctx)
}

func (r *Reader) fillBatches(ctx context.Context, full chan<- *Batch, empty <-chan *Batch) {
	for {
		var b *Batch
		select {
		case b = <-empty:
		case <-ctx.Done():
			return
		}
		b.reset()
		for len(b.Items) < batchItems {
			s, kind, group := r.Next()
			if s == nil {
				break
			}
			b.add(s, kind, group)
		}
		if len(b.Items) == 0 {
			return
		}
		select {
		case full <- b:
		case <-ctx.Done():
			return
		}
	}
}
