// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"
)

// TraceID is a W3C trace id, a function of what was read and never of when or
// how often: reading the same bytes again repeats it.
type TraceID [16]byte

// SpanID is a W3C span id, as repeatable as a TraceID.
type SpanID [8]byte

// IsZero reports whether the id is unset.
func (id TraceID) IsZero() bool { return id == TraceID{} }

// IsZero reports whether the id is unset.
func (id SpanID) IsZero() bool { return id == SpanID{} }

// Trace id domains keep ids of different kinds apart when all else is equal.
const (
	domainInvocation byte = 'i'
	domainRun        byte = 'r'
	domainSingle     byte = 's'
)

// idHasher derives identifiers; its buffer saves an allocation per id.
type idHasher struct {
	host string
	buf  []byte
}

// trace hashes host, scope and pid with the number that names the trace in
// its process and the ts that tells uses of that number apart. Strings are
// length-prefixed so that no two inputs collide by concatenation.
func (h *idHasher) trace(domain byte, scope string, pid int32, number uint64, ts int64, name string) TraceID {
	b := append(h.buf[:0], domain)
	b = appendString(b, h.host)
	b = appendString(b, scope)
	b = binary.LittleEndian.AppendUint32(b, uint32(pid))
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint64(b, uint64(ts))
	b = appendString(b, name)
	h.buf = b
	sum := sha256.Sum256(b)
	var id TraceID
	copy(id[:], sum[:])
	if id.IsZero() {
		id[15] = 1
	}
	return id
}

// spanKey is what tells one record of a trace from another. A run's trace
// holds many invocations, so their number and begin belong to it; repeat
// counts records of one unit that agree in all the rest.
type spanKey struct {
	name   string
	device bool
	pid    int32
	inv    uint64
	unitTS int64
	ts     int64
	tid    int64
	repeat int
}

func (h *idHasher) span(trace TraceID, k spanKey) SpanID {
	b := append(h.buf[:0], trace[:]...)
	b = appendString(b, k.name)
	clock := byte(0)
	if k.device {
		clock = 1
	}
	b = append(b, clock)
	b = binary.LittleEndian.AppendUint32(b, uint32(k.pid))
	b = binary.LittleEndian.AppendUint64(b, k.inv)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.unitTS))
	b = binary.LittleEndian.AppendUint64(b, uint64(k.ts))
	b = binary.LittleEndian.AppendUint64(b, uint64(k.tid))
	b = binary.LittleEndian.AppendUint64(b, uint64(k.repeat))
	h.buf = b
	v := xxhash.Sum64(b)
	if v == 0 {
		v = 1
	}
	var id SpanID
	binary.BigEndian.PutUint64(id[:], v)
	return id
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// parseTraceparent reads a W3C trace context header of version 00, or of a
// later one that starts alike. ok is false for anything invalid.
func parseTraceparent(v []byte) (trace TraceID, span SpanID, ok bool) {
	if len(v) < 55 || v[2] != '-' || v[35] != '-' || v[52] != '-' || (len(v) > 55 && (v[55] != '-' || string(v[:2]) == "00")) {
		return trace, span, false
	}
	for _, c := range v[:55] {
		if c >= 'A' && c <= 'F' {
			return trace, span, false // the header is lower-case
		}
	}
	var version, flags [1]byte
	for _, f := range [...]struct{ dst, src []byte }{
		{version[:], v[:2]}, {trace[:], v[3:35]}, {span[:], v[36:52]}, {flags[:], v[53:55]},
	} {
		if _, err := hex.Decode(f.dst, f.src); err != nil {
			return TraceID{}, SpanID{}, false
		}
	}
	return trace, span, version[0] != 0xff && !trace.IsZero() && !span.IsZero()
}
