// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package feed // import "github.com/phasecol/phasecol/internal/stracepdata/feed"

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/phasecol/phasecol/pkg/strace"
)

// Stats keeps the last counts of an assembler for scrapes. The owner's lock
// may be held for as long as the next component refuses, so a scrape must not
// need it. It is safe for concurrent use; the zero value is ready.
type Stats struct {
	mu    sync.Mutex
	stats strace.Stats
}

// Publish makes s visible and returns how many more spans have been dropped
// for want of a clock.
func (p *Stats) Publish(s strace.Stats) (unplaced int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.stats
	p.stats = s
	return int64(refused(&s) - refused(&before))
}

// refused counts spans without a clock that were not placed all the same.
func refused(s *strace.Stats) uint64 { return s.Unplaced - min(s.Unplaced, s.Placed[strace.ClockNone]) }

func (p *Stats) get() strace.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Registrations are the generated functions that take a metric's callback.
type Registrations struct {
	Records, Traces, Stitched, PlacedSpans, Evictions, Pending func(metric.Int64Callback) error
	GuessedParents, DeviceMisfits, ClockJumps, HeldBytes       func(metric.Int64Callback) error
	ClockError                                                 func(metric.Float64Callback) error
}

// Register publishes p under the metrics of r.
func (p *Stats) Register(r Registrations) error {
	return errors.Join(
		r.Records(p.observe(func(s *strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Records {
				o.Observe(int64(n), with("outcome", strace.Outcome(i).String()))
			}
		})),
		r.Traces(p.observe(func(s *strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Traces {
				o.Observe(int64(n), with("kind", strace.TraceKind(i).String()))
			}
		})),
		r.Stitched(p.observe(func(s *strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Stitched {
				o.Observe(int64(n), with("stitch", strace.Stitch(i).String()))
			}
		})),
		r.PlacedSpans(p.observe(func(s *strace.Stats, o metric.Int64Observer) {
			for i, n := range s.Placed {
				o.Observe(int64(n), with("clock_source", strace.ClockSource(i).String()))
			}
		})),
		r.Evictions(p.observe(func(s *strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.EvictedInvocations), with("bound", "invocations"))
			o.Observe(int64(s.EvictedRuns), with("bound", "runs"))
			o.Observe(int64(s.EvictedBytes), with("bound", "bytes"))
			o.Observe(int64(s.EvictedProcesses), with("bound", "processes"))
			o.Observe(int64(s.EvictedScopes), with("bound", "scopes"))
		})),
		r.Pending(p.observe(func(s *strace.Stats, o metric.Int64Observer) {
			o.Observe(int64(s.Open), with("unit", "open"))
			o.Observe(int64(s.Waiting), with("unit", "complete"))
			o.Observe(int64(s.OpenRuns), with("unit", "run"))
		})),
		r.GuessedParents(p.observe(func(s *strace.Stats, o metric.Int64Observer) { o.Observe(int64(s.GuessedParents)) })),
		r.DeviceMisfits(p.observe(func(s *strace.Stats, o metric.Int64Observer) { o.Observe(int64(s.DeviceMisfits)) })),
		r.ClockJumps(p.observe(func(s *strace.Stats, o metric.Int64Observer) { o.Observe(int64(s.ClockJumps)) })),
		r.HeldBytes(p.observe(func(s *strace.Stats, o metric.Int64Observer) { o.Observe(int64(s.HeldBytes)) })),
		r.ClockError(func(_ context.Context, o metric.Float64Observer) error {
			if s := p.get(); s.Spans > 0 && s.LastClockError != strace.UnknownError {
				o.Observe(time.Duration(s.LastClockError).Seconds())
			}
			return nil
		}),
	)
}

func (p *Stats) observe(f func(*strace.Stats, metric.Int64Observer)) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		s := p.get()
		f(&s, o)
		return nil
	}
}

func with(key, value string) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

// AddByReason counts a loss in c, by the reason that the runtime gave.
func (l *Loss) AddByReason(ctx context.Context, c metric.Int64Counter) {
	for _, r := range [...]struct {
		reason string
		grown  uint64
	}{
		{"queue_full", l.Grown.QueueFull},
		{"claim_exhausted", l.Grown.ClaimExhausted},
		{"output_failed", l.Grown.OutputFailed},
		{"not_admitted", l.Grown.NotAdmitted},
	} {
		// Beyond the process's own total, a reason's number is no count.
		if r.grown > 0 && r.grown <= l.Total {
			c.Add(ctx, int64(r.grown), metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", r.reason))))
		}
	}
}
