// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package marker finds the brackets that open something worth parsing, as fast
// as memory allows.
package marker // import "github.com/phasecol/phasecol/internal/stracepdata/marker"

import "bytes"

// prefix is how far before a marker its line's prefix begins at most: time,
// thread, level, function and source location. A bracket that is cut at the
// end of the text is shorter.
const prefix = 256

// First returns the index of the first bracket in b that opens something the
// scanner understands, or -1. It may report others: the scanner decides.
func First(b []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '[')
		if i < 0 {
			return -1
		}
		from += i
		if len(b)-from < 8 {
			return -1
		}
		if is(b[from:]) {
			return from
		}
		from++
	}
}

// is tells of b, at least 8 bytes that begin with a bracket, whether it opens
// a marker.
func is(b []byte) bool {
	switch b[1] {
	case 'S':
		return string(b[:8]) == "[STRACE]"
	case 'C':
		return string(b[:7]) == "[CLOCK_"
	case 'H':
		return string(b[:8]) == "[HOSTLOG"
	case 'c':
		return string(b[:6]) == "[chip_"
	default:
		return false
	}
}

// CutLong returns how much of the beginning of an overlong text without line
// end can be passed on or over, so that no record is cut: all up to the prefix
// of the last marker, or where there is none, up to what may be the beginning
// of a marker and its prefix. So does a text that begins with its last marker:
// no record is that long. The result is more than 0.
func CutLong(text []byte) int {
	last := -1
	for at := First(text); at >= 0; {
		last = at
		next := First(text[last+1:])
		if next < 0 {
			break
		}
		at = last + 1 + next
	}
	if last >= 0 {
		if cut := prefixStart(text, last); cut > 0 {
			return cut
		}
	}
	return max(1, len(text)-prefix)
}

// prefixStart finds where the prefix of the marker at begins.
func prefixStart(text []byte, at int) int {
	from := max(0, at-prefix)
	for _, open := range [...]string{"[mono_ns=", "[2", "[strace.h:"} {
		if i := bytes.LastIndex(text[from:at], []byte(open)); i >= 0 {
			return from + i
		}
	}
	return at
}
