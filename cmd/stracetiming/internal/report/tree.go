// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"io"
	"slices"
	"strings"
)

// Tree writes every callable's stages as a tree of medians. What runs at the
// same time on the device, orch and sched, shares a line under their union.
func (c *Callables) Tree(w io.Writer, opt Options) error {
	switch opt.Format {
	case JSON:
		return writeJSON(w, map[string]any{"mode": "tree", "callables": c.results(opt), "warnings": nonNil(opt.Warnings)})
	case CSV:
		return c.csv(w, opt)
	}
	p := newPrinter(w, opt)
	if len(c.list) == 0 {
		p.printf("%s\n", noMarkers)
		return p.flush()
	}
	busiest := c.busiest()
	for _, cb := range top(busiest, opt.Top) {
		of := " — 1 invocation"
		if cb.invocations > 1 {
			of = " — median of " + itoa(cb.invocations) + " invocation(s)"
		}
		p.printf("%s (%s)%s%s\n", p.style(bold, cb.title()), label(busiest, cb), of, cb.incompleteNote())
		t := cb.tree()
		for _, root := range t.children[nil] {
			t.print(p, opt, root, 0)
		}
		p.printf("\n")
	}
	return p.flush()
}

type tree struct {
	cb       *callable
	children map[*stage][]*stage
}

// tree hangs every stage under its parent, in the order of their mean starts.
func (cb *callable) tree() *tree {
	t := &tree{cb: cb, children: map[*stage][]*stage{}}
	for _, st := range cb.stages {
		parent := cb.parentOf(st)
		t.children[parent] = append(t.children[parent], st)
	}
	for _, list := range t.children {
		slices.SortStableFunc(list, func(a, b *stage) int { return cmp.Compare(a.meanStart(), b.meanStart()) })
	}
	return t
}

func (st *stage) meanStart() float64 { return float64(st.starts) / float64(st.N()) }

// inOrder lists the stages as the tree prints them.
func (cb *callable) inOrder() []*stage {
	t := cb.tree()
	list := make([]*stage, 0, len(cb.stages))
	var walk func(*stage)
	walk = func(parent *stage) {
		for _, st := range t.children[parent] {
			list = append(list, st)
			walk(st)
		}
	}
	walk(nil)
	return list
}

func (t *tree) print(p *printer, opt Options, st *stage, indent int) {
	tag := ""
	if st.device {
		tag = " [dev]"
	}
	p.printf("%s%-22s%6s  %12s us%s\n", strings.Repeat("  ", indent), t.leaf(st), tag, us(st.Median()), st.percentiles(opt))
	children := t.children[st]
	orch, sched := named(children, stageOrch), named(children, stageSched)
	for _, child := range children {
		switch {
		case orch == nil || sched == nil || (child != orch && child != sched):
			t.print(p, opt, child, indent+1)
		case child == orch:
			base := strings.Repeat("  ", indent+1)
			p.printf("%s%-22s%6s  %12s us\n", base, "Effective", " [dev]", us(t.cb.effective.Median()))
			p.printf("%s  orch %s  ∥  sched %s   (concurrent)\n", base, us(orch.Median()), us(sched.Median()))
		}
	}
}

// leaf is the name without its parent's part of it.
func (t *tree) leaf(st *stage) string {
	parent := t.cb.parentOf(st)
	if parent == nil {
		return st.name
	}
	return strings.TrimPrefix(st.name, parent.name+".")
}

func named(list []*stage, name string) *stage {
	for _, st := range list {
		if st.stage == name {
			return st
		}
	}
	return nil
}
