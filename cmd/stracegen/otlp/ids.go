// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"crypto/rand"

	"go.opentelemetry.io/otel/trace"
)

type idKey struct{}

// wanted are the identifiers a span is to get.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

func withIDs(ctx context.Context, t [16]byte, s [8]byte) context.Context {
	return context.WithValue(ctx, idKey{}, wanted{t, s})
}

// idGenerator hands out the identifiers a context carries, so that they come
// from the simulation and not from chance or from the order of export.
type idGenerator struct{}

func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if w, ok := ctx.Value(idKey{}).(wanted); ok {
		return w.trace, w.span
	}
	var t trace.TraceID
	var s trace.SpanID
	_, _ = rand.Read(t[:])
	_, _ = rand.Read(s[:])
	return t, s
}

func (g idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := g.NewIDs(ctx)
	return s
}
