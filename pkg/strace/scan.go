// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"bytes"
	"math"
)

// The brackets a scanner stops at.
const (
	tagStrace   = "[STRACE] v="
	tagAnchor   = "[CLOCK_ANCHOR] v="
	tagDrops    = "[HOSTLOG_DROPS] v="
	tagReady    = "[chip_process pid="
	tagMono     = "[mono_ns="
	tagVerbatim = "[strace.h:"
)

// Scanner finds everything this package understands in one line after the
// other, in any generation's dress: several records on a line, stacked
// prefixes, foreign text before and between. It allocates nothing once the
// names are known.
type Scanner struct {
	// Set by Next according to the Kind it returns.
	Record  Record
	Anchor  Anchor
	Drops   Drops
	Ready   Ready
	Outcome Outcome

	names      *Names
	line       []byte
	pos        int
	terminated bool

	mono        int64
	wall        []byte
	prefixes    int // prefixes since the last record
	verbatimEnd int // where the last "[strace.h:N] " ended
}

// NewScanner returns a scanner that interns names in names.
func NewScanner(names *Names) *Scanner { return &Scanner{names: names} }

// Reset starts on line, without its line feed; Record.Attrs will alias it.
// terminated tells whether a line feed followed: without one, a record that
// ends in the digits of dur may have more of them still unwritten.
func (s *Scanner) Reset(line []byte, terminated bool) {
	s.line, s.pos, s.terminated = bytes.TrimSuffix(line, []byte("\r")), 0, terminated
	s.clearPrefix()
	s.verbatimEnd = -1
}

func (s *Scanner) clearPrefix() { s.mono, s.wall, s.prefixes = 0, nil, 0 }

// Next finds the next item on the line.
func (s *Scanner) Next() Kind {
	for s.pos < len(s.line) {
		at := s.pos
		if s.line[at] != '[' { // prefixes stand back to back
			i := bytes.IndexByte(s.line[at:], '[')
			if i < 0 {
				s.pos = len(s.line)
				return KindNone
			}
			at += i
		}
		b := s.line[at:]
		s.pos = at + 1
		if len(b) < 3 {
			continue
		}
		switch b[1] {
		case 'm':
			s.pos = at + s.monoPrefix(b)
		case '2':
			s.wallPrefix(b)
		case 's':
			s.verbatimPrefix(b, at)
		case 'S':
			if hasPrefix(b, tagStrace) {
				return s.scanRecord(at)
			}
		case 'C':
			if hasPrefix(b, tagAnchor) {
				return s.scanAnchor(at)
			}
		case 'H':
			if hasPrefix(b, tagDrops) {
				return s.scanDrops(at)
			}
		case 'c':
			if hasPrefix(b, tagReady) && s.scanReady(at) {
				return KindReady
			}
		}
	}
	return KindNone
}

func hasPrefix(b []byte, p string) bool { return len(b) >= len(p) && string(b[:len(p)]) == p }

// monoPrefix takes a "[mono_ns=N]" and returns how far to go on from b.
func (s *Scanner) monoPrefix(b []byte) int {
	if !hasPrefix(b, tagMono) {
		return 1
	}
	v, n, ok := parseUint(b[len(tagMono):])
	end := len(tagMono) + n
	if !ok || v > math.MaxInt64 || end >= len(b) || b[end] != ']' {
		return 1
	}
	s.mono, s.wall = int64(v), nil
	s.prefixes++
	return end + 1
}

const wallLayout = "[2006-01-02 15:04:05.000000]"

func (s *Scanner) wallPrefix(b []byte) {
	if len(b) < len(wallLayout) || b[5] != '-' || b[11] != ' ' || b[len(wallLayout)-1] != ']' {
		return
	}
	s.wall, s.mono = b[1:len(wallLayout)-1], 0
	s.prefixes++
}

// verbatimPrefix notes the source location that generations 1 to 4 print
// before a marker: they do not encode.
func (s *Scanner) verbatimPrefix(b []byte, at int) {
	if !hasPrefix(b, tagVerbatim) {
		return
	}
	if i := bytes.IndexByte(b, ']'); i > 0 {
		s.verbatimEnd = at + i + 2
	}
}

// scanRecord parses a marker at s.line[at:]; on return s.pos is behind it.
func (s *Scanner) scanRecord(at int) Kind {
	r := &s.Record
	*r = Record{Verbatim: at == s.verbatimEnd}
	p := parser{b: s.line, i: at + len(tagStrace)}
	version := p.uint(math.MaxInt64)
	if p.bad == bodyOK && version != 1 {
		s.pos = p.i
		s.clearPrefix()
		s.Outcome = OutcomeUnknownVersion
		return KindBad
	}
	p.lit(" pid=")
	pid := p.uint(math.MaxInt32)
	p.lit(" tid=")
	tid := p.uint(math.MaxInt64)
	p.lit(" inv=")
	r.Inv = p.uint(math.MaxUint64)
	p.lit(" hid=")
	r.HID, r.HIDDigits = p.hex()
	p.lit(" depth=")
	depth := p.uint(math.MaxInt32)
	p.lit(" name=")
	name := p.word()
	p.lit(" ts=")
	ts := p.uint(uint64(MaxTS))
	p.lit(" dur=")
	dur := p.uint(uint64(MaxTS))
	p.closeBody(s.terminated)
	if p.bad == bodyOK && ts+dur > uint64(MaxTS) {
		p.bad = bodyMalformed
	}
	if p.bad != bodyOK {
		s.pos = max(at+len(tagStrace), min(p.i, len(s.line)))
		s.clearPrefix()
		s.Outcome = OutcomeMalformed
		if p.bad == bodyTorn {
			s.Outcome = OutcomeTorn
		}
		return KindBad
	}
	r.PID, r.TID, r.Depth, r.TS, r.Dur = int32(pid), int64(tid), int32(depth), int64(ts), int64(dur)
	r.Name = s.names.Intern(name, r.Verbatim)
	end := attrsEnd(s.line, p.i, r.Verbatim)
	r.Attrs = bytes.Trim(s.line[p.i:end], " ")
	r.Device = r.Name.device || (r.Name.role != roleDeviceBoundaries && hasToken(r.Attrs, "clk=dev"))
	if s.prefixes == 1 {
		r.Mono, r.Wall = s.mono, s.wall
	}
	s.clearPrefix()
	s.pos = end
	s.Outcome = OutcomeSpan
	if r.Dur == 0 {
		s.Outcome = OutcomePoint
	}
	return KindRecord
}

// attrsEnd finds where the attributes that start at i stop. Encoding
// generations never print a raw '[' in them, so the first one is foreign;
// verbatim ones may, so only a known prefix ends them.
func attrsEnd(line []byte, i int, verbatim bool) int {
	for {
		k := bytes.IndexByte(line[i:], '[')
		if k < 0 {
			return len(line)
		}
		i += k
		if !verbatim || isPrefixStart(line[i:]) {
			return i
		}
		i++
	}
}

func isPrefixStart(b []byte) bool {
	for _, p := range [...]string{tagMono, tagVerbatim, "[STRACE] ", "[T0x", "[TIMING]", "[INFO", tagAnchor, tagDrops, tagReady} {
		if hasPrefix(b, p) {
			return true
		}
	}
	return len(b) >= 6 && b[1] == '2' && b[5] == '-'
}

// hasToken reports whether attrs holds the blank-separated token.
func hasToken(attrs []byte, token string) bool {
	for i := 0; i < len(attrs); {
		end := tokenEnd(attrs, i)
		if string(attrs[i:end]) == token {
			return true
		}
		i = end + 1
	}
	return false
}

func (s *Scanner) scanAnchor(at int) Kind {
	p := parser{b: s.line, i: at + len(tagAnchor)}
	version := p.uint(math.MaxInt64)
	p.lit(" pid=")
	pid := p.uint(math.MaxInt32)
	p.lit(" mono_ns=")
	mono := p.uint(uint64(MaxTS))
	p.lit(" wall_ns=")
	wall := p.uint(uint64(maxWall))
	p.closeBody(s.terminated)
	if kind := s.finish(&p, at, version); kind != KindNone {
		return kind
	}
	s.Anchor = Anchor{PID: int32(pid), Mono: int64(mono), Wall: int64(wall)}
	return KindAnchor
}

func (s *Scanner) scanDrops(at int) Kind {
	p := parser{b: s.line, i: at + len(tagDrops)}
	version := p.uint(math.MaxInt64)
	p.lit(" pid=")
	pid := p.uint(math.MaxInt32)
	d := Drops{PID: int32(pid)}
	if s.prefixes == 1 {
		d.Mono = s.mono
	}
	for _, f := range [...]struct {
		lit string
		dst *uint64
	}{
		{" new=", &d.New},
		{" total=", &d.Total},
		{" queue_full=", &d.QueueFull},
		{" claim_exhausted=", &d.ClaimExhausted},
		{" output_failed=", &d.OutputFailed},
		{" not_admitted=", &d.NotAdmitted},
	} {
		p.lit(f.lit)
		*f.dst = p.uint(math.MaxUint64)
	}
	p.closeBody(s.terminated)
	if kind := s.finish(&p, at, version); kind != KindNone {
		return kind
	}
	s.Drops = d
	return KindDrops
}

// finish moves behind an anchor or drop report and classifies a bad one.
func (s *Scanner) finish(p *parser, at int, version uint64) Kind {
	s.pos = max(at+1, min(p.i, len(s.line)))
	s.clearPrefix()
	switch {
	case p.bad == bodyTorn:
		s.Outcome = OutcomeTorn
	case version != 1 && p.bad == bodyOK:
		s.Outcome = OutcomeUnknownVersion
	case p.bad == bodyMalformed:
		s.Outcome = OutcomeMalformed
	default:
		return KindNone
	}
	return KindBad
}

func (s *Scanner) scanReady(at int) bool {
	p := parser{b: s.line, i: at + len(tagReady)}
	pid := p.uint(math.MaxInt32)
	p.lit(" dev=")
	dev := p.uint(math.MaxInt32)
	p.lit("] ready")
	if p.bad != bodyOK {
		return false
	}
	s.pos = p.i
	s.Ready = Ready{PID: int32(pid), Dev: int32(dev)}
	return true
}
