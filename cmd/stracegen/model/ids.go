// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// Every stream of random numbers has a number of its own, so that, say, another
// rank count leaves the requests as they were.
const (
	streamRequests = iota + 1
	streamIDs
	streamSteps
	streamProcesses
	streamDrops
)

func newRand(seed, stream, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed^(stream*0x9e3779b97f4a7c15), index*0xbf58476d1ce4e5b9+stream))
}

func spanID(r *rand.Rand) (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], r.Uint64()|1) // never zero
	return id
}

func traceID(r *rand.Rand) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], r.Uint64())
	binary.BigEndian.PutUint64(id[8:], r.Uint64()|1)
	return id
}

func requestID(r *rand.Rand) string {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:8], r.Uint64())
	binary.BigEndian.PutUint32(b[8:], r.Uint32())
	return "cmpl-" + hex.EncodeToString(b[:])
}

// traceparent is the W3C header value that names a sequence's engine.request span.
func traceparent(seq *Sequence) string {
	return "00-" + hex.EncodeToString(seq.Request.TraceID[:]) + "-" + hex.EncodeToString(seq.SpanID[:]) + "-01"
}
