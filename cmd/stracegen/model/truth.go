// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/hex"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

// TruthBuilder writes down what the events of one simulation mean.
type TruthBuilder struct {
	sim  *Sim
	file truth.File
	invs map[*Invocation]int
}

// NewTruthBuilder returns a builder for a simulation; every event of it must be
// added, in order.
func NewTruthBuilder(s *Sim) *TruthBuilder {
	return &TruthBuilder{
		sim: s, invs: map[*Invocation]int{},
		file: truth.File{
			Version: truth.Version, Seed: s.cfg.Seed, Generation: s.cfg.Generation, Runtime: s.cfg.Runtime,
			Level: s.word, Root: logfmt.RootName(s.cfg.Generation),
		},
	}
}

// Add takes one event.
func (b *TruthBuilder) Add(e *Event) {
	switch {
	case e.Record != nil:
		b.record(e.Record)
	case e.Process != nil:
		b.process(e.Process)
	case e.Invocation != nil:
		b.invs[e.Invocation] = len(b.file.Invocations)
		b.file.Invocations = append(b.file.Invocations, b.invocation(e.Invocation))
	case e.Run != nil:
		b.run(e.Run)
	case e.Request != nil:
		b.request(e.Request)
	}
}

// File derives the overlaps and returns the truth, which the caller then owns.
func (b *TruthBuilder) File() *truth.File {
	b.file.Fill()
	return &b.file
}

func (b *TruthBuilder) record(r *logfmt.Record) {
	switch r.Kind {
	case logfmt.KindSpan:
		b.file.Totals.Records++
		if r.Dur == 0 {
			b.file.Totals.Points++
		}
	case logfmt.KindAnchor:
		b.file.Totals.Anchors++
	case logfmt.KindDrops:
		b.file.Totals.LostRecords += int64(r.DropsNew)
	default:
	}
}

func (b *TruthBuilder) process(p *Process) {
	c := b.sim.clock
	out := truth.Process{PID: p.PID, Role: p.Role, Worker: p.Worker, Device: p.Device}
	out.Clock.PPM = c.ppm
	if p.AnchorMono > 0 && p.Role != "api" {
		out.Clock.Anchored = true
		out.Clock.AnchorMonoNS = p.AnchorMono
		out.Clock.AnchorWallNS = c.AnchorWall(p.AnchorMono)
		out.Clock.TrueWallNS = c.Wall(p.AnchorMono)
	}
	b.file.Processes = append(b.file.Processes, out)
}

func (b *TruthBuilder) invocation(inv *Invocation) truth.Invocation {
	c := b.sim.clock
	out := truth.Invocation{
		PID: inv.Proc.PID, Worker: inv.Proc.Worker, Device: inv.Proc.Device,
		Inv: inv.Inv, HID: strconv.FormatUint(inv.HID, 16), Callable: inv.Run.Callable, Root: b.file.Root,
		RunID: inv.RunID, DispatchID: inv.DispatchID, SlotID: inv.Run.Slot, Lease: inv.Run.Lease,
		Epoch: inv.Run.Epoch, Failed: inv.Failed, Records: inv.Records, Lost: inv.Lost,
		StartMonoNS: inv.Start, StartNS: c.Wall(inv.Start), EndNS: c.Wall(inv.End),
		DurationNS: inv.End - inv.Start, Phases: inv.Phases,
	}
	if at := inv.Proc.AnchorMono; at > 0 {
		out.AnchorStartNS = c.AnchorWall(at) + inv.Start - at
	}
	if inv.Wall > 0 {
		out.DeviceBlock = &truth.DeviceBlock{
			WallNS: inv.Wall, EffectiveNS: inv.Effective,
			StartNS: c.Wall(inv.DeviceStart), EndNS: c.Wall(inv.DeviceStart + inv.Wall),
			PlacedStartNS: c.Wall(inv.Placed), PlacedEndNS: c.Wall(inv.Placed + inv.Wall), SlackNS: inv.Slack,
			StartCycle: inv.StartCycle, EndCycle: inv.EndCycle, CounterHz: inv.CounterHz,
		}
	}
	return out
}

func (b *TruthBuilder) run(r *Run) {
	c := b.sim.clock
	out := truth.Run{
		RunID: r.ID, PID: r.PID, Callable: r.Callable, Epoch: r.Epoch, Failed: r.Failed, Batch: len(r.Sequences),
		StartMonoNS: r.Start, StartNS: c.Wall(r.Start), EndNS: c.Wall(r.End), DurationNS: r.End - r.Start,
		Records: r.Records, Lost: r.Lost,
	}
	first, last := int64(1<<62), int64(-1)
	for _, inv := range r.Invocations {
		out.Invocations = append(out.Invocations, b.invs[inv])
		delete(b.invs, inv)
		first = min(first, inv.End)
		if inv.End > last {
			last = inv.End
			out.CriticalPID = inv.Proc.PID
		}
	}
	out.RankSkewNS = last - first
	b.file.Runs = append(b.file.Runs, out)
}

func (b *TruthBuilder) request(r *Request) {
	c := b.sim.clock
	out := truth.Request{
		ID: r.ID, TraceID: hex.EncodeToString(r.TraceID[:]), SpanID: hex.EncodeToString(r.SpanID[:]),
		Outcome: r.Outcome, HTTPStatus: r.HTTPStatus, ErrorType: r.ErrorType, PID: r.PID,
		StartNS: c.Wall(r.Start), EndNS: c.Wall(r.End),
	}
	b.file.Totals.Spans++
	if p := r.Parent; p != nil {
		flags := byte(0)
		if p.Sampled {
			flags = 1
		}
		out.ParentSpanID, out.ParentFlags, out.TraceState = hex.EncodeToString(p.SpanID[:]), &flags, p.TraceState
	}
	if r.PD {
		out.Unsupported = "pd"
		b.file.Requests = append(b.file.Requests, out)
		return
	}
	for _, seq := range r.Sequences {
		out.Sequences = append(out.Sequences, b.sequence(seq))
		b.file.Totals.Spans += 1 + int64(len(seq.Phases))
	}
	b.file.Requests = append(b.file.Requests, out)
}

func (b *TruthBuilder) sequence(seq *Sequence) truth.Sequence {
	c := b.sim.clock
	out := truth.Sequence{
		SequenceID: seq.ID, SpanID: hex.EncodeToString(seq.SpanID[:]), PID: seq.PID,
		StartNS: c.Wall(seq.Start), EndNS: c.Wall(seq.End),
		FinishReason: seq.FinishReason, ErrorType: seq.ErrorType,
		PromptTokens: seq.Prompt, CachedTokens: seq.Cached, CompletionTokens: seq.Generated,
	}
	l := seq.Latencies(c)
	out.QueueSeconds, out.PrefillSeconds, out.DecodeSeconds = l.Queue, l.Prefill, l.Decode
	out.TTFTSeconds, out.E2ESeconds = l.TTFT, l.E2E
	if seq.Generated > 1 && seq.ErrorType == "" {
		out.TPOTSeconds = (l.E2E - l.TTFT) / float64(seq.Generated-1)
	}
	for _, ph := range seq.Phases {
		p := truth.Phase{
			Name: ph.Name, SpanID: hex.EncodeToString(ph.SpanID[:]),
			StartNS: c.Wall(ph.Start), EndNS: c.Wall(ph.End), Error: ph.Error,
		}
		switch ph.Name {
		case PhasePrefill:
			p.Own = seq.PrefillRuns
		case PhaseDecode:
			p.Own = seq.DecodeRuns
		}
		out.Phases = append(out.Phases, p)
	}
	return out
}

// Latencies are a sequence's own figures, seconds; 0 where there is none.
type Latencies struct{ Queue, TTFT, Prefill, Decode, E2E float64 }

// Latencies derives them from the wall times a clock gives.
func (q *Sequence) Latencies(c Clock) Latencies {
	between := func(start, end int64) float64 { return float64(c.Wall(end)-c.Wall(start)) / 1e9 }
	l := Latencies{E2E: between(q.Start, q.End)}
	if q.FirstToken > 0 {
		l.TTFT = between(q.Start, q.FirstToken)
	}
	for _, ph := range q.Phases {
		switch d := between(ph.Start, ph.End); ph.Name {
		case PhaseWaiting:
			l.Queue = d
		case PhasePrefill:
			l.Prefill = d
		case PhaseDecode:
			l.Decode = d
		}
	}
	return l
}
