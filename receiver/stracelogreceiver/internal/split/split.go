// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package split cuts a log file into blocks of lines worth parsing. It skips
// every other line at memory speed, so that a chatty server log costs almost
// nothing.
package split // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/split"

import (
	"bytes"

	"github.com/phasecol/phasecol/internal/stracepdata/marker"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

const (
	// MaxBlock bounds a block of lines, and so a token, but for a longer line.
	// fileconsumer keeps 100 of them for every file it reads at the same time.
	MaxBlock = 8 << 10
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
)

// Func returns a bufio.SplitFunc for files of the given format. It is
// stateless: one function serves all files. A token is one or more whole lines
// with their line feeds, or a part of an overlong line without one; an empty
// token only reports progress.
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
	at := marker.First(region)
	if at < 0 {
		return skip(len(region))
	}
	start := bytes.LastIndexByte(region[:at], '\n') + 1
	end := lineEnd(region, at)
	for end < len(region) && end-start < MaxBlock {
		next := marker.First(region[end:min(len(region), end+lookahead)])
		if next < 0 {
			break
		}
		end = lineEnd(region, end+next)
	}
	return end, region[start:end], nil
}

// lineEnd is the index behind the line feed of the line that holds at. The
// region ends with one.
func lineEnd(region []byte, at int) int {
	return at + bytes.IndexByte(region[at:], '\n') + 1
}

// containerBlock returns the first lines of a container log. In a log of
// pieces a marker may be cut in two, and any line may complete one of an
// earlier block, so a block is dropped only where no line is a piece, and then
// but for the lines that may complete one: the first of each stream.
func containerBlock(region []byte) (int, []byte, error) {
	end := len(region)
	if end > MaxBlock {
		end = bytes.LastIndexByte(region[:MaxBlock], '\n') + 1
		if end == 0 {
			end = lineEnd(region, 0)
		}
	}
	block := region[:end]
	if marker.First(block) >= 0 || container.AnyPartial(block) {
		return end, block, nil
	}
	return end, firstOfStreams(block), nil
}

// firstOfStreams returns the block's beginning up to where every stream has
// had a line; when one has none, up to the first line, so that a block of one
// stream costs one line.
func firstOfStreams(block []byte) []byte {
	first := lineEnd(block, 0)
	stream := container.StreamOf(block[:first])
	other := bytes.Index(block[first:], container.Word(1-stream))
	if other < 0 {
		return block[:first]
	}
	for from := bytes.LastIndexByte(block[:first+other], '\n') + 1; from < len(block); {
		end := lineEnd(block, from)
		if container.StreamOf(block[from:end]) != stream {
			return append(block[:first:first], block[from:end]...)
		}
		from = end
	}
	return block[:first]
}

// longLine handles data without a line feed: more is asked for until it is
// longer than any record, then what cannot hold one is passed over.
func longLine(data []byte) (int, []byte, error) {
	if len(data) < MaxLine {
		return 0, nil, nil
	}
	cut := marker.CutLong(data)
	if marker.First(data[:cut]) < 0 {
		return cut, []byte{}, nil
	}
	return cut, data[:cut], nil
}

func skip(n int) (int, []byte, error) {
	if n < idleBytes {
		return n, nil, nil
	}
	return n, []byte{}, nil
}
