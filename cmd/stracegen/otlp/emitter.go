// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/phasecol/phasecol/cmd/stracegen/model"
)

// Emitter sends the spans of requests. It is not safe for concurrent use.
type Emitter struct {
	opts        Options
	clock       model.Clock
	api, engine *source
	spans       int64
}

// NewEmitter returns an Emitter for the two processes with these pids.
func NewEmitter(ctx context.Context, clock model.Clock, api, engine int32, opts Options) (*Emitter, error) {
	e := &Emitter{opts: opts, clock: clock}
	var err error
	if e.api, err = newSource(ctx, &e.opts, api, "api"); err != nil {
		return nil, err
	}
	if e.engine, err = newSource(ctx, &e.opts, engine, "engine"); err != nil {
		return nil, errors.Join(err, e.api.provider.Shutdown(ctx))
	}
	return e, nil
}

func (e *Emitter) at(mono int64) trace.SpanEventOption {
	return trace.WithTimestamp(time.Unix(0, e.clock.Wall(mono)))
}

// parent is a context whose span is one of another process.
func parent(ctx context.Context, t [16]byte, s [8]byte, sampled bool, state string) (context.Context, error) {
	var flags trace.TraceFlags
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		return nil, fmt.Errorf("trace state %q: %w", state, err)
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: t, SpanID: s, TraceFlags: flags.WithSampled(sampled), TraceState: ts, Remote: true,
	})), nil
}

// Request sends the HTTP span of a request, and nothing else.
func (e *Emitter) Request(ctx context.Context, r *model.Request) error {
	sctx := ctx
	if p := r.Parent; p != nil {
		var err error
		if sctx, err = parent(ctx, r.TraceID, p.SpanID, p.Sampled, p.TraceState); err != nil {
			return err
		}
	}
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.request.id", r.ID),
		attribute.String("http.request.method", "POST"),
		attribute.String("http.route", "/v1/completions"),
		attribute.Int("http.response.status_code", r.HTTPStatus),
	}
	if r.PD {
		attrs = append(attrs, attribute.String("atom.trace.unsupported", "pd"))
	}
	failed := r.Outcome == model.OutcomeError || r.Outcome == model.OutcomeCancel
	if failed {
		attrs = append(attrs, attribute.String("error.type", r.ErrorType))
	}
	_, span := e.api.tracer.Start(withIDs(sctx, r.TraceID, r.SpanID), "atom.request",
		trace.WithSpanKind(trace.SpanKindServer), e.start(r.Start), trace.WithAttributes(attrs...))
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(e.at(r.End))
	e.spans++
	return e.api.ended(ctx)
}

func (e *Emitter) start(mono int64) trace.SpanStartOption {
	return trace.WithTimestamp(time.Unix(0, e.clock.Wall(mono)))
}

// Sequence sends engine.request and its phases, nothing for a
// prefill/decode-split request.
func (e *Emitter) Sequence(ctx context.Context, q *model.Sequence) error {
	r := q.Request
	if r.PD {
		return nil
	}
	state := ""
	if r.Parent != nil {
		state = r.Parent.TraceState
	}
	sctx, err := parent(ctx, r.TraceID, r.SpanID, true, state)
	if err != nil {
		return err
	}
	common := []attribute.KeyValue{
		attribute.String("gen_ai.request.id", r.ID),
		attribute.Int64("atom.sequence.id", q.ID),
		attribute.String("gen_ai.response.model", e.opts.Model),
	}
	sctx, span := e.engine.tracer.Start(withIDs(sctx, r.TraceID, q.SpanID), "engine.request",
		e.start(q.Start), trace.WithAttributes(common...))
	span.SetAttributes(e.figures(q)...)
	for _, ph := range q.Phases {
		_, child := e.engine.tracer.Start(withIDs(sctx, r.TraceID, ph.SpanID), ph.Name,
			e.start(ph.Start), trace.WithAttributes(common...))
		if ph.Error {
			child.SetAttributes(attribute.String("error.type", q.ErrorType))
			child.SetStatus(codes.Error, "")
		}
		child.End(e.at(ph.End))
		e.spans++
		if err := e.engine.ended(ctx); err != nil {
			return err
		}
	}
	if q.ErrorType != "" {
		span.SetAttributes(attribute.String("error.type", q.ErrorType))
		span.SetStatus(codes.Error, "")
	}
	span.End(e.at(q.End))
	e.spans++
	return e.engine.ended(ctx)
}

// figures are the usage and the latencies, of which an omitted phase has none.
func (e *Emitter) figures(q *model.Sequence) []attribute.KeyValue {
	l := q.Latencies(e.clock)
	attrs := []attribute.KeyValue{
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{q.FinishReason}),
		attribute.Int("gen_ai.usage.prompt_tokens", q.Prompt),
		attribute.Int("gen_ai.usage.completion_tokens", q.Generated),
		attribute.Int("gen_ai.usage.cached_tokens", q.Cached),
		attribute.Float64("gen_ai.latency.e2e", l.E2E),
	}
	if q.FirstToken > 0 {
		attrs = append(attrs, attribute.Float64("gen_ai.latency.time_to_first_token", l.TTFT))
	}
	for _, ph := range q.Phases {
		switch ph.Name {
		case model.PhaseWaiting:
			attrs = append(attrs, attribute.Float64("gen_ai.latency.time_in_queue", l.Queue))
		case model.PhasePrefill:
			attrs = append(attrs, attribute.Float64("gen_ai.latency.time_in_model_prefill", l.Prefill))
		case model.PhaseDecode:
			attrs = append(attrs, attribute.Float64("gen_ai.latency.time_in_model_decode", l.Decode))
		}
	}
	return attrs
}

// Spans is the number of spans made.
func (e *Emitter) Spans() int64 { return e.spans }

// Shutdown sends what is left. Its error tells how many spans never arrived.
func (e *Emitter) Shutdown(ctx context.Context) error {
	var errs []error
	add := func(err error) {
		// Both processes fail for one reason, and say it at every stage.
		if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	for _, s := range []*source{e.engine, e.api} {
		// Flushed first: a shutdown alone gives up a batch that fails without a word.
		add(s.provider.ForceFlush(ctx))
		add(s.provider.Shutdown(ctx))
	}
	var lost int64
	for _, s := range []*source{e.api, e.engine} {
		if s.counter == nil {
			continue
		}
		n, err := s.counter.lost()
		lost += n
		add(err)
	}
	if lost > 0 {
		errs = append([]error{fmt.Errorf("%d of %d spans did not reach %s", lost, e.spans, e.opts.Endpoint)}, errs...)
	}
	return errors.Join(errs...)
}
