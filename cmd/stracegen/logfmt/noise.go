// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// Noise makes lines that other writers put into the same log: a server's own
// messages, another tool's progress, prose that mentions the marker. None of
// them holds a record. It is not safe for concurrent use.
type Noise struct {
	rnd *rand.Rand
	n   uint64
}

// NewNoise returns a source of noise that depends on the seed alone.
func NewNoise(seed uint64) *Noise {
	return &Noise{rnd: rand.New(rand.NewPCG(seed, 0x6e6f697365))}
}

// Append appends one line with its newline.
func (n *Noise) Append(dst []byte) []byte {
	n.n++
	switch u := n.rnd.IntN(100); {
	case u < 40:
		dst = append(dst, "INFO:     127.0.0.1:"...)
		dst = strconv.AppendInt(dst, int64(30_000+n.rnd.IntN(30_000)), 10)
		dst = append(dst, ` - "POST /v1/completions HTTP/1.1" 200 OK`...)
	case u < 70:
		dst = append(dst, "INFO engine.scheduler: running="...)
		dst = strconv.AppendInt(dst, int64(n.rnd.IntN(64)), 10)
		dst = append(dst, " waiting="...)
		dst = strconv.AppendInt(dst, int64(n.rnd.IntN(16)), 10)
		dst = append(dst, " kv_cache_usage=0."...)
		dst = strconv.AppendInt(dst, int64(10+n.rnd.IntN(90)), 10)
	case u < 85:
		dst = append(dst, `{"level":"debug","logger":"kv","seq":`...)
		dst = strconv.AppendUint(dst, n.n, 10)
		dst = append(dst, `,"msg":"block table grown <ok>","blocks":`...)
		dst = strconv.AppendInt(dst, int64(n.rnd.IntN(4096)), 10)
		dst = append(dst, '}')
	case u < 92:
		dst = append(dst, "[TIMING] print_queues: [pto_scheduler.cpp:86] QPROBE rq[AIC] pushes="...)
		dst = strconv.AppendInt(dst, int64(n.rnd.IntN(1000)), 10)
		dst = append(dst, " maxocc=1 cap=8192"...)
	case u < 96:
		dst = append(dst, "\rdecoding:  "...)
		dst = strconv.AppendInt(dst, int64(n.rnd.IntN(100)), 10)
		dst = append(dst, "%|#####     |"...)
	case u < 98:
		dst = append(dst, "WARNING host log: a line mentioning [STRACE] that holds no record"...)
	case u < 99:
		// Blank, as a lost newline leaves it.
	default:
		dst = append(dst, "DEBUG sampler: "...)
		dst = append(dst, strings.Repeat("logits=0.12345 ", 20+n.rnd.IntN(200))...)
	}
	return append(dst, '\n')
}
