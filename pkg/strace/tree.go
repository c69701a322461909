// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

const (
	noParent = -1 // a topmost span
	byGuess  = -2 // no rule answered: the root, flagged
	noNext   = -1
)

// treeBuilder finds the parent of every record of one invocation by the rules
// of docs/conventions.md: names first, depth second, print order third, never
// containment across clocks. It is linear in the records but for those that
// share one name.
type treeBuilder struct {
	build   uint64
	parents []int
	// next chains records of one name in print order.
	next []int32
	// byDepth holds, per depth, the only span at it or a marker for several.
	byDepth map[int32]int
}

const severalAtDepth = -2

// maxCandidates bounds how many records one record is compared with, so that
// a hostile log cannot make a tree quadratic. Real invocations have dozens.
const maxCandidates = 1024

// find returns the parents of rs: an index, noParent or byGuess. root is the
// index of the depth-0 record or -1. The slice is reused by the next call.
func (t *treeBuilder) find(rs *records, root int) []int {
	t.index(rs)
	for i := range rs.list {
		t.parents[i] = t.parent(rs, i, root)
	}
	return t.parents
}

func (t *treeBuilder) index(rs *records) {
	t.build++
	n := len(rs.list)
	t.parents = append(t.parents[:0], make([]int, n)...)
	t.next = append(t.next[:0], make([]int32, n)...)
	if t.byDepth == nil {
		t.byDepth = make(map[int32]int, 8)
	}
	clear(t.byDepth)
	for i := n - 1; i >= 0; i-- {
		r := &rs.list[i]
		if r.point() {
			continue // a point is never a parent
		}
		t.next[i] = noNext
		if r.name.stamp == t.build {
			t.next[i] = r.name.first
		}
		r.name.stamp, r.name.first = t.build, int32(i)
		if _, taken := t.byDepth[r.depth]; taken {
			t.byDepth[r.depth] = severalAtDepth
		} else {
			t.byDepth[r.depth] = i
		}
	}
}

func (t *treeBuilder) parent(rs *records, i, root int) int {
	r := &rs.list[i]
	if i == root {
		return noParent
	}
	for _, prefix := range r.name.prefixes {
		if prefix.stamp != t.build {
			continue
		}
		p, several := t.named(rs, r, int(prefix.first))
		if p >= 0 {
			return p
		}
		if several {
			break // a shorter prefix is not its longest one
		}
	}
	// A name below the runtime's own root says where it belongs. When that
	// parent is missing, depth and order would hang it under a stranger.
	if !r.name.structured {
		if p, ok := t.byDepth[r.depth-1]; ok && p >= 0 && p != i {
			return p
		}
		if p, ok := nextAtDepth(rs, i); ok {
			return p
		}
	}
	if root < 0 {
		return noParent
	}
	if r.name.structured && r.depth == rs.list[root].depth+1 {
		return root
	}
	return byGuess
}

// named picks among the records that start at first and share one name, the
// parent of r: of smaller depth; of several, the one just above; of several,
// the only one that encloses it on the same clock. Without an answer it tells
// whether there were several to choose from.
func (t *treeBuilder) named(rs *records, r *stored, first int) (parent int, several bool) {
	smaller, above, seen := 0, 0, 0
	anySmaller, anyAbove := noParent, noParent
	for c := first; c != noNext; c = int(t.next[c]) {
		if seen++; seen > maxCandidates {
			return noParent, true
		}
		if d := rs.list[c].depth; d < r.depth {
			smaller++
			anySmaller = c
			if d == r.depth-1 {
				above++
				anyAbove = c
			}
		}
	}
	switch {
	case smaller == 0:
		return noParent, false
	case smaller == 1:
		return anySmaller, false
	case above == 1:
		return anyAbove, false
	}
	enclosing, found := noParent, 0
	for c := first; c != noNext; c = int(t.next[c]) {
		p := &rs.list[c]
		if p.depth < r.depth && (above == 0 || p.depth == r.depth-1) && p.device == r.device && p.ts <= r.ts && r.end() <= p.end() {
			enclosing = c
			found++
		}
	}
	if found != 1 {
		return noParent, true
	}
	return enclosing, false
}

// nextAtDepth is the scope-exit rule: children print before their parent.
func nextAtDepth(rs *records, i int) (int, bool) {
	r := &rs.list[i]
	for j := i + 1; j < min(len(rs.list), i+maxCandidates); j++ {
		p := &rs.list[j]
		if p.depth == r.depth-1 && p.tid == r.tid && !p.point() {
			return j, true
		}
	}
	return 0, false
}
