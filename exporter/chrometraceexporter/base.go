// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"strconv"
	"time"
)

const (
	day = uint64(24 * time.Hour)
	// lookBack is how far before a file's first span its zero lies, rounded
	// down to a whole day. Viewers refuse times below zero, and spans do not
	// come in the order of their starts.
	lookBack = 25 * day
	// extent is how far behind its zero a file goes: below 2^42 µs a float64 of
	// microseconds tells any two nanoseconds apart.
	extent = 50 * day
)

// zero is where the times of one file are counted from.
type zero struct {
	file  uint64 // the file's number
	first uint64 // start of its first span
	at    uint64 // Unix nanoseconds, a whole day
}

func zeroOf(file, first uint64) zero {
	z := zero{file: file, first: first}
	if first > lookBack {
		z.at = (first - lookBack) / day * day
	}
	return z
}

// covers reports whether viewers show a time to the nanosecond.
func (z *zero) covers(ns uint64) bool { return ns >= z.at && ns-z.at < extent }

// settle makes the live file one that a tree of spans beginning at start can be
// drawn in. Where start is too far from what is in the file, the span that is
// nearer to the present wins: else one host with a wrong clock could either
// put away a file with every batch, or spoil a file by being first in it. It
// reports false where the tree must be left out.
func (t *timeline) settle(p *process, start uint64) bool {
	if t.zero.file != t.file.number {
		t.begin(p, start)
		return true
	}
	if t.zero.covers(start) {
		return true
	}
	now := uint64(max(t.now().UnixNano(), 0))
	if distance(start, now) >= distance(t.zero.first, now) {
		return false
	}
	if t.renew(); t.zero.file == t.file.number {
		return false
	}
	t.begin(p, start)
	return true
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// begin writes a file's zero, the first event of every file.
func (t *timeline) begin(p *process, first uint64) {
	t.zero = zeroOf(t.file.number, first)
	b := t.beginMetadata("trace_base", p.pid, 0)
	b.text = append(b.text, `"trace_base_unix_ns":"`...)
	b.text = strconv.AppendUint(b.text, t.zero.at, 10)
	b.text = append(b.text, '"')
	t.endMetadata(b)
}

// appendTime appends a point in time, Unix nanoseconds, as the file counts.
func (t *timeline) appendTime(b []byte, ns uint64) []byte {
	return appendMicros(b, ns-t.zero.at)
}
