// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package sink is a trace store for tests: an OTLP/gRPC server that keeps every
// span it is sent and can be told to refuse.
package sink // import "github.com/phasecol/phasecol/test/sink"

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/mostynb/go-grpc-compression/nonclobbering/zstd" // what agents send
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // what gateways send
	"google.golang.org/grpc/status"

	"github.com/phasecol/phasecol/test/harness"
)

// ID is what makes a span one.
type ID struct {
	Trace pcommon.TraceID
	Span  pcommon.SpanID
}

// Sink collects spans. All methods are safe for concurrent use.
type Sink struct {
	ptraceotlp.UnimplementedGRPCServer
	// Address is host:port.
	Address string

	refusing atomic.Bool
	mu       sync.Mutex
	spans    map[ID]harness.Span
	repeats  []harness.Span
	received int
}

// Start serves on a free loopback port until the test ends.
func Start(t testing.TB) *Sink {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return Serve(t, listener)
}

// Serve serves on listener until the test ends.
func Serve(t testing.TB, listener net.Listener) *Sink {
	t.Helper()
	s := &Sink{Address: listener.Addr().String(), spans: map[ID]harness.Span{}}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	ptraceotlp.RegisterGRPCServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return s
}

// Refuse makes it answer that it is unavailable, or stop doing so.
func (s *Sink) Refuse(refuse bool) { s.refusing.Store(refuse) }

// Export implements ptraceotlp.GRPCServer.
func (s *Sink) Export(_ context.Context, request ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	response := ptraceotlp.NewExportResponse()
	if s.refusing.Load() {
		return response, status.Error(codes.Unavailable, "told to refuse")
	}
	traces := ptrace.NewTraces()
	request.Traces().CopyTo(traces)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range flatten(traces) {
		s.received++
		id := ID{span.TraceID(), span.SpanID()}
		if _, again := s.spans[id]; again {
			s.repeats = append(s.repeats, span)
			continue
		}
		s.spans[id] = span
	}
	return response, nil
}

// Spans returns each span once, in no order.
func (s *Sink) Spans() []harness.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := make([]harness.Span, 0, len(s.spans))
	for _, span := range s.spans {
		spans = append(spans, span)
	}
	return spans
}

// Len is the number of different spans.
func (s *Sink) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spans)
}

// Repeats returns what came again with identifiers already seen, and by each the
// span that came first.
func (s *Sink) Repeats() (repeats, first []harness.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.repeats {
		repeats = append(repeats, span)
		first = append(first, s.spans[ID{span.TraceID(), span.SpanID()}])
	}
	return repeats, first
}

func flatten(traces ptrace.Traces) []harness.Span {
	var spans []harness.Span
	for _, rs := range traces.ResourceSpans().All() {
		resource := rs.Resource().Attributes().AsRaw()
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				spans = append(spans, harness.Span{Span: span, Resource: resource})
			}
		}
	}
	return spans
}
