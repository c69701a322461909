// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"errors"
	"slices"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/feed"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/input"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// Swimlane writes what happened in each process and thread, as they were: real
// process and thread ids, one axis, the host's monotonic clock.
type Swimlane struct {
	// HostSpans, DeviceSpans, BindPhases and PhaseRecords count what was
	// written.
	HostSpans, DeviceSpans, BindPhases, PhaseRecords int64

	file   *file
	phases *Phases
	procs  procTable
	flows  int64

	bars     []bar
	taken    []phase
	block    block
	buf      []byte
	wall     wallClock
	scratch  []byte
	laneOf   []int64 // of each span of the current trace, -1 while held
	toRun    []runFlow
	tops     []interval
	byThread []threadID
}

// runFlow is an arrow into an invocation whose other end is still to be drawn.
type runFlow struct {
	id       int64
	dispatch int // index in the trace
	end      int64
	key      string
}

// NewSwimlane starts the file; phases may be nil.
func NewSwimlane(path string, phases *Phases) (*Swimlane, error) {
	f, err := create(path, true)
	if err != nil {
		return nil, err
	}
	if phases == nil {
		phases = NewPhases()
	}
	return &Swimlane{file: f, phases: phases, procs: newProcTable()}, nil
}

// BindPhase implements feed.PhaseConsumer.
func (s *Swimlane) BindPhase(scope string, p *input.Phase) { s.phases.Add(scope, p) }

// Trace implements feed.Consumer.
func (s *Swimlane) Trace(t *strace.Trace) error {
	s.laneOf, s.toRun = s.laneOf[:0], s.toRun[:0]
	for range t.Spans {
		s.laneOf = append(s.laneOf, -1)
	}
	var err error
	at := 0
	unit.Each(t, func(u *unit.Unit) {
		if err == nil {
			err = s.unit(u, at)
		}
		at += len(u.Spans)
	})
	if err != nil {
		return err
	}
	if err := s.dispatchFlows(t); err != nil {
		return err
	}
	return s.runFlows(t)
}

// unit writes one unit, thread by thread. at is where its spans begin in the
// trace.
func (s *Swimlane) unit(u *unit.Unit, at int) error {
	pr := s.procs.of(u.Process())
	if err := s.hostThreads(u, at, pr); err != nil {
		return err
	}
	return s.device(u, at, pr)
}

// hostThreads writes what is on the host's clock.
func (s *Swimlane) hostThreads(u *unit.Unit, at int, pr *proc) error {
	s.takePhases(u)
	s.listThreads(u)
	for _, id := range s.byThread {
		th := pr.thread(id)
		s.bars = s.bars[:0]
		for i := range u.Spans {
			if sp := &u.Spans[i]; !sp.Device && threadOf(sp) == id {
				start := u.Mono(sp)
				s.bars = append(s.bars, bar{start: start, end: start + sp.End - sp.Start, index: int32(i)})
				th.note(sp)
				pr.note(sp)
			}
		}
		for i := range s.taken {
			if p := &s.taken[i]; threadID(p.tid) == id {
				s.bars = append(s.bars, bar{start: p.start, end: p.end, index: int32(i), kind: barPhase})
				th.notePhase(p)
			}
		}
		if err := s.thread(u, at, pr, th); err != nil {
			return err
		}
	}
	return nil
}

// takePhases finds the parts of the unit's bind.
func (s *Swimlane) takePhases(u *unit.Unit) {
	s.taken = nil
	if u.Kind != unit.Invocation {
		return
	}
	bind := u.Stage(semconv.StageBind)
	if bind == nil {
		return
	}
	p := u.Process()
	start := u.Mono(bind)
	s.taken = s.phases.take(p.Scope.Key, p.PID, bind.Inv, start, start+bind.End-bind.Start)
	for i := range s.taken {
		ph := &s.taken[i]
		if ph.tid == 0 {
			ph.tid = bind.TID
		}
		ph.name = bind.Text + "." + ph.name
	}
}

func threadOf(sp *strace.Span) threadID {
	if sp.Synthetic {
		return runsThread
	}
	return threadID(sp.TID)
}

// listThreads lists the threads of the unit's host spans and phases.
func (s *Swimlane) listThreads(u *unit.Unit) {
	s.byThread = s.byThread[:0]
	note := func(id threadID) {
		if !slices.Contains(s.byThread, id) {
			s.byThread = append(s.byThread, id)
		}
	}
	for i := range u.Spans {
		if !u.Spans[i].Device {
			note(threadOf(&u.Spans[i]))
		}
	}
	for i := range s.taken {
		note(threadID(s.taken[i].tid))
	}
}

// thread writes the bars of one thread, layer by layer.
func (s *Swimlane) thread(u *unit.Unit, at int, pr *proc, th *thread) error {
	slot := int64(-1)
	// A pipeline's runs are told apart by the slot they hold, which their root
	// alone bears. A producer's own attributes of that name mean nothing here.
	if u.Kind == unit.Invocation && u.Root != nil && threadOf(u.Root) == th.id {
		if id := strace.ParseIdentity(u.Root.Attrs); id.Has&strace.HasSlotID != 0 {
			slot = id.SlotID
		}
	}
	return s.layers(u, at, pr, th, slot, u.Kind == unit.Invocation)
}

func (s *Swimlane) layers(u *unit.Unit, at int, pr *proc, th *thread, slot int64, solid bool) error {
	n := layout(s.bars)
	for layer := range n {
		s.render(u, pr, uint8(layer))
		s.topLevel(uint8(layer), solid)
		l, held, err := s.procs.place(s.file, th, &s.block, s.tops, slot, layer)
		if err != nil {
			return err
		}
		if held {
			continue
		}
		for i := range s.bars {
			if b := &s.bars[i]; b.kind == barSpan && b.layer == uint8(layer) {
				s.laneOf[at+int(b.index)] = l.tid
			}
		}
	}
	return nil
}

// topLevel lists the intervals that stand for a layer: the outermost where
// they are solid, else all.
func (s *Swimlane) topLevel(layer uint8, solid bool) {
	s.tops = s.tops[:0]
	for i := range s.bars {
		b := &s.bars[i]
		if b.layer != layer {
			continue
		}
		if n := len(s.tops); solid && n > 0 && b.start >= s.tops[n-1].start && b.end <= s.tops[n-1].end {
			continue
		}
		s.tops = append(s.tops, interval{b.start, b.end, solid})
	}
}

// device writes the device's spans where the placement rule puts them, and
// once more as they were printed beside the events.
func (s *Swimlane) device(u *unit.Unit, at int, pr *proc) error {
	s.bars = s.bars[:0]
	for i := range u.Spans {
		sp := &u.Spans[i]
		if !sp.Device {
			continue
		}
		pr.note(sp)
		start := u.Mono(sp)
		s.bars = append(s.bars, bar{start: start, end: start + sp.End - sp.Start, index: int32(i)})
		s.DeviceSpans++
		if err := s.unaligned(u, sp); err != nil {
			return err
		}
	}
	if len(s.bars) == 0 {
		return nil
	}
	th := pr.thread(deviceThread)
	if p := u.Process(); p.HasDevice {
		th.device, th.hasDevice = p.Device, true
	}
	return s.layers(u, at, pr, th, -1, true)
}

func (s *Swimlane) unaligned(u *unit.Unit, sp *strace.Span) error {
	b := append(s.buf[:0], `{"name":`...)
	b = appendString(b, sp.Text)
	b = append(b, `,"ts_ns":`...)
	b = appendInt(b, sp.TS)
	b = append(b, `,"dur_ns":`...)
	b = appendInt(b, sp.End-sp.Start)
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, int64(u.Process().PID), 10)
	b = append(b, `,"tid":`...)
	b = strconv.AppendInt(b, sp.TID, 10)
	b = append(b, `,"inv":`...)
	b = appendUint(b, sp.Inv)
	b = append(b, `,"hid":`...)
	b = appendHID(b, sp.HID, sp.HIDDigits)
	b = append(b, `,"depth":`...)
	b = strconv.AppendInt(b, int64(sp.Depth), 10)
	b = append(b, `,"attrs":{"raw":`...)
	b = appendString(b, sp.Attrs)
	b = appendAttrs(b, sp.Attrs, sp.Verbatim, &s.scratch)
	s.buf = append(b, "}}"...)
	return s.file.spoolItem(s.buf)
}

// Finish writes the names of processes and threads and puts the file in place.
func (s *Swimlane) Finish(sum *feed.Summary) error {
	if err := s.procs.finish(s.file); err != nil {
		return errors.Join(err, s.file.abort())
	}
	return s.file.finish(sum.Processes(), "unalignedDeviceSpans")
}

// Abort leaves no file behind.
func (s *Swimlane) Abort() error { return s.file.abort() }

// Warnings tell which phases found no bind.
func (s *Swimlane) Warnings() []string { return s.phases.Warnings() }
