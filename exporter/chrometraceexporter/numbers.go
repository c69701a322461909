// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"hash/fnv"
)

// A made-up thread number is a kind of lane, a group and a slot, from the top
// down: Perfetto lists a process's threads by their numbers, whatever their
// sort index says.
const (
	slotBits  = 10 // as many as lanes::max_slots may be
	groupBits = 17
	groupMask = 1<<groupBits - 1
	// maxBlocks leaves gaps, so that a free block is found soon.
	maxBlocks = 1 << groupBits / 4 * 3
)

// takeBlock reserves the numbers of a track's lanes. They depend on the track
// only, never on the order of arrival, but for the rare collision, which takes
// the next free ones: the real thread's number decides where there is one, so
// that the slots of several threads are listed as the threads are.
func (r *registry) takeBlock(tr *track) uint32 {
	group := uint32(tr.key.tid) & groupMask
	if tr.key.kind != kindThread || tr.key.tid == 0 || r.blocks[blockOf(tr.key.kind, group)] != nil {
		group = groupOf(tr)
	}
	for ; ; group = (group + 1) & groupMask {
		block := blockOf(tr.key.kind, group)
		if r.blocks[block] == nil {
			r.blocks[block] = tr
			return block
		}
	}
}

func blockOf(k kind, group uint32) uint32 {
	return syntheticBase | uint32(k)<<(groupBits+slotBits) | group<<slotBits
}

func groupOf(tr *track) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tr.proc.key))
	_, _ = h.Write([]byte{byte(tr.key.kind), byte(tr.key.tid), byte(tr.key.tid >> 8), byte(tr.key.tid >> 16), byte(tr.key.tid >> 24)})
	return h.Sum32() >> (32 - groupBits)
}
