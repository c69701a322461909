// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
)

// block is the events of one unit on one thread, written but for the lane's
// number, which may not be known yet.
type block struct {
	text []byte
	// cuts are where in text a lane's number is missing, ends where each event
	// ends.
	cuts, ends []int
}

func (b *block) reset() { b.text, b.cuts, b.ends = b.text[:0], b.cuts[:0], b.ends[:0] }

// cut leaves a gap for the lane's number.
func (b *block) cut() { b.cuts = append(b.cuts, len(b.text)) }

func (b *block) end() { b.ends = append(b.ends, len(b.text)) }

// copy takes over what is in o, for one that has to wait.
func (b *block) copy(o *block) {
	b.text, b.cuts, b.ends = append(b.text[:0], o.text...), append(b.cuts[:0], o.cuts...), append(b.ends[:0], o.ends...)
}

// writeTo writes the events with lane tid.
func (b *block) writeTo(f *file, tid int64) error {
	var number [20]byte
	text := strconv.AppendInt(number[:0], tid, 10)
	from := 0
	for i, cut := range b.cuts {
		f.begin()
		// Assembled in the writer's own buffer: one copy less.
		out := append(f.AvailableBuffer(), b.text[from:cut]...)
		out = append(out, text...)
		out = append(out, b.text[cut:b.ends[i]]...)
		if _, err := f.Write(out); err != nil {
			return err //nolint:wrapcheck // finish names the file
		}
		from = b.ends[i]
	}
	return nil
}

// render writes the bars of one layer into the block.
func (s *Swimlane) render(u *unit.Unit, pr *proc, layer uint8) {
	s.block.reset()
	for i := range s.bars {
		b := &s.bars[i]
		switch {
		case b.layer != layer:
		case b.kind == barPhase:
			s.renderPhase(u, pr, &s.taken[b.index])
		default:
			s.renderSpan(u, pr, &u.Spans[b.index])
		}
	}
}

func (s *Swimlane) renderSpan(u *unit.Unit, pr *proc, sp *strace.Span) {
	if !sp.Device && !sp.Synthetic {
		s.HostSpans++
	}
	bl := &s.block
	b := append(bl.text, `{"name":`...)
	b = appendString(b, sp.Text)
	b = append(b, `,"ph":"X","ts":`...)
	b = appendMicros(b, u.Mono(sp))
	b = append(b, `,"dur":`...)
	b = appendMicros(b, sp.End-sp.Start)
	bl.text = appendPID(b, pr.id)
	bl.cut()
	b = append(bl.text, `,"args":{`...)
	b = appendSpanArgs(b, sp)
	b = append(b, `,"os_tid":`...)
	b = strconv.AppendInt(b, sp.TID, 10)
	b = appendAttrs(b, sp.Attrs, sp.Verbatim, &s.scratch)
	if sp.Source != strace.ClockNone {
		b = s.wall.appendArgs(b, sp.Start)
	}
	bl.text = append(b, "}}"...)
	bl.end()
	s.renderRunFlow(u, pr, sp)
	for k := range sp.NumEvents {
		s.renderPoint(u, pr, sp, &u.Trace.Events[sp.FirstEvent+k])
	}
}

func appendPID(b []byte, pid int64) []byte {
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, pid, 10)
	return append(b, `,"tid":`...)
}

func (s *Swimlane) renderPoint(u *unit.Unit, pr *proc, parent *strace.Span, e *strace.Event) {
	s.HostSpans++
	bl := &s.block
	b := append(bl.text, `{"name":`...)
	b = appendString(b, e.Name.Text)
	b = append(b, `,"ph":"i","s":"t","ts":`...)
	b = appendMicros(b, e.Time-u.Offset)
	bl.text = appendPID(b, pr.id)
	bl.cut()
	b = append(bl.text, `,"args":{"inv":`...)
	b = appendUint(b, parent.Inv)
	b = append(b, `,"attrs":`...)
	b = appendString(b, e.Attrs)
	b = appendAttrs(b, e.Attrs, e.Verbatim, &s.scratch)
	if parent.Source != strace.ClockNone {
		b = s.wall.appendArgs(b, e.Time)
	}
	bl.text = append(b, "}}"...)
	bl.end()
}

func (s *Swimlane) renderPhase(u *unit.Unit, pr *proc, p *phase) {
	if p.source == "bind_phase" {
		s.BindPhases++
	} else {
		s.PhaseRecords++
	}
	bl := &s.block
	b := append(bl.text, `{"name":`...)
	b = appendString(b, p.name)
	b = append(b, `,"ph":"X","ts":`...)
	b = appendMicros(b, p.start)
	b = append(b, `,"dur":`...)
	b = appendMicros(b, p.end-p.start)
	bl.text = appendPID(b, pr.id)
	bl.cut()
	b = append(bl.text, `,"args":{"inv":`...)
	b = appendUint(b, u.Spans[0].Inv)
	b = append(b, `,"attrs":`...)
	b = appendString(b, p.attrs)
	b = append(b, `,"os_tid":`...)
	b = strconv.AppendInt(b, p.tid, 10)
	b = append(b, `,"src":`...)
	b = appendString(b, p.source)
	b = appendAttrs(b, []byte(p.attrs), false, &s.scratch)
	if s0 := &u.Spans[0]; s0.Source != strace.ClockNone {
		b = s.wall.appendArgs(b, p.start+u.Offset)
	}
	bl.text = append(b, "}}"...)
	bl.end()
}
