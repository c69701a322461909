// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"strconv"
	"unicode/utf8"
)

// appendMicros appends ns as microseconds, with all three digits after the
// point unless they are zero. It works on integers: a float64 of today's Unix
// time in microseconds has steps of 250 ns.
func appendMicros(b []byte, ns uint64) []byte {
	b = strconv.AppendUint(b, ns/1000, 10)
	rest := ns % 1000
	if rest == 0 {
		return b
	}
	return append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}

// appendString appends s as a JSON string. Of s it takes at most limit bytes,
// cut between characters and marked with an ellipsis; cut reports that.
// Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string, limit int) (_ []byte, cut bool) {
	if len(s) > limit {
		cut = true
		s = s[:limit]
		// A character is at most 4 bytes: step back over one that was split.
		for i := 0; i < utf8.UTFMax-1 && s != ""; i++ {
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	b = append(b, '"')
	b = appendEscaped(b, s)
	if cut {
		b = append(b, "…"...)
	}
	return append(b, '"'), cut
}

func appendEscaped(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[from:i]...)
				b = append(b, "\ufffd"...)
				from = i + 1
			}
			i += size
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(b, s[from:]...)
}

// maxExactInt is the largest integer every reader of JSON numbers keeps.
const maxExactInt = 1<<53 - 1

// appendInt appends v as a number, or as a string where a reader that holds
// numbers as float64 would change it.
func appendInt(b []byte, v int64) []byte {
	if v <= maxExactInt && v >= -maxExactInt {
		return strconv.AppendInt(b, v, 10)
	}
	b = append(b, '"')
	b = strconv.AppendInt(b, v, 10)
	return append(b, '"')
}
