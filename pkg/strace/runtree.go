// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// run appends a run's own spans: its synthetic root, graph_build with its
// submits, each dispatch with what belongs to its task, everything else under
// the root. Node records carry no depth, so identity alone makes this tree.
func (b *builder) run(u *run, at placement, names *Names) {
	t := &b.trace
	idTS := u.shaped.idTS
	process := t.process(u.proc)
	root := b.runRoot(u, process, at, names)
	first := len(t.Spans)
	b.spanOf = b.spanOf[:0]
	graphBuild := -1
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
		u.shaped.last = id
		switch r.name.role {
		case roleGraphBuild:
			if graphBuild < 0 {
				graphBuild = len(t.Spans) - 1
				u.shaped.graphBuild = id
			}
		case roleDispatch:
			u.shaped.dispatches[dispatch].span = id
			dispatch++
		}
	}
	from := len(t.Events)
	for i := range u.list {
		r := &u.list[i]
		parent, parentIndex := root, first-1
		switch {
		case r.name.role == roleSubmit && graphBuild >= 0:
			parent, parentIndex = t.Spans[graphBuild].ID, graphBuild
		case under(r.name.role):
			if d := u.find(roleDispatch, &u.ids[i]); d >= 0 && b.spanOf[d] >= 0 {
				parent, parentIndex = t.Spans[b.spanOf[d]].ID, b.spanOf[d]
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

// runRoot appends the span that stands for the run as a whole.
func (b *builder) runRoot(u *run, process int, at placement, names *Names) SpanID {
	idTS := u.shaped.idTS
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
