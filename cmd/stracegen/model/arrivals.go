// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/rand/v2"
	"time"
)

// ending is how a sequence is going to end, decided when it arrives.
type ending struct {
	// phase is empty for a normal end, else the phase active at the end.
	phase     string
	errorType string
	reason    string
	// at is when a sequence gives up waiting; afterTokens and fraction place the
	// end of one that gives up later, inside the step that follows so many tokens.
	at          int64
	afterTokens int
	fraction    float64
}

// arrivals draws requests in order of their HTTP start.
type arrivals struct {
	cfg    *Config
	rnd    *rand.Rand
	pid    int32
	engine int32
	clock  int64 // start of the latest request
	first  int64
	count  int
	seqs   int64
	// next is the request to come, with the instant the engine receives it.
	next    *Request
	receipt int64
}

func newArrivals(cfg *Config, start int64, api, engine int32) *arrivals {
	a := &arrivals{
		cfg: cfg, rnd: newRand(cfg.Seed, streamRequests, 0),
		pid: api, engine: engine, clock: start, first: start,
	}
	a.advance()
	return a
}

// advance draws the next request, or sets next to nil where there is none.
func (a *arrivals) advance() {
	a.next = nil
	if a.cfg.Requests > 0 && a.count >= a.cfg.Requests {
		return
	}
	a.clock += max(1, int64(a.rnd.ExpFloat64()/a.cfg.Rate*1e9))
	if a.cfg.Duration > 0 && a.clock-a.first > int64(a.cfg.Duration) {
		return
	}
	ids := newRand(a.cfg.Seed, streamIDs, uint64(a.count))
	req := &Request{
		Index: a.count, ID: requestID(ids), TraceID: traceID(ids), SpanID: spanID(ids),
		Outcome: OutcomeOK, HTTPStatus: 200, PID: a.pid, Start: a.clock,
	}
	a.count++
	if a.rnd.Float64() < a.cfg.UpstreamRate {
		req.Parent = &RemoteParent{SpanID: spanID(ids), Sampled: a.rnd.IntN(2) == 0, TraceState: "stracegen=" + req.ID[5:13]}
	}
	a.receipt = req.Start + a.scaled(300, 900)
	a.outcome(req, ids)
	a.next = req
}

// outcome decides how the request ends and makes its sequences.
func (a *arrivals) outcome(req *Request, ids *rand.Rand) {
	c := a.cfg
	end := ending{}
	siblings := 1
	if a.rnd.Float64() < c.SiblingRate && c.Siblings > 1 {
		siblings = 2 + a.rnd.IntN(c.Siblings-1)
	}
	switch u := a.rnd.Float64(); {
	case u < c.ErrorRate:
		req.Outcome, req.HTTPStatus, req.ErrorType = OutcomeError, 500, "EngineError"
		end = ending{errorType: "EngineError", reason: "error"}
	case u < c.ErrorRate+c.CancelRate:
		// The answer has begun to stream, so the status stays 200. A client that
		// leaves takes all of its sequences along: one keeps that simple.
		req.Outcome, req.ErrorType = OutcomeCancel, "ClientDisconnected"
		end = ending{errorType: "Aborted", reason: "abort"}
		siblings = 1
	case u < c.ErrorRate+c.CancelRate+c.RejectRate:
		req.Outcome, req.HTTPStatus, req.ErrorType = OutcomeReject, []int{400, 404, 422, 429}[a.rnd.IntN(4)], ""
		req.End = a.receipt + a.scaled(100, 400)
		return
	case u < c.ErrorRate+c.CancelRate+c.RejectRate+c.PDRate:
		req.PD = true
	}
	prompt := c.Prompt.draw(a.rnd)
	for i := range siblings {
		seq := a.sequence(req, ids, prompt, i)
		if i == 0 && end.reason != "" {
			a.place(seq, end)
		}
		req.Sequences = append(req.Sequences, seq)
	}
	req.unfinished = len(req.Sequences)
}

func (a *arrivals) sequence(req *Request, ids *rand.Rand, prompt, sibling int) *Sequence {
	c := a.cfg
	a.seqs++
	seq := &Sequence{
		ID: a.seqs, Request: req, SpanID: spanID(ids), PID: a.engine,
		// Sequences of one request are received one after the other.
		Start:  a.receipt + int64(sibling)*2_000,
		Prompt: prompt, output: c.Output.draw(a.rnd), FinishReason: "length",
	}
	if a.rnd.IntN(2) == 0 {
		seq.FinishReason = "stop"
	}
	if a.rnd.Float64() < c.OneTokenRate {
		seq.output = 1
	}
	// Caches hold whole blocks, and at least one prompt token is always computed.
	if cached := a.rnd.Float64(); sibling > 0 || cached < c.CachedRate {
		share := a.rnd.Float64()
		if sibling > 0 {
			share = 1
		}
		seq.Cached = int(float64(prompt-1)*share) / 16 * 16
	}
	seq.Phases = make([]Phase, 0, 3)
	return seq
}

// place decides in which phase a sequence ends early.
func (a *arrivals) place(seq *Sequence, end ending) {
	end.fraction = 0.1 + 0.8*a.rnd.Float64()
	switch u := a.rnd.IntN(10); {
	case u < 2:
		end.phase = PhaseWaiting
		end.at = seq.Start + a.scaled(500, 3000)
	case u < 5:
		end.phase = PhasePrefill
	default:
		end.phase = PhaseDecode
		seq.output = max(seq.output, 2)
		end.afterTokens = 1 + a.rnd.IntN(seq.output-1)
	}
	seq.end = end
}

// scaled draws between lo and hi microseconds, times the time scale.
func (a *arrivals) scaled(lo, hi int64) int64 {
	return scaled(a.rnd, a.cfg.TimeScale, lo, hi)
}

func scaled(r *rand.Rand, scale float64, lo, hi int64) int64 {
	us := time.Microsecond.Nanoseconds()
	ns := lo*us + r.Int64N((hi-lo)*us+1)
	return max(1, int64(float64(ns)*scale))
}
