// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package delivery hands traces to the next component until it has them:
// refusals are retried with back-off and hold up the reader, permanent errors
// are counted and dropped, and what is not accepted at shutdown stays in the
// outbox.
package delivery // import "github.com/phasecol/phasecol/internal/stracepdata/delivery"

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Reason says why spans were dropped.
type Reason string

// The reasons.
const (
	ReasonPermanent Reason = "permanent_error"
	ReasonElapsed   Reason = "retries_exhausted"
	ReasonDisabled  Reason = "retry_disabled"
	ReasonShutdown  Reason = "shutdown"
	// ReasonTaken: a component kept, or filtered, part of a batch and then
	// refused it.
	ReasonTaken Reason = "taken_downstream"
)

// Observer is told what happens to batches.
type Observer struct {
	// Delivered gets the number of spans of an accepted batch and how long
	// the batch took, retries included.
	Delivered func(ctx context.Context, spans int, took time.Duration)
	// Refused gets every refusal that will be retried.
	Refused func(ctx context.Context, err error)
	// Dropped gets the spans of a batch that is given up.
	Dropped func(ctx context.Context, spans int, reason Reason, err error)
}

// Outbox delivers batches in order. It is not safe for concurrent use; a Send
// that waits blocks its caller, which is the back-pressure.
type Outbox struct {
	next    consumer.Traces
	retry   configretry.BackOffConfig
	observe Observer
	queue   []ptrace.Traces
}

// NewOutbox returns an empty outbox in front of next.
func NewOutbox(next consumer.Traces, retry configretry.BackOffConfig, observe Observer) *Outbox {
	return &Outbox{next: next, retry: retry, observe: observe}
}

// Queue appends a batch, which the outbox owns from here on.
func (o *Outbox) Queue(t ptrace.Traces) { o.queue = append(o.queue, t) }

// Len is the number of batches not yet accepted.
func (o *Outbox) Len() int { return len(o.queue) }

// Send delivers what is queued, oldest first, and waits while it is refused.
// When ctx ends it returns at once and the rest stays queued.
func (o *Outbox) Send(ctx context.Context) {
	for len(o.queue) > 0 {
		if !o.sendOne(ctx) {
			return
		}
		o.queue[0] = ptrace.Traces{}
		o.queue = o.queue[1:]
	}
	o.queue = nil
}

// sendOne delivers the oldest batch; false only when ctx ended first.
func (o *Outbox) sendOne(ctx context.Context) bool {
	t := o.queue[0]
	spans := t.SpanCount()
	if spans == 0 {
		return true
	}
	started := time.Now()
	wait := backoff.ExponentialBackOff{
		InitialInterval: o.retry.InitialInterval, RandomizationFactor: o.retry.RandomizationFactor,
		Multiplier: o.retry.Multiplier, MaxInterval: o.retry.MaxInterval,
	}
	wait.Reset()
	for {
		if ctx.Err() != nil {
			return false
		}
		err := o.next.ConsumeTraces(ctx, t)
		if err == nil {
			o.observe.Delivered(ctx, spans, time.Since(started))
			return true
		}
		if ctx.Err() != nil && !consumererror.IsPermanent(err) {
			return false
		}
		if reason, give := o.givesUp(err, time.Since(started)); give {
			o.observe.Dropped(ctx, spans, reason, err)
			return true
		}
		o.observe.Refused(ctx, err)
		// A refused batch is sent again as the pipeline left it, like every
		// receiver here does: a copy of each would cost as much as building
		// it. What a component took out before it refused is gone, and said.
		if left := t.SpanCount(); left < spans {
			o.observe.Dropped(ctx, spans-left, ReasonTaken, err)
			spans = left
		}
		// A refusal may name the part that is to come again.
		if part := (consumererror.Traces{}); errors.As(err, &part) {
			t = part.Data()
			o.queue[0], spans = t, t.SpanCount()
		}
		if !sleep(ctx, wait.NextBackOff()) {
			return false
		}
	}
}

func (o *Outbox) givesUp(err error, elapsed time.Duration) (Reason, bool) {
	switch {
	case consumererror.IsPermanent(err):
		return ReasonPermanent, true
	case !o.retry.Enabled:
		return ReasonDisabled, true
	case o.retry.MaxElapsedTime > 0 && elapsed >= o.retry.MaxElapsedTime:
		return ReasonElapsed, true
	default:
		return "", false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Drop gives up what is queued, at a shutdown that has nowhere to keep it.
func (o *Outbox) Drop(ctx context.Context) {
	for _, t := range o.queue {
		o.observe.Dropped(ctx, t.SpanCount(), ReasonShutdown, errors.New("the receiver stopped before the next component accepted them, and no storage is set"))
	}
	o.queue = nil
}

// Marshal returns the queued batches as OTLP protobuf.
func (o *Outbox) Marshal() ([][]byte, error) {
	var m ptrace.ProtoMarshaler
	batches := make([][]byte, 0, len(o.queue))
	for _, t := range o.queue {
		b, err := m.MarshalTraces(t)
		if err != nil {
			return nil, fmt.Errorf("encoding traces that are not yet accepted: %w", err)
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// Unmarshal queues batches that Marshal returned.
func (o *Outbox) Unmarshal(batches [][]byte) error {
	var u ptrace.ProtoUnmarshaler
	for _, b := range batches {
		t, err := u.UnmarshalTraces(b)
		if err != nil {
			return fmt.Errorf("decoding traces that were not yet accepted: %w", err)
		}
		o.Queue(t)
	}
	return nil
}
