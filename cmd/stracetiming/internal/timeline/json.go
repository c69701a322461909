// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline writes traces as Chrome trace event JSON, which Perfetto
// and chrome://tracing open.
package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/phasecol/phasecol/pkg/strace"
)

const hexDigits = "0123456789abcdef"

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendString appends text as a JSON string; bytes that are no UTF-8 become
// the replacement character.
func appendString[T []byte | string](dst []byte, text T) []byte {
	dst = append(dst, '"')
	i := 0
	for i < len(text) && plain[text[i]] {
		i++
	}
	dst = append(dst, text[:i]...)
	for i < len(text) {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c >= 0x20 && c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			i++
		default:
			r, n := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return append(dst, '"')
}

// maxExact is the largest whole number that every JSON reader keeps.
const maxExact = 1 << 53

// appendInt appends a whole number, as a string where a reader that knows
// only doubles would change it.
func appendInt(dst []byte, v int64) []byte {
	if v > maxExact || v < -maxExact {
		dst = append(dst, '"')
		dst = strconv.AppendInt(dst, v, 10)
		return append(dst, '"')
	}
	return strconv.AppendInt(dst, v, 10)
}

func appendUint(dst []byte, v uint64) []byte {
	if v > maxExact {
		dst = append(dst, '"')
		dst = strconv.AppendUint(dst, v, 10)
		return append(dst, '"')
	}
	return strconv.AppendUint(dst, v, 10)
}

// appendMicros appends nanoseconds as microseconds with three decimals: the
// format's unit, and exact. They are not counted from a base of the file's own:
// scripts add ts to clockAnchors, and inputs of several hosts share one axis.
// A viewer that holds ts as float64, as Perfetto does, keeps every nanosecond
// up to 2^42 µs, 50 days of uptime, and is 2 ns off after a year.
func appendMicros(dst []byte, ns int64) []byte {
	if ns < 0 {
		dst = append(dst, '-')
		ns = -ns
	}
	dst = strconv.AppendInt(dst, ns/1000, 10)
	ns %= 1000
	return append(dst, '.', byte('0'+ns/100), byte('0'+ns/10%10), byte('0'+ns%10))
}

// wallClock writes Unix nanoseconds as text; it remembers the last second.
type wallClock struct {
	second int64
	text   []byte
}

// appendArgs appends the two members that give a wall time.
func (w *wallClock) appendArgs(dst []byte, ns int64) []byte {
	dst = append(dst, `,"wall_ts_ns":"`...)
	dst = strconv.AppendInt(dst, ns, 10)
	dst = append(dst, `","wall_time":"`...)
	second := ns / 1e9
	if w.text == nil || second != w.second {
		w.second = second
		w.text = time.Unix(second, 0).UTC().AppendFormat(w.text[:0], "2006-01-02T15:04:05.")
	}
	dst = append(dst, w.text...)
	frac := ns % 1e9
	for div := int64(1e8); div > 0; div /= 10 {
		dst = append(dst, byte('0'+frac/div%10))
	}
	return append(dst, `Z"`...)
}

// appendHID appends a callable's number with the digits it was written with.
func appendHID(dst []byte, hid uint64, digits uint8) []byte {
	dst = append(dst, '"')
	n := max(int(digits), 1)
	for n < 16 && hid>>(4*n) != 0 {
		n++
	}
	for n--; n >= 0; n-- {
		dst = append(dst, hexDigits[hid>>(4*n)&15])
	}
	return append(dst, '"')
}

// reserved are the members that the writer sets itself; an attribute of the
// same name gets a prefix.
func reserved(key []byte) bool {
	switch string(key) {
	case "inv", "hid", "depth", "attrs", "raw", "os_tid", "wall_ts_ns", "wall_time", "device_ts_ns", "slack_ns", "fits", "incomplete", "src":
		return true
	default:
		return false
	}
}

// appendAttrs appends every k=v of a record as a member of its own, the first
// of those with one key.
func appendAttrs(dst, attrs []byte, verbatim bool, scratch *[]byte) []byte {
	count := 0
	for it := strace.NewAttrIter(attrs); ; count++ {
		k, v, ok := it.Next()
		if !ok {
			return dst
		}
		if seenBefore(attrs, k, count) {
			continue
		}
		dst = append(dst, ',')
		if reserved(k) {
			*scratch = append(append((*scratch)[:0], "attr."...), k...)
			k = *scratch
		}
		dst = append(appendString(dst, k), ':')
		switch n, isInt := strace.ParseInt(v); {
		case isInt:
			dst = appendInt(dst, n)
		case verbatim:
			dst = appendString(dst, v)
		default:
			*scratch = strace.AppendDecoded((*scratch)[:0], v)
			dst = appendString(dst, *scratch)
		}
	}
}

func seenBefore(attrs, key []byte, index int) bool {
	it := strace.NewAttrIter(attrs)
	for range index {
		if k, _, _ := it.Next(); bytes.Equal(k, key) {
			return true
		}
	}
	return false
}
