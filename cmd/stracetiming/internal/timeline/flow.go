// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

const (
	dispatchFlow = `{"name":"task dispatch","cat":"host.scheduler","ph":"`
	chipFlow     = `{"name":"chip run","cat":"host.stitch","ph":"`
)

// dispatchFlows draws an arrow from each submit to the dispatch of its task.
func (s *Swimlane) dispatchFlows(t *strace.Trace) error {
	for i := range t.Spans {
		d := &t.Spans[i]
		if d.Name.Stage != semconv.StageLevelDispatch {
			continue
		}
		id := strace.ParseIdentity(d.Attrs)
		source := submitOf(t, d, &id)
		if source < 0 {
			continue
		}
		s.flows++
		key := dispatchKey(t, d, &id)
		from := &t.Spans[source]
		if err := s.flowEnd(dispatchFlow, 's', t, from, arrowBegin(from, d.TS), s.laneOf[source], s.flows, key); err != nil {
			return err
		}
		if err := s.flowEnd(dispatchFlow, 'f', t, d, d.TS, s.laneOf[i], s.flows, key); err != nil {
			return err
		}
	}
	return nil
}

// submitOf finds the last submit of d's task that began before it, -1 without.
func submitOf(t *strace.Trace, d *strace.Span, id *strace.Identity) int {
	source := -1
	if id.Has&strace.HasTaskSlot == 0 {
		return source
	}
	for k := range t.Spans {
		c := &t.Spans[k]
		if c.Name.Stage != semconv.StageLevelSubmit || c.TS > d.TS || (source >= 0 && c.TS < t.Spans[source].TS) {
			continue
		}
		if from := strace.ParseIdentity(c.Attrs); from.Has&strace.HasTaskSlot != 0 && from.TaskSlot == id.TaskSlot && from.RunID == id.RunID {
			source = k
		}
	}
	return source
}

// arrowBegin is where an arrow to time end leaves its span: while the span
// still runs, or viewers find no slice to hang it on.
func arrowBegin(from *strace.Span, end int64) int64 {
	return max(from.TS, min(from.TS+from.End-from.Start-1, end))
}

// dispatchKey tells one dispatch from all others.
func dispatchKey(t *strace.Trace, d *strace.Span, id *strace.Identity) string {
	group := "-1"
	if v, ok := strace.Attr(d.Attrs, "group_index"); ok {
		group = string(v)
	}
	worker := int64(-1)
	if id.Has&strace.HasWorkerID != 0 {
		worker = id.WorkerID
	}
	return strings.Join([]string{
		"dispatch", strconv.Itoa(int(t.Processes[d.Process].PID)), strconv.FormatUint(id.RunID, 10), strconv.FormatInt(id.TaskSlot, 10),
		group, strconv.FormatInt(worker, 10), strconv.FormatUint(id.DispatchID, 10),
	}, ":")
}

// renderRunFlow adds the end of the arrow from the dispatch that caused an
// invocation to the invocation's block, whose lane may not be known yet.
func (s *Swimlane) renderRunFlow(u *unit.Unit, pr *proc, root *strace.Span) {
	t := u.Trace
	if !root.IsRoot || root.Parent.IsZero() || t.Kind != strace.TraceRun {
		return
	}
	for i := range t.Spans {
		d := &t.Spans[i]
		if d.ID != root.Parent || d.Name.Stage != semconv.StageLevelDispatch || d.TS > root.TS {
			continue
		}
		s.flows++
		id := strace.ParseIdentity(d.Attrs)
		f := runFlow{id: s.flows, dispatch: i, end: root.TS, key: dispatchKey(t, d, &id)}
		s.toRun = append(s.toRun, f)
		bl := &s.block
		bl.text = appendPID(appendFlow(bl.text, chipFlow, 'f', f.id, root.TS), pr.id)
		bl.cut()
		bl.text = s.appendFlowArgs(bl.text, f.key, root, root.TS)
		bl.end()
		return
	}
}

// runFlows draws the begins of the arrows into the trace's invocations.
func (s *Swimlane) runFlows(t *strace.Trace) error {
	for i := range s.toRun {
		f := &s.toRun[i]
		from := &t.Spans[f.dispatch]
		if err := s.flowEnd(chipFlow, 's', t, from, arrowBegin(from, f.end), s.laneOf[f.dispatch], f.id, f.key); err != nil {
			return err
		}
	}
	return nil
}

func (s *Swimlane) flowEnd(kind string, ph byte, t *strace.Trace, sp *strace.Span, at, tid, id int64, key string) error {
	b := appendPID(appendFlow(s.buf[:0], kind, ph, id, at), s.procs.of(&t.Processes[sp.Process]).id)
	b = strconv.AppendInt(b, tid, 10)
	s.buf = s.appendFlowArgs(b, key, sp, at)
	return s.file.event(s.buf)
}

func appendFlow(b []byte, kind string, ph byte, id, at int64) []byte {
	b = append(append(b, kind...), ph)
	if ph == 'f' {
		b = append(b, `","bp":"e`...)
	}
	b = append(b, `","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"ts":`...)
	return appendMicros(b, at)
}

func (s *Swimlane) appendFlowArgs(b []byte, key string, sp *strace.Span, at int64) []byte {
	b = append(b, `,"args":{"dispatch_key":`...)
	b = appendString(b, key)
	if sp.Source != strace.ClockNone {
		b = s.wall.appendArgs(b, at-sp.TS+sp.Start)
	}
	return append(b, "}}"...)
}
