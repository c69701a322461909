// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package split cuts a log file into blocks of lines worth parsing. It skips
// every other line at memory speed, so that a chatty server log costs almost
// nothing.
package split // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/split"

import (
	"bytes"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

const (
	// MaxBlock bounds a block of lines, and so a token.
	MaxBlock = 32 << 10
	// MaxLine is how much of a line without end is kept in view. The longest
	// record of an encoding generation has 512 bytes; older ones print what
	// they are given.
	MaxLine = 64 << 10
	// lookahead is how far behind a marker's line the next one may be for both
	// to go into one block.
	lookahead = 512
	// idleBytes is how much may be skipped before an empty block reports the
	// progress: without a token, fileconsumer does not move its offset.
	idleBytes = 64 << 10
	// longestTag is the longest bracket that is looked for.
	longestTag = len("[HOSTLOG_DROPS]")
)

// Func returns a bufio.SplitFunc for files of the given format. It is
// stateless: one function serves all files. A token is one or more whole
// lines without the last line feed; an empty token only reports progress.
func Func(format container.Format) func(data []byte, atEOF bool) (int, []byte, error) {
	return func(data []byte, _ bool) (int, []byte, error) {
		end := bytes.LastIndexByte(data, '\n') + 1
		if end == 0 {
			return longLine(data)
		}
		region := data[:end]
		if format.Container(region) {
			return containerBlock(region)
		}
		return rawBlock(region)
	}
}

// rawBlock returns the first run of lines with markers.
func rawBlock(region []byte) (int, []byte, error) {
	at := Marker(region)
	if at < 0 {
		return skip(len(region))
	}
	start := bytes.LastIndexByte(region[:at], '\n') + 1
	end := lineEnd(region, at)
	for end < len(region) && end-start < MaxBlock {
		next := Marker(region[end:min(len(region), end+lookahead)])
		if next < 0 {
			break
		}
		end = lineEnd(region, end+next)
	}
	return end, region[start : end-1], nil
}

// lineEnd is the index behind the line feed of the line that holds at. The
// region ends with one.
func lineEnd(region []byte, at int) int {
	return at + bytes.IndexByte(region[at:], '\n') + 1
}

// containerBlock returns the first lines of a container log, all of them: the
// pieces of a line that the container runtime split must stay together. A
// block is dropped whole when nothing in it can matter.
func containerBlock(region []byte) (int, []byte, error) {
	end := len(region)
	if end > MaxLine {
		end = bytes.LastIndexByte(region[:MaxLine], '\n') + 1
		if end == 0 {
			end = lineEnd(region, 0)
		}
	}
	// Leave pieces at the end for the block in which they are completed.
	whole := end
	for whole > 0 {
		start := bytes.LastIndexByte(region[:whole-1], '\n') + 1
		if !container.Partial(region[start : whole-1]) {
			break
		}
		whole = start
	}
	partials := whole != end
	switch {
	case whole > 0:
		end = whole
	case end < MaxLine:
		return 0, nil, nil // the rest of the line is still to come
	}
	block := region[:end]
	if Marker(block) < 0 && !partials && !hasPartial(block) {
		return skip(end)
	}
	return end, block[:len(block)-1], nil
}

func hasPartial(block []byte) bool {
	for len(block) > 0 {
		end := bytes.IndexByte(block, '\n')
		if container.Partial(block[:end]) {
			return true
		}
		block = block[end+1:]
	}
	return false
}

// longLine handles data without a line feed: more is asked for until it is
// longer than any record, then what cannot hold one is passed over.
func longLine(data []byte) (int, []byte, error) {
	if len(data) < MaxLine {
		return 0, nil, nil
	}
	at := Marker(data)
	if at < 0 {
		// A bracket may be cut at the end.
		return skip(len(data) - longestTag)
	}
	if last := lastMarker(data); last > 0 {
		return last, data[:last], nil
	}
	// A single marker at the start of a line without end: no record is that
	// long, but the scanner must see and count it.
	return len(data), data, nil
}

func lastMarker(data []byte) int {
	last := 0
	for at := Marker(data); at >= 0; {
		last += at
		at = Marker(data[last+1:])
		if at >= 0 {
			last++
		}
	}
	return last
}

func skip(n int) (int, []byte, error) {
	if n < idleBytes {
		return n, nil, nil
	}
	return n, []byte{}, nil
}

// Marker returns the index of the first bracket in b that opens something the
// scanner understands, or -1. It may report others: the scanner decides.
func Marker(b []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '[')
		if i < 0 {
			return -1
		}
		from += i
		rest := b[from:]
		if len(rest) < 8 {
			return -1
		}
		switch rest[1] {
		case 'S':
			if string(rest[:8]) == "[STRACE]" {
				return from
			}
		case 'C':
			if string(rest[:7]) == "[CLOCK_" {
				return from
			}
		case 'H':
			if string(rest[:8]) == "[HOSTLOG" {
				return from
			}
		case 'c':
			if string(rest[:6]) == "[chip_" {
				return from
			}
		}
		from++
	}
}
