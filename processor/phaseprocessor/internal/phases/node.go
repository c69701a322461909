// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// none is the index of nothing.
const none int32 = -1

// node is one host span, reduced to what the sums need.
type node struct {
	// span is the zero value on a node remembered from an earlier piece.
	span   ptrace.Span
	past   bool
	trace  pcommon.TraceID
	id     pcommon.SpanID
	parent pcommon.SpanID
	// start and end are Unix nanoseconds.
	start, end int64
	inv        int64
	proc       int32
	info       int32
	up         int32
	// root is the invocation's root above this node, run the <level>.run.
	root, run int32
	depth     int32
	stage     stage
	chip      bool
	level     bool
	external  bool
	device    bool
	hasInv    bool
	// dupOf is the first node with the same id when this one repeats it: passed
	// on, not counted.
	dupOf int32
	climb climb
	// bad marks times that make no interval.
	bad bool
	// incomplete repeats strace.incomplete.
	incomplete bool
	segment    string
}

// climb is how far a node's ancestry is known.
type climb uint8

const (
	climbUnknown climb = iota
	climbRunning
	climbDone
)

// info is what only roots, device windows and external spans carry.
type info struct {
	hid        string
	requestIDs [2]string
	clockErr   float64
	ticks      Ticks
	hasTicks   bool
	misfit     bool
	done       bool
}

// Ticks are the device's own counter around one device wall.
type Ticks struct {
	Device     int64
	Start, End int64
	// Hz is ticks per second.
	Hz int64
}

// scanned is one pass over a span's attributes.
type scanned struct {
	family, stage string
	info          info
	depth, inv    int64
	hasInv        bool
	device        bool
	incomplete    bool
	copy          bool
	haveTicks     uint8
}

const (
	attrRequestID      = semconv.AttrPrefix + "request_id"
	attrGenAIRequestID = semconv.AttrPrefix + "gen_ai.request.id"
	attrDevID          = semconv.AttrPrefix + "dev_id"
	attrDevStart       = semconv.AttrPrefix + "dev_start_cycle"
	attrDevEnd         = semconv.AttrPrefix + "dev_end_cycle"
	attrDevHz          = semconv.AttrPrefix + "dev_cnt_hz"
)

const (
	haveDevID uint8 = 1 << iota
	haveDevStart
	haveDevEnd
	haveDevHz
	haveAllTicks = haveDevID | haveDevStart | haveDevEnd | haveDevHz
)

// scan reads one span's attributes; the family stays empty on a span that did
// not come from the host runtime.
func scan(attrs pcommon.Map) scanned {
	s := scanned{depth: -1}
	s.info.clockErr = math.Inf(1) // a bound that is not stated is none
	for k, v := range attrs.All() {
		if len(k) < 10 || (k[0] != 's' && k[0] != 'p') {
			continue
		}
		switch k {
		case semconv.Family:
			s.family = v.Str()
		case semconv.Stage:
			s.stage = v.Str()
		case semconv.Depth:
			if v.Type() == pcommon.ValueTypeInt {
				s.depth = v.Int()
			}
		case semconv.Inv:
			s.inv, s.hasInv = intOf(v)
		case semconv.HID:
			s.info.hid = v.Str()
		case semconv.Clock:
			s.device = v.Str() == semconv.ClockDevice
		case semconv.ClockError:
			s.info.clockErr = seconds(v)
		case semconv.DeviceFits:
			s.info.misfit = v.Type() == pcommon.ValueTypeBool && !v.Bool()
		case semconv.Incomplete:
			s.incomplete = v.Type() == pcommon.ValueTypeBool && v.Bool()
		case semconv.PhaseHostWall, semconv.PhaseStep:
			s.info.done = true
		case semconv.PhaseCopy:
			s.copy = v.Type() == pcommon.ValueTypeBool && v.Bool()
		case attrRequestID:
			s.info.requestIDs[0] = v.AsString()
		case attrGenAIRequestID:
			s.info.requestIDs[1] = v.AsString()
		case attrDevID:
			s.tick(&s.info.ticks.Device, v, haveDevID)
		case attrDevStart:
			s.tick(&s.info.ticks.Start, v, haveDevStart)
		case attrDevEnd:
			s.tick(&s.info.ticks.End, v, haveDevEnd)
		case attrDevHz:
			s.tick(&s.info.ticks.Hz, v, haveDevHz)
		}
	}
	t := s.info.ticks
	s.info.hasTicks = s.haveTicks == haveAllTicks && t.Hz > 0 && t.End >= t.Start
	return s
}

func (s *scanned) tick(to *int64, v pcommon.Value, have uint8) {
	if n, ok := intOf(v); ok {
		*to = n
		s.haveTicks |= have
	}
}

func intOf(v pcommon.Value) (int64, bool) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return v.Int(), true
	case pcommon.ValueTypeStr:
		n, err := strconv.ParseInt(v.Str(), 10, 64)
		return n, err == nil
	default:
		return 0, false
	}
}

// seconds reads a bound in seconds; what is no usable number bounds nothing.
func seconds(v pcommon.Value) float64 {
	var f float64
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		f = v.Double()
	case pcommon.ValueTypeInt:
		f = float64(v.Int())
	default:
		return math.Inf(1)
	}
	if math.IsNaN(f) || f < 0 {
		return math.Inf(1)
	}
	return f
}

// makeNode reads a span; ok is false when it is no host span.
func makeNode(span ptrace.Span) (n node, in info, ok bool) {
	s := scan(span.Attributes())
	if s.family == "" && s.stage == semconv.StageLevelRun {
		s.family = semconv.FamilyNode
	}
	if s.family == "" {
		return node{}, info{}, false
	}
	start, end := span.StartTimestamp(), span.EndTimestamp()
	n = node{
		span: span, trace: span.TraceID(), id: span.SpanID(), parent: span.ParentSpanID(),
		inv: s.inv, hasInv: s.hasInv, device: s.device, incomplete: s.incomplete,
		info: none, up: none, root: none, run: none, dupOf: none,
		depth: int32(max(-1, min(s.depth, math.MaxInt32))),
		bad:   end < start || end > math.MaxInt64,
	}
	if !n.bad {
		n.start, n.end = int64(start), int64(end)
	}
	if s.copy {
		return n, info{}, true
	}
	switch s.family {
	case semconv.FamilyChip:
		n.chip = true
	case semconv.FamilyNode:
		n.level = true
	case semconv.FamilyExternal:
		n.external = true
	default:
		return n, info{}, true
	}
	n.stage = stageOf(s.stage)
	if n.stage == stageBindSegment {
		n.segment = s.stage
	}
	return n, s.info, true
}
