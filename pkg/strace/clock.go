// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"slices"
	"time"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// ClockSource is where a wall time came from.
type ClockSource uint8

// The sources, in the default order of preference.
const (
	ClockNone ClockSource = iota
	ClockAnchor
	ClockRecord
	ClockHost
	ClockMtime
)

// String returns the source as strace.clock.source has it.
func (s ClockSource) String() string {
	switch s {
	case ClockAnchor:
		return semconv.ClockSourceAnchor
	case ClockRecord:
		return semconv.ClockSourceRecord
	case ClockHost:
		return semconv.ClockSourceHost
	case ClockMtime:
		return semconv.ClockSourceMtime
	default:
		return semconv.ClockSourceNone
	}
}

// DefaultClockSources is the order in which sources are tried.
func DefaultClockSources() []ClockSource {
	return []ClockSource{ClockAnchor, ClockRecord, ClockHost, ClockMtime}
}

const (
	// driftPart bounds how far two clocks of one machine run apart: one part in
	// 10,000, which is 100 ppm.
	driftPart = 10_000
	// mtimeError is how far a file's mtime may be from its last record's end.
	mtimeError = int64(time.Second)
	// hostError bounds the read of this machine's two clocks one after the
	// other.
	hostError = int64(10 * time.Microsecond)
	// jumpMin is the smallest disagreement between two sources that counts as
	// a step of the wall clock or a suspend, not as drift or jitter.
	jumpMin = int64(50 * time.Millisecond)
	// maxAnchors bounds the anchors kept per process; the runtime prints one,
	// and repeats it only after a failed write.
	maxAnchors = 16
)

// HostClock is this machine's clock pair read together: wall = mono + Offset.
type HostClock struct {
	// Mono and Offset are nanoseconds. Mono is CLOCK_MONOTONIC at the read.
	Mono, Offset int64
	// Valid is false where the pair cannot be had.
	Valid bool
}

// FileClock is what the file system knows of one log file.
type FileClock struct {
	// Birth is when the file was created, Unix nanoseconds; 0 when unknown.
	Birth int64
	// Written is when the file was last written to, as of the last look,
	// Unix nanoseconds; 0 when unknown.
	Written int64
	// LastEnd, Mtime pair the end of the file's last record (monotonic) with
	// the file's modification time (Unix), both of one look during which it
	// did not grow. Mtime 0 means not known.
	LastEnd, Mtime int64
}

// placement is one process's answer: wall = ts + offset.
type placement struct {
	offset int64
	err    int64 // nanoseconds
	source ClockSource
}

// processClock collects what is known of one process's clock.
type processClock struct {
	anchors []Anchor // ascending Mono
	samples sampleWindow
	// jumps counts disagreements found; jumped holds the last one.
	jumps uint64
	// suspect is set while sources disagree, so that one jump counts once.
	suspect bool
}

func (c *processClock) addAnchor(a Anchor) {
	i, found := slices.BinarySearchFunc(c.anchors, a.Mono, func(x Anchor, mono int64) int {
		switch {
		case x.Mono < mono:
			return -1
		case x.Mono > mono:
			return 1
		default:
			return 0
		}
	})
	if found {
		c.anchors[i] = a
		return
	}
	if len(c.anchors) == maxAnchors {
		if i == 0 {
			return
		}
		copy(c.anchors, c.anchors[1:])
		c.anchors = c.anchors[:maxAnchors-1]
		i--
	}
	c.anchors = slices.Insert(c.anchors, i, a)
}

// anchorAt returns the latest anchor at or before ts, else the first.
func (c *processClock) anchorAt(ts int64) (Anchor, bool) {
	if len(c.anchors) == 0 {
		return Anchor{}, false
	}
	best := c.anchors[0]
	for _, a := range c.anchors[1:] {
		if a.Mono <= ts {
			best = a
		}
	}
	return best, true
}

// place finds the offset for ts by the first source in order that has one.
// Where a second source can vouch for an anchor, the bound is their
// disagreement when that is tighter than drift; a disagreement beyond jumpMin
// and drift is a jump: it is counted and becomes the error.
func (c *processClock) place(ts, end int64, order []ClockSource, host HostClock, file FileClock) placement {
	for _, source := range order {
		p, ok := c.from(source, ts, end, host, file)
		if !ok {
			continue
		}
		if source == ClockAnchor {
			c.crossCheck(&p, ts, end, order, host, file)
		}
		return p
	}
	return placement{source: ClockNone}
}

func (c *processClock) from(source ClockSource, ts, end int64, host HostClock, file FileClock) (placement, bool) {
	switch source {
	case ClockAnchor:
		a, ok := c.anchorAt(ts)
		return placement{a.Wall - a.Mono, drift(ts - a.Mono), ClockAnchor}, ok
	case ClockRecord:
		offset, spread, ok := c.samples.estimate()
		return placement{offset, spread, ClockRecord}, ok
	case ClockHost:
		// The log must have been written on this boot of this host: not in
		// the future of its monotonic clock, nor before its file existed, nor
		// after it was last written to.
		ok := host.Valid && end <= host.Mono && file.Birth > 0 &&
			ts+host.Offset >= file.Birth-jumpMin && end+host.Offset <= file.Written+jumpMin
		return placement{host.Offset, hostError, ClockHost}, ok
	case ClockMtime:
		return placement{file.Mtime - file.LastEnd, mtimeError, ClockMtime}, file.Mtime > 0
	default:
		return placement{}, false
	}
}

func (c *processClock) crossCheck(p *placement, ts, end int64, order []ClockSource, host HostClock, file FileClock) {
	for _, second := range [...]ClockSource{ClockHost, ClockRecord} {
		if !slices.Contains(order, second) {
			continue
		}
		q, ok := c.from(second, ts, end, host, file)
		// A few lines may all have been stamped late; that is no jump.
		late := second == ClockRecord && c.samples.n < jumpRun && q.offset > p.offset
		if !ok || late {
			continue
		}
		gap := abs(p.offset - q.offset)
		// Samples and mtime only bound from one side: a slow reader of the
		// log makes a sample late, so only the host clock tightens.
		if second == ClockHost && gap+q.err < p.err {
			p.err = gap + q.err
		}
		jumped := gap > jumpMin+p.err+q.err
		if jumped {
			p.err = max(p.err, gap)
			if !c.suspect {
				c.jumps++
			}
		}
		c.suspect = jumped
		return
	}
}

func drift(distance int64) int64 { return abs(distance) / driftPart }

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}
