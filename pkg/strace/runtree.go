// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// run appends a run's own spans: its synthetic root, graph_build with its
// submits, each dispatch with what belongs to its task, everything else under
// the root. Node records carry no depth, so identity alone makes this tree.
func (b *builder) run(u *run, idTS int64, at placement, names *Names) {
	t := &b.trace
	process := t.process(u.proc)
	root := b.runRoot(u, process, idTS, at, names)
	first := len(t.Spans)
	b.spanOf = b.spanOf[:0]
	graphBuild := SpanID{}
	dispatch := 0
	none := deviceBlock{fits: true}
	for i := range u.list {
		r := &u.list[i]
		if r.point() {
			b.spanOf = append(b.spanOf, -1)
			continue
		}
		b.spanOf = append(b.spanOf, len(t.Spans))
		b.span(&u.records, r, process, u.id, idTS, at, &none, first)
		id := t.Spans[len(t.Spans)-1].ID
		switch r.name.role {
		case roleGraphBuild:
			graphBuild = id
		case roleDispatch:
			u.shaped.dispatches[dispatch].span = id
		}
		if r.name.role == roleDispatch {
			dispatch++
		}
	}
	from := len(t.Events)
	for i := range u.list {
		r := &u.list[i]
		parent, parentIndex := root, first-1
		switch {
		case r.name.role == roleSubmit && !graphBuild.IsZero():
			parent, parentIndex = graphBuild, b.indexOf(u, roleGraphBuild, nil)
		case under(r.name.role):
			if k := b.indexOf(u, roleDispatch, &u.ids[i]); k >= 0 {
				parent, parentIndex = t.Spans[k].ID, k
			}
		}
		if k := b.spanOf[i]; k >= 0 {
			t.Spans[k].Parent = parent
			continue
		}
		t.Events = append(t.Events, Event{
			Name: r.name, Time: r.ts + at.offset, Attrs: u.attrs(r), Verbatim: r.verbatim, parent: parentIndex,
		})
	}
	t.groupEvents(from)
}

// indexOf finds the span of the record with the role, and the task where id
// is given; -1 when there is none.
func (b *builder) indexOf(u *run, want role, id *Identity) int {
	for i := range u.list {
		if u.list[i].name.role == want && b.spanOf[i] >= 0 && (id == nil || sameTask(&u.ids[i], id)) {
			return b.spanOf[i]
		}
	}
	return -1
}

// runRoot appends the span that stands for the run as a whole.
func (b *builder) runRoot(u *run, process int, idTS int64, at placement, names *Names) SpanID {
	name := names.Intern([]byte(u.list[0].name.LevelWord+".run"), false)
	u.shaped.root = b.ids.span(b.trace.ID, spanKey{
		name: name.Text, pid: u.proc.pid, inv: u.id, unitTS: idTS, ts: idTS,
	})
	b.trace.Spans = append(b.trace.Spans, Span{
		ID: u.shaped.root, Name: name, Text: name.Text, Process: process,
		Start: u.start + at.offset, End: u.end + at.offset, Inv: u.id, TS: u.start,
		Source: at.source, ErrorNS: at.err, Fits: true, Synthetic: true,
		Incomplete: u.lost || (!u.retired && !u.complete()),
	})
	return u.shaped.root
}
