// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import "slices"

const (
	maxName  = 64
	maxAttrs = 192
	hexUpper = "0123456789ABCDEF"
)

// capped appends percent-encoded bytes up to a limit, and marks a cut with '~'
// in the last place, never in the middle of an escape.
type capped struct {
	dst   []byte
	start int
	limit int
	// last is the length of the unit appended last, 1 or 3.
	last int
	cut  bool
}

func newCapped(dst []byte, limit int) capped {
	return capped{dst: dst, start: len(dst), limit: limit}
}

func (c *capped) add(b byte, escape bool) {
	if c.cut {
		return
	}
	unit := 1
	if escape {
		unit = 3
	}
	used := len(c.dst) - c.start
	if used+unit > c.limit {
		if used == c.limit {
			c.dst = c.dst[:len(c.dst)-c.last]
		}
		c.dst = append(c.dst, '~')
		c.cut = true
		return
	}
	if escape {
		c.dst = append(c.dst, '%', hexUpper[b>>4], hexUpper[b&0xf])
	} else {
		c.dst = append(c.dst, b)
	}
	c.last = unit
}

func needsEscape(b byte) bool {
	return b < 0x20 || b > 0x7e || b == '%' || b == '[' || b == ']'
}

// appendName encodes a span name: at most 64 bytes, '=' and space escaped too.
func appendName(dst []byte, name string) []byte {
	c := newCapped(dst, maxName)
	for i := range len(name) {
		b := name[i]
		c.add(b, needsEscape(b) || b == ' ' || b == '=')
	}
	return c.dst
}

// capText encodes an already joined attribute text in dst[from:], at most 192
// bytes.
func capText(dst []byte, from int) []byte {
	if len(dst)-from <= maxAttrs && !slices.ContainsFunc(dst[from:], needsEscape) {
		return dst
	}
	text := string(dst[from:])
	c := newCapped(dst[:from], maxAttrs)
	for i := range len(text) {
		c.add(text[i], needsEscape(text[i]))
	}
	return c.dst
}
