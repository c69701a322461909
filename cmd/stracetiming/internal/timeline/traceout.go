// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"errors"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/feed"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
)

// The threads of an invocation. What does not nest on its thread, such as the
// device's orch and sched, goes to further ones.
const (
	hostTID     = 0
	deviceTID   = 1
	overflowTID = 2 // even ones host, odd ones device
)

// maxLabels bounds the invocations whose label waits for the end, when it is
// known which callable is the busiest.
const maxLabels = 1 << 20

// TraceOut writes each invocation as a process of its own: thread 0 is the
// host, thread 1 the device. Times are the host's monotonic clock; the
// device's spans lie where the placement rule puts them.
type TraceOut struct {
	// Spans counts the spans and points written.
	Spans int64

	file   *file
	lanes  int64
	labels []invocationLabel
	counts map[uint64]int64 // invocations by hid
	bars   []bar
	buf    []byte
	wall   wallClock
}

type invocationLabel struct {
	hid     uint64
	inv     uint64
	pid     int32
	digits  uint8
	prewarm bool
	threads uint16 // bit set of the threads used
}

// NewTraceOut starts the file.
func NewTraceOut(path string) (*TraceOut, error) {
	f, err := create(path, false)
	if err != nil {
		return nil, err
	}
	return &TraceOut{file: f, counts: map[uint64]int64{}}, nil
}

// Trace implements feed.Consumer.
func (o *TraceOut) Trace(t *strace.Trace) error {
	var err error
	unit.Each(t, func(u *unit.Unit) {
		if err == nil && (u.Kind == unit.Invocation || u.Kind == unit.Prewarm) {
			err = o.invocation(u)
		}
	})
	return err
}

func (o *TraceOut) invocation(u *unit.Unit) error {
	o.lanes++
	of := u.Root
	if of == nil {
		of = &u.Spans[0]
	}
	label := invocationLabel{hid: of.HID, inv: of.Inv, pid: u.Process().PID, digits: of.HIDDigits, prewarm: u.Kind == unit.Prewarm}
	for _, device := range [...]bool{false, true} {
		o.bars = o.bars[:0]
		for i := range u.Spans {
			if s := &u.Spans[i]; s.Device == device {
				start := u.Mono(s)
				o.bars = append(o.bars, bar{start: start, end: start + s.End - s.Start, index: int32(i)})
			}
		}
		layout(o.bars)
		for i := range o.bars {
			tid := laneTID(device, o.bars[i].layer)
			label.threads |= 1 << tid
			if err := o.span(u, &u.Spans[o.bars[i].index], tid); err != nil {
				return err
			}
		}
	}
	if !label.prewarm && label.hid != 0 && (len(o.counts) < maxLabels || o.counts[label.hid] > 0) {
		o.counts[label.hid]++
	}
	if len(o.labels) < maxLabels {
		o.labels = append(o.labels, label)
		return nil
	}
	return o.name(o.lanes, &label, hidLabel(&label))
}

func laneTID(device bool, layer uint8) int64 {
	tid := int64(hostTID)
	if device {
		tid = deviceTID
	}
	return tid + overflowTID*int64(layer)
}

func (o *TraceOut) span(u *unit.Unit, s *strace.Span, tid int64) error {
	o.Spans++
	b := append(o.buf[:0], `{"name":`...)
	b = appendString(b, s.Text)
	b = append(b, `,"ph":"X","ts":`...)
	b = appendMicros(b, u.Mono(s))
	b = append(b, `,"dur":`...)
	b = appendMicros(b, s.End-s.Start)
	b = o.place(b, tid)
	b = appendSpanArgs(b, s)
	if s.Source != strace.ClockNone {
		b = o.wall.appendArgs(b, s.Start)
	}
	o.buf = append(b, "}}"...)
	if err := o.file.event(o.buf); err != nil {
		return err
	}
	for k := range s.NumEvents {
		if err := o.point(u, s, &u.Trace.Events[s.FirstEvent+k], tid); err != nil {
			return err
		}
	}
	return nil
}

// place appends process and thread and opens the arguments.
func (o *TraceOut) place(b []byte, tid int64) []byte {
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, o.lanes, 10)
	b = append(b, `,"tid":`...)
	b = strconv.AppendInt(b, tid, 10)
	return append(b, `,"args":{`...)
}

// appendSpanArgs appends what the record said, the way it said it.
func appendSpanArgs(b []byte, s *strace.Span) []byte {
	b = append(b, `"inv":`...)
	b = appendUint(b, s.Inv)
	b = append(b, `,"hid":`...)
	b = appendHID(b, s.HID, s.HIDDigits)
	b = append(b, `,"depth":`...)
	b = strconv.AppendInt(b, int64(s.Depth), 10)
	b = append(b, `,"attrs":`...)
	b = appendString(b, s.Attrs)
	if s.Incomplete {
		b = append(b, `,"incomplete":true`...)
	}
	if s.Device {
		b = append(b, `,"device_ts_ns":`...)
		b = appendInt(b, s.TS)
		b = append(b, `,"slack_ns":`...)
		b = appendInt(b, s.SlackNS)
		b = append(b, `,"fits":`...)
		b = strconv.AppendBool(b, s.Fits)
	}
	return b
}

func (o *TraceOut) point(u *unit.Unit, parent *strace.Span, e *strace.Event, tid int64) error {
	o.Spans++
	b := append(o.buf[:0], `{"name":`...)
	b = appendString(b, e.Name.Text)
	b = append(b, `,"ph":"i","s":"t","ts":`...)
	b = appendMicros(b, e.Time-u.Offset)
	b = o.place(b, tid)
	b = append(b, `"inv":`...)
	b = appendUint(b, parent.Inv)
	b = append(b, `,"attrs":`...)
	b = appendString(b, e.Attrs)
	if parent.Source != strace.ClockNone {
		b = o.wall.appendArgs(b, e.Time)
	}
	o.buf = append(b, "}}"...)
	return o.file.event(o.buf)
}

// name writes the labels of an invocation's process and threads.
func (o *TraceOut) name(process int64, l *invocationLabel, label string) error {
	text := label + " inv=" + strconv.FormatUint(l.inv, 10) + " (pid=" + strconv.Itoa(int(l.pid)) + ")"
	if err := o.file.metadata("process_name", process, hostTID, text); err != nil {
		return err
	}
	for tid := range int64(overflowTID * maxLayers) {
		if l.threads&(1<<tid) == 0 {
			continue
		}
		text := "host"
		if tid%2 == deviceTID {
			text = "device (clk=dev)"
		}
		if tid >= overflowTID {
			text += ", concurrent"
		}
		if err := o.file.metadata("thread_name", process, tid, text); err != nil {
			return err
		}
	}
	return nil
}

// metadata writes a name for a process or a thread.
func (f *file) metadata(kind string, pid, tid int64, name string) error {
	b := append(f.meta[:0], `{"ph":"M","name":`...)
	b = appendString(b, kind)
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, pid, 10)
	b = append(b, `,"tid":`...)
	b = strconv.AppendInt(b, tid, 10)
	b = append(b, `,"args":{"name":`...)
	f.meta = append(appendString(b, name), "}}"...)
	return f.event(f.meta)
}

func hidLabel(l *invocationLabel) string {
	if l.prewarm {
		return "prewarm"
	}
	text := unit.HID(l.hid, l.digits)
	return text[:min(len(text), 8)]
}

// Finish writes the labels and puts the file in place.
func (o *TraceOut) Finish(sum *feed.Summary) error {
	busiest, most := uint64(0), int64(1)
	for hid, n := range o.counts {
		if n > most || (n == most && n > 1 && hid < busiest) {
			busiest, most = hid, n
		}
	}
	for i := range o.labels {
		l := &o.labels[i]
		text := hidLabel(l)
		switch {
		case l.prewarm || l.hid == 0:
		case l.hid == busiest && most > 1:
			text = "decode"
		case o.counts[l.hid] == 1:
			text = "prefill"
		}
		if err := o.name(int64(i)+1, l, text); err != nil {
			return errors.Join(err, o.file.abort())
		}
	}
	return o.file.finish(sum.Processes(), "")
}

// Abort leaves no file behind.
func (o *TraceOut) Abort() error { return o.file.abort() }
