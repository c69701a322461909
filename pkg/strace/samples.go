// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"slices"
	"time"
)

const (
	// maxSamples is the window of record samples.
	maxSamples = 64
	// jumpRun and jumpSpan are how many samples in a row, over how long, must
	// lie above the window's smallest by jumpMin, and not come down, before it
	// is a step of the wall clock and not a stalled reader catching up.
	jumpRun  = 8
	jumpSpan = int64(time.Second)
)

// sampleWindow keeps the last samples of wall-minus-monotonic taken from
// lines. A line is stamped at or after its emission, so every sample is too
// large by its delay, and the smallest is the best.
type sampleWindow struct {
	ring   [maxSamples]int64
	sorted [maxSamples]int64 // the first n of ring, ascending
	n      int               // filled
	next   int
	// above counts consecutive samples far above the smallest, which are not
	// in the window; low is the smallest of them and since the monotonic time
	// of the first.
	above      int
	low, since int64
	// jumps counts steps of the wall clock seen in the samples.
	jumps uint64
}

// add takes the sample offset, read from a line emitted at mono.
func (w *sampleWindow) add(mono, offset int64) {
	if w.n == 0 {
		w.put(offset)
		return
	}
	switch smallest := w.sorted[0]; {
	case offset < smallest-jumpMin:
		// Nothing is stamped before it is written: the wall clock went back,
		// or all samples so far were late.
		w.restart(offset)
	case offset <= smallest+jumpMin:
		w.above = 0
		w.put(offset)
	case w.above == 0 || offset < w.low-jumpMin: // a stall that drains comes down
		w.above, w.low, w.since = 1, offset, mono
	default:
		w.above++
		w.low = min(w.low, offset)
		if w.above >= jumpRun && mono-w.since >= jumpSpan {
			w.restart(w.low)
		}
	}
}

// restart counts a step of the wall clock and begins behind it.
func (w *sampleWindow) restart(offset int64) {
	w.jumps++
	w.n, w.next, w.above = 0, 0, 0
	w.put(offset)
}

// put takes a sample as it is.
func (w *sampleWindow) put(offset int64) {
	if w.n == maxSamples {
		i, _ := slices.BinarySearch(w.sorted[:], w.ring[w.next])
		copy(w.sorted[i:], w.sorted[i+1:])
		w.n--
	}
	i, _ := slices.BinarySearch(w.sorted[:w.n], offset)
	copy(w.sorted[i+1:w.n+1], w.sorted[i:w.n])
	w.sorted[i] = offset
	w.ring[w.next] = offset
	w.next = (w.next + 1) % maxSamples
	w.n++
}

// estimate returns the tightest sample, and as its error the spread between it
// and the window's median, at least the stamp's own resolution. While samples
// lie far above it, the clock may have stepped: the error covers that too.
func (w *sampleWindow) estimate() (offset, spread int64, ok bool) {
	if w.n == 0 {
		return 0, 0, false
	}
	smallest := w.sorted[0]
	spread = max(w.sorted[w.n/2]-smallest, int64(time.Microsecond))
	if w.above >= jumpRun {
		spread = max(spread, w.low-smallest)
	}
	return smallest, spread, true
}
