// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import (
	"math/rand/v2"
	"slices"
)

// Interleaver writes the lines of several processes into one stream the way
// generations 1 to 3 did on a shared pipe: prefix, body and newline are three
// writes, and others' writes come in between. Every body stays whole, and what
// one process writes stays in order. It is not safe for concurrent use.
type Interleaver struct {
	f   *Formatter
	rnd *rand.Rand
	// held are the parts that a process has yet to write of its latest line.
	held  map[int32][]byte
	cuts  map[int32]int // end of the next part in held, 0 if the rest is one
	order []int32
}

// NewInterleaver returns one that depends on the seed alone. Above generation 3
// lines are whole and Append does what the Formatter does.
func NewInterleaver(f *Formatter, seed uint64) *Interleaver {
	return &Interleaver{
		f: f, rnd: rand.New(rand.NewPCG(seed, 0x746f726e)),
		held: map[int32][]byte{}, cuts: map[int32]int{},
	}
}

// Append appends what reaches the stream when a process writes r.
func (i *Interleaver) Append(dst []byte, r *Record) []byte {
	if i.f.gen > 3 {
		return i.f.Append(dst, r)
	}
	dst = i.release(dst, r.PID, true)
	from := len(dst)
	var prefix, body int
	dst, prefix, body = i.f.AppendParts(dst, r)
	if r.Kind == KindSpan {
		dst = i.hold(dst, r.PID, from, prefix, body)
	}
	// Someone else may get on with a line begun earlier.
	if len(i.order) > 0 && i.rnd.IntN(2) == 0 {
		if pid := i.order[0]; pid != r.PID {
			dst = i.release(dst, pid, i.rnd.IntN(2) == 0)
		}
	}
	return dst
}

// hold keeps the tail of the line in dst[from:] back, or nothing of it.
func (i *Interleaver) hold(dst []byte, pid int32, from, prefix, body int) []byte {
	switch u := i.rnd.IntN(10); {
	case u < 2 && prefix > from: // after the prefix
		i.held[pid] = slices.Clone(dst[prefix:])
		i.cuts[pid] = body - prefix
		dst = dst[:prefix]
	case u < 5: // before the newline
		i.held[pid] = slices.Clone(dst[body:])
		i.cuts[pid] = 0
		dst = dst[:body]
	default:
		return dst
	}
	i.order = append(i.order, pid)
	return dst
}

// release writes what a process held back: all, or the next part.
func (i *Interleaver) release(dst []byte, pid int32, all bool) []byte {
	rest, ok := i.held[pid]
	if !ok {
		return dst
	}
	if cut := i.cuts[pid]; !all && cut > 0 {
		i.held[pid], i.cuts[pid] = rest[cut:], 0
		return append(dst, rest[:cut]...)
	}
	delete(i.held, pid)
	delete(i.cuts, pid)
	i.order = slices.DeleteFunc(i.order, func(p int32) bool { return p == pid })
	return append(dst, rest...)
}

// Flush appends what processes still hold back.
func (i *Interleaver) Flush(dst []byte) []byte {
	for len(i.order) > 0 {
		dst = i.release(dst, i.order[0], true)
	}
	return dst
}
