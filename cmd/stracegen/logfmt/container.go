// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import (
	"fmt"
	"time"
)

// Container formats a line can be wrapped in.
const (
	FormatRaw    = "raw"
	FormatCRI    = "cri"
	FormatDocker = "docker"
)

// DefaultPartialBytes is where container runtimes cut a long line.
const DefaultPartialBytes = 16 * 1024

// CheckFormat tells whether a container format is known.
func CheckFormat(format string) error {
	switch format {
	case FormatRaw, FormatCRI, FormatDocker:
		return nil
	default:
		return fmt.Errorf("format %q: must be raw, cri or docker", format)
	}
}

// AppendCRI appends a line as a CRI runtime logs it: time, stream, F or P,
// text. A line longer than partial bytes becomes several, all but the last
// marked P. Line must not contain its newline; wall is Unix nanoseconds.
func AppendCRI(dst, line []byte, wall int64, partial int) []byte {
	stamp := time.Unix(0, wall).UTC()
	for {
		piece, flag := line, byte('F')
		if len(line) > partial {
			piece, flag = line[:partial], 'P'
		}
		dst = stamp.AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, " stderr "...)
		dst = append(dst, flag, ' ')
		dst = append(dst, piece...)
		dst = append(dst, '\n')
		if flag == 'F' {
			return dst
		}
		line = line[partial:]
	}
}

// AppendDocker appends a line as Docker's json-file driver logs it. A line
// longer than partial bytes becomes several objects, of which only the last
// one's text ends in a newline. Line must not contain its newline.
func AppendDocker(dst, line []byte, wall int64, partial int) []byte {
	stamp := time.Unix(0, wall).UTC()
	for {
		piece, last := line, true
		if len(line) > partial {
			piece, last = line[:partial], false
		}
		dst = append(dst, `{"log":"`...)
		dst = appendJSONText(dst, piece)
		if last {
			dst = append(dst, `\n`...)
		}
		dst = append(dst, `","stream":"stderr","time":"`...)
		dst = stamp.AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, "\"}\n"...)
		if last {
			return dst
		}
		line = line[partial:]
	}
}

// appendJSONText escapes text the way the driver does: HTML characters too.
func appendJSONText(dst, text []byte) []byte {
	const hexLower = "0123456789abcdef"
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, '\\', 'n')
		case b == '\r':
			dst = append(dst, '\\', 'r')
		case b == '\t':
			dst = append(dst, '\\', 't')
		case b < 0x20 || b == '<' || b == '>' || b == '&':
			dst = append(dst, '\\', 'u', '0', '0', hexLower[b>>4], hexLower[b&0xf])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}
