// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v7"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/hold"
)

// sendLimit is about how many held spans leave in one call.
const sendLimit = 2048

// flushLimit bounds the last attempts at shutdown when the caller does not.
const flushLimit = 3 * time.Second

// release says why a request was let go.
type release string

const (
	releaseEarly    release = "early"
	releaseWait     release = "wait"
	releaseEvicted  release = "evicted"
	releaseShutdown release = "shutdown"
	releaseDirect   release = "direct"
)

// parcel is requests on their way out; they count as held until accepted.
type parcel struct {
	traces          ptrace.Traces
	requests, spans int
}

// releaser is the state of the one goroutine that lets requests go.
type releaser struct {
	stop context.CancelFunc
	done sync.WaitGroup

	// refusedMu guards refused: parcels that could not leave, to be tried by
	// the goroutine, at the latest at shutdown.
	refusedMu sync.Mutex
	refused   []parcel
	// checked is the hostSeen up to which the ready ones were looked for.
	checked uint64
}

func (p *phaseProcessor) startReleasing() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	// Often enough that a wait is kept within a tenth, seldom enough to cost
	// nothing.
	ticker := time.NewTicker(min(max(p.cfg.Join.Wait/20, 10*time.Millisecond), 250*time.Millisecond))
	p.done.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.sweep(ctx)
			}
		}
	})
}

func (p *phaseProcessor) stopReleasing() {
	if p.stop == nil {
		return
	}
	p.stop()
	p.done.Wait()
}

// sweep lets go of what has waited long enough or need not wait any longer, and
// expires what the stores no longer need.
func (p *phaseProcessor) sweep(ctx context.Context) {
	now := p.now()
	p.expire(ctx, now)
	p.retryRefused(ctx)
	for ctx.Err() == nil {
		due := p.held.Due(now, sendLimit)
		if len(due) == 0 {
			break
		}
		p.deliver(ctx, p.pack(ctx, due, releaseWait))
	}
	// Without new host spans nothing can have become ready but what needs none.
	seen := p.hostSeen.Load()
	if seen == p.checked && !p.held.Changed() {
		return
	}
	p.checked = seen
	for ctx.Err() == nil {
		ready := p.held.Ready(sendLimit, p.ready)
		if len(ready) == 0 {
			break
		}
		p.deliver(ctx, p.pack(ctx, ready, releaseEarly))
	}
}

// ready says whether a request is whole and the host side of all its phases is
// known to be past their end.
func (p *phaseProcessor) ready(e *hold.Entry) bool {
	if !e.Whole(p.cfg.Contract.Tolerance.Nanoseconds()) {
		return false
	}
	if !p.cfg.Join.Enabled {
		return true
	}
	start, end := e.Trace().Extent()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range e.Spans {
		s := &e.Spans[i]
		if s.Role == engine.RoleRequest || s.Role == engine.RoleThread {
			continue
		}
		g, _ := p.joiner.Index.Find(s.Groups)
		if g == nil || !g.Passed(start, end, p.cfg.Join.Wait.Nanoseconds()) {
			return false
		}
	}
	return true
}

// expire forgets what is too old, and counts what had to go for want of room.
func (p *phaseProcessor) expire(ctx context.Context, now time.Time) {
	pieces := p.pieces.Expire(now.Add(-max(p.cfg.Join.Wait, time.Second)).UnixNano())
	p.mu.Lock()
	p.joiner.Index.Expire(now.UnixNano())
	evicted := p.joiner.Index.TakeEvicted()
	bodies := p.joiner.Bodies.TakeEvicted()
	callables := p.joiner.Callables.TakeEvicted()
	procs, devices := p.history.Evicted()
	p.mu.Unlock()
	p.tel.evictions(ctx, map[string]int64{
		"runs": int64(evicted.Runs), "groups": int64(evicted.Groups), "evidence": int64(evicted.Evidence),
		"bodies": int64(bodies), "callables": int64(callables), "processes": procs, "devices": devices,
		"pieces": pieces,
	})
}

// finish joins and marks requests and puts them into out.
func (p *phaseProcessor) finish(ctx context.Context, entries []*hold.Entry, out ptrace.Traces, why release) {
	now := p.now()
	for _, e := range entries {
		t := e.Trace()
		t.Check(p.cfg.Contract.Tolerance.Nanoseconds())
		t.Write()
		if p.cfg.Join.Enabled {
			var seen tally
			p.mu.Lock()
			p.joiner.Join(t, out, &seen)
			p.mu.Unlock()
			p.tel.join(ctx, &seen)
		}
		t.CopyToRepeats()
		p.tel.request(ctx, t)
		if !e.First.IsZero() {
			p.tel.age(ctx, now.Sub(e.First), why)
		}
		e.Data.ResourceSpans().MoveAndAppendTo(out.ResourceSpans())
	}
}

// pack finishes entries into a parcel.
func (p *phaseProcessor) pack(ctx context.Context, entries []*hold.Entry, why release) parcel {
	out := parcel{traces: ptrace.NewTraces(), requests: len(entries)}
	for _, e := range entries {
		out.spans += len(e.Spans)
	}
	p.finish(ctx, entries, out.traces, why)
	return out
}

// makeRoom reserves room for a call's request spans, passing on those that have
// waited longest where there is none. ok is false when there cannot be any: the
// spans then go with the call. An error is the next component's.
func (p *phaseProcessor) makeRoom(ctx context.Context, requests, spans int) (ok bool, err error) {
	const tries = 4 // others may be faster to fill what was freed
	for range tries {
		evicted, ok := p.held.Reserve(requests, spans)
		if ok {
			return true, nil
		}
		if len(evicted) == 0 {
			return false, nil
		}
		out := p.pack(ctx, evicted, releaseEvicted)
		if err := p.offer(ctx, out); err != nil {
			p.refuse(out)
			return false, err
		}
		p.held.Done(out.requests, out.spans)
	}
	return false, nil
}

// offer passes a parcel on once. The next component gets a copy: what it did to
// it before it refused is not known.
func (p *phaseProcessor) offer(ctx context.Context, out parcel) error {
	if !p.cfg.Retry.Enabled {
		return p.next.ConsumeTraces(ctx, out.traces)
	}
	td := ptrace.NewTraces()
	out.traces.CopyTo(td)
	return p.next.ConsumeTraces(ctx, td)
}

func (p *phaseProcessor) refuse(out parcel) {
	p.refusedMu.Lock()
	defer p.refusedMu.Unlock()
	p.refused = append(p.refused, out)
}

func (p *phaseProcessor) retryRefused(ctx context.Context) {
	p.refusedMu.Lock()
	refused := p.refused
	p.refused = nil
	p.refusedMu.Unlock()
	for _, out := range refused {
		p.deliver(ctx, out)
	}
}

// deliver passes a parcel on, again and again within the bounds of the retry
// settings. When ctx ends first, shutdown gets it.
func (p *phaseProcessor) deliver(ctx context.Context, out parcel) {
	err := p.try(ctx, out, p.cfg.Retry.MaxElapsedTime)
	if err != nil && ctx.Err() != nil {
		p.refuse(out)
		return
	}
	p.settle(ctx, out, err, lostExhausted)
}

func (p *phaseProcessor) try(ctx context.Context, out parcel, limit time.Duration) error {
	retry := p.cfg.Retry
	once := func() (struct{}, error) {
		err := p.offer(ctx, out)
		if err != nil && (!retry.Enabled || consumererror.IsPermanent(err)) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, once, backoff.WithMaxElapsedTime(limit), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval:     retry.InitialInterval,
		RandomizationFactor: retry.RandomizationFactor,
		Multiplier:          retry.Multiplier,
		MaxInterval:         retry.MaxInterval,
	}))
	return err
}

// settle takes a parcel off the books, counting what was lost.
func (p *phaseProcessor) settle(ctx context.Context, out parcel, err error, lost string) {
	p.held.Done(out.requests, out.spans)
	if err == nil {
		return
	}
	if consumererror.IsPermanent(err) {
		lost = lostPermanent
	}
	p.tel.lost(ctx, out.spans, lost)
	p.logger.Warn("request spans lost: the next component refused them",
		zap.Int("requests", out.requests), zap.Int("spans", out.spans), zap.Error(err))
}

// flush lets go of everything at shutdown.
func (p *phaseProcessor) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	p.refusedMu.Lock()
	parcels := p.refused
	p.refused = nil
	p.refusedMu.Unlock()
	for {
		rest := p.held.All(sendLimit)
		if len(rest) == 0 {
			break
		}
		parcels = append(parcels, p.pack(ctx, rest, releaseShutdown))
	}
	for _, out := range parcels {
		p.settle(ctx, out, p.try(ctx, out, flushLimit), lostShutdown)
	}
}
