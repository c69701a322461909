// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"bytes"
	"math"
)

type bodyState uint8

const (
	bodyOK bodyState = iota
	bodyTorn
	bodyMalformed
)

// parser reads the fixed fields of a body. After the first failure it stands
// still, so that callers check once at the end.
type parser struct {
	b   []byte
	i   int
	bad bodyState
}

// fail classifies a stop at index i: text that ends, or that another writer's
// bracket cuts, is torn; anything else breaks the grammar.
func (p *parser) fail(i int) {
	p.i = i
	p.bad = bodyMalformed
	if i >= len(p.b) || p.b[i] == '[' {
		p.bad = bodyTorn
	}
}

func (p *parser) lit(s string) {
	if p.bad != bodyOK {
		return
	}
	b := p.b[p.i:]
	if len(b) >= len(s) && string(b[:len(s)]) == s {
		p.i += len(s)
		return
	}
	n := 0
	for n < len(b) && n < len(s) && b[n] == s[n] {
		n++
	}
	p.fail(p.i + n)
}

// uint reads decimal digits up to limit.
func (p *parser) uint(limit uint64) uint64 {
	if p.bad != bodyOK {
		return 0
	}
	v, n, ok := parseUint(p.b[p.i:])
	switch {
	case n == 0:
		p.fail(p.i)
	case !ok || v > limit:
		p.i, p.bad = p.i+n, bodyMalformed
	default:
		p.i += n
		return v
	}
	return 0
}

// parseUint reads leading digits; n is how many, ok false on overflow or none.
func parseUint(b []byte) (v uint64, n int, ok bool) {
	// Nineteen digits fit in any case; only those behind them need a look.
	for safe := min(len(b), 19); n < safe; n++ {
		c := b[n] - '0'
		if c > 9 {
			return v, n, n > 0
		}
		v = v*10 + uint64(c)
	}
	for n < len(b) {
		c := b[n] - '0'
		if c > 9 {
			break
		}
		if v > (math.MaxUint64-uint64(c))/10 {
			return 0, n + 1, false
		}
		v = v*10 + uint64(c)
		n++
	}
	return v, n, n > 0
}

// hex reads up to sixteen hexadecimal digits.
func (p *parser) hex() (v uint64, digits uint8) {
	if p.bad != bodyOK {
		return 0, 0
	}
	for p.i < len(p.b) {
		c := p.b[p.i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			if digits == 0 {
				p.fail(p.i)
			}
			return v, digits
		}
		if digits == 16 {
			p.bad = bodyMalformed
			return 0, 0
		}
		v, digits = v<<4|uint64(c), digits+1
		p.i++
	}
	p.fail(p.i)
	return v, digits
}

// word reads to the next blank; it may be empty (grammar v1 allows an empty
// name) but never holds a bracket.
func (p *parser) word() []byte {
	if p.bad != bodyOK {
		return nil
	}
	rest := p.b[p.i:]
	end := bytes.IndexByte(rest, ' ')
	word := rest
	if end >= 0 {
		word = rest[:end]
	}
	if bracket := bytes.IndexByte(word, '['); bracket >= 0 || end < 0 {
		if bracket < 0 {
			bracket = len(rest)
		}
		p.fail(p.i + bracket)
		return nil
	}
	p.i += end
	return word
}

// closeBody checks that the last number is complete: a blank follows it, or
// the line's end where the line was terminated.
func (p *parser) closeBody(terminated bool) {
	switch {
	case p.bad != bodyOK:
	case p.i == len(p.b):
		if !terminated {
			p.bad = bodyTorn
		}
	case p.b[p.i] != ' ':
		p.fail(p.i)
	}
}
