// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var errRefused = errors.New("refused")

// next answers each call with the next of answers, then accepts.
type next struct {
	answers  []func(context.Context, ptrace.Traces) error
	calls    int
	accepted []string // names of the spans accepted, in order
}

func (*next) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (n *next) ConsumeTraces(ctx context.Context, t ptrace.Traces) error {
	n.calls++
	if len(n.answers) > 0 {
		answer := n.answers[0]
		n.answers = n.answers[1:]
		return answer(ctx, t)
	}
	n.accepted = append(n.accepted, spanNames(t)...)
	return nil
}

func refuse(err error) func(context.Context, ptrace.Traces) error {
	return func(context.Context, ptrace.Traces) error { return err }
}

func spanNames(t ptrace.Traces) []string {
	var names []string
	for _, rs := range t.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				names = append(names, s.Name())
			}
		}
	}
	return names
}

func batch(names ...string) ptrace.Traces {
	t := ptrace.NewTraces()
	spans := t.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for _, n := range names {
		spans.AppendEmpty().SetName(n)
	}
	return t
}

// seen counts what an outbox reports.
type seen struct {
	delivered, refused int
	dropped            map[Reason]int
}

func (s *seen) observer() Observer {
	s.dropped = map[Reason]int{}
	return Observer{
		Delivered: func(_ context.Context, spans int, _ time.Duration) { s.delivered += spans },
		Refused:   func(context.Context, error) { s.refused++ },
		Dropped:   func(_ context.Context, spans int, r Reason, _ error) { s.dropped[r] += spans },
	}
}

func retry() configretry.BackOffConfig {
	return configretry.BackOffConfig{
		Enabled: true, InitialInterval: time.Microsecond, Multiplier: 1, MaxInterval: time.Microsecond,
	}
}

func TestSendInOrder(t *testing.T) {
	n, s := &next{}, &seen{}
	o := NewOutbox(n, retry(), s.observer())
	o.Queue(batch("a", "b"))
	o.Queue(batch())
	o.Queue(batch("c"))
	assert.Equal(t, 3, o.Len())
	o.Send(t.Context())
	assert.Equal(t, []string{"a", "b", "c"}, n.accepted)
	assert.Equal(t, 2, n.calls, "an empty batch is not sent")
	assert.Equal(t, seen{delivered: 3, dropped: map[Reason]int{}}, *s)
	assert.Zero(t, o.Len())
}

func TestRefusalsAreRetried(t *testing.T) {
	n, s := &next{answers: []func(context.Context, ptrace.Traces) error{refuse(errRefused), refuse(errRefused)}}, &seen{}
	o := NewOutbox(n, retry(), s.observer())
	o.Queue(batch("a"))
	o.Send(t.Context())
	assert.Equal(t, []string{"a"}, n.accepted)
	assert.Equal(t, seen{delivered: 1, refused: 2, dropped: map[Reason]int{}}, *s)
}

func TestPermanentErrorDrops(t *testing.T) {
	n, s := &next{answers: []func(context.Context, ptrace.Traces) error{refuse(consumererror.NewPermanent(errRefused))}}, &seen{}
	o := NewOutbox(n, retry(), s.observer())
	o.Queue(batch("a", "b"))
	o.Queue(batch("c"))
	o.Send(t.Context())
	assert.Equal(t, []string{"c"}, n.accepted)
	assert.Equal(t, seen{delivered: 1, dropped: map[Reason]int{ReasonPermanent: 2}}, *s)
}

func TestRetryDisabledDrops(t *testing.T) {
	n, s := &next{answers: []func(context.Context, ptrace.Traces) error{refuse(errRefused)}}, &seen{}
	o := NewOutbox(n, configretry.BackOffConfig{}, s.observer())
	o.Queue(batch("a"))
	o.Send(t.Context())
	assert.Equal(t, seen{dropped: map[Reason]int{ReasonDisabled: 1}}, *s)
}

func TestElapsedDrops(t *testing.T) {
	n, s := &next{}, &seen{}
	for range 100_000 {
		n.answers = append(n.answers, refuse(errRefused))
	}
	cfg := retry()
	cfg.MaxElapsedTime = time.Millisecond
	o := NewOutbox(n, cfg, s.observer())
	o.Queue(batch("a"))
	o.Send(t.Context())
	assert.Equal(t, map[Reason]int{ReasonElapsed: 1}, s.dropped)
	assert.Positive(t, s.refused)
	assert.Empty(t, n.accepted)
}

// TestEndOfContextKeeps: a shutdown stops waiting and loses nothing.
func TestEndOfContextKeeps(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n, s := &next{answers: []func(context.Context, ptrace.Traces) error{func(ctx context.Context, _ ptrace.Traces) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}}, &seen{}
	o := NewOutbox(n, retry(), s.observer())
	o.Queue(batch("a"))
	o.Queue(batch("b"))
	o.Send(ctx)
	assert.Equal(t, 2, o.Len())
	assert.Zero(t, s.refused)
	o.Send(ctx)
	assert.Equal(t, 1, n.calls, "nothing is tried after the end")

	stored, err := o.Marshal()
	require.NoError(t, err)
	again := NewOutbox(n, retry(), s.observer())
	require.NoError(t, again.Unmarshal(stored))
	again.Send(t.Context())
	assert.Equal(t, []string{"a", "b"}, n.accepted)
	assert.Empty(t, s.dropped)
}

// TestEndOfContextWhileWaiting: the wait before the next try ends with it.
func TestEndOfContextWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := &next{answers: []func(context.Context, ptrace.Traces) error{refuse(errRefused)}}
	cfg := configretry.BackOffConfig{Enabled: true, InitialInterval: time.Hour, Multiplier: 1, MaxInterval: time.Hour}
	s := &seen{}
	observe := s.observer()
	observe.Refused = func(context.Context, error) { cancel() }
	o := NewOutbox(n, cfg, observe)
	o.Queue(batch("a"))
	o.Send(ctx)
	assert.Equal(t, 1, o.Len())
}

// TestRefusedPart: only what the refusal names comes again.
func TestRefusedPart(t *testing.T) {
	n, s := &next{answers: []func(context.Context, ptrace.Traces) error{
		refuse(consumererror.NewTraces(errRefused, batch("b"))),
	}}, &seen{}
	o := NewOutbox(n, retry(), s.observer())
	o.Queue(batch("a", "b"))
	o.Send(t.Context())
	assert.Equal(t, []string{"b"}, n.accepted)
	assert.Empty(t, s.dropped)
}

// TestTakenPart: spans that left a batch on the way are counted.
func TestTakenPart(t *testing.T) {
	n, s := &next{answers: []func(context.Context, ptrace.Traces) error{func(_ context.Context, td ptrace.Traces) error {
		td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().RemoveIf(func(s ptrace.Span) bool { return s.Name() == "a" })
		return errRefused
	}}}, &seen{}
	o := NewOutbox(n, retry(), s.observer())
	o.Queue(batch("a", "b"))
	o.Send(t.Context())
	assert.Equal(t, []string{"b"}, n.accepted)
	assert.Equal(t, map[Reason]int{ReasonTaken: 1}, s.dropped)
}

func TestDropCounts(t *testing.T) {
	s := &seen{}
	o := NewOutbox(&next{}, retry(), s.observer())
	o.Queue(batch("a", "b"))
	o.Queue(batch("c"))
	o.Drop(t.Context())
	assert.Zero(t, o.Len())
	assert.Equal(t, map[Reason]int{ReasonShutdown: 3}, s.dropped)
}

func TestUnmarshalDamaged(t *testing.T) {
	o := NewOutbox(&next{}, retry(), Observer{})
	require.Error(t, o.Unmarshal([][]byte{{0xff}}))
}
