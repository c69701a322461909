// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "bytes"

const tagBindPhase = "bind phase="

// BindPhase is a "bind phase=NAME start_ns=N dur_ns=N k=v ..." line: one part
// of an invocation's bind stage as the runtimes before generation 9 print it,
// beside the markers and only when asked to. It names neither process nor
// invocation; its times are on the host's monotonic clock, nanoseconds, and
// the bind it belongs to is printed after it.
type BindPhase struct {
	// Name and Attrs alias the line.
	Name, Attrs []byte
	Start, Dur  int64
}

// End is Start+Dur; the parser has excluded overflow.
func (p *BindPhase) End() int64 { return p.Start + p.Dur }

// ParseBindPhase finds a bind phase on a line without its line feed. A line
// holds one at most; ok is false for a line that holds none or a broken one.
func ParseBindPhase(line []byte) (phase BindPhase, ok bool) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	at := bytes.Index(line, []byte(tagBindPhase))
	if at < 0 || (at > 0 && line[at-1] != ' ') {
		return BindPhase{}, false
	}
	p := parser{b: line, i: at + len(tagBindPhase)}
	name := p.word()
	p.lit(" start_ns=")
	start := p.uint(uint64(MaxTS))
	p.lit(" dur_ns=")
	dur := p.uint(uint64(MaxTS))
	p.closeBody(true)
	if p.bad != bodyOK || len(name) == 0 || start+dur > uint64(MaxTS) {
		return BindPhase{}, false
	}
	return BindPhase{
		Name: name, Attrs: bytes.Trim(line[p.i:attrsEnd(line, p.i, false)], " "),
		Start: int64(start), Dur: int64(dur),
	}, true
}
