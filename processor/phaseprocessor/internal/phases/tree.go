// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"encoding/binary"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// link finds every node's parent and marks duplicates. It returns how many
// runtime spans name a parent that is not there.
func (b *Batch) link(members []int32) (orphans int) {
	if len(members) > linearLimit {
		return b.linkByMap(members)
	}
	for k, i := range members {
		n := &b.nodes[i]
		for _, j := range members[:k] {
			if b.nodes[j].id == n.id {
				n.dupOf = j
				break
			}
		}
		if n.parent.IsEmpty() || n.parent == n.id {
			continue
		}
		for _, j := range members {
			if b.nodes[j].id == n.parent {
				n.up = j
				break
			}
		}
		if n.up == none && (n.chip || n.level) {
			orphans++
		}
	}
	return orphans
}

func (b *Batch) linkByMap(members []int32) (orphans int) {
	clear(b.byID)
	for _, i := range members {
		id := key(b.nodes[i].id)
		if j, ok := b.byID[id]; ok {
			b.nodes[i].dupOf = j
			continue
		}
		b.byID[id] = i
	}
	for _, i := range members {
		n := &b.nodes[i]
		if n.parent.IsEmpty() || n.parent == n.id {
			continue
		}
		if j, ok := b.byID[key(n.parent)]; ok {
			n.up = j
		} else if n.chip || n.level {
			orphans++
		}
	}
	return orphans
}

func key(id pcommon.SpanID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// resolve gives every node the invocation root and the run above it. Parents
// that form a ring, which only a broken sender writes, end the climb.
func (b *Batch) resolve(members []int32) {
	path := b.path[:0]
	for _, i := range members {
		path = path[:0]
		at := i
		for at != none && b.nodes[at].climb == climbUnknown {
			b.nodes[at].climb = climbRunning
			path = append(path, at)
			at = b.nodes[at].up
		}
		root, run := none, none
		if at != none && b.nodes[at].climb == climbDone {
			root, run = b.nodes[at].root, b.nodes[at].run
		}
		for k := len(path) - 1; k >= 0; k-- {
			n := &b.nodes[path[k]]
			switch {
			case n.chip && n.stage == stageRun:
				root = path[k]
			case n.level && n.stage == stageLevelRun:
				root, run = none, path[k]
			}
			n.root, n.run, n.climb = root, run, climbDone
		}
	}
	b.path = path
}
